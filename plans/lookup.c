// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: rows of it. Assumes that every rule holds.
#include "plans/check.h"

void rsp_program_at(const void *slice, const void *held, struct rsp_program *program) {
  const unsigned char *base = slice, *block = held;
  const struct rsp_slice *s = slice;
  *program = (struct rsp_program){
      .slice = s,
      .names = (const void *)(block + s->names.off),
      .files = (const void *)(block + s->files.off),
      .buffers = (const void *)(block + s->buffers.off),
      .dims = (const void *)(block + s->dims.off),
      .zeros = (const void *)(block + s->zeros.off),
      .zloops = (const void *)(block + s->zloops.off),
      .bodies = (const void *)(base + s->bodies.off),
      .descs = (const void *)(base + s->descs.off),
      .shapes = (const void *)(base + s->shapes.off),
      .loops = (const void *)(base + s->loops.off),
      .streams = (const void *)(base + s->streams.off),
      .parts = (const void *)(base + s->parts.off),
  };
}

void rsp_program_of(const struct rsp_plan *plan, uint32_t world_rank, struct rsp_program *program) {
  const struct rsp_dirent *entry = &plan->directory[world_rank];
  rsp_program_at(plan->bytes + entry->off, plan->bytes + entry->held_off, program);
}

const struct rsp_sbuffer *rsp_program_buffer(const struct rsp_program *program, uint32_t gid) {
  const struct rsp_sbuffer *rows = program->buffers;
  uint64_t lo = 0, hi = program->slice->buffers.count;
  // In most slices gids are consecutive, so guess the row first.
  if (hi && gid >= rows[0].gid && gid - rows[0].gid < hi && rows[gid - rows[0].gid].gid == gid)
    return &rows[gid - rows[0].gid];
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (rows[mid].gid < gid)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < program->slice->buffers.count && rows[lo].gid == gid ? &rows[lo] : NULL;
}

const struct rsp_entry *rsp_buffer_entry(const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                                         uint32_t side_rank) {
  const struct rsp_rankmap *map = &plan->rankmaps[buffer->rankmap];
  const struct rsp_hold *holds = plan->holds + map->holds;
  uint64_t lo = 0, hi = map->count;
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (holds[mid].rank < side_rank)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == map->count || holds[lo].rank != side_rank) return NULL;
  return &plan->entries[plan->classes[buffer->klass].entries + holds[lo].entry];
}

void rsp_id_text(const uint8_t id[16], char text[33]) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned i = 0; i < 16; i++) {
    text[2 * i] = digits[id[i] >> 4];
    text[2 * i + 1] = digits[id[i] & 15];
  }
  text[32] = 0;
}
