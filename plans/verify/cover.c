/* SPDX-License-Identifier: Apache-2.0
 *
 * In: what each inference rank receives. Out: proof that it is what its buffers want, once, and that its padding and
 * nothing else is zeroed; the counts of the summary. Ranks that receive the same ranges of the same programs into the
 * same entries share one proof, buffers with the same entry and the same stretches share one verdict.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

struct tally {
  uint64_t delivered, bytes, excused;
};

struct cover {
  struct rspv *v;
  struct rspv_table rank_table, verdict_table, zero_table;
  struct tally *tallies;
  size_t tally_count, tally_capacity;
  struct rspv_verdict **verdicts;
  size_t verdict_count, verdict_capacity;
  uint64_t *zero_where; /* UINT64_MAX: right */
  size_t zero_count, zero_capacity;
  uint64_t *words; /* scratch */
  size_t word_count, word_capacity;
  struct rspv_writes *writes;
  size_t write_count, write_capacity;
};

struct range {
  uint32_t body;
  uint64_t lo, hi;
};

static int by_body(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->body != y->body) return x->body < y->body ? -1 : 1;
  if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
  return x->hi < y->hi ? -1 : x->hi > y->hi;
}

static int by_gid(const void *a, const void *b) {
  const struct rspv_writes *x = a, *y = b;
  if (x->gid != y->gid) return x->gid < y->gid ? -1 : 1;
  return x->nest < y->nest ? -1 : x->nest > y->nest;
}

static void put(struct cover *c, uint64_t word) {
  RSPV_PUSH(c->words, c->word_count, c->word_capacity, word);
}

/* What a rank receives, ranges that meet joined. */
static struct range *received(struct rspv *v, uint32_t rank, size_t *count) {
  const struct rsp_program *program = &v->programs[rank];
  struct range *ranges = NULL;
  size_t capacity = 0;
  *count = 0;
  for (uint64_t i = 0; i < program->slice->streams.count; i++) {
    const struct rsp_stream *s = &program->streams[i];
    if (s->dir != RSP_DIR_IN && s->dir != RSP_DIR_SELF_DST) continue;
    for (uint64_t p = 0; p < s->part_count; p++) {
      const struct rsp_part *part = &program->parts[s->parts + p];
      struct range range = {v->body_of[rank][part->body], part->lo, part->hi};
      RSPV_PUSH(ranges, *count, capacity, range);
    }
  }
  if (*count) qsort(ranges, *count, sizeof *ranges, by_body);
  size_t kept = 0;
  for (size_t i = 0; i < *count; i++) {
    struct range *last = kept ? &ranges[kept - 1] : NULL;
    if (last && last->body == ranges[i].body && last->hi == ranges[i].lo)
      last->hi = ranges[i].hi;
    else
      ranges[kept++] = ranges[i];
  }
  *count = kept;
  return ranges;
}

static void gather_writes(struct cover *c, const struct range *ranges, size_t count) {
  struct rspv *v = c->v;
  c->write_count = 0;
  for (size_t i = 0; i < count; i++) {
    struct rspv_body *body = &v->bodies[ranges[i].body];
    if (ranges[i].lo || ranges[i].hi < body->elems) {
      rspv_body_writes(v, body, ranges[i].lo, ranges[i].hi, &c->writes, &c->write_count, &c->write_capacity);
      continue;
    }
    rspv_body_expand(v, body);
    for (size_t w = 0; w < body->write_count; w++)
      RSPV_PUSH(c->writes, c->write_count, c->write_capacity, body->writes[w]);
  }
  if (c->write_count) qsort(c->writes, c->write_count, sizeof *c->writes, by_gid);
}

static const struct rspv_verdict *verdict_of(struct cover *c, uint32_t entry, const struct rspv_writes *w,
                                             size_t count) {
  c->word_count = 0;
  put(c, entry);
  for (size_t i = 0; i < count; i++) put(c, w[i].nest);
  bool fresh;
  uint32_t number = rspv_intern(&c->verdict_table, c->words, (uint32_t)c->word_count, &fresh);
  if (fresh) {
    uint32_t *stretches = rspv_alloc(&c->v->arena, count * sizeof *stretches);
    for (size_t i = 0; i < count; i++) stretches[i] = w[i].nest;
    struct rspv_verdict *verdict = rspv_wanted(c->v, entry, stretches, (uint32_t)count);
    RSPV_PUSH(c->verdicts, c->verdict_count, c->verdict_capacity, verdict);
  }
  return c->verdicts[number];
}

