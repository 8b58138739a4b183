// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: its streams joined end to end, and the tensors that a stream moves.
#include <stdlib.h>
#include <string.h>

#include "tools/explain.h"

static void *alloc(size_t count, size_t size) {
  void *at = calloc(count + 1, size);
  if (!at) abort();
  return at;
}

// ---- streams end to end --------------------------------------------------------------------------------------------

static uint64_t first_in(const struct rsp_program *p) {
  uint64_t i = 0;
  while (i < p->slice->streams.count && p->streams[i].dir == RSP_DIR_OUT) i++;
  return i;
}

// Both ends keep one order: by rank, kind and tag.
static void join(struct explain *e) {
  uint32_t world = e->plan->header->world;
  uint64_t *next = alloc(world, sizeof *next);
  for (uint32_t r = 0; r < world; r++) next[r] = first_in(&e->ranks[r].program);
  for (uint32_t r = 0; r < world; r++) {
    const struct rsp_program *p = &e->ranks[r].program;
    for (uint64_t i = 0; i < p->slice->streams.count && p->streams[i].dir == RSP_DIR_OUT; i++) {
      const struct rsp_stream *s = &p->streams[i];
      struct explain_rank *to = &e->ranks[s->peer];
      uint64_t j = next[s->peer];
      const struct rsp_stream *in = &to->program.streams[j];
      if (j == to->program.slice->streams.count || in->dir != RSP_DIR_IN || in->peer != r || in->kind != s->kind ||
          in->tag != s->tag)
        continue; // a plan that is not right
      e->ranks[r].other[i] = (uint32_t)j;
      to->other[j] = (uint32_t)i;
      next[s->peer]++;
    }
  }
  free(next);
}

void explain_open(struct explain *e, const char *program, const struct rsp_plan *plan) {
  uint64_t entries = plan->header->sections[RSP_SEC_ENTRIES].count;
  *e = (struct explain){.program = program, .plan = plan};
  e->ranks = alloc(plan->header->world, sizeof *e->ranks);
  e->spans = alloc((size_t)entries, sizeof *e->spans);
  e->span_count = alloc((size_t)entries, sizeof *e->span_count);
  for (uint32_t r = 0; r < plan->header->world; r++) {
    rsp_program_of(plan, r, &e->ranks[r].program);
    uint64_t streams = e->ranks[r].program.slice->streams.count;
    e->ranks[r].other = alloc((size_t)streams, sizeof(uint32_t));
    for (uint64_t i = 0; i < streams; i++) e->ranks[r].other[i] = RSP_NO_STREAM;
  }
  join(e);
  rsp_sim_cluster_of(plan, &e->cluster);
  if (!rsp_sim_cluster_usable(plan, &e->cluster)) { // nothing is said of time then that means anything; of bytes all is
    for (int k = 0; k < RSP_SIM_LINKS; k++)
      for (uint32_t r = 0; r < plan->header->world; r++) e->cluster.rate[k][r] = 1e9;
    e->cluster.network_latency = e->cluster.nvlink_latency = e->cluster.issue_seconds = 0;
  }
  rsp_simulate(plan, &e->cluster, NULL, NULL, &e->sim);
  rsp_bound_of(plan, &e->cluster, &e->bound);
}

void explain_close(struct explain *e) {
  for (uint32_t r = 0; r < e->plan->header->world; r++) free(e->ranks[r].other);
  for (uint64_t i = 0; i < e->plan->header->sections[RSP_SEC_ENTRIES].count; i++) free(e->spans[i]);
  free(e->ranks);
  free(e->useful);
  free(e->spans);
  free(e->span_count);
  rsp_sim_result_free(&e->sim);
  rsp_sim_cluster_free(&e->cluster);
}

const struct rsp_stream *explain_root(const struct explain *e, uint32_t *rank, const struct rsp_stream *stream) {
  while (stream->relay != RSP_NO_STREAM) {
    const struct explain_rank *r = &e->ranks[*rank];
    uint32_t out = r->other[stream->relay];
    if (out == RSP_NO_STREAM) return NULL;
    *rank = r->program.streams[stream->relay].peer;
    stream = &e->ranks[*rank].program.streams[out];
  }
  return stream;
}

