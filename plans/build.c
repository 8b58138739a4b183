// SPDX-License-Identifier: Apache-2.0
//
// In: the tables of a plan as plain arrays. Out: the bytes of the file, laid out in the one order that the reader
// accepts (each thing at the first aligned byte after the one before), sealed. Assumes nothing about the tables' truth.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "plans/plan.h"
#include "plans/seal.h"

struct array {
  const void *at;
  uint64_t count;
};

static void arrays_of(const struct rsp_slice_tables *t, struct array out[RSP_TABLE_COUNT]) {
  const struct array all[RSP_TABLE_COUNT] = {
      {t->names, t->names_bytes}, {t->files, t->file_count},     {t->buffers, t->buffer_count},
      {t->dims, t->dim_count},    {t->zeros, t->zero_count},     {t->zloops, t->zloop_count},
      {t->bodies, t->body_count}, {t->descs, t->desc_count},     {t->shapes, t->shape_count},
      {t->loops, t->loop_count},  {t->streams, t->stream_count}, {t->parts, t->part_count},
  };
  memcpy(out, all, sizeof all);
}

// Bytes of tables [from, to), the first at `at`.
static uint64_t tables_end(const struct rsp_slice_tables *t, unsigned from, unsigned to, uint64_t at) {
  struct array arrays[RSP_TABLE_COUNT];
  arrays_of(t, arrays);
  for (unsigned i = from; i < to; i++) at = rsp_align_up(at + arrays[i].count * rsp_table_record_bytes(i), 8);
  return at;
}

static void copy(unsigned char *to, const void *from, uint64_t bytes) {
  if (bytes) memcpy(to, from, (size_t)bytes);
}

static uint64_t slice_bytes(const struct rsp_slice_tables *t) {
  return tables_end(t, RSP_HELD_COUNT, RSP_TABLE_COUNT, sizeof(struct rsp_slice));
}

static uint64_t held_bytes(const struct rsp_slice_tables *t) {
  return tables_end(t, 0, RSP_HELD_COUNT, 0);
}

// The slice, and its holdings block unless `held` is NULL: another rank has written it then.
static void put_slice(unsigned char *base, unsigned char *held, const struct rsp_slice_tables *t, uint64_t bytes) {
  struct array arrays[RSP_TABLE_COUNT];
  arrays_of(t, arrays);
  struct rsp_slice slice = {.magic = RSP_SLICE_MAGIC,
                            .bytes = bytes,
                            .world_rank = t->world_rank,
                            .train_rank = t->train_rank,
                            .infer_rank = t->infer_rank,
                            .rounds = t->rounds,
                            .staging = t->staging};
  struct rsp_table places[RSP_TABLE_COUNT];
  uint64_t at[2] = {0, sizeof slice}; // in the holdings block, in the slice
  for (unsigned i = 0; i < RSP_TABLE_COUNT; i++) {
    bool own = i >= RSP_HELD_COUNT;
    uint64_t size = arrays[i].count * rsp_table_record_bytes(i);
    places[i] = (struct rsp_table){at[own], arrays[i].count};
    if (own)
      copy(base + at[own], arrays[i].at, size);
    else if (held)
      copy(held + at[own], arrays[i].at, size);
    at[own] = rsp_align_up(at[own] + size, 8);
  }
  memcpy(&slice.names, places, sizeof places);
  memcpy(base, &slice, sizeof slice);
}

// Places of the sections; returns the first byte after them.
static uint64_t place_sections(const struct rsp_global_tables *global, struct rsp_header *header) {
  uint64_t at = sizeof *header;
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++) {
    uint64_t count = s == RSP_SEC_DIRECTORY ? global->world : global->counts[s];
    at = rsp_align_up(at, 8);
    header->sections[s] =
        (struct rsp_section){.off = at, .count = count, .bytes = count * rsp_record_bytes((enum rsp_section_kind)s)};
    at += header->sections[s].bytes;
  }
  return at;
}

// ---- holdings blocks: one for ranks whose tables are equal ----------------------------------------------------------

typedef XXH64_hash_t hash_fn(const struct rsp_slice_tables *t);
typedef bool same_fn(const struct rsp_slice_tables *a, const struct rsp_slice_tables *b);

// Ranks, no two the same: an open hash table.
struct ranks {
  uint32_t *table; // rank + 1
  uint64_t places;
  XXH64_hash_t *hashes; // of all ranks
  hash_fn *hash;
  same_fn *same;
};

static XXH64_hash_t hash_arrays(const struct rsp_slice_tables *t) {
  struct array arrays[RSP_TABLE_COUNT];
  arrays_of(t, arrays);
  return XXH3_64bits(arrays, RSP_HELD_COUNT * sizeof arrays[0]);
}

