/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the streams of each rank. Out: proof that no round has more operations, and no rank more peers, than the header
 * allows. A staged message is one operation at each end, a direct one as many as it has contiguous runs. Rounds are
 * counted by their changes: a stream that is active in every round is two events.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

/* Changes of the number of operations, by round: a plain array where the plan has few rounds, else a list to sort. */
enum { DENSE_ROUNDS = 1 << 16 };
struct event {
  uint64_t round;
  int64_t change;
};
struct events {
  int64_t *dense; /* one per round, and one; or NULL */
  struct event *at;
  size_t count, capacity;
};

static int by_round(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  return x->round < y->round ? -1 : x->round > y->round;
}

static void busy(struct events *e, uint64_t from, uint64_t to, uint64_t ops) {
  if (e->dense) {
    e->dense[from] += (int64_t)ops;
    e->dense[to] -= (int64_t)ops;
    return;
  }
  struct event up = {from, (int64_t)ops}, down = {to, -(int64_t)ops};
  RSPV_PUSH(e->at, e->count, e->capacity, up);
  RSPV_PUSH(e->at, e->count, e->capacity, down);
}

static void start_rank(struct rspv *v, struct events *e) {
  uint64_t rounds = v->plan->header->rounds;
  e->count = 0;
  if (rounds > DENSE_ROUNDS) return;
  if (!e->dense) e->dense = rspv_xmalloc((rounds + 1) * sizeof *e->dense);
  memset(e->dense, 0, (rounds + 1) * sizeof *e->dense);
}

/* The largest sum of changes so far, and its round. */
static int64_t peak(struct rspv *v, struct events *e, uint32_t *round) {
  int64_t now = 0, most = 0;
  for (uint32_t r = 0; e->dense && r < v->plan->header->rounds; r++) {
    now += e->dense[r];
    if (now <= most) continue;
    most = now;
    *round = r;
  }
  if (e->count) qsort(e->at, e->count, sizeof *e->at, by_round);
  for (size_t i = 0; i < e->count; i++) {
    now += e->at[i].change;
    if (i + 1 < e->count && e->at[i + 1].round == e->at[i].round) continue;
    if (now <= most) continue;
    most = now;
    *round = (uint32_t)e->at[i].round;
  }
  return most;
}

static uint64_t count_staged(struct rspv *v, const struct rsp_stream *s, struct events *e) {
  uint64_t rounds = rsp_stream_rounds(s);
  if (s->step == 1) {
    busy(e, s->round0, s->round0 + rounds, 1);
    return rounds;
  }
  for (uint64_t i = 0; i < rounds && v->work.left; i++, v->work.left--)
    busy(e, s->round0 + i * s->step, s->round0 + i * s->step + 1, 1);
  return rounds;
}

/* Bytes [at, end) of a stream, in runs of `run` bytes; the first may have begun `before` bytes earlier. */
struct segment {
  uint64_t at, end, run, before;
};
struct segments {
  struct segment *at;
  size_t count, capacity;
};

static void part_segments(const struct rspv_body *body, const struct rsp_part *part, uint64_t at,
                          struct segments *out) {
  uint64_t begin = 0, wire = body->wire_bytes;
  for (uint64_t i = 0; i < body->desc_count && begin < part->hi; i++) {
    const struct rsp_shape *d = &body->shapes[body->descs[i].shape];
    uint64_t elems = d->run;
    for (uint32_t l = 0; l < d->loop_count; l++) elems *= body->loops[d->loops + l].count;
    uint64_t end = begin + elems, from = part->lo > begin ? part->lo : begin, to = part->hi < end ? part->hi : end;
    if (from < to) {
      struct segment s = {at + (from - part->lo) * wire, at + (to - part->lo) * wire, d->run * wire,
                          (from - begin) % d->run * wire};
      RSPV_PUSH(out->at, out->count, out->capacity, s);
    }
    begin = end;
  }
}