const char *explain_rank_text(const struct rsp_plan *plan, uint32_t rank, uint32_t side, char buffer[32]) {
  const struct rsp_rank *r = &plan->ranks[rank];
  if (r->infer_rank == RSP_NO_RANK || (side == RSP_TRAIN && r->train_rank != RSP_NO_RANK))
    snprintf(buffer, 32, "train %u", r->train_rank);
  else
    snprintf(buffer, 32, "infer %u", r->infer_rank);
  return buffer;
}

// ---- tensors of a stream -------------------------------------------------------------------------------------------

static int by_lo(const void *a, const void *b) {
  const struct explain_span *x = a, *y = b;
  return x->lo < y->lo ? -1 : x->lo > y->lo;
}

// Where each slot's elements lie in the local buffer.
static void make_spans(struct explain *e, uint64_t entry) {
  const struct rsp_plan *plan = e->plan;
  const struct rsp_entry *row = &plan->entries[entry];
  size_t count = 0, capacity = 0;
  struct explain_span *at = NULL;
  for (uint64_t i = 0; i < row->piece_count; i++) {
    const struct rsp_piece *piece = &plan->pieces[row->pieces + i];
    const struct rsp_ploop *loops = plan->ploops + piece->loops;
    if (piece->slot >= RSP_SLOT_GAP) continue;
    uint32_t outer = piece->loop_count;
    uint64_t run = 1, turn[64] = {0}, b = piece->b0;
    while (outer && loops[outer - 1].b_step == run) run *= loops[--outer].count;
    for (;;) {
      if (count == capacity) {
        capacity = capacity ? capacity * 2 : 16;
        at = realloc(at, capacity * sizeof *at);
        if (!at) abort();
      }
      at[count++] = (struct explain_span){b, b + run, piece->slot};
      uint32_t k = outer;
      while (k-- > 0) {
        b += loops[k].b_step;
        if (++turn[k] < loops[k].count) break;
        b -= loops[k].count * loops[k].b_step;
        turn[k] = 0;
      }
      if (k == UINT32_MAX) break;
    }
  }
  if (count) qsort(at, count, sizeof *at, by_lo);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept && at[kept - 1].hi == at[i].lo && at[kept - 1].slot == at[i].slot)
      at[kept - 1].hi = at[i].hi;
    else
      at[kept++] = at[i];
  }
  e->spans[entry] = at ? at : alloc(1, sizeof *at);
  e->span_count[entry] = kept;
}

struct teller {
  struct explain *e;
  uint32_t rank;
  const bool *only;
  explain_fn fn;
  void *user;
  uint32_t gid; /* what the rest is of */
  const struct explain_span *spans;
  size_t span_count;
  uint64_t elem, wire; /* bytes of an element in the buffer, on the wire */
  bool useless;        /* the buffer has nothing of `only` */
};

static void turn_to(struct teller *t, uint32_t gid) {
  const struct rsp_plan *plan = t->e->plan;
  const struct rsp_buffer *b = &plan->buffers[gid];
  const struct rsp_rank *rank = &plan->ranks[t->rank];
  uint32_t side_rank = b->side == RSP_TRAIN ? rank->train_rank : rank->infer_rank;
  const struct rsp_entry *entry = rsp_buffer_entry(plan, b, side_rank);
  t->gid = gid;
  t->span_count = 0;
  t->elem = rsp_dtype_bytes(b->dtype);
  t->useless = t->only != NULL;
  for (uint32_t s = 0; s < plan->classes[b->klass].slot_count && t->useless; s++)
    t->useless = !t->only[plan->slots[b->slots + s]];
  if (t->useless || !entry) return;
  uint64_t index = (uint64_t)(entry - plan->entries);
  if (!t->e->spans[index]) make_spans(t->e, index);
  t->spans = t->e->spans[index];
  t->span_count = t->e->span_count[index];
}

