// SPDX-License-Identifier: Apache-2.0
//
// In: the tables of a plan as plain arrays, a rank's at a time. Out: the bytes of the file, laid out in the one order
// that the reader accepts (each thing at the first aligned byte after the one before), sealed, given away as they are
// made: no more than one slice is kept. Assumes nothing about the tables' truth.
#include <stdlib.h>
#include <string.h>

#include "plans/build.h"
#include "plans/check.h"

struct block {
  uint64_t off, bytes;
  uint8_t digest[16];
  struct rsp_table places[RSP_HELD_COUNT];
};

struct rsp_builder {
  const struct rsp_global_tables *global;
  struct rsp_header header;
  rsp_put_fn put;
  void *user;
  bool failed;
  uint64_t at; // end of what is written
  struct block *blocks;
  size_t block_count, block_room;
  struct rsp_dirent *directory;
  uint32_t ranks;        // slices written
  unsigned char *buffer; // what is being assembled
  size_t room;
};

void rsp_arrays_of(const struct rsp_slice_tables *t, struct rsp_array out[RSP_TABLE_COUNT]) {
  const struct rsp_array all[RSP_TABLE_COUNT] = {
      {t->names, t->names_bytes}, {t->files, t->file_count},     {t->buffers, t->buffer_count},
      {t->dims, t->dim_count},    {t->zeros, t->zero_count},     {t->zloops, t->zloop_count},
      {t->bodies, t->body_count}, {t->descs, t->desc_count},     {t->shapes, t->shape_count},
      {t->loops, t->loop_count},  {t->streams, t->stream_count}, {t->parts, t->part_count},
  };
  memcpy(out, all, sizeof all);
}

static void put(struct rsp_builder *b, uint64_t off, const void *bytes, uint64_t size) {
  if (!b->failed && size && !b->put(b->user, off, bytes, (size_t)size)) b->failed = true;
}

// The buffer, of at least that many bytes, all zero; NULL if there is no memory.
static unsigned char *clear_buffer(struct rsp_builder *b, uint64_t bytes) {
  if (bytes > b->room) {
    free(b->buffer);
    b->room = (size_t)bytes + (size_t)bytes / 4;
    b->buffer = malloc(b->room);
    if (!b->buffer) b->room = 0, b->failed = true;
  }
  if (b->buffer) memset(b->buffer, 0, (size_t)bytes);
  return b->buffer;
}

// Places of tables [from, to), the first at `at`; returns where they end.
static uint64_t place_tables(const struct rsp_array *arrays, unsigned from, unsigned to, uint64_t at,
                             struct rsp_table *places) {
  for (unsigned i = from; i < to; i++) {
    places[i] = (struct rsp_table){at, arrays[i].count};
    at = rsp_align_up(at + arrays[i].count * rsp_table_record_bytes(i), 8);
  }
  return at;
}