static void report_double(struct rspv *v, uint32_t rank, uint32_t gid, uint32_t entry,
                          const struct rspv_verdict *verdict) {
  struct rspv_place place = {RSPV_NONE, gid, rank, RSPV_NONE, RSPV_NONE, verdict->where, verdict->where + 1};
  if (!v->report->violations[RSPV_COVER].count) place.round = rspv_locate(v, rank, gid, verdict->where);
  if (verdict->padding) {
    rspv_report_add(v, RSPV_COVER, place, "padding or a gap is written");
    return;
  }
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  struct rspv_nest *point = rspv_nest_new(&v->work, 0);
  struct rspv_nests in;
  rspv_nests_init(&in);
  point->base[RSPV_DST] = (int64_t)verdict->where;
  rspv_resolve(&v->work, &v->entries[entry].space, point, RSPV_DST, RSPV_VAL, &in, NULL);
  if (in.first) {
    uint32_t slot = v->plan->pieces[v->entries[entry].space.id[in.first->tag]].slot;
    rspv_place_range(&place, rspv_tensor_of(v, gid, slot), in.first, RSPV_VAL);
  }
  rspv_report_add(v, RSPV_COVER, place, "an element is delivered more than once");
  rspv_arena_release(&v->work.arena, mark);
}

/* Elements that a skip of the training side excuses. */
static uint64_t check_holes(struct rspv *v, uint32_t rank, uint32_t gid, const struct rspv_verdict *verdict) {
  uint64_t excused = 0;
  for (const struct rspv_hole *h = verdict->holes; h; h = h->next) {
    uint32_t tensor = rspv_tensor_of(v, gid, h->slot);
    bool may = v->plan->tensors[tensor].flags & RSP_TENSOR_SKIP_TRAIN;
    if (may && !rspv_supplied(v, tensor, h->nest)) {
      excused += rspv_nest_volume(h->nest);
      continue;
    }
    struct rspv_place place = {RSPV_NONE, gid, rank, RSPV_NONE, RSPV_NONE, 0, 0};
    rspv_place_range(&place, tensor, h->nest, RSPV_VAL);
    rspv_report_add(v, RSPV_COVER, place,
                    may ? "a wanted element is not delivered, though a training buffer holds it"
                        : "a wanted element is not delivered");
  }
  return excused;
}

static void check_buffer(struct cover *c, uint32_t rank, uint32_t gid, const struct rspv_writes *w, size_t count,
                         struct tally *tally) {
  struct rspv *v = c->v;
  uint32_t entry = rspv_entry_of(v, v->profile[RSP_INFER][rank], gid);
  const struct rspv_verdict *verdict = verdict_of(c, entry, w, count);
  if (verdict->doubled) report_double(v, rank, gid, entry, verdict);
  tally->excused += check_holes(v, rank, gid, verdict);
  tally->delivered += verdict->delivered;
  tally->bytes += verdict->delivered * rsp_dtype_bytes(v->plan->buffers[gid].dtype);
  for (uint32_t i = 0; i < verdict->slot_count; i++) v->delivered[rspv_tensor_of(v, gid, verdict->slots[i])] = 1;
}

static struct tally check_rank(struct cover *c, uint32_t rank, const struct range *ranges, size_t count) {
  struct rspv *v = c->v;
  const struct rsp_program *program = &v->programs[rank];
  struct tally tally = {0};
  size_t at = 0;
  gather_writes(c, ranges, count);
  for (uint64_t i = 0; i < program->slice->buffers.count; i++) {
    const struct rsp_sbuffer *b = &program->buffers[i];
    if (b->side != RSP_INFER) continue;
    size_t first = at;
    while (first < c->write_count && c->writes[first].gid < b->gid) first++;
    for (at = first; at < c->write_count && c->writes[at].gid == b->gid; at++) continue;
    check_buffer(c, rank, b->gid, c->writes + first, at - first, &tally);
  }
  return tally;
}

static void cover_rank(struct cover *c, uint32_t rank) {
  struct rspv *v = c->v;
  size_t count;
  struct range *ranges = received(v, rank, &count);
  c->word_count = 0;
  put(c, v->profile[RSP_INFER][rank]);
  for (size_t i = 0; i < count; i++) {
    put(c, ranges[i].body);
    put(c, ranges[i].lo);
    put(c, ranges[i].hi);
  }
  bool fresh;
  uint32_t number = rspv_intern(&c->rank_table, c->words, (uint32_t)c->word_count, &fresh);
  if (fresh) {
    struct tally tally = check_rank(c, rank, ranges, count);
    RSPV_PUSH(c->tallies, c->tally_count, c->tally_capacity, tally);
  }
  struct rspv_report *r = v->report;
  r->deliveries += c->tallies[number].delivered;
  r->bytes += c->tallies[number].bytes;
  r->excused += c->tallies[number].excused;
  free(ranges);
}

