/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning: equal byte strings get equal small numbers, in order of first sight (so results never depend on hashes).
 */
#ifndef RSC_BASE_INTERN_H
#define RSC_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rsc_intern;
struct rsc_intern *rsc_intern_new(struct rsc_arena *arena);
/* The number of bytes[0, len); *fresh (may be NULL) says whether it is new. The bytes are copied when new. */
int32_t rsc_intern(struct rsc_intern *table, const void *bytes, size_t len, bool *fresh);
/* The number, or -1 if never seen. */
int32_t rsc_intern_find(const struct rsc_intern *table, const void *bytes, size_t len);
const void *rsc_intern_bytes(const struct rsc_intern *table, int32_t id, size_t *len);
int32_t rsc_intern_count(const struct rsc_intern *table);

/* A growing key: bytes appended one value at a time. */
struct rsc_key {
  unsigned char *at;
  size_t len, cap;
};
void rsc_key_add(struct rsc_arena *arena, struct rsc_key *key, const void *bytes, size_t len);
static inline void rsc_key_int(struct rsc_arena *arena, struct rsc_key *key, int64_t v) {
  rsc_key_add(arena, key, &v, sizeof v);
}

#ifdef __cplusplus
}
#endif

#endif
