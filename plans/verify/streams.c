/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the streams of all slices. Out: for each ordered pair of ranks, proof that both ends move the same bytes in the
 * same rounds, described by programs of the same shape; then, part by part, what pair.c proves of their elements.
 */
#include <inttypes.h>

#include "plans/verify/context.h"

static int compare(const struct rsp_stream *s, uint32_t dir, uint32_t peer, uint32_t kind, uint32_t tag) {
  if (s->dir != dir) return s->dir < dir ? -1 : 1;
  if (s->peer != peer) return s->peer < peer ? -1 : 1;
  if (s->kind != kind) return s->kind < kind ? -1 : 1;
  return s->tag < tag ? -1 : s->tag > tag;
}

const struct rsp_stream *rspv_find_stream(const struct rsp_program *program, uint32_t dir, uint32_t peer, uint32_t kind,
                                          uint32_t tag) {
  uint64_t lo = 0, hi = program->slice->streams.count;
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    int c = compare(&program->streams[mid], dir, peer, kind, tag);
    if (c == 0) return &program->streams[mid];
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

/* Is byte k moved in the same round at both ends, in messages of the same sizes? */
static bool same_schedule(struct rspv *v, const struct rsp_stream *a, const struct rsp_stream *b,
                          struct rspv_place place) {
  uint64_t rounds = rsp_stream_rounds(a);
  place.round = a->round0 < b->round0 ? a->round0 : b->round0;
  if (a->bytes != b->bytes) {
    rspv_report_add(v, RSPV_MATCHING, place, "%" PRIu64 " bytes are sent, %" PRIu64 " are expected", a->bytes,
                    b->bytes);
    return false;
  }
  if (rsp_stream_rounds(b) != rounds || (rounds > 1 && a->quantum != b->quantum)) {
    rspv_report_add(v, RSPV_MATCHING, place, "messages of %" PRIu64 " bytes are sent, of %" PRIu64 " are expected",
                    a->quantum, b->quantum);
    return false;
  }
  if (a->round0 == b->round0 && (rounds == 1 || a->step == b->step)) return true;
  uint32_t second = a->round0 == b->round0;
  uint64_t sent = (uint64_t)a->round0 + second * a->step, expected = (uint64_t)b->round0 + second * b->step;
  place.round = (uint32_t)(sent < expected ? sent : expected);
  rspv_report_add(v, RSPV_MATCHING, place, "message %u is sent in round %" PRIu64 " and expected in round %" PRIu64,
                  second, sent, expected);
  rspv_report_add(v, RSPV_PROGRESS, place,
                  "one end waits in round %" PRIu64 " for a message that the other end handles in round %" PRIu64,
                  sent < expected ? sent : expected, sent < expected ? expected : sent);
  return false;
}

/* Where a relay's bytes come from in the end: the sender whose stream has parts. Each step back is a round earlier, so
 * there is an end to them. NULL, reported, if a step leads nowhere or into the future. */
static const struct rsp_stream *origin_of(struct rspv *v, uint32_t *rank, const struct rsp_stream *stream) {
  while (stream->relay != RSP_NO_STREAM) {
    const struct rsp_stream *in = &v->programs[*rank].streams[stream->relay];
    struct rspv_place place = {RSPV_NONE, RSPV_NONE, *rank, stream->peer, stream->round0, 0, 0};
    const struct rsp_stream *out = rspv_find_stream(&v->programs[in->peer], RSP_DIR_OUT, *rank, in->kind, in->tag);
    if (in->round0 >= stream->round0 || (out && out->round0 >= stream->round0)) {
      rspv_report_add(v, RSPV_PROGRESS, place,
                      "what is passed on in this round has not arrived: it is received in round %u", in->round0);
      return NULL;
    }
    if (!out) {
      rspv_report_add(v, RSPV_PROVENANCE, place, "what is passed on is sent by nobody");
      return NULL;
    }
    *rank = in->peer;
    stream = out;
  }
  return stream;
}

static void check_parts(struct rspv *v, struct rspv_end src, struct rspv_end dst) {
  src.stream = origin_of(v, &src.rank, src.stream);
  if (!src.stream) return;
  src.profile = v->profile[RSP_TRAIN][src.rank];
  const struct rsp_part *a = v->programs[src.rank].parts + src.stream->parts;
  const struct rsp_part *b = v->programs[dst.rank].parts + dst.stream->parts;
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, src.rank, dst.rank, src.stream->round0, 0, 0};
  if (src.stream->part_count != dst.stream->part_count) {
    rspv_report_add(v, RSPV_MATCHING, place, "%" PRIu64 " parts are sent, %" PRIu64 " are expected",
                    src.stream->part_count, dst.stream->part_count);
    return;
  }
  uint64_t at = 0;
  for (uint64_t i = 0; i < src.stream->part_count; i++) {
    place.round = rspv_round_of(src.stream, at);
    if (a[i].lo != b[i].lo || a[i].hi != b[i].hi) {
      rspv_report_add(v, RSPV_MATCHING, place, "part %" PRIu64 " has other bounds at the receiver", i);
      return;
    }
    src.body = v->body_of[src.rank][a[i].body];
    dst.body = v->body_of[dst.rank][b[i].body];
    rspv_pair(v, &src, &dst, a[i].lo, a[i].hi, at);
    at += (a[i].hi - a[i].lo) * v->bodies[src.body].wire_bytes;
  }
}

