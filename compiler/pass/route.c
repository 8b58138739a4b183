/* SPDX-License-Identifier: Apache-2.0
 *
 * In: groups with the sets of their possible senders and of their receivers. Out: streams between pairs of processes.
 * Groups with the least choice go first, then the largest, so that the load evens out over those that can choose.
 */
#include "compiler/pass/route.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE_MIN = 1 << 20 }; /* bytes below which a group is not divided among senders */

struct leg {
  int64_t src, dst;
  struct rsc_part part;
  uint32_t wire_bytes;
  bool direct;
};

struct legs {
  RSC_VEC(struct leg);
};

struct router {
  struct rsc_arena *arena, *scratch;
  const struct rsc_pairs *pairs;
  const struct rsc_flows *flows;
  const struct rsc_cluster *cluster;
  int64_t *load; /* bytes sent so far, per world rank */
  struct legs legs;
};

static const struct rsc_rankset *senders_of(const struct router *r, const struct rsc_group *g, int32_t alternative) {
  return &r->pairs->placement[RSC_TRAIN]->ranksets[g->senders[alternative]];
}

static int64_t holder_count(const struct router *r, const struct rsc_group *g) {
  int64_t n = 0;
  for (int32_t k = 0; k < g->alternatives; k++) n += senders_of(r, g, k)->count;
  return n;
}

struct choice {
  int64_t src;
  int32_t alternative;
};

/* Near before far, then the least loaded, then the lowest rank. */
static struct choice choose(const struct router *r, const struct rsc_group *g, int64_t dst) {
  struct choice best = {-1, 0};
  enum rsc_link best_link = RSC_LINK_NETWORK;
  for (int32_t k = 0; k < g->alternatives; k++) {
    const struct rsc_rankset *set = senders_of(r, g, k);
    for (int64_t i = 0; i < set->count; i++) {
      int64_t src = r->cluster->world_of_train[set->ranks[i]];
      enum rsc_link link = rsc_link_between(r->cluster, src, dst);
      bool better = best.src < 0 || link < best_link || (link == best_link && r->load[src] < r->load[best.src]);
      if (!better) continue;
      best = (struct choice){src, k};
      best_link = link;
    }
  }
  return best;
}

/* The group for one receiver, in `slices` nearly equal parts. */
static void send_group(struct router *r, int32_t index, int64_t dst, int64_t slices) {
  const struct rsc_group *g = &r->flows->groups[index];
  for (int64_t s = 0; s < slices; s++) {
    int64_t lo = g->elems / slices * s + (g->elems % slices) * s / slices;
    int64_t hi = g->elems / slices * (s + 1) + (g->elems % slices) * (s + 1) / slices;
    struct choice c = choose(r, g, dst);
    if (c.src != dst) r->load[c.src] += (hi - lo) * g->wire_bytes;
    *RSC_PUSH(r->scratch, &r->legs) =
        (struct leg){c.src, dst, {index, c.alternative, lo, hi}, g->wire_bytes, g->direct};
  }
}

static void route_group(struct router *r, int32_t index) {
  const struct rsc_group *g = &r->flows->groups[index];
  const struct rsc_rankset *to = &r->pairs->placement[RSC_INFER]->ranksets[g->receivers];
  if (g->elems == 0) return;
  int64_t slices = holder_count(r, g) / to->count, most = g->elems * g->wire_bytes / SLICE_MIN;
  if (slices > most) slices = most;
  if (slices < 1) slices = 1;
  for (int64_t i = 0; i < to->count; i++) send_group(r, index, r->cluster->world_of_infer[to->ranks[i]], slices);
}

struct turn {
  int32_t group;
  int64_t holders, bytes;
};

static int by_choice_and_size(const void *a, const void *b) {
  const struct turn *x = a, *y = b;
  if (x->holders != y->holders) return x->holders < y->holders ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->group < y->group ? -1 : 1;
}

static int by_stream(const void *a, const void *b) {
  const struct leg *x = a, *y = b;
  if (x->src != y->src) return x->src < y->src ? -1 : 1;
  if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
  bool x_direct = x->direct && x->src != x->dst, y_direct = y->direct && y->src != y->dst;
  if (x_direct != y_direct) return x_direct ? 1 : -1;
  if (x->wire_bytes != y->wire_bytes) return x->wire_bytes > y->wire_bytes ? -1 : 1;
  if (x->part.group != y->part.group) return x->part.group < y->part.group ? -1 : 1;
  return x->part.lo < y->part.lo ? -1 : x->part.lo > y->part.lo;
}

/* Neighbouring slices that went to the same sender become one part again. */
static void add_part(struct router *r, struct rsc_stream *s, const struct leg *leg) {
  struct rsc_part *last = s->parts.len ? &s->parts.at[s->parts.len - 1] : NULL;
  if (last && last->group == leg->part.group && last->alternative == leg->part.alternative && last->hi == leg->part.lo)
    last->hi = leg->part.hi;
  else
    *RSC_PUSH(r->arena, &s->parts) = leg->part;
  s->bytes += (leg->part.hi - leg->part.lo) * leg->wire_bytes;
}

static void build_streams(struct router *r, struct rsc_routes *out) {
  struct {
    RSC_VEC(struct rsc_stream);
  } streams = {0};
  qsort(r->legs.at, r->legs.len, sizeof *r->legs.at, by_stream);
  for (size_t i = 0; i < r->legs.len; i++) {
    const struct leg *leg = &r->legs.at[i];
    bool direct = leg->direct && leg->src != leg->dst;
    struct rsc_stream *s = streams.len ? &streams.at[streams.len - 1] : NULL;
    if (!s || s->src != leg->src || s->dst != leg->dst || s->direct != direct) {
      s = RSC_PUSH(r->arena, &streams);
      *s = (struct rsc_stream){.src = leg->src, .dst = leg->dst, .direct = direct};
    }
    add_part(r, s, leg);
  }
  out->streams = streams.at;
  out->stream_count = (int64_t)streams.len;
  for (size_t i = 0; i < streams.len; i++)
    out->link_bytes[rsc_link_between(r->cluster, streams.at[i].src, streams.at[i].dst)] += streams.at[i].bytes;
}

const struct rsc_routes *rsc_route(struct rsc_arena *arena, const struct rsc_pairs *pairs,
                                   const struct rsc_flows *flows, const struct rsc_cluster *cluster) {
  struct router r = {arena, rsc_arena_new(), pairs, flows, cluster, NULL, {0}};
  r.load = RSC_ARRAY(r.scratch, int64_t, cluster->world);
  struct turn *turns = RSC_ARRAY(r.scratch, struct turn, flows->group_count);
  for (int32_t g = 0; g < flows->group_count; g++)
    turns[g] = (struct turn){g, holder_count(&r, &flows->groups[g]), flows->groups[g].elems * flows->groups[g].wire_bytes};
  qsort(turns, (size_t)flows->group_count, sizeof *turns, by_choice_and_size);
  for (int32_t g = 0; g < flows->group_count; g++) route_group(&r, turns[g].group);
  struct rsc_routes *out = RSC_NEW(arena, struct rsc_routes);
  build_streams(&r, out);
  rsc_arena_free(r.scratch);
  return out;
}
