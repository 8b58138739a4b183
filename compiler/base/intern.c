/* SPDX-License-Identifier: Apache-2.0
 *
 * In: names as bytes. Out: one symbol per distinct name. An open-addressing table that is at most half full.
 */
#include "compiler/base/intern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/base/vec.h"

/* The hash stands beside the pointer: most probes end without a look at the symbol. */
struct slot {
  uint64_t hash;
  const struct rsc_symbol *symbol; /* NULL: empty */
};

struct rsc_interner {
  struct rsc_arena *arena, *texts;
  struct slot *slots;
  size_t slots_cap; /* a power of two */
  RSC_VEC(const struct rsc_symbol *);
};

struct rsc_interner *rsc_interner_new_apart(struct rsc_arena *arena, struct rsc_arena *texts) {
  struct rsc_interner *in = RSC_NEW(arena, struct rsc_interner);
  in->arena = arena;
  in->texts = texts;
  in->slots_cap = 64;
  in->slots = RSC_ARRAY(arena, struct slot, in->slots_cap);
  return in;
}

struct rsc_interner *rsc_interner_new(struct rsc_arena *arena) {
  return rsc_interner_new_apart(arena, arena);
}

/* The slot that holds the name, or the empty one where it would go. */
static size_t find_slot(const struct rsc_interner *in, const char *text, size_t len, uint64_t hash) {
  size_t mask = in->slots_cap - 1, i = (size_t)hash & mask;
  for (; in->slots[i].symbol; i = (i + 1) & mask) {
    const struct rsc_symbol *s = in->slots[i].symbol;
    if (in->slots[i].hash == hash && s->len == len && memcmp(s->text, text, len) == 0) break;
  }
  return i;
}

static void grow(struct rsc_interner *in, size_t cap) {
  in->slots_cap = cap;
  in->slots = RSC_ARRAY(in->arena, struct slot, cap);
  for (size_t k = 0; k < in->len; k++) {
    size_t i = (size_t)in->at[k]->hash & (cap - 1);
    while (in->slots[i].symbol) i = (i + 1) & (cap - 1);
    in->slots[i] = (struct slot){in->at[k]->hash, in->at[k]};
  }
}

void rsc_intern_reserve(struct rsc_interner *in, size_t more) {
  size_t cap = in->slots_cap;
  while ((in->len + more + 1) * 2 > cap) cap *= 2;
  RSC_RESERVE(in->arena, in, in->len + more);
  if (cap > in->slots_cap) grow(in, cap);
}

static const struct rsc_symbol *intern(struct rsc_interner *in, const char *text, size_t len, bool kept) {
  uint64_t hash = XXH3_64bits(text, len);
  size_t i = find_slot(in, text, len, hash);
  if (in->slots[i].symbol) return in->slots[i].symbol;
  if ((in->len + 1) * 2 > in->slots_cap) {
    grow(in, in->slots_cap * 2);
    i = find_slot(in, text, len, hash);
  }
  struct rsc_symbol *s = RSC_NEW(in->arena, struct rsc_symbol);
  s->text = kept ? text : rsc_arena_strdup(in->texts, text, len);
  s->len = len;
  s->hash = hash;
  s->id = (uint32_t)in->len;
  in->slots[i] = (struct slot){hash, s};
  *RSC_PUSH(in->arena, in) = s;
  return s;
}

const struct rsc_symbol *rsc_intern(struct rsc_interner *in, const char *text, size_t len) {
  return intern(in, text, len, false);
}

const struct rsc_symbol *rsc_intern_kept(struct rsc_interner *in, const char *text, size_t len) {
  return intern(in, text, len, true);
}

const struct rsc_symbol *rsc_intern_find(const struct rsc_interner *in, const char *text, size_t len) {
  return in->slots[find_slot(in, text, len, XXH3_64bits(text, len))].symbol;
}

size_t rsc_intern_count(const struct rsc_interner *in) {
  return in->len;
}

const struct rsc_symbol *rsc_intern_at(const struct rsc_interner *in, uint32_t id) {
  return in->at[id];
}
