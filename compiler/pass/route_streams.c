/* SPDX-License-Identifier: Apache-2.0
 *
 * In: legs. Out: streams. Legs that take the same way become one stream per hop; the parts of all hops of a way are the
 * same, so that a hop can pass on what the one before brought, byte for byte.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/route_impl.h"

struct sortable {
  const struct rsc_leg *leg;
  bool direct;
  uint32_t wire_bytes;
};

static int compare_int(int64_t a, int64_t b) {
  return a < b ? -1 : a > b;
}

/* Order of ways: sender, first receiver, kind, then the rest of the tree. */
static int compare_ways(const struct sortable *x, const struct sortable *y) {
  const struct rsc_nodes *a = &x->leg->nodes, *b = &y->leg->nodes;
  int c = compare_int(x->leg->src, y->leg->src);
  if (!c) c = compare_int(a->at[0].rank, b->at[0].rank);
  if (!c) c = compare_int(x->direct, y->direct);
  if (!c) c = compare_int((int64_t)a->len, (int64_t)b->len);
  for (size_t i = 0; i < a->len && !c; i++) {
    c = compare_int(a->at[i].parent, b->at[i].parent);
    if (!c) c = compare_int(a->at[i].rank, b->at[i].rank);
  }
  return c;
}

static int compare_legs(const void *a, const void *b) {
  const struct sortable *x = a, *y = b;
  int c = compare_ways(x, y);
  if (!c) c = compare_int(y->wire_bytes, x->wire_bytes);
  if (!c) c = compare_int(x->leg->group, y->leg->group);
  if (!c) c = compare_int(x->leg->lo, y->leg->lo);
  for (size_t i = 0; i < x->leg->nodes.len && !c; i++)
    c = compare_int(x->leg->nodes.at[i].end, y->leg->nodes.at[i].end);
  return c;
}

struct streams {
  struct rsc_stream *at;
  struct rsc_part *parts; /* of all of them */
  size_t len, part_count;
};

/* A slice that follows its neighbour by the same way into the same ends at every hop is one part with it. */
static bool joins(const struct rsc_leg *a, const struct rsc_leg *b) {
  if (a->group != b->group || a->hi != b->lo || a->src_end != b->src_end) return false;
  for (size_t i = 0; i < a->nodes.len; i++)
    if (a->nodes.at[i].end != b->nodes.at[i].end) return false;
  return true;
}

/* Parts of each stream of a way: its legs but for those that join. */
static size_t count_parts(const struct sortable *legs, size_t count) {
  size_t parts = count;
  for (size_t i = 1; i < count; i++) parts -= joins(legs[i - 1].leg, legs[i].leg);
  return parts;
}

static void add_parts(struct rsc_stream *s, const struct sortable *legs, size_t count, size_t node) {
  for (size_t i = 0; i < count; i++) {
    const struct rsc_leg *leg = legs[i].leg;
    const struct rsc_node *at = &leg->nodes.at[node];
    if (i && joins(legs[i - 1].leg, leg))
      s->parts.at[s->parts.len - 1].hi = leg->hi;
    else
      s->parts.at[s->parts.len++] =
          (struct rsc_part){leg->group, at->parent < 0 ? leg->src_end : -1, at->end, leg->lo, leg->hi};
    s->bytes += (leg->hi - leg->lo) * legs[i].wire_bytes;
  }
}

static void build_way(const struct sortable *legs, size_t count, struct streams *out) {
  const struct rsc_nodes *nodes = &legs[0].leg->nodes;
  size_t first = out->len, parts = count_parts(legs, count);
  int32_t deepest = 0;
  for (size_t n = 0; n < nodes->len; n++) {
    const struct rsc_node *node = &nodes->at[n];
    struct rsc_stream *s = &out->at[out->len++];
    *s = (struct rsc_stream){.dst = node->rank, .direct = legs[0].direct, .root = (int64_t)first, .parent = -1};
    s->src = node->parent < 0 ? legs[0].leg->src : nodes->at[node->parent].rank;
    if (node->parent >= 0) {
      s->parent = (int64_t)first + node->parent;
      s->depth = out->at[s->parent].depth + 1;
    }
    if (s->depth > deepest) deepest = s->depth;
    s->parts.at = out->parts + out->part_count;
    add_parts(s, legs, count, n);
    out->part_count += parts;
  }
  for (size_t n = first; n < out->len; n++) out->at[n].tail = deepest;
}