static bool same_arrays(const struct rsp_slice_tables *a, const struct rsp_slice_tables *b) {
  struct array x[RSP_TABLE_COUNT], y[RSP_TABLE_COUNT];
  arrays_of(a, x);
  arrays_of(b, y);
  for (unsigned i = 0; i < RSP_HELD_COUNT; i++)
    if (x[i].at != y[i].at || x[i].count != y[i].count) return false;
  return true;
}

static XXH64_hash_t hash_held(const struct rsp_slice_tables *t) {
  struct array arrays[RSP_TABLE_COUNT];
  arrays_of(t, arrays);
  XXH64_hash_t hash = 0;
  for (unsigned i = 0; i < RSP_HELD_COUNT; i++) {
    size_t size = (size_t)(arrays[i].count * rsp_table_record_bytes(i));
    hash = XXH3_64bits_withSeed(size ? arrays[i].at : "", size, hash + arrays[i].count);
  }
  return hash;
}

static bool same_held(const struct rsp_slice_tables *a, const struct rsp_slice_tables *b) {
  struct array x[RSP_TABLE_COUNT], y[RSP_TABLE_COUNT];
  arrays_of(a, x);
  arrays_of(b, y);
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
  XXH64_hash_t hash = ranks->hashes[r] = ranks->hash(&slices[r]);
  for (uint64_t i = hash & (ranks->places - 1);; i = (i + 1) & (ranks->places - 1)) {
    uint32_t *place = &ranks->table[i];
    if (!*place) *place = r + 1;
    if (*place == r + 1 || (ranks->hashes[*place - 1] == hash && ranks->same(&slices[*place - 1], &slices[r])))
      return *place - 1;
  }
}

static void place_held(const struct rsp_slice_tables *slices, uint32_t r, uint32_t like, struct rsp_dirent *directory,
                       uint64_t *at) {
  directory[r].held_off = directory[like].held_off;
  directory[r].held_bytes = directory[like].held_bytes;
  if (r != like) return;
  directory[r].held_bytes = held_bytes(&slices[r]);
  if (!directory[r].held_bytes) return; // holds nothing: no block
  directory[r].held_off = rsp_align_up(*at, 8);
  *at = directory[r].held_off + directory[r].held_bytes;
}

// Gives each rank its block, in the order of first use from *at on. A caller that knows which ranks hold the same gives
// them the same arrays: what is in those is read once.
static bool place_holdings(const struct rsp_slice_tables *slices, uint32_t world, struct rsp_dirent *directory,
                           uint64_t *at) {
  struct ranks known = {.hash = hash_arrays, .same = same_arrays}, held = {.hash = hash_held, .same = same_held};
  bool good = open_ranks(&known, world) && open_ranks(&held, world);
  for (uint32_t r = 0; good && r < world; r++) {
    uint32_t like = first_like(&known, slices, r);
    place_held(slices, r, like == r ? first_like(&held, slices, r) : like, directory, at);
  }
  close_ranks(&known);
  close_ranks(&held);
  return good;
}

bool rsp_build(const struct rsp_global_tables *global, const struct rsp_slice_tables *slices, void **bytes,
               size_t *size) {
  struct rsp_header header = {.magic = RSP_MAGIC,
                              .version = RSP_VERSION,
                              .compat = RSP_COMPAT,
                              .features = global->features,
                              .world = global->world,
                              .train_world = global->train_world,
                              .infer_world = global->infer_world,
                              .rounds = global->rounds,
                              .max_ops = global->max_ops,
                              .max_peers = global->max_peers,
                              .staging_limit = global->staging_limit,
                              .chunk = global->chunk,
                              .section_count = RSP_SECTION_COUNT};
  uint64_t at = place_sections(global, &header);
  struct rsp_dirent *directory = calloc(global->world ? global->world : 1, sizeof *directory);
  if (!directory || !place_holdings(slices, global->world, directory, &at)) {
    free(directory);
    return false;
  }
  for (uint32_t r = 0; r < global->world; r++) {
    at = rsp_align_up(at, RSP_PAGE);
    directory[r].off = at;
    directory[r].bytes = slice_bytes(&slices[r]);
    directory[r].staging = slices[r].staging;
    at += directory[r].bytes;
  }
  header.file_bytes = at;
  unsigned char *base = calloc(1, (size_t)at);
  if (base) {
    memcpy(base, &header, sizeof header);
    for (unsigned s = 0; s < RSP_SECTION_COUNT; s++)
      copy(base + header.sections[s].off, s == RSP_SEC_DIRECTORY ? directory : global->sections[s],
           header.sections[s].bytes);
    uint64_t written = 0; // blocks stand in the order of first use
    for (uint32_t r = 0; r < global->world; r++) {
      bool first = directory[r].held_off >= written;
      put_slice(base + directory[r].off, first ? base + directory[r].held_off : NULL, &slices[r], directory[r].bytes);
      if (first) written = directory[r].held_off + directory[r].held_bytes;
    }
    rsp_reseal(base, (size_t)at);
  }
  free(directory);
  *bytes = base;
  *size = base ? (size_t)at : 0;
  return base != NULL;
}
