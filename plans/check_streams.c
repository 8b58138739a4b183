// SPDX-License-Identifier: Apache-2.0
//
// In: a slice whose tables and buffers are sound. Out: yes, or the first rule that bodies, parts or streams break.
// Parts may be shared by many streams, so sums over them are taken once and a stream costs two look-ups.
#include "plans/check.h"

#include <stdlib.h>
#include <string.h>

// Over parts [0, i).
struct sums {
  uint64_t bytes;
  uint64_t not_src, not_dst, not_direct; /* parts whose body cannot be used so */
  uint64_t rises;                        /* parts with a wider wire than the part before */
};

static bool sum_parts(const struct rsp_work *w, struct sums *sums) {
  const struct rsp_check *check = w->check;
  const struct rsp_program *p = w->program;
  uint32_t before = UINT32_MAX;
  for (uint64_t i = 0; i < p->slice->parts.count; i++) {
    const struct rsp_part *part = &p->parts[i];
    if (part->body >= p->slice->bodies.count || part->lo >= part->hi || part->hi > p->bodies[part->body].elems)
      return rsp_broken(check, RSP_RULE_PART_RANGE, part, NULL);
    const struct rsp_body *body = &p->bodies[part->body];
    unsigned char flags = w->flags[part->body];
    struct sums *next = &sums[i + 1];
    *next = sums[i];
    // A body's bytes fit 63 bits, so the addend does.
    next->bytes += (part->hi - part->lo) * body->wire_bytes;
    if (next->bytes > INT64_MAX) return rsp_broken(check, RSP_RULE_STREAM_BYTES, part, "more than 2^63 bytes");
    next->not_src += !(flags & RSP_BODY_SRC);
    next->not_dst += !(flags & RSP_BODY_DST);
    next->not_direct += !(flags & RSP_BODY_DIRECT);
    next->rises += body->wire_bytes > before;
    before = body->wire_bytes;
  }
  return true;
}

static bool check_parts(const struct rsp_work *w, const struct rsp_stream *s, const struct sums *sums) {
  const struct rsp_check *check = w->check;
  if (!s->part_count || !rsp_inside(s->parts, s->part_count, w->program->slice->parts.count))
    return rsp_broken(check, RSP_RULE_STREAM_PARTS, s, NULL);
  const struct sums *from = &sums[s->parts], *to = &sums[s->parts + s->part_count];
  // Rises count from the second part: the first has no part before it.
  if (to->rises != from[1].rises) return rsp_broken(check, RSP_RULE_STREAM_WIRE, s, NULL);
  if (to->bytes - from->bytes != s->bytes)
    return rsp_broken(check, RSP_RULE_STREAM_BYTES, s, "%llu there, %llu said",
                      (unsigned long long)(to->bytes - from->bytes), (unsigned long long)s->bytes);
  bool out = s->dir == RSP_DIR_OUT || s->dir == RSP_DIR_SELF_SRC;
  if (out ? to->not_src != from->not_src : to->not_dst != from->not_dst)
    return rsp_broken(check, RSP_RULE_STREAM_ENDS, s, NULL);
  if (s->kind == RSP_KIND_DIRECT && to->not_direct != from->not_direct)
    return rsp_broken(check, RSP_RULE_STREAM_DIRECT, s, NULL);
  return true;
}

// What a relay passes on, in the same shares one round later. It has no parts: its bytes are the incoming stream's.
static bool check_relay(struct rsp_work *w, const struct rsp_stream *s) {
  w->relays = true;
  if (s->dir != RSP_DIR_OUT || s->relay >= w->program->slice->streams.count || s->parts || s->part_count)
    return rsp_broken(w->check, RSP_RULE_STREAM_RELAY, s, "stream %u", s->relay);
  const struct rsp_stream *in = &w->program->streams[s->relay];
  bool same = in->dir == RSP_DIR_IN && in->kind == s->kind && in->bytes == s->bytes && in->quantum == s->quantum &&
              in->step == s->step && in->round0 < UINT32_MAX && in->round0 + 1 == s->round0;
  return same || rsp_broken(w->check, RSP_RULE_STREAM_RELAY, s, "stream %u differs", s->relay);
}

