/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for the verifier: an arena with marks, growing arrays in malloc, and a table that gives equal
 * word sequences equal numbers. Running out of memory aborts.
 */
#ifndef RSPV_BASE_H
#define RSPV_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rspv_chunk;
struct rspv_arena {
  struct rspv_chunk *head;
};
struct rspv_mark {
  struct rspv_chunk *chunk;
  size_t used;
};

void *rspv_alloc(struct rspv_arena *arena, size_t bytes); /* 16-aligned, not cleared */
struct rspv_mark rspv_arena_mark(const struct rspv_arena *arena);
void rspv_arena_release(struct rspv_arena *arena, struct rspv_mark mark);
void rspv_arena_free(struct rspv_arena *arena);

void *rspv_xmalloc(size_t bytes);
void *rspv_xcalloc(size_t count, size_t bytes);
/* Makes room for one more: doubles `*capacity` when count has reached it. */
void *rspv_grow(void *array, size_t count, size_t *capacity, size_t item);
#define RSPV_PUSH(array, count, capacity, value)                                                                       \
  ((array) = rspv_grow((array), (count), &(capacity), sizeof *(array)), (array)[(count)++] = (value))

/* Numbers 0, 1, 2... in the order of first appearance. */
struct rspv_table {
  struct rspv_arena *arena; /* where the keys live */
  uint32_t *slot;           /* number + 1; 0 is free */
  uint64_t *hash;           /* by number */
  const uint64_t **key;
  uint32_t *length;
  size_t mask, count, capacity;
};
void rspv_table_init(struct rspv_table *table, struct rspv_arena *arena);
void rspv_table_free(struct rspv_table *table);
uint32_t rspv_intern(struct rspv_table *table, const uint64_t *words, uint32_t length, bool *fresh);

#endif
