/* SPDX-License-Identifier: Apache-2.0
 *
 * In: sizes and word sequences. Out: memory and numbers. Assumes nothing.
 */
#include "plans/verify/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rspv_chunk {
  struct rspv_chunk *below;
  size_t used, size;
  _Alignas(16) unsigned char bytes[];
};

static _Noreturn void out_of_memory(void) {
  fputs("reshard verify: out of memory\n", stderr);
  abort();
}

void *rspv_xmalloc(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) out_of_memory();
  return p;
}

void *rspv_xcalloc(size_t count, size_t bytes) {
  void *p = calloc(count ? count : 1, bytes ? bytes : 1);
  if (!p) out_of_memory();
  return p;
}

void *rspv_grow(void *array, size_t count, size_t *capacity, size_t item) {
  if (count < *capacity) return array;
  size_t more = *capacity ? *capacity * 2 : 16;
  void *p = realloc(array, more * item);
  if (!p) out_of_memory();
  *capacity = more;
  return p;
}

void *rspv_alloc(struct rspv_arena *arena, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  struct rspv_chunk *c = arena->head;
  if (!c || c->size - c->used < bytes) {
    size_t size = c ? c->size * 2 : 1 << 14;
    if (size > 1 << 22) size = 1 << 22;
    if (size < bytes) size = bytes;
    struct rspv_chunk *fresh = rspv_xmalloc(sizeof *fresh + size);
    fresh->below = c;
    fresh->used = 0;
    fresh->size = size;
    arena->head = c = fresh;
  }
  void *p = c->bytes + c->used;
  c->used += bytes;
  return p;
}

struct rspv_mark rspv_arena_mark(const struct rspv_arena *arena) {
  struct rspv_mark m = {arena->head, arena->head ? arena->head->used : 0};
  return m;
}

void rspv_arena_release(struct rspv_arena *arena, struct rspv_mark mark) {
  /* The lowest chunk stays, so that a mark on an empty arena does not cost a malloc every time. */
  while (arena->head != mark.chunk && arena->head->below) {
    struct rspv_chunk *below = arena->head->below;
    free(arena->head);
    arena->head = below;
  }
  if (arena->head) arena->head->used = arena->head == mark.chunk ? mark.used : 0;
}

void rspv_arena_free(struct rspv_arena *arena) {
  while (arena->head) {
    struct rspv_chunk *below = arena->head->below;
    free(arena->head);
    arena->head = below;
  }
}

void rspv_table_init(struct rspv_table *table, struct rspv_arena *arena) {
  memset(table, 0, sizeof *table);
  table->arena = arena;
  table->mask = 63;
  table->slot = rspv_xcalloc(table->mask + 1, sizeof *table->slot);
}

void rspv_table_free(struct rspv_table *table) {
  free(table->slot);
  free(table->hash);
  free(table->key);
  free(table->length);
}

static uint64_t hash_words(const uint64_t *words, uint32_t length) {
  uint64_t h = 0x9e3779b97f4a7c15ull ^ length;
  for (uint32_t i = 0; i < length; i++) {
    h = (h ^ words[i]) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h ^ (h >> 29);
}

static void rehash(struct rspv_table *t) {
  size_t mask = t->mask * 2 + 1;
  free(t->slot);
  t->slot = rspv_xcalloc(mask + 1, sizeof *t->slot);
  t->mask = mask;
  for (size_t i = 0; i < t->count; i++) {
    size_t at = t->hash[i] & mask;
    while (t->slot[at]) at = (at + 1) & mask;
    t->slot[at] = (uint32_t)(i + 1);
  }
}

uint32_t rspv_intern(struct rspv_table *t, const uint64_t *words, uint32_t length, bool *fresh) {
  uint64_t h = hash_words(words, length);
  size_t bytes = (size_t)length * sizeof *words;
  size_t at = h & t->mask;
  for (; t->slot[at]; at = (at + 1) & t->mask) {
    uint32_t i = t->slot[at] - 1;
    if (t->hash[i] == h && t->length[i] == length && !memcmp(t->key[i], words, bytes)) {
      *fresh = false;
      return i;
    }
  }
  uint64_t *copy = rspv_alloc(t->arena, bytes);
  if (bytes) memcpy(copy, words, bytes);
  size_t capacity = t->capacity;
  t->hash = rspv_grow(t->hash, t->count, &capacity, sizeof *t->hash);
  capacity = t->capacity;
  t->key = rspv_grow(t->key, t->count, &capacity, sizeof *t->key);
  t->length = rspv_grow(t->length, t->count, &t->capacity, sizeof *t->length);
  t->hash[t->count] = h;
  t->key[t->count] = copy;
  t->length[t->count] = length;
  t->slot[at] = (uint32_t)++t->count;
  if (t->count * 2 > t->mask) rehash(t);
  *fresh = true;
  return (uint32_t)(t->count - 1);
}
