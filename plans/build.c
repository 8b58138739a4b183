// SPDX-License-Identifier: Apache-2.0
//
// In: the tables of a plan as plain arrays. Out: the bytes of the file, laid out in the one order that the reader
// accepts (each thing at the first aligned byte after the one before), sealed. Assumes nothing about the tables' truth.
#include <stdlib.h>
#include <string.h>

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

static uint64_t slice_bytes(const struct rsp_slice_tables *t) {
  struct array arrays[RSP_TABLE_COUNT];
  arrays_of(t, arrays);
  uint64_t at = sizeof(struct rsp_slice);
  for (unsigned i = 0; i < RSP_TABLE_COUNT; i++) at = rsp_align_up(at + arrays[i].count * rsp_table_record_bytes(i), 8);
  return at;
}

static void copy(unsigned char *to, const void *from, uint64_t bytes) {
  if (bytes) memcpy(to, from, (size_t)bytes);
}

static void put_slice(unsigned char *base, const struct rsp_slice_tables *t, uint64_t bytes) {
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
  uint64_t at = sizeof slice;
  for (unsigned i = 0; i < RSP_TABLE_COUNT; i++) {
    uint64_t size = arrays[i].count * rsp_table_record_bytes(i);
    places[i] = (struct rsp_table){at, arrays[i].count};
    copy(base + at, arrays[i].at, size);
    at = rsp_align_up(at + size, 8);
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
  if (!directory) return false;
  for (uint32_t r = 0; r < global->world; r++) {
    at = rsp_align_up(at, RSP_PAGE);
    directory[r] = (struct rsp_dirent){.off = at, .bytes = slice_bytes(&slices[r]), .staging = slices[r].staging};
    at += directory[r].bytes;
  }
  header.file_bytes = at;
  unsigned char *base = calloc(1, (size_t)at);
  if (base) {
    memcpy(base, &header, sizeof header);
    for (unsigned s = 0; s < RSP_SECTION_COUNT; s++)
      copy(base + header.sections[s].off, s == RSP_SEC_DIRECTORY ? directory : global->sections[s],
           header.sections[s].bytes);
    for (uint32_t r = 0; r < global->world; r++) put_slice(base + directory[r].off, &slices[r], directory[r].bytes);
    rsp_reseal(base, (size_t)at);
  }
  free(directory);
  *bytes = base;
  *size = base ? (size_t)at : 0;
  return base != NULL;
}