static uint64_t runs_in(const struct segment *s, uint64_t lo, uint64_t hi) {
  uint64_t from = lo > s->at ? lo : s->at, to = hi < s->end ? hi : s->end;
  if (from >= to) return 0;
  return (to - 1 - s->at + s->before) / s->run - (from - s->at + s->before) / s->run + 1;
}

static uint64_t count_direct(struct rspv *v, uint32_t rank, const struct rsp_stream *s, struct segments *segments,
                             struct events *e) {
  uint64_t at = 0, total = 0, rounds = rsp_stream_rounds(s), quantum = s->quantum < s->bytes ? s->quantum : s->bytes;
  size_t first = 0;
  const struct rsp_stream *from = s->relay == RSP_NO_STREAM ? s : &v->programs[rank].streams[s->relay];
  segments->count = 0;
  for (uint64_t p = 0; p < from->part_count; p++) {
    const struct rsp_part *part = &v->programs[rank].parts[from->parts + p];
    const struct rspv_body *body = &v->bodies[v->body_of[rank][part->body]];
    part_segments(body, part, at, segments);
    at += (part->hi - part->lo) * body->wire_bytes;
  }
  for (uint64_t i = 0; i < rounds && v->work.left; i++, v->work.left--) {
    uint64_t lo = i * quantum, hi = lo + quantum, ops = 0;
    while (first < segments->count && segments->at[first].end <= lo) first++;
    for (size_t k = first; k < segments->count && segments->at[k].at < hi; k++)
      ops += runs_in(&segments->at[k], lo, hi);
    busy(e, s->round0 + i * s->step, s->round0 + i * s->step + 1, ops);
    total += ops;
  }
  return total;
}

static void check_ops(struct rspv *v, uint32_t rank, struct events *e) {
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, RSPV_NONE, RSPV_NONE, 0, 0};
  int64_t most = peak(v, e, &place.round);
  if (most > v->plan->header->max_ops)
    rspv_report_add(v, RSPV_BOUNDS, place, "%" PRId64 " operations in a round, the limit is %u", most,
                    v->plan->header->max_ops);
  if (most > v->report->busiest_ops) v->report->busiest_ops = most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

static void check_peers(struct rspv *v, uint32_t rank, unsigned char *seen) {
  const struct rsp_program *program = &v->programs[rank];
  uint32_t peers = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint64_t i = 0; i < program->slice->streams.count; i++) {
      uint32_t peer = program->streams[i].peer;
      if (!pass && peer != rank && !seen[peer]) peers++;
      seen[peer] = !pass;
    }
  }
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, RSPV_NONE, RSPV_NONE, 0, 0};
  uint32_t limit = v->plan->header->max_peers;
  if (limit && peers > limit) rspv_report_add(v, RSPV_BOUNDS, place, "%u peers, the limit is %u", peers, limit);
  if (peers > v->report->most_peers) v->report->most_peers = peers;
}

void rspv_ops(struct rspv *v) {
  struct events events = {0};
  struct segments segments = {0};
  unsigned char *seen = rspv_xcalloc(v->plan->header->world, 1);
  for (uint32_t r = 0; r < v->plan->header->world; r++) {
    const struct rsp_program *program = &v->programs[r];
    struct rspv_place place = {RSPV_NONE, RSPV_NONE, r, RSPV_NONE, RSPV_NONE, 0, 0};
    start_rank(v, &events);
    for (uint64_t i = 0; i < program->slice->streams.count; i++) {
      const struct rsp_stream *s = &program->streams[i];
      if (s->dir != RSP_DIR_OUT && s->dir != RSP_DIR_IN) continue;
      uint64_t messages =
          s->kind == RSP_KIND_DIRECT ? count_direct(v, r, s, &segments, &events) : count_staged(v, s, &events);
      if (s->dir == RSP_DIR_OUT) v->report->messages += messages;
    }
    check_ops(v, r, &events);
    check_peers(v, r, seen);
    if (rspv_spent(v, RSPV_BOUNDS, place)) break;
  }
  free(seen);
  free(events.at);
  free(events.dense);
  free(segments.at);
}
