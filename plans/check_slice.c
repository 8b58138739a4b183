// SPDX-License-Identifier: Apache-2.0
//
// In: the bytes of a slice and of a holdings block, which may be anything. Out: yes, or the first rule that its header,
// tables or buffers break; bodies and streams are check_streams.c's. With a whole plan at hand, also whether slices and
// the global sections tell the same story.
#include "plans/check.h"

#include <string.h>

static bool check_head(const struct rsp_check *check, const struct rsp_header *header, const struct rsp_dirent *entry,
                       uint32_t world_rank, uint64_t bytes) {
  const struct rsp_slice *s = (const void *)check->bytes;
  if (s->magic != RSP_SLICE_MAGIC) return rsp_broken(check, RSP_RULE_SLICE_MAGIC, s, "rank %u", world_rank);
  if (s->bytes != bytes) return rsp_broken(check, RSP_RULE_SLICE_BYTES, &s->bytes, "rank %u", world_rank);
  bool train = s->train_rank == RSP_NO_RANK || s->train_rank < header->train_world;
  bool infer = s->infer_rank == RSP_NO_RANK || s->infer_rank < header->infer_world;
  bool idle = s->train_rank == RSP_NO_RANK && s->infer_rank == RSP_NO_RANK;
  if (s->world_rank != world_rank || !train || !infer || idle)
    return rsp_broken(check, RSP_RULE_SLICE_RANK, &s->world_rank, "rank %u", world_rank);
  if (s->rounds != header->rounds)
    return rsp_broken(check, RSP_RULE_SLICE_ROUNDS, &s->rounds, "%u, not %u", s->rounds, header->rounds);
  if (s->staging != entry->staging || s->staging > header->staging_limit)
    return rsp_broken(check, RSP_RULE_SLICE_STAGING, &s->staging, "%llu bytes", (unsigned long long)s->staging);
  return true;
}

static bool check_zero(const struct rsp_check *check, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; i++)
    if (check->bytes[i]) return rsp_broken(check, RSP_RULE_TABLE_PADDING, check->bytes + i, NULL);
  return true;
}

// Where a row of tables lies.
struct span {
  const struct rsp_check *check;
  uint64_t first, bytes; // the first table starts at `first`; the last one ends at `bytes`
  unsigned from, to;     // of struct rsp_slice
};

// The tables lie one after the other in their span, and fill it. What is wrong with a place is told of the slice's row.
static bool check_tables(const struct rsp_check *check, const struct rsp_slice *s, const struct span *span) {
  const struct rsp_table *tables = rsp_slice_tables_of(s);
  uint64_t at, size, end = span->first;
  for (unsigned i = span->from; i < span->to; i++) {
    at = rsp_align_up(end, 8);
    if (tables[i].off != at || __builtin_mul_overflow(tables[i].count, (uint64_t)rsp_table_record_bytes(i), &size) ||
        !rsp_inside(at, size, span->bytes))
      return rsp_broken(check, RSP_RULE_TABLE_PLACE, &tables[i], "table %s", rsp_table_name(i));
    if (!check_zero(span->check, end, at)) return false;
    end = at + size;
  }
  at = rsp_align_up(end, 8);
  if (at != span->bytes)
    return rsp_broken(check, RSP_RULE_SLICE_BYTES, &tables[span->to - 1], "tables end at %llu of %llu",
                      (unsigned long long)at, (unsigned long long)span->bytes);
  return check_zero(span->check, end, at);
}

static bool check_name(const struct rsp_check *check, const struct rsp_slice *s, const struct rsp_str *name) {
  return rsp_inside(name->off, name->len, s->names.count) || rsp_broken(check, RSP_RULE_NAME_BOUNDS, name, NULL);
}