static bool check_staging(const struct rsp_work *w, const struct rsp_stream *s) {
  bool relay = s->relay != RSP_NO_STREAM;
  bool staged = s->kind == RSP_KIND_STAGED && ((s->dir == RSP_DIR_OUT && !relay) || s->dir == RSP_DIR_IN);
  bool good = !s->slots && !s->stage_off && !s->slot_stride;
  if (staged) {
    uint64_t message = s->bytes < s->quantum ? s->bytes : s->quantum, last = s->stage_off;
    good = s->slots && s->stage_off % 8 == 0 && s->slot_stride % 8 == 0 && s->slot_stride >= message &&
           s->stage_off <= INT64_MAX && !rsp_extent(&last, s->slots, s->slot_stride) &&
           rsp_inside(last, message, w->program->slice->staging);
  }
  return good || rsp_broken(w->check, RSP_RULE_STREAM_STAGING, s, NULL);
}

// A rank meets itself in self streams, and where it passes on to itself: the receiving end of that is any IN stream.
static bool check_peer(const struct rsp_work *w, const struct rsp_stream *s, bool self) {
  bool own = s->peer == w->program->slice->world_rank;
  bool may = self || s->relay != RSP_NO_STREAM || s->dir == RSP_DIR_IN, must = self;
  return (s->peer < w->header->world && (own ? may : !must)) ||
         rsp_broken(w->check, RSP_RULE_STREAM_PEER, s, "peer %u", s->peer);
}

static bool check_stream(struct rsp_work *w, const struct rsp_stream *s, const struct sums *sums) {
  const struct rsp_check *check = w->check;
  bool self = s->dir == RSP_DIR_SELF_SRC || s->dir == RSP_DIR_SELF_DST;
  if (s->dir > RSP_DIR_SELF_DST || s->kind > RSP_KIND_DIRECT || (self && s->kind != RSP_KIND_STAGED))
    return rsp_broken(check, RSP_RULE_STREAM_KIND, s, "dir %u, kind %u", s->dir, s->kind);
  if (!check_peer(w, s, self)) return false;
  if (s->relay == RSP_NO_STREAM ? !check_parts(w, s, sums) : !check_relay(w, s)) return false;
  if (!s->quantum || s->quantum % 8) return rsp_broken(check, RSP_RULE_STREAM_QUANTUM, s, NULL);
  uint64_t last = s->round0;
  if (!s->step || rsp_extent(&last, rsp_stream_rounds(s), s->step) || last >= w->header->rounds)
    return rsp_broken(check, RSP_RULE_STREAM_ROUNDS, s, "last round %llu of %u", (unsigned long long)last,
                      w->header->rounds);
  return check_staging(w, s);
}

static int compare(const struct rsp_stream *a, const struct rsp_stream *b) {
  if (a->dir != b->dir) return a->dir < b->dir ? -1 : 1;
  if (a->peer != b->peer) return a->peer < b->peer ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  return a->tag < b->tag ? -1 : a->tag > b->tag;
}

// ---- the pair of self streams --------------------------------------------------------------------------------------

static bool same_shape(struct rsp_work *w, uint64_t a, uint64_t b, bool *spent) {
  const struct rsp_program *p = w->program;
  const struct rsp_body *x = &p->bodies[a], *y = &p->bodies[b];
  if (x->desc_count != y->desc_count || x->elems != y->elems || x->wire_bytes != y->wire_bytes) return false;
  *spent = x->desc_count > w->budget;
  if (*spent) return false;
  w->budget -= x->desc_count;
  for (uint64_t i = 0; i < x->desc_count; i++) {
    const struct rsp_shape *d = rsp_shape_of(p, &p->descs[x->descs + i]);
    const struct rsp_shape *e = rsp_shape_of(p, &p->descs[y->descs + i]);
    if (d == e) continue; // as nearly all are
    if (d->wire_dtype != e->wire_dtype || d->run != e->run || d->loop_count != e->loop_count) return false;
    for (uint32_t k = 0; k < d->loop_count; k++)
      if (p->loops[d->loops + k].count != p->loops[e->loops + k].count) return false;
  }
  return true;
}