// A run of elements of the buffer: whose are they?
static void tell_run(struct teller *t, uint64_t lo, uint64_t hi) {
  size_t a = 0, b = t->span_count;
  while (a < b) {
    size_t mid = (a + b) / 2;
    if (t->spans[mid].hi <= lo)
      a = mid + 1;
    else
      b = mid;
  }
  const uint32_t *slots = t->e->plan->slots + t->e->plan->buffers[t->gid].slots;
  for (; a < t->span_count && t->spans[a].lo < hi; a++) {
    uint64_t from = t->spans[a].lo > lo ? t->spans[a].lo : lo, to = t->spans[a].hi < hi ? t->spans[a].hi : hi;
    uint32_t tensor = slots[t->spans[a].slot];
    if (!t->only || t->only[tensor]) t->fn(t->user, tensor, t->gid, (to - from) * t->wire);
  }
}

// Elements [lo, hi) of a descriptor.
static void tell_desc(struct teller *t, const struct rsp_desc *d, uint64_t lo, uint64_t hi) {
  const struct rsp_program *p = &t->e->ranks[t->rank].program;
  uint64_t run = rsp_shape_of(p, d)->run;
  while (lo < hi) {
    uint64_t end = (lo / run + 1) * run, off;
    uint32_t gid;
    plan_desc_at(p, d, lo, &gid, &off);
    if (gid != t->gid) turn_to(t, gid);
    if (end > hi) end = hi;
    if (!t->useless) tell_run(t, off / t->elem, off / t->elem + (end - lo));
    lo = end;
  }
}

// Whether any turn of the descriptor's loops meets a buffer that has something of `only`.
static bool may_meet(const struct teller *t, const struct rsp_desc *d) {
  const struct rsp_program *p = &t->e->ranks[t->rank].program;
  const struct rsp_shape *shape = rsp_shape_of(p, d);
  int64_t lo = d->ref, hi = d->ref;
  for (uint32_t i = 0; i < shape->loop_count; i++) {
    const struct rsp_loop *loop = &p->loops[shape->loops + i];
    int64_t far = (int64_t)(loop->count - 1) * loop->ref_step;
    *(far < 0 ? &lo : &hi) += far;
  }
  for (int64_t gid = lo; gid <= hi; gid++)
    if (t->e->useful[gid]) return true;
  return false;
}

static void find_useful(struct explain *e, const bool *only) {
  const struct rsp_plan *plan = e->plan;
  if (e->useful_for == only) return;
  free(e->useful);
  e->useful = alloc((size_t)plan->buffer_count, 1);
  e->useful_for = only;
  for (uint64_t g = 0; g < plan->buffer_count; g++)
    for (uint32_t s = 0; s < plan->classes[plan->buffers[g].klass].slot_count; s++)
      if (only[plan->slots[plan->buffers[g].slots + s]]) e->useful[g] = 1;
}

void explain_stream(struct explain *e, uint32_t rank, const struct rsp_stream *stream, const bool *only, explain_fn fn,
                    void *user) {
  const struct rsp_program *p = &e->ranks[rank].program;
  struct teller t = {.e = e, .rank = rank, .only = only, .fn = fn, .user = user, .gid = UINT32_MAX};
  if (only) find_useful(e, only);
  for (uint64_t i = 0; i < stream->part_count; i++) {
    const struct rsp_part *part = &p->parts[stream->parts + i];
    const struct rsp_body *body = &p->bodies[part->body];
    uint64_t first = 0;
    t.wire = body->wire_bytes;
    for (uint64_t k = 0; k < body->desc_count && first < part->hi; k++) {
      const struct rsp_desc *d = &p->descs[body->descs + k];
      uint64_t end = first + plan_desc_elems(p, d);
      uint64_t lo = part->lo > first ? part->lo : first, hi = part->hi < end ? part->hi : end;
      if (lo < hi && (!only || may_meet(&t, d))) tell_desc(&t, d, lo - first, hi - first);
      first = end;
    }
  }
}