static bool check_names(const struct rsp_check *check, const struct rsp_program *p, uint64_t held_bytes) {
  const struct rsp_slice *s = p->slice;
  const char *nul = s->names.count ? memchr(p->names, 0, (size_t)s->names.count) : NULL;
  if (nul) return rsp_broken(check, RSP_RULE_NAME_NUL, nul, NULL);
  for (uint64_t i = 0; i < s->files.count; i++)
    if (!check_name(check, s, &p->files[i])) return false;
  // What a comparison of all names may cost: strings may overlap, so their lengths need a bound of their own.
  uint64_t used = 0, limit = held_bytes * 16;
  for (uint64_t i = 0; i < s->buffers.count; i++) {
    const struct rsp_sbuffer *b = &p->buffers[i];
    if (!check_name(check, s, &b->name)) return false;
    if (b->file >= s->files.count) return rsp_broken(check, RSP_RULE_SBUFFER_FILE, b, "file %u", b->file);
    used += b->name.len + p->files[b->file].len;
    if (used > limit) return rsp_broken(check, RSP_RULE_SBUFFER_NAMES, b, NULL);
  }
  return true;
}

static bool check_sbuffer(const struct rsp_check *check, const struct rsp_program *p, const struct rsp_sbuffer *b) {
  const struct rsp_slice *s = p->slice;
  uint64_t elems, bytes, width = rsp_dtype_bytes(b->dtype);
  if (b->side > RSP_INFER || (b->side == RSP_TRAIN ? s->train_rank : s->infer_rank) == RSP_NO_RANK)
    return rsp_broken(check, RSP_RULE_SBUFFER_SIDE, b, "gid %u", b->gid);
  if (!width || b->align != width) return rsp_broken(check, RSP_RULE_SBUFFER_DTYPE, b, "gid %u", b->gid);
  if (b->ndim > RSP_MAX_NDIM || !rsp_inside(b->dims, b->ndim, s->dims.count) ||
      rsp_product(p->dims + b->dims, b->ndim, &elems) || __builtin_mul_overflow(elems, width, &bytes) ||
      bytes > INT64_MAX || bytes != b->bytes)
    return rsp_broken(check, RSP_RULE_SBUFFER_BYTES, b, "gid %u", b->gid);
  return true;
}

static bool check_zeroing(const struct rsp_check *check, const struct rsp_program *p, const struct rsp_zero *z) {
  const struct rsp_sbuffer *b = rsp_program_buffer(p, z->gid);
  if (!b || b->side != RSP_INFER) return rsp_broken(check, RSP_RULE_ZERO_BUFFER, z, "gid %u", z->gid);
  bool good = z->run_bytes && z->off <= INT64_MAX && z->loop_count <= RSP_MAX_NEST &&
              rsp_inside(z->loops, z->loop_count, p->slice->zloops.count);
  uint64_t last = z->off;
  for (uint32_t i = 0; good && i < z->loop_count; i++) {
    const struct rsp_zloop *loop = &p->zloops[z->loops + i];
    good = loop->count && !rsp_extent(&last, loop->count, loop->step);
  }
  good = good && rsp_inside(last, z->run_bytes, b->bytes);
  return good || rsp_broken(check, RSP_RULE_ZERO_EXTENT, z, "gid %u", z->gid);
}

bool rsp_check_slice(const struct rsp_check *check, const struct rsp_check *held, const struct rsp_header *header,
                     const struct rsp_dirent *entry, uint32_t world_rank, bool *relays) {
  const struct rsp_slice *s = (const void *)check->bytes;
  if (!check_head(check, header, entry, world_rank, entry->bytes)) return false;
  const struct span block = {held, 0, entry->held_bytes, 0, RSP_HELD_COUNT};
  const struct span rest = {check, sizeof *s, entry->bytes, RSP_HELD_COUNT, RSP_TABLE_COUNT};
  if (!check_tables(check, s, &block) || !check_tables(check, s, &rest)) return false;
  struct rsp_program p;
  rsp_program_at(check->bytes, held->bytes, &p);
  if (!check_names(held, &p, entry->held_bytes)) return false;
  for (uint64_t i = 0; i < s->buffers.count; i++) {
    const struct rsp_sbuffer *b = &p.buffers[i];
    if (i && b->gid <= b[-1].gid) return rsp_broken(held, RSP_RULE_SBUFFER_ORDER, b, "gid %u", b->gid);
    if (!check_sbuffer(held, &p, b)) return false;
  }
  for (uint64_t i = 0; i < s->zeros.count; i++)
    if (!check_zeroing(held, &p, &p.zeros[i])) return false;
  return rsp_check_streams(check, header, &p, entry->bytes + entry->held_bytes, relays);
}