static bool check_pair(struct rsp_work *w, const struct rsp_stream *src, const struct rsp_stream *dst) {
  const struct rsp_program *p = w->program;
  if (!src && !dst) return true;
  if (!src || !dst) return rsp_broken(w->check, RSP_RULE_SELF_PAIR, src ? src : dst, "one end only");
  if (src->part_count != dst->part_count || src->bytes != dst->bytes || src->quantum != dst->quantum ||
      src->round0 != dst->round0 || src->step != dst->step)
    return rsp_broken(w->check, RSP_RULE_SELF_PAIR, dst, NULL);
  uint64_t last_src = UINT64_MAX, last_dst = UINT64_MAX;
  bool spent = false;
  for (uint64_t i = 0; i < src->part_count; i++) {
    const struct rsp_part *a = &p->parts[src->parts + i], *b = &p->parts[dst->parts + i];
    if (a->lo != b->lo || a->hi != b->hi) return rsp_broken(w->check, RSP_RULE_SELF_PAIR, b, NULL);
    if (a->body == last_src && b->body == last_dst) continue;
    if (!same_shape(w, a->body, b->body, &spent))
      return rsp_broken(w->check, spent ? RSP_RULE_DESC_WORK : RSP_RULE_SELF_PAIR, b, NULL);
    last_src = a->body;
    last_dst = b->body;
  }
  return true;
}

static bool check_all(struct rsp_work *w, const struct sums *sums) {
  const struct rsp_stream *streams = w->program->streams, *self[2] = {NULL, NULL};
  uint64_t count = w->program->slice->streams.count;
  for (uint64_t i = 0; i < count; i++) {
    const struct rsp_stream *s = &streams[i];
    if (!check_stream(w, s, sums)) return false;
    if (i && compare(s - 1, s) >= 0) return rsp_broken(w->check, RSP_RULE_STREAM_ORDER, s, NULL);
    if (s->dir < RSP_DIR_SELF_SRC) continue;
    // Peer and kind of a self stream are given, its tag is zero: the order leaves at most one of each.
    if (s->tag) return rsp_broken(w->check, RSP_RULE_SELF_PAIR, s, "tag %u", s->tag);
    self[s->dir - RSP_DIR_SELF_SRC] = s;
  }
  return check_pair(w, self[0], self[1]);
}

// Streams out and in both ascend by peer: one merge counts the distinct peers. Whoever passes on to itself is none.
static bool check_peers(const struct rsp_work *w) {
  const struct rsp_stream *streams = w->program->streams;
  uint64_t count = w->program->slice->streams.count, out = 0, peers = 0;
  if (!w->header->max_peers) return true;
  while (out < count && streams[out].dir == RSP_DIR_OUT) out++;
  uint64_t in = out, i = 0;
  while (in < count && streams[in].dir == RSP_DIR_IN) in++;
  for (uint64_t j = out; i < out || j < in;) {
    uint64_t a = i < out ? streams[i].peer : UINT64_MAX, b = j < in ? streams[j].peer : UINT64_MAX;
    uint64_t peer = a < b ? a : b;
    while (i < out && streams[i].peer == peer) i++;
    while (j < in && streams[j].peer == peer) j++;
    peers += peer != w->program->slice->world_rank;
  }
  return peers <= w->header->max_peers ||
         rsp_broken(w->check, RSP_RULE_PEERS, w->program->slice, "%llu peers", (unsigned long long)peers);
}

bool rsp_check_streams(const struct rsp_check *check, const struct rsp_header *header,
                       const struct rsp_program *program, uint64_t bytes, bool *relays) {
  struct rsp_work w = {.check = check, .header = header, .program = program, .budget = bytes * 8};
  w.flags = calloc((size_t)program->slice->bodies.count + 1, 1);
  struct sums *sums = calloc((size_t)program->slice->parts.count + 1, sizeof *sums);
  bool good = w.flags && sums ? rsp_check_bodies(&w) && sum_parts(&w, sums) && check_all(&w, sums) && check_peers(&w)
                              : rsp_no_memory(check);
  free(w.flags);
  free(sums);
  if (w.relays) *relays = true;
  return good;
}
