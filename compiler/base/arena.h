/* SPDX-License-Identifier: Apache-2.0
 *
 * One arena per compilation: allocations live until the arena is freed, all at once.
 * Memory is zeroed. Running out of memory aborts with a message (see rsc_oom). Not thread-safe.
 */
#ifndef RSC_BASE_ARENA_H
#define RSC_BASE_ARENA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rsc_arena;

struct rsc_arena *rsc_arena_new(void);
void rsc_arena_free(struct rsc_arena *arena);

/* Forgets everything that was allocated; keeps memory for the next. */
void rsc_arena_reset(struct rsc_arena *arena);

/* `bytes` zeroed bytes, aligned for any object. Never NULL. */
void *rsc_arena_alloc(struct rsc_arena *arena, size_t bytes);

/* `count` zeroed objects of `size` bytes; the product is checked. */
void *rsc_arena_array(struct rsc_arena *arena, size_t count, size_t size);

/* A NUL-terminated copy of bytes[0, len). */
char *rsc_arena_strdup(struct rsc_arena *arena, const char *bytes, size_t len);

/* Bytes handed out so far (since the last reset), for --stats. */
size_t rsc_arena_bytes(const struct rsc_arena *arena);

#define RSC_NEW(arena, type) ((type *)rsc_arena_alloc((arena), sizeof(type)))
#define RSC_ARRAY(arena, type, count) ((type *)rsc_arena_array((arena), (size_t)(count), sizeof(type)))

/* Prints a one-line message and exits with status 2: the world's failure, not the user's. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void rsc_oom(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