static void check_outgoing(struct rspv *v, uint32_t rank, const struct rsp_stream *stream) {
  bool self = stream->dir == RSP_DIR_SELF_SRC;
  uint32_t peer = self ? rank : stream->peer;
  const struct rsp_stream *other =
      rspv_find_stream(&v->programs[peer], self ? RSP_DIR_SELF_DST : RSP_DIR_IN, rank, stream->kind, stream->tag);
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, peer, stream->round0, 0, 0};
  if (!other) {
    rspv_report_add(v, RSPV_MATCHING, place, "%s messages are sent that the peer does not expect",
                    stream->kind == RSP_KIND_DIRECT ? "direct" : "staged");
    return;
  }
  if (!same_schedule(v, stream, other, place)) return;
  struct rspv_end src = {rank, v->profile[RSP_TRAIN][rank], 0, stream};
  struct rspv_end dst = {peer, v->profile[RSP_INFER][peer], 0, other};
  check_parts(v, src, dst);
}

static void check_incoming(struct rspv *v, uint32_t rank, const struct rsp_stream *stream) {
  bool self = stream->dir == RSP_DIR_SELF_DST;
  uint32_t peer = self ? rank : stream->peer;
  if (rspv_find_stream(&v->programs[peer], self ? RSP_DIR_SELF_SRC : RSP_DIR_OUT, rank, stream->kind, stream->tag))
    return;
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, peer, stream->round0, 0, 0};
  rspv_report_add(v, RSPV_MATCHING, place, "%s messages are expected that the peer does not send",
                  stream->kind == RSP_KIND_DIRECT ? "direct" : "staged");
}

static void count_bytes(struct rspv *v, uint32_t rank, const struct rsp_stream *stream) {
  struct rspv_report *r = v->report;
  const struct rsp_rank *ranks = v->plan->ranks;
  if (stream->peer == rank)
    r->local_bytes += stream->bytes;
  else if (ranks[rank].domain == ranks[stream->peer].domain)
    r->nvlink_bytes += stream->bytes;
  else
    r->network_bytes += stream->bytes;
}

static void check_rank(struct rspv *v, uint32_t rank) {
  const struct rsp_program *program = &v->programs[rank];
  for (uint64_t i = 0; i < program->slice->streams.count; i++) {
    const struct rsp_stream *s = &program->streams[i];
    uint64_t end = (uint64_t)s->round0 + (rsp_stream_rounds(s) - 1) * s->step;
    if (end >= v->plan->header->rounds) {
      struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, s->peer, RSPV_NONE, 0, 0};
      rspv_report_add(v, RSPV_PROGRESS, place, "a stream goes on after the last round");
    } else if (s->dir == RSP_DIR_OUT || s->dir == RSP_DIR_SELF_SRC) {
      count_bytes(v, rank, s);
      check_outgoing(v, rank, s);
    } else {
      check_incoming(v, rank, s);
    }
  }
}

void rspv_streams(struct rspv *v) {
  rspv_table_init(&v->pair_table, &v->arena);
  for (uint32_t r = 0; r < v->plan->header->world; r++) check_rank(v, r);
  v->report->program_pairs = v->pair_count;
}
