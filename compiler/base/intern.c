/* SPDX-License-Identifier: Apache-2.0
 *
 * In: names as bytes. Out: one symbol per distinct name. An open-addressing table that is at most half full.
 */
#include "compiler/base/intern.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/base/vec.h"

struct rsc_interner {
  struct rsc_arena *arena;
  const struct rsc_symbol **slots; /* capacity slots_cap, a power of two; NULL: empty */
  size_t slots_cap;
  RSC_VEC(const struct rsc_symbol *);
};

struct rsc_interner *rsc_interner_new(struct rsc_arena *arena) {
  struct rsc_interner *in = RSC_NEW(arena, struct rsc_interner);
  in->arena = arena;
  in->slots_cap = 64;
  in->slots = RSC_ARRAY(arena, const struct rsc_symbol *, in->slots_cap);
  return in;
}

/* The slot that holds the name, or the empty one where it would go. */
static size_t find_slot(const struct rsc_interner *in, const char *text, size_t len, uint64_t hash) {
  size_t mask = in->slots_cap - 1, i = (size_t)hash & mask;
  for (; in->slots[i]; i = (i + 1) & mask) {
    const struct rsc_symbol *s = in->slots[i];
    if (s->hash == hash && s->len == len && memcmp(s->text, text, len) == 0) break;
  }
  return i;
}

static void grow(struct rsc_interner *in) {
  in->slots_cap *= 2;
  in->slots = RSC_ARRAY(in->arena, const struct rsc_symbol *, in->slots_cap);
  size_t mask = in->slots_cap - 1;
  for (size_t k = 0; k < in->len; k++) {
    size_t i = (size_t)in->at[k]->hash & mask;
    while (in->slots[i]) i = (i + 1) & mask;
    in->slots[i] = in->at[k];
  }
}

const struct rsc_symbol *rsc_intern(struct rsc_interner *in, const char *text, size_t len) {
  uint64_t hash = XXH3_64bits(text, len);
  size_t i = find_slot(in, text, len, hash);
  if (in->slots[i]) return in->slots[i];
  if ((in->len + 1) * 2 > in->slots_cap) {
    grow(in);
    i = find_slot(in, text, len, hash);
  }
  struct rsc_symbol *s = RSC_NEW(in->arena, struct rsc_symbol);
  s->text = rsc_arena_strdup(in->arena, text, len);
  s->len = len;
  s->hash = hash;
  s->id = (uint32_t)in->len;
  in->slots[i] = s;
  *RSC_PUSH(in->arena, in) = s;
  return s;
}

const struct rsc_symbol *rsc_intern_find(const struct rsc_interner *in, const char *text, size_t len) {
  return in->slots[find_slot(in, text, len, XXH3_64bits(text, len))];
}

size_t rsc_intern_count(const struct rsc_interner *in) {
  return in->len;
}

const struct rsc_symbol *rsc_intern_at(const struct rsc_interner *in, uint32_t id) {
  return in->at[id];
}
