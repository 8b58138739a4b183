/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys: equal byte strings get equal small numbers, in order of first sight (so results never depend on hashes).
 */
#ifndef RSC_BASE_KEYS_H
#define RSC_BASE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler/base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rsc_keys;
struct rsc_keys *rsc_keys_new(struct rsc_arena *arena);
/* The number of bytes[0, len); *fresh (may be NULL) says whether it is new. The bytes are copied when new. */
int32_t rsc_keys_id(struct rsc_keys *table, const void *bytes, size_t len, bool *fresh);
/* The same, but the bytes are not copied: they must stay. */
int32_t rsc_keys_id_of(struct rsc_keys *table, const void *bytes, size_t len, bool *fresh);
/* The number, or -1 if never seen. */
int32_t rsc_keys_find(const struct rsc_keys *table, const void *bytes, size_t len);
const void *rsc_keys_bytes(const struct rsc_keys *table, int32_t id, size_t *len);
int32_t rsc_keys_count(const struct rsc_keys *table);

/* A growing key: bytes appended one value at a time. */
struct rsc_key {
  unsigned char *at;
  size_t len, cap;
};
void rsc_key_grow(struct rsc_arena *arena, struct rsc_key *key, size_t more);
/* Inline, as most are a few words of a known size. */
static inline void rsc_key_add(struct rsc_arena *arena, struct rsc_key *key, const void *bytes, size_t len) {
  if (key->cap - key->len < len) rsc_key_grow(arena, key, len);
  if (len) memcpy(key->at + key->len, bytes, len);
  key->len += len;
}
static inline void rsc_key_int(struct rsc_arena *arena, struct rsc_key *key, int64_t v) {
  rsc_key_add(arena, key, &v, sizeof v);
}

#ifdef __cplusplus
}
#endif

#endif