static void copy_tables(const struct rsp_array *arrays, unsigned from, unsigned to, const struct rsp_table *places,
                        unsigned char *base) {
  for (unsigned i = from; i < to; i++) {
    uint64_t size = arrays[i].count * rsp_table_record_bytes(i);
    if (size) memcpy(base + places[i].off, arrays[i].at, (size_t)size);
  }
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

static void put_section(struct rsp_builder *b, unsigned s, const void *at) {
  struct rsp_section *section = &b->header.sections[s];
  rsp_digest(at, (size_t)section->bytes, section->digest);
  put(b, section->off, at, section->bytes);
}

static bool comes_last(unsigned section) {
  return section == RSP_SEC_SUMMARY || section == RSP_SEC_DIRECTORY;
}

struct rsp_builder *rsp_build_begin(const struct rsp_global_tables *global, rsp_put_fn put_bytes, void *user) {
  struct rsp_builder *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->header = (struct rsp_header){.magic = RSP_MAGIC,
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
  b->global = global;
  b->put = put_bytes;
  b->user = user;
  b->directory = calloc(global->world ? global->world : 1, sizeof *b->directory);
  b->failed = !b->directory;
  b->at = place_sections(global, &b->header);
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++)
    if (!comes_last(s)) put_section(b, s, global->sections[s]);
  return b;
}

size_t rsp_build_held(struct rsp_builder *b, const struct rsp_slice_tables *tables) {
  struct rsp_array arrays[RSP_TABLE_COUNT];
  rsp_arrays_of(tables, arrays);
  if (b->block_count == b->block_room) {
    size_t room = b->block_room ? b->block_room * 2 : 16;
    struct block *more = realloc(b->blocks, room * sizeof *more);
    b->failed |= !more;
    if (!more) return 0;
    b->blocks = more;
    b->block_room = room;
  }
  struct block *block = &b->blocks[b->block_count];
  *block = (struct block){0};
  block->bytes = place_tables(arrays, 0, RSP_HELD_COUNT, 0, block->places);
  if (block->bytes) b->at = block->off = rsp_align_up(b->at, 8); // who holds nothing has no block
  unsigned char *base = clear_buffer(b, block->bytes);
  if (base) {
    copy_tables(arrays, 0, RSP_HELD_COUNT, block->places, base);
    put(b, block->off, base, block->bytes);
  }
  rsp_digest(base, base ? (size_t)block->bytes : 0, block->digest);
  b->at += block->bytes;
  return b->block_count++;
}

bool rsp_build_slice(struct rsp_builder *b, const struct rsp_slice_tables *tables, size_t held,
                     struct rsp_program *program) {
  if (b->failed || b->ranks == b->global->world || held >= b->block_count) return false;
  struct rsp_array arrays[RSP_TABLE_COUNT];
  rsp_arrays_of(tables, arrays);
  const struct block *block = &b->blocks[held];
  struct rsp_slice slice = {.magic = RSP_SLICE_MAGIC,
                            .world_rank = tables->world_rank,
                            .train_rank = tables->train_rank,
                            .infer_rank = tables->infer_rank,
                            .rounds = tables->rounds,
                            .staging = tables->staging};
  struct rsp_table places[RSP_TABLE_COUNT];
  memcpy(places, block->places, sizeof block->places);
  slice.bytes = place_tables(arrays, RSP_HELD_COUNT, RSP_TABLE_COUNT, sizeof slice, places);
  memcpy(&slice.names, places, sizeof places);
  unsigned char *base = clear_buffer(b, slice.bytes);
  if (!base) return false;
  memcpy(base, &slice, sizeof slice);
  copy_tables(arrays, RSP_HELD_COUNT, RSP_TABLE_COUNT, places, base);
  struct rsp_dirent *entry = &b->directory[b->ranks];
  *entry = (struct rsp_dirent){.off = rsp_align_up(b->at, RSP_PAGE),
                               .bytes = slice.bytes,
                               .held_off = block->off,
                               .held_bytes = block->bytes,
                               .staging = tables->staging};
  rsp_digest(base, (size_t)slice.bytes, entry->digest);
  memcpy(entry->held_digest, block->digest, sizeof entry->held_digest);
  entry->check = rsp_dirent_seal(entry, b->ranks++);
  put(b, entry->off, base, slice.bytes);
  b->at = entry->off + slice.bytes;
  if (program) rsp_program_at(base, NULL, program);
  return !b->failed;
}

void rsp_build_view(const struct rsp_builder *b, struct rsp_plan *plan) {
  const void *const *s = b->global->sections;
  const uint64_t *n = b->global->counts;
  *plan = (struct rsp_plan){.header = &b->header,
                            .strings = s[RSP_SEC_STRINGS],
                            .inputs = s[RSP_SEC_INPUTS],
                            .files = s[RSP_SEC_FILES],
                            .tensors = s[RSP_SEC_TENSORS],
                            .dims = s[RSP_SEC_DIMS],
                            .ranks = s[RSP_SEC_RANKS],
                            .classes = s[RSP_SEC_CLASSES],
                            .entries = s[RSP_SEC_ENTRIES],
                            .pieces = s[RSP_SEC_PIECES],
                            .ploops = s[RSP_SEC_PLOOPS],
                            .buffers = s[RSP_SEC_BUFFERS],
                            .slots = s[RSP_SEC_SLOTS],
                            .rankmaps = s[RSP_SEC_RANKMAPS],
                            .holds = s[RSP_SEC_HOLDS],
                            .summary = s[RSP_SEC_SUMMARY],
                            .input_count = n[RSP_SEC_INPUTS],
                            .file_count = n[RSP_SEC_FILES],
                            .tensor_count = n[RSP_SEC_TENSORS],
                            .buffer_count = n[RSP_SEC_BUFFERS],
                            .class_count = n[RSP_SEC_CLASSES],
                            .rankmap_count = n[RSP_SEC_RANKMAPS]};
}

bool rsp_build_end(struct rsp_builder *b, struct rsp_header *header) {
  b->failed |= b->ranks != b->global->world;
  if (!b->failed) {
    put_section(b, RSP_SEC_SUMMARY, b->global->sections[RSP_SEC_SUMMARY]);
    put_section(b, RSP_SEC_DIRECTORY, b->directory);
    b->header.file_bytes = b->at;
    rsp_header_id(&b->header, b->header.plan_id);
    put(b, 0, &b->header, sizeof b->header);
  }
  bool good = !b->failed;
  if (header) *header = b->header;
  free(b->blocks);
  free(b->directory);
  free(b->buffer);
  free(b);
  return good;
}
