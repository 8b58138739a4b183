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

static int compare_int(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

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
  for (size_t i = 0; i < x->leg->nodes.len && !c; i++) c = compare_int(x->leg->nodes.at[i].end, y->leg->nodes.at[i].end);
  return c;
}

struct streams {
  RSC_VEC(struct rsc_stream);
};

/* A slice that follows its neighbour by the same way into the same ends at every hop is one part with it. */
static bool joins(const struct rsc_leg *a, const struct rsc_leg *b) {
  if (a->group != b->group || a->hi != b->lo || a->src_end != b->src_end) return false;
  for (size_t i = 0; i < a->nodes.len; i++)
    if (a->nodes.at[i].end != b->nodes.at[i].end) return false;
  return true;
}

static void build_way(struct rsc_router *r, const struct sortable *legs, size_t count, struct streams *out) {
  const struct rsc_nodes *nodes = &legs[0].leg->nodes;
  int64_t first = (int64_t)out->len;
  int32_t deepest = 0;
  for (size_t n = 0; n < nodes->len; n++) {
    const struct rsc_node *node = &nodes->at[n];
    struct rsc_stream s = {.dst = node->rank, .direct = legs[0].direct, .root = first, .parent = -1};
    s.src = node->parent < 0 ? legs[0].leg->src : nodes->at[node->parent].rank;
    if (node->parent >= 0) {
      s.parent = first + node->parent;
      s.depth = out->at[s.parent].depth + 1;
    }
    if (s.depth > deepest) deepest = s.depth;
    for (size_t i = 0; i < count; i++) {
      const struct rsc_leg *leg = legs[i].leg;
      if (i && joins(legs[i - 1].leg, leg))
        s.parts.at[s.parts.len - 1].hi = leg->hi;
      else
        *RSC_PUSH(r->arena, &s.parts) = (struct rsc_part){leg->group, node->parent < 0 ? leg->src_end : -1,
                                                          leg->nodes.at[n].end, leg->lo, leg->hi};
      s.bytes += (leg->hi - leg->lo) * legs[i].wire_bytes;
    }
    *RSC_PUSH(r->scratch, out) = s;
  }
  for (size_t n = 0; n < nodes->len; n++) out->at[(size_t)first + n].tail = deepest;
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

/* Sorts by ends and kind, numbers equals by tags, and lets parents point to the new places. */
static void order_streams(struct rsc_router *r, const struct streams *list) {
  struct place *places = RSC_ARRAY(r->scratch, struct place, list->len);
  int64_t *moved = RSC_ARRAY(r->scratch, int64_t, list->len);
  struct rsc_stream *out = RSC_ARRAY(r->arena, struct rsc_stream, list->len);
  for (size_t i = 0; i < list->len; i++) places[i] = (struct place){&list->at[i], (int64_t)i};
  qsort(places, list->len, sizeof *places, by_pair);
  for (size_t i = 0; i < list->len; i++) moved[places[i].index] = (int64_t)i;
  for (size_t i = 0; i < list->len; i++) {
    out[i] = *places[i].stream;
    out[i].root = moved[out[i].root];
    if (out[i].parent >= 0) out[i].parent = moved[out[i].parent];
    const struct rsc_stream *before = i ? &out[i - 1] : NULL;
    bool alike = before && before->src == out[i].src && before->dst == out[i].dst && before->direct == out[i].direct;
    out[i].tag = alike ? before->tag + 1 : 0;
    r->out->link_bytes[rsc_link_between(r->cluster, out[i].src, out[i].dst)] += out[i].bytes;
  }
  r->out->streams = out;
  r->out->stream_count = (int64_t)list->len;
}

void rsc_route_streams(struct rsc_router *r) {
  struct sortable *legs = RSC_ARRAY(r->scratch, struct sortable, r->legs.len);
  struct streams list = {0};
  for (size_t i = 0; i < r->legs.len; i++) {
    const struct rsc_leg *leg = &r->legs.at[i];
    const struct rsc_group *g = &r->flows->groups[leg->group];
    legs[i] = (struct sortable){leg, g->direct && leg->src != leg->nodes.at[0].rank, g->wire_bytes};
  }
  qsort(legs, r->legs.len, sizeof *legs, compare_legs);
  for (size_t i = 0, next; i < r->legs.len; i = next) {
    next = i + 1;
    while (next < r->legs.len && compare_ways(&legs[i], &legs[next]) == 0) next++;
    build_way(r, legs + i, next - i, &list);
  }
  order_streams(r, &list);
}
