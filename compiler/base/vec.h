/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing array in an arena. Use:
 *     struct { RSC_VEC(struct rsc_loop) v; } or a named struct with RSC_VEC(T) as its only member, then
 *     *RSC_PUSH(arena, &x) = value;      x.at[i], x.len
 * Growth copies and leaves the old block to the arena; total waste is at most the final size.
 */
#ifndef RSC_BASE_VEC_H
#define RSC_BASE_VEC_H

#include <stddef.h>

#include "compiler/base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RSC_VEC(T)                                                                                                     \
  T *at;                                                                                                               \
  size_t len, cap

/* Returns the new storage for at least `want` objects; updates *cap. */
void *rsc_vec_grow(struct rsc_arena *arena, void *at, size_t len, size_t *cap, size_t want, size_t size);

#define RSC_RESERVE(arena, v, want)                                                                                    \
  ((v)->at = ((v)->cap >= (size_t)(want))                                                                              \
                 ? (v)->at                                                                                             \
                 : rsc_vec_grow((arena), (v)->at, (v)->len, &(v)->cap, (size_t)(want), sizeof *(v)->at))

/* Pointer to a new (not cleared) last element. */
#define RSC_PUSH(arena, v) (RSC_RESERVE((arena), (v), (v)->len + 1), &(v)->at[(v)->len++])

#ifdef __cplusplus
}
#endif

#endif