struct place {
  const struct rsc_stream *stream;
  int64_t index;
};

static int by_pair(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  int c = compare_int(x->stream->src, y->stream->src);
  if (!c) c = compare_int(x->stream->dst, y->stream->dst);
  if (!c) c = compare_int(x->stream->direct, y->stream->direct);
  if (!c) c = compare_int(!rsc_is_copy(x->stream), !rsc_is_copy(y->stream)); /* a local copy has tag 0 */
  return c ? c : compare_int(x->index, y->index);
}

/* Puts each stream where `moved` says; there may be too many for a second array of them. */
static void move_streams(struct rsc_stream *streams, int64_t *moved, size_t count) {
  for (size_t i = 0; i < count; i++) {
    while (moved[i] != (int64_t)i) {
      int64_t to = moved[i];
      struct rsc_stream s = streams[to];
      streams[to] = streams[i];
      streams[i] = s;
      moved[i] = moved[to];
      moved[to] = to;
    }
  }
}

/* Sorts by ends and kind, numbers equals by tags, and lets parents point to the new places. */
static void order_streams(struct rsc_router *r, const struct streams *list) {
  struct place *places = RSC_ARRAY(r->scratch, struct place, list->len);
  int64_t *moved = RSC_ARRAY(r->scratch, int64_t, list->len);
  struct rsc_stream *out = list->at;
  for (size_t i = 0; i < list->len; i++) places[i] = (struct place){&out[i], (int64_t)i};
  qsort(places, list->len, sizeof *places, by_pair);
  for (size_t i = 0; i < list->len; i++) moved[places[i].index] = (int64_t)i;
  for (size_t i = 0; i < list->len; i++) {
    out[i].root = moved[out[i].root];
    if (out[i].parent >= 0) out[i].parent = moved[out[i].parent];
  }
  move_streams(out, moved, list->len);
  for (size_t i = 0; i < list->len; i++) {
    const struct rsc_stream *before = i ? &out[i - 1] : NULL;
    bool alike = before && before->src == out[i].src && before->dst == out[i].dst && before->direct == out[i].direct;
    out[i].tag = alike ? before->tag + 1 : 0;
    r->out->link_bytes[rsc_link_between(r->cluster, out[i].src, out[i].dst)] += out[i].bytes;
  }
  r->out->streams = out;
  r->out->stream_count = (int64_t)list->len;
}

static size_t end_of_way(const struct sortable *legs, size_t from, size_t count) {
  size_t to = from + 1;
  while (to < count && compare_ways(&legs[from], &legs[to]) == 0) to++;
  return to;
}

void rsc_route_streams(struct rsc_router *r) {
  struct sortable *legs = RSC_ARRAY(r->scratch, struct sortable, r->legs.len);
  struct streams list = {0};
  size_t streams = 0, parts = 0;
  for (size_t i = 0; i < r->legs.len; i++) {
    const struct rsc_leg *leg = &r->legs.at[i];
    const struct rsc_group *g = &r->flows->groups[leg->group];
    legs[i] = (struct sortable){leg, g->direct && leg->src != leg->nodes.at[0].rank, g->wire_bytes};
  }
  qsort(legs, r->legs.len, sizeof *legs, compare_legs);
  for (size_t i = 0, next; i < r->legs.len; i = next) {
    next = end_of_way(legs, i, r->legs.len);
    streams += legs[i].leg->nodes.len;
    parts += legs[i].leg->nodes.len * count_parts(legs + i, next - i);
  }
  list.at = RSC_ARRAY(r->arena, struct rsc_stream, streams);
  list.parts = RSC_ARRAY(r->arena, struct rsc_part, parts);
  for (size_t i = 0, next; i < r->legs.len; i = next) {
    next = end_of_way(legs, i, r->legs.len);
    build_way(legs + i, next - i, &list);
  }
  order_streams(r, &list);
}
