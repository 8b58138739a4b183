// SPDX-License-Identifier: Apache-2.0
//
// In: tensors by name. Out: catalogue entries. Names are split at their numbers; the sets of numbers of a family are
// divided into products, first number by first number.
#include "tools/model_fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/keys.h"

// One tensor's numbers.
struct tuple {
  const int64_t *at;
  size_t order; // of the tensor in the input
};

struct tuples {
  RSC_VEC(struct tuple);
};

struct family {
  const struct model_tensor *first;
  const char **parts;
  size_t loops;
  struct tuples tuples;
};

struct families {
  RSC_VEC(struct family);
};

struct split {
  struct {
    RSC_VEC(const char *);
  } parts;
  struct {
    RSC_VEC(int64_t);
  } numbers;
};

static bool digit(char c) {
  return c >= '0' && c <= '9';
}

// Length of the number that is the whole of the component at `s`, or 0. Longer ones than 18 digits are text.
static size_t number_at(const char *name, const char *s) {
  if (s != name && s[-1] != '.') return 0;
  size_t n = strspn(s, "0123456789");
  if (!n || n > 18 || (s[n] && s[n] != '.') || (s[0] == '0' && n > 1)) return 0;
  return n;
}

static void split_name(struct rsc_arena *arena, const char *name, struct split *out) {
  const char *from = name;
  out->parts.len = out->numbers.len = 0;
  for (const char *s = name; *s;) {
    size_t n = digit(*s) ? number_at(name, s) : 0;
    if (!n) {
      s++;
      continue;
    }
    *RSC_PUSH(arena, &out->parts) = rsc_arena_strdup(arena, from, (size_t)(s - from));
    *RSC_PUSH(arena, &out->numbers) = strtoll(s, NULL, 10);
    s += n;
    from = s;
  }
  *RSC_PUSH(arena, &out->parts) = rsc_arena_strdup(arena, from, strlen(from));
}

static struct families find_families(struct rsc_arena *arena, const struct model_tensor *tensors, size_t count) {
  struct families families = {0};
  struct rsc_keys *keys = rsc_keys_new(arena);
  struct split split = {0};
  for (size_t i = 0; i < count; i++) {
    const struct model_tensor *t = &tensors[i];
    struct rsc_key key = {0};
    split_name(arena, t->name, &split);
    rsc_key_int(arena, &key, t->dtype);
    rsc_key_int(arena, &key, (int64_t)t->ndim);
    rsc_key_add(arena, &key, t->shape, t->ndim * sizeof *t->shape);
    for (size_t k = 0; k < split.parts.len; k++)
      rsc_key_add(arena, &key, split.parts.at[k], strlen(split.parts.at[k]) + 1);
    bool fresh;
    int32_t id = rsc_keys_id(keys, key.at, key.len, &fresh);
    if (fresh) {
      const char **parts = RSC_ARRAY(arena, const char *, split.parts.len);
      memcpy(parts, split.parts.at, split.parts.len * sizeof *parts);
      *RSC_PUSH(arena, &families) = (struct family){.first = t, .parts = parts, .loops = split.numbers.len};
    }
    int64_t *numbers = RSC_ARRAY(arena, int64_t, split.numbers.len);
    if (split.numbers.len) memcpy(numbers, split.numbers.at, split.numbers.len * sizeof *numbers);
    *RSC_PUSH(arena, &families.at[id].tuples) = (struct tuple){numbers, i};
  }
  return families;
}

// ---- products ------------------------------------------------------------------------------------------------------

// A product of value lists, over numbers [at, loops) of a family.
struct product {
  struct model_values *values; // [loops]; those before `at` are empty
  size_t order;
};

struct products {
  RSC_VEC(struct product);
};

static int by_numbers(const void *a, const void *b, void *loops) {
  const struct tuple *x = a, *y = b;
  for (size_t i = 0; i < *(size_t *)loops; i++)
    if (x->at[i] != y->at[i]) return x->at[i] < y->at[i] ? -1 : 1;
  return 0;
}

