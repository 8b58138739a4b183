/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/base/keys.h"

#include <xxhash.h>

#include "compiler/base/vec.h"

struct item {
  const void *bytes;
  size_t len;
  uint64_t hash;
};

struct rsc_keys {
  struct rsc_arena *arena;
  RSC_VEC(struct item);
  int32_t *table; /* item index + 1; 0 is free; a power of two of places */
  size_t places;
};

struct rsc_keys *rsc_keys_new(struct rsc_arena *arena) {
  struct rsc_keys *t = RSC_NEW(arena, struct rsc_keys);
  t->arena = arena;
  t->places = 64;
  t->table = RSC_ARRAY(arena, int32_t, t->places);
  return t;
}

static size_t probe(const struct rsc_keys *t, const void *bytes, size_t len, uint64_t hash) {
  size_t i = hash & (t->places - 1);
  while (t->table[i]) {
    const struct item *item = &t->at[t->table[i] - 1];
    if (item->hash == hash && item->len == len && (!len || !memcmp(item->bytes, bytes, len))) break;
    i = (i + 1) & (t->places - 1);
  }
  return i;
}

static void grow(struct rsc_keys *t) {
  t->places *= 2;
  t->table = RSC_ARRAY(t->arena, int32_t, t->places);
  for (size_t k = 0; k < t->len; k++) {
    size_t i = t->at[k].hash & (t->places - 1);
    while (t->table[i]) i = (i + 1) & (t->places - 1);
    t->table[i] = (int32_t)k + 1;
  }
}

static int32_t id_of(struct rsc_keys *t, const void *bytes, size_t len, bool *fresh, bool copy) {
  uint64_t hash = XXH3_64bits(bytes, len);
  size_t i = probe(t, bytes, len, hash);
  if (fresh) *fresh = !t->table[i];
  if (t->table[i]) return t->table[i] - 1;
  if (t->len * 2 >= t->places) {
    grow(t);
    i = probe(t, bytes, len, hash);
  }
  *RSC_PUSH(t->arena, t) = (struct item){copy ? rsc_arena_strdup(t->arena, bytes, len) : bytes, len, hash};
  t->table[i] = (int32_t)t->len;
  return (int32_t)t->len - 1;
}

int32_t rsc_keys_id(struct rsc_keys *t, const void *bytes, size_t len, bool *fresh) {
  return id_of(t, bytes, len, fresh, true);
}

int32_t rsc_keys_id_of(struct rsc_keys *t, const void *bytes, size_t len, bool *fresh) {
  return id_of(t, bytes, len, fresh, false);
}

int32_t rsc_keys_find(const struct rsc_keys *t, const void *bytes, size_t len) {
  return t->table[probe(t, bytes, len, XXH3_64bits(bytes, len))] - 1;
}

const void *rsc_keys_bytes(const struct rsc_keys *t, int32_t id, size_t *len) {
  if (len) *len = t->at[id].len;
  return t->at[id].bytes;
}

int32_t rsc_keys_count(const struct rsc_keys *t) {
  return (int32_t)t->len;
}

void rsc_key_grow(struct rsc_arena *arena, struct rsc_key *key, size_t more) {
  key->at = rsc_vec_grow(arena, key->at, key->len, &key->cap, key->len + more, 1);
}