// ---- against the global sections -----------------------------------------------------------------------------------

static bool same_text(const char *a, const struct rsp_str *sa, const char *b, const struct rsp_str *sb) {
  return sa->len == sb->len && (!sa->len || memcmp(a + sa->off, b + sb->off, (size_t)sa->len) == 0);
}

static bool same_buffer(const struct rsp_plan *plan, const struct rsp_program *p, const struct rsp_sbuffer *row) {
  if (row->gid >= plan->buffer_count) return false;
  const struct rsp_buffer *b = &plan->buffers[row->gid];
  if (row->side != b->side || row->dtype != b->dtype || row->line != b->line || row->col != b->col) return false;
  if (!same_text(p->names, &row->name, plan->strings, &b->name) ||
      !same_text(p->names, &p->files[row->file], plan->strings, &plan->files[b->file]))
    return false;
  const struct rsp_entry *e =
      rsp_buffer_entry(plan, b, b->side == RSP_TRAIN ? p->slice->train_rank : p->slice->infer_rank);
  if (!e || e->ndim != row->ndim) return false;
  return !e->ndim || memcmp(plan->dims + e->dims, p->dims + row->dims, e->ndim * sizeof(uint64_t)) == 0;
}

static bool check_same(const struct rsp_check *check, const struct rsp_check *held, const struct rsp_plan *plan,
                       const struct rsp_program *p) {
  const struct rsp_slice *s = p->slice;
  const struct rsp_rank *rank = &plan->ranks[s->world_rank];
  if (s->train_rank != rank->train_rank || s->infer_rank != rank->infer_rank)
    return rsp_broken(check, RSP_RULE_SLICE_RANK, &s->world_rank, "rank %u", s->world_rank);
  for (uint64_t i = 0; i < s->buffers.count; i++)
    if (!same_buffer(plan, p, &p->buffers[i]))
      return rsp_broken(held, RSP_RULE_SBUFFER_SAME, &p->buffers[i], "gid %u", p->buffers[i].gid);
  return true;
}

bool rsp_check_slices(const struct rsp_check *check, const struct rsp_plan *plan) {
  uint64_t held_rows = 0, holds = 0;
  bool relays = false;
  for (uint32_t r = 0; r < plan->header->world; r++) {
    const struct rsp_dirent *entry = &plan->directory[r];
    struct rsp_check inner = {.bytes = plan->bytes + entry->off, .base = entry->off, .error = check->error};
    struct rsp_check held = {.bytes = plan->bytes + entry->held_off, .base = entry->held_off, .error = check->error};
    if (!rsp_check_slice(&inner, &held, plan->header, entry, r, &relays)) return false;
    struct rsp_program p;
    rsp_program_at(inner.bytes, held.bytes, &p);
    if (!check_same(&inner, &held, plan, &p)) return false;
    held_rows += p.slice->buffers.count;
  }
  // Rows are distinct and each is held, so equal numbers mean that none is missing.
  for (uint64_t i = 0; i < plan->buffer_count; i++) holds += plan->rankmaps[plan->buffers[i].rankmap].count;
  if (held_rows != holds)
    return rsp_broken(check, RSP_RULE_SBUFFER_ALL, plan->directory, "%llu of %llu", (unsigned long long)held_rows,
                      (unsigned long long)holds);
  if (relays != ((plan->header->features & RSP_FEATURE_RELAY) != 0))
    return rsp_broken(check, RSP_RULE_RELAY_USED, &plan->header->features, NULL);
  return true;
}
