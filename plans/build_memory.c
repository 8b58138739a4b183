// SPDX-License-Identifier: Apache-2.0
//
// In: all tables of a plan. Out: its bytes, in memory. Ranks whose holdings are equal share a block.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "plans/build.h"
#include "plans/seal.h"

bool rsp_put_memory(void *user, uint64_t off, const void *bytes, size_t size) {
  struct rsp_memory *m = user;
  if (!size) return true;
  if (off > SIZE_MAX / 2 || size > SIZE_MAX / 2) return false;
  size_t end = (size_t)off + size;
  if (end > m->room) {
    size_t room = end + end / 2;
    unsigned char *more = realloc(m->bytes, room);
    if (!more) return false;
    m->bytes = more;
    m->room = room;
  }
  if (off > m->size) memset(m->bytes + m->size, 0, (size_t)off - m->size);
  memcpy(m->bytes + off, bytes, size);
  if (end > m->size) m->size = end;
  return true;
}

typedef XXH64_hash_t hash_fn(const struct rsp_slice_tables *t);
typedef bool same_fn(const struct rsp_slice_tables *a, const struct rsp_slice_tables *b);

// Ranks, no two the same: an open hash table.
struct ranks {
  uint32_t *table; // rank + 1
  uint64_t places;
  XXH64_hash_t *hashes; // of all ranks
};

static XXH64_hash_t hash_held(const struct rsp_slice_tables *t) {
  struct rsp_array arrays[RSP_TABLE_COUNT];
  rsp_arrays_of(t, arrays);
  XXH64_hash_t hash = 0;
  for (unsigned i = 0; i < RSP_HELD_COUNT; i++) {
    size_t size = (size_t)(arrays[i].count * rsp_table_record_bytes(i));
    hash = XXH3_64bits_withSeed(size ? arrays[i].at : "", size, hash + arrays[i].count);
  }
  return hash;
}

static bool same_held(const struct rsp_slice_tables *a, const struct rsp_slice_tables *b) {
  struct rsp_array x[RSP_TABLE_COUNT], y[RSP_TABLE_COUNT];
  rsp_arrays_of(a, x);
  rsp_arrays_of(b, y);
  for (unsigned i = 0; i < RSP_HELD_COUNT; i++) {
    if (x[i].count != y[i].count) return false;
    size_t size = (size_t)(x[i].count * rsp_table_record_bytes(i));
    if (size && memcmp(x[i].at, y[i].at, size) != 0) return false;
  }
  return true;
}

static bool open_ranks(struct ranks *ranks, uint32_t world) {
  ranks->places = 16;
  while (ranks->places < 2 * (uint64_t)world) ranks->places *= 2;
  ranks->table = calloc((size_t)ranks->places, sizeof *ranks->table);
  ranks->hashes = calloc(world ? world : 1, sizeof *ranks->hashes);
  return ranks->table && ranks->hashes;
}

static void close_ranks(struct ranks *ranks) {
  free(ranks->table);
  free(ranks->hashes);
}

// The first rank with the same tables: r itself, now in the table, if there is none before.
static uint32_t first_like(struct ranks *ranks, const struct rsp_slice_tables *slices, uint32_t r) {
  XXH64_hash_t hash = ranks->hashes[r] = hash_held(&slices[r]);
  for (uint64_t i = hash & (ranks->places - 1);; i = (i + 1) & (ranks->places - 1)) {
    uint32_t *place = &ranks->table[i];
    if (!*place) *place = r + 1;
    if (*place == r + 1 || (ranks->hashes[*place - 1] == hash && same_held(&slices[*place - 1], &slices[r])))
      return *place - 1;
  }
}

// The block of a rank: that of an earlier one with the same tables, or a new one.
static bool build_holdings(struct rsp_builder *b, const struct rsp_slice_tables *slices, uint32_t world,
                           size_t *blocks) {
  struct ranks held = {0};
  bool good = open_ranks(&held, world);
  for (uint32_t r = 0; good && r < world; r++) {
    uint32_t like = first_like(&held, slices, r);
    blocks[r] = like == r ? rsp_build_held(b, &slices[r]) : blocks[like];
  }
  close_ranks(&held);
  return good;
}

bool rsp_build(const struct rsp_global_tables *global, const struct rsp_slice_tables *slices, void **bytes,
               size_t *size) {
  struct rsp_memory memory = {0};
  struct rsp_builder *b = rsp_build_begin(global, rsp_put_memory, &memory);
  size_t *blocks = calloc(global->world ? global->world : 1, sizeof *blocks);
  bool good = b && blocks && build_holdings(b, slices, global->world, blocks);
  for (uint32_t r = 0; good && r < global->world; r++) good = rsp_build_slice(b, &slices[r], blocks[r], NULL);
  if (b && !rsp_build_end(b, NULL)) good = false;
  free(blocks);
  if (!good) {
    free(memory.bytes);
    memory = (struct rsp_memory){0};
  }
  *bytes = memory.bytes;
  *size = memory.size;
  return good;
}