/* A zero as a nest of elements; false if it cuts through one. */
static struct rspv_nest *zero_nest(struct rspv *v, const struct rsp_program *program, const struct rsp_zero *z) {
  uint64_t size = rsp_dtype_bytes(v->plan->buffers[z->gid].dtype);
  bool good = z->off % size == 0 && z->run_bytes % size == 0;
  struct rspv_nest *n = rspv_nest_new(&v->work, z->loop_count + 1);
  n->base[RSPV_DST] = (int64_t)(z->off / size);
  n->axes = 0;
  for (uint32_t i = 0; i <= z->loop_count; i++) {
    struct rsp_zloop loop = {z->run_bytes / size, size};
    if (i < z->loop_count) loop = program->zloops[z->loops + i];
    if (loop.count <= 1) continue;
    if (loop.step % size) good = false;
    memset(&n->axis[n->axes], 0, sizeof n->axis[0]);
    n->axis[n->axes].count = loop.count;
    n->axis[n->axes++].step[RSPV_DST] = (int64_t)(loop.step / size);
  }
  return good ? n : NULL;
}

static void gather_zeros(struct cover *c, uint32_t rank) {
  struct rspv *v = c->v;
  const struct rsp_program *program = &v->programs[rank];
  c->write_count = 0;
  for (uint64_t i = 0; i < program->slice->zeros.count; i++) {
    const struct rsp_zero *z = &program->zeros[i];
    struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
    struct rspv_nest *n = zero_nest(v, program, z);
    struct rspv_place place = {RSPV_NONE, z->gid, rank, RSPV_NONE, RSPV_NONE, 0, 0};
    if (n)
      rspv_nest_writes(v, z->gid, n, &c->writes, &c->write_count, &c->write_capacity);
    else
      rspv_report_add(v, RSPV_COVER, place, "what is zeroed begins or ends in the middle of an element");
    rspv_arena_release(&v->work.arena, mark);
  }
  if (c->write_count) qsort(c->writes, c->write_count, sizeof *c->writes, by_gid);
}

static uint64_t zero_verdict(struct cover *c, uint32_t entry, const struct rspv_writes *w, size_t count) {
  struct rspv *v = c->v;
  c->word_count = 0;
  put(c, entry);
  for (size_t i = 0; i < count; i++) put(c, w[i].nest);
  bool fresh;
  uint32_t number = rspv_intern(&c->zero_table, c->words, (uint32_t)c->word_count, &fresh);
  if (fresh) {
    struct rspv_lattice *lattices = rspv_alloc(&v->arena, count * sizeof *lattices);
    for (size_t i = 0; i < count; i++) lattices[i] = v->stretches[w[i].nest];
    uint64_t where = UINT64_MAX, found;
    if (!rspv_padding(v, entry, lattices, (uint32_t)count, &found)) where = found;
    RSPV_PUSH(c->zero_where, c->zero_count, c->zero_capacity, where);
  }
  return c->zero_where[number];
}

static void cover_padding(struct cover *c, uint32_t rank) {
  struct rspv *v = c->v;
  const struct rsp_program *program = &v->programs[rank];
  size_t at = 0;
  gather_zeros(c, rank);
  for (uint64_t i = 0; i < program->slice->buffers.count; i++) {
    const struct rsp_sbuffer *b = &program->buffers[i];
    if (b->side != RSP_INFER) continue;
    size_t first = at;
    while (at < c->write_count && c->writes[at].gid == b->gid) at++;
    uint32_t entry = rspv_entry_of(v, v->profile[RSP_INFER][rank], b->gid);
    uint64_t where = zero_verdict(c, entry, c->writes + first, at - first);
    struct rspv_place place = {RSPV_NONE, b->gid, rank, RSPV_NONE, RSPV_NONE, where, where + 1};
    if (where != UINT64_MAX)
      rspv_report_add(v, RSPV_COVER, place, "what is zeroed at prepare is not exactly the padding");
  }
}

void rspv_cover(struct rspv *v) {
  struct cover c = {.v = v};
  rspv_table_init(&c.rank_table, &v->arena);
  rspv_table_init(&c.verdict_table, &v->arena);
  rspv_table_init(&c.zero_table, &v->arena);
  v->delivered = rspv_xcalloc(v->plan->tensor_count, 1);
  for (uint32_t i = 0; i < v->plan->header->infer_world; i++) {
    uint32_t rank = v->world_of[RSP_INFER][i];
    struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, RSPV_NONE, RSPV_NONE, 0, 0};
    if (rspv_spent(v, RSPV_COVER, place)) break;
    cover_rank(&c, rank);
    cover_padding(&c, rank);
  }
  for (uint64_t t = 0; t < v->plan->tensor_count; t++) v->report->tensors += v->delivered[t];
  v->report->elements = v->report->deliveries;
  rspv_table_free(&c.rank_table);
  rspv_table_free(&c.verdict_table);
  rspv_table_free(&c.zero_table);
  free(c.tallies);
  free(c.verdicts);
  free(c.zero_where);
  free(c.words);
  free(c.writes);
}