static void add_product(struct rsc_arena *arena, struct rsc_keys *keys, size_t at, size_t loops,
                        const struct product *p, int64_t head, struct products *out) {
  struct rsc_key key = {0};
  for (size_t i = at + 1; i < loops; i++) {
    rsc_key_int(arena, &key, (int64_t)p->values[i].len);
    rsc_key_add(arena, &key, p->values[i].at, p->values[i].len * sizeof *p->values[i].at);
  }
  bool fresh;
  int32_t id = rsc_keys_id(keys, key.at, key.len, &fresh);
  if (fresh) *RSC_PUSH(arena, out) = *p;
  *RSC_PUSH(arena, &out->at[id].values[at]) = head;
  if (p->order < out->at[id].order) out->at[id].order = p->order;
}

// Tuples [lo, hi), sorted, alike before number `at`: heads with the same tails make one product.
static struct products factor(struct rsc_arena *arena, const struct family *f, size_t at, size_t lo, size_t hi) {
  struct products out = {0};
  if (at == f->loops) {
    *RSC_PUSH(arena, &out) =
        (struct product){RSC_ARRAY(arena, struct model_values, f->loops + 1), f->tuples.at[lo].order};
    return out;
  }
  struct rsc_keys *keys = rsc_keys_new(arena);
  for (size_t i = lo, next; i < hi; i = next) {
    next = i + 1;
    while (next < hi && f->tuples.at[next].at[at] == f->tuples.at[i].at[at]) next++;
    struct products tails = factor(arena, f, at + 1, i, next); // as deep as a name has numbers
    for (size_t k = 0; k < tails.len; k++)
      add_product(arena, keys, at, f->loops, &tails.at[k], f->tuples.at[i].at[at], &out);
  }
  return out;
}

// A loop of one turn is part of the name.
static struct model_entry entry_of(struct rsc_arena *arena, const struct family *f, const struct product *p) {
  const char **parts = RSC_ARRAY(arena, const char *, f->loops + 1);
  struct model_values *values = RSC_ARRAY(arena, struct model_values, f->loops + 1);
  size_t loops = 0;
  parts[0] = f->parts[0];
  for (size_t i = 0; i < f->loops; i++) {
    if (p->values[i].len > 1) {
      values[loops++] = p->values[i];
      parts[loops] = f->parts[i + 1];
      continue;
    }
    size_t room = strlen(parts[loops]) + strlen(f->parts[i + 1]) + 24;
    char *joined = rsc_arena_alloc(arena, room);
    snprintf(joined, room, "%s%lld%s", parts[loops], (long long)p->values[i].at[0], f->parts[i + 1]);
    parts[loops] = joined;
  }
  return (struct model_entry){f->first, parts, loops, values};
}

struct placed {
  struct model_entry entry;
  size_t order;
};

static int by_order(const void *a, const void *b) {
  const struct placed *x = a, *y = b;
  return x->order < y->order ? -1 : x->order > y->order;
}

struct model_entries model_fold(struct rsc_arena *arena, const struct model_tensor *tensors, size_t count) {
  struct families families = find_families(arena, tensors, count);
  struct {
    RSC_VEC(struct placed);
  } placed = {0};
  for (size_t i = 0; i < families.len; i++) {
    struct family *f = &families.at[i];
    qsort_r(f->tuples.at, f->tuples.len, sizeof *f->tuples.at, by_numbers, &f->loops);
    struct products products = factor(arena, f, 0, 0, f->tuples.len);
    for (size_t k = 0; k < products.len; k++)
      *RSC_PUSH(arena, &placed) = (struct placed){entry_of(arena, f, &products.at[k]), products.at[k].order};
  }
  if (placed.len) qsort(placed.at, placed.len, sizeof *placed.at, by_order);
  struct model_entries out = {0};
  for (size_t i = 0; i < placed.len; i++) *RSC_PUSH(arena, &out) = placed.at[i].entry;
  return out;
}
