/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the staged streams of each rank. Out: proof that no byte of staging is used by two messages at a time. A stream
 * uses its slots in turn, so each slot is busy in an arithmetic progression of rounds; two areas that share bytes are
 * compared as progressions. Areas that share none, the usual case, cost a sort.
 *
 * When staging is busy, in phases (round r: packed in r, exchanged in r + 1, unpacked in r + 2): outgoing r .. r + 1,
 * incoming r + 1 .. r + 2. A relay sends it in round r + 1, which is exchanged in phase r + 2: in time.
 */
#include <stdlib.h>

#include "plans/verify/context.h"

struct area {
  uint64_t lo, hi;             /* bytes of staging */
  uint64_t round, step, count; /* busy for rounds round + k * step, k < count */
  uint64_t from, to;           /* phases after the round, inclusive */
  const struct rsp_stream *stream;
};

struct areas {
  struct area *at;
  size_t count, capacity;
};

static int by_lo(const void *a, const void *b) {
  const struct area *x = a, *y = b;
  if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
  if (x->hi != y->hi) return x->hi < y->hi ? -1 : 1;
  return x->round < y->round ? -1 : x->round > y->round;
}

static void add_area(struct areas *areas, const struct rsp_stream *s, uint64_t first, uint64_t count, uint64_t bytes) {
  if (!count) return;
  struct area a = {.stream = s, .count = count};
  a.lo = s->stage_off + first % s->slots * s->slot_stride;
  a.hi = a.lo + bytes;
  a.round = s->round0 + first * s->step;
  a.step = (uint64_t)s->slots * s->step;
  a.from = s->dir == RSP_DIR_IN;
  a.to = a.from + 1;
  RSPV_PUSH(areas->at, areas->count, areas->capacity, a);
}

/* One area per slot, and one for the last message, which may be shorter. */
static void stream_areas(struct rspv *v, uint32_t rank, uint64_t index, struct areas *areas) {
  const struct rsp_stream *s = &v->programs[rank].streams[index];
  if (s->kind != RSP_KIND_STAGED || (s->dir != RSP_DIR_OUT && s->dir != RSP_DIR_IN)) return;
  if (s->relay != RSP_NO_STREAM) return; /* it reads the slots of the stream it passes on */
  uint64_t rounds = rsp_stream_rounds(s), tail = s->bytes - (rounds - 1) * s->quantum;
  uint64_t full = tail == s->quantum ? rounds : rounds - 1;
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, s->peer, s->round0, 0, 0};
  if (!s->slots) {
    rspv_report_add(v, RSPV_HAZARDS, place, "a staged stream has no slot");
    return;
  }
  for (uint64_t k = 0; k < s->slots && k < full && v->work.left; k++) {
    v->work.left--;
    add_area(areas, s, k, (full - k + s->slots - 1) / s->slots, s->quantum);
  }
  if (full < rounds) add_area(areas, s, full, 1, tail);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Is there a round of each so that both are busy at once? Gives the round of `a`. */
static bool meet(struct rspv *v, const struct area *a, const struct area *b, uint64_t *round) {
  /* round_a - round_b must lie in [lo, hi]. */
  int64_t lo = (int64_t)b->from - (int64_t)a->to, hi = (int64_t)b->to - (int64_t)a->from;
  int64_t apart = (int64_t)a->round - (int64_t)b->round;
  int64_t g = (int64_t)gcd(a->step, b->step);
  if (floor_div(hi - apart, g) * g < lo - apart) return false; /* the progressions never come that close */
  for (uint64_t k = 0; k < a->count && v->work.left; k++, v->work.left--) {
    /* round_b = b->round + w * step in [round_a - hi, round_a - lo] */
    int64_t at = apart + (int64_t)(k * a->step), step = (int64_t)b->step;
    int64_t first = -floor_div(hi - at, step), last = floor_div(at - lo, step);
    if (first < 0) first = 0;
    if (last >= (int64_t)b->count) last = (int64_t)b->count - 1;
    if (first > last) continue;
    *round = a->round + k * a->step;
    return true;
  }
  return false;
}

static bool clash(struct rspv *v, const struct area *a, const struct area *b, uint64_t *round) {
  uint64_t a_end = a->round + (a->count - 1) * a->step + a->to, b_end = b->round + (b->count - 1) * b->step + b->to;
  if (a_end < b->round + b->from || b_end < a->round + a->from) return false;
  return a->count <= b->count ? meet(v, a, b, round) : meet(v, b, a, round);
}

static void check_rank(struct rspv *v, uint32_t rank, struct areas *areas) {
  const struct rsp_program *program = &v->programs[rank];
  uint64_t end = 0;
  areas->count = 0;
  for (uint64_t i = 0; i < program->slice->streams.count; i++) stream_areas(v, rank, i, areas);
  if (areas->count) qsort(areas->at, areas->count, sizeof *areas->at, by_lo);
  for (size_t i = 0; i < areas->count; i++) {
    const struct area *a = &areas->at[i];
    struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, a->stream->peer, (uint32_t)a->round, 0, 0};
    if (a->hi > end) end = a->hi;
    if (a->count > 1 && a->step <= a->to - a->from)
      rspv_report_add(v, RSPV_HAZARDS, place, "a slot of staging is used again before its message is done with");
    for (size_t j = i + 1; j < areas->count && areas->at[j].lo < a->hi && v->work.left; j++) {
      uint64_t round;
      if (!clash(v, a, &areas->at[j], &round)) continue;
      const struct area *b = &areas->at[j];
      place.round = (uint32_t)round;
      if (a->stream == b->stream)
        rspv_report_add(v, RSPV_HAZARDS, place, "a slot of staging is used again before its message is done with");
      else
        rspv_report_add(v, RSPV_HAZARDS, place,
                        "two messages use the same staging at a time: those with peers %u and %u", a->stream->peer,
                        b->stream->peer);
    }
  }
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, RSPV_NONE, RSPV_NONE, 0, 0};
  if (end > program->slice->staging || program->slice->staging > v->plan->header->staging_limit)
    rspv_report_add(v, RSPV_BOUNDS, place, "staging goes beyond the rank's staging or the plan's limit");
  if (program->slice->staging > v->report->most_staging) v->report->most_staging = program->slice->staging;
  rspv_spent(v, RSPV_HAZARDS, place);
}

void rspv_hazards(struct rspv *v) {
  struct areas areas = {0};
  for (uint32_t r = 0; r < v->plan->header->world; r++) check_rank(v, r, &areas);
  free(areas.at);
}
