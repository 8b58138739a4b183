/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MIN = 1 << 16, CHUNK_MAX = 1 << 22 };

struct chunk {
  struct chunk *next;
  size_t used, size;
  alignas(max_align_t) unsigned char data[];
};

struct rsc_arena {
  struct chunk *head;
  size_t total;
  size_t first; /* bytes of the first chunk, after a reset: what was used before */
};

void rsc_oom(size_t bytes) {
  fprintf(stderr, "reshard: out of memory (%zu bytes wanted)\n", bytes);
  exit(2);
}

struct rsc_arena *rsc_arena_new(void) {
  struct rsc_arena *arena = calloc(1, sizeof *arena);
  if (!arena) rsc_oom(sizeof *arena);
  return arena;
}

static void free_chunks(struct chunk *c) {
  for (struct chunk *next; c; c = next) {
    next = c->next;
    free(c);
  }
}

void rsc_arena_free(struct rsc_arena *arena) {
  if (!arena) return;
  free_chunks(arena->head);
  free(arena);
}

void rsc_arena_reset(struct rsc_arena *arena) {
  struct chunk *head = arena->head;
  if (head && !head->next) {
    memset(head->data, 0, head->used);
    head->used = 0;
  } else if (head) {
    free_chunks(head);
    arena->head = NULL;
    arena->first = arena->total;
  }
  arena->total = 0;
}

/* Chunks grow with the arena so that a large compilation makes few of them. */
static struct chunk *new_chunk(struct rsc_arena *arena, size_t bytes) {
  size_t size = arena->head ? arena->total / 4 : arena->first;
  if (size < CHUNK_MIN) size = CHUNK_MIN;
  if (size > CHUNK_MAX && arena->head) size = CHUNK_MAX;
  if (size < bytes) size = bytes;
  struct chunk *c = calloc(1, sizeof *c + size);
  if (!c) rsc_oom(size);
  c->size = size;
  c->next = arena->head;
  arena->head = c;
  return c;
}

void *rsc_arena_alloc(struct rsc_arena *arena, size_t bytes) {
  const size_t align = alignof(max_align_t);
  if (bytes > SIZE_MAX - align) rsc_oom(bytes);
  size_t need = bytes ? (bytes + align - 1) / align * align : align;
  struct chunk *c = arena->head;
  if (!c || c->size - c->used < need) c = new_chunk(arena, need);
  void *p = c->data + c->used;
  c->used += need;
  arena->total += need;
  return p;
}

void *rsc_arena_array(struct rsc_arena *arena, size_t count, size_t size) {
  if (size && count > SIZE_MAX / 2 / size) rsc_oom(SIZE_MAX);
  return rsc_arena_alloc(arena, count * size);
}

char *rsc_arena_strdup(struct rsc_arena *arena, const char *bytes, size_t len) {
  char *s = rsc_arena_alloc(arena, len + 1);
  if (len) memcpy(s, bytes, len);
  return s;
}

size_t rsc_arena_bytes(const struct rsc_arena *arena) {
  return arena->total;
}
