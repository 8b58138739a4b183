/* SPDX-License-Identifier: Apache-2.0
 *
 * In: per set of holders, the bytes that all domains together want of its groups. Out: how many of them each holder
 * sends.
 *
 * A maximum flow (Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970)
 * on source -> set of holders -> rank -> sink, where a rank carries at most T times its NIC's rate. The least T that
 * lets everything through, found by bisection, is the optimum of the busiest sender. If that is more than the receivers
 * need, T is what they need (but enough to send one copy of everything), and what does not fit is passed on between
 * domains. Also the same for other sets of ranks, such as those that pieces may enter at.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/route_impl.h"

struct edge {
  int32_t to, reverse; /* reverse: index of the edge back */
  int64_t room;
};

struct edges {
  RSC_VEC(struct edge);
};

struct network {
  struct rsc_arena *arena;
  int32_t nodes, source, sink;
  struct edges *of; /* per node */
  int32_t *level, *next, *queue;
};

static void connect(struct network *n, int32_t from, int32_t to, int64_t room) {
  int32_t there = (int32_t)n->of[to].len, here = (int32_t)n->of[from].len;
  *RSC_PUSH(n->arena, &n->of[from]) = (struct edge){to, there, room};
  *RSC_PUSH(n->arena, &n->of[to]) = (struct edge){from, here, 0};
}

static bool find_levels(struct network *n) {
  memset(n->level, 0xff, (size_t)n->nodes * sizeof *n->level);
  int32_t head = 0, tail = 0;
  n->level[n->source] = 0;
  n->queue[tail++] = n->source;
  while (head < tail) {
    int32_t at = n->queue[head++];
    for (size_t i = 0; i < n->of[at].len; i++) {
      const struct edge *e = &n->of[at].at[i];
      if (e->room <= 0 || n->level[e->to] >= 0) continue;
      n->level[e->to] = n->level[at] + 1;
      n->queue[tail++] = e->to;
    }
  }
  return n->level[n->sink] >= 0;
}

/* One augmenting path along levels, without recursion: path[k] is the edge taken out of its k-th node. */
static int64_t augment(struct network *n, struct edge **path) {
  int32_t at = n->source, depth = 0;
  while (at != n->sink) {
    struct edges *edges = &n->of[at];
    while (n->next[at] < (int32_t)edges->len) {
      const struct edge *e = &edges->at[n->next[at]];
      if (e->room > 0 && n->level[e->to] == n->level[at] + 1) break;
      n->next[at]++;
    }
    if (n->next[at] < (int32_t)edges->len) {
      path[depth] = &edges->at[n->next[at]];
      at = path[depth++]->to;
    } else {
      if (depth == 0) return 0;
      struct edge *back = path[--depth];
      at = n->of[back->to].at[back->reverse].to;
      n->next[at]++;
    }
  }
  int64_t least = INT64_MAX;
  for (int32_t i = 0; i < depth; i++)
    if (path[i]->room < least) least = path[i]->room;
  for (int32_t i = 0; i < depth; i++) {
    path[i]->room -= least;
    n->of[path[i]->to].at[path[i]->reverse].room += least;
  }
  return least;
}

static int64_t run_flow(struct network *n) {
  int64_t total = 0, more;
  struct edge **path = RSC_ARRAY(n->arena, struct edge *, n->nodes + 1);
  while (find_levels(n)) {
    memset(n->next, 0, (size_t)n->nodes * sizeof *n->next);
    while ((more = augment(n, path)) > 0) total += more;
  }
  return total;
}

/* Ranks that hold anything, numbered. */
struct ranks {
  int64_t count;
  int32_t *number; /* per world rank, -1 if none */
  int64_t *rank;
};

static struct ranks number_ranks(struct rsc_router *r, const struct rsc_holder_sets *sets) {
  struct ranks out = {0};
  out.number = RSC_ARRAY(r->scratch, int32_t, r->cluster->world);
  out.rank = RSC_ARRAY(r->scratch, int64_t, r->cluster->world);
  memset(out.number, 0xff, (size_t)r->cluster->world * sizeof *out.number);
  for (size_t s = 0; s < sets->len; s++)
    for (int64_t i = 0; i < sets->at[s].count; i++) {
      int64_t rank = sets->at[s].ranks[i];
      if (out.number[rank] >= 0) continue;
      out.number[rank] = (int32_t)out.count;
      out.rank[out.count++] = rank;
    }
  return out;
}

struct problem {
  struct rsc_router *r;
  struct rsc_holder_sets *sets;
  struct ranks ranks;
};

/* Nodes: source, sink, sets, ranks. The edges of a set: from the source first, then to its ranks in order. */
static struct network build(const struct problem *p, struct rsc_arena *arena, double seconds, bool one_copy) {
  const struct ranks *ranks = &p->ranks;
  int32_t sets = (int32_t)p->sets->len, first_rank = 2 + sets;
  struct network n = {.arena = arena, .nodes = first_rank + (int32_t)ranks->count, .source = 0, .sink = 1};
  n.of = RSC_ARRAY(arena, struct edges, n.nodes);
  n.level = RSC_ARRAY(arena, int32_t, n.nodes);
  n.next = RSC_ARRAY(arena, int32_t, n.nodes);
  n.queue = RSC_ARRAY(arena, int32_t, n.nodes);
  for (int32_t s = 0; s < sets; s++) {
    const struct rsc_holders *h = &p->sets->at[s];
    connect(&n, n.source, 2 + s, (int64_t)(one_copy ? h->one_copy : h->demand));
    for (int64_t i = 0; i < h->count; i++) connect(&n, 2 + s, first_rank + ranks->number[h->ranks[i]], INT64_MAX / 2);
  }
  for (int64_t i = 0; i < ranks->count; i++)
    connect(&n, first_rank + (int32_t)i, n.sink, (int64_t)(seconds * p->r->nic[ranks->rank[i]]) + 1);
  return n;
}

static bool carries(const struct problem *p, double seconds, bool one_copy, double total) {
  struct rsc_arena *arena = rsc_arena_new();
  struct network n = build(p, arena, seconds, one_copy);
  bool all = (double)run_flow(&n) >= total;
  rsc_arena_free(arena);
  return all;
}

/* The least time in which the sets' ranks can carry what they must, to within a thousandth. */
static double least_seconds(const struct problem *p, bool one_copy) {
  double total = 0, lo = 0, hi = 0;
  for (size_t s = 0; s < p->sets->len; s++) {
    const struct rsc_holders *h = &p->sets->at[s];
    double bytes = one_copy ? h->one_copy : h->demand, rate = 0;
    for (int64_t i = 0; i < h->count; i++) rate += p->r->nic[h->ranks[i]];
    if (bytes / rate > lo) lo = bytes / rate;
    total += bytes;
    hi += bytes / p->r->nic[h->ranks[0]];
  }
  if (total <= 0) return 0;
  if (carries(p, lo, one_copy, total)) return lo;
  while (hi - lo > lo * 1e-3) {
    double mid = (lo + hi) / 2;
    if (mid > 2 * lo) mid = 2 * lo;
    if (carries(p, mid, one_copy, total))
      hi = mid;
    else
      lo = mid;
  }
  return hi;
}

static void read_shares(const struct problem *p, const struct network *n) {
  for (size_t s = 0; s < p->sets->len; s++)
    for (int64_t i = 0; i < p->sets->at[s].count; i++) {
      const struct edge *e = &n->of[2 + s].at[1 + i];
      p->sets->at[s].share[i] = (double)n->of[e->to].at[e->reverse].room;
    }
}

/* One copy of everything first: what is added after that never takes a set's flow away. */
static void solve(const struct problem *p, double seconds) {
  struct network n = build(p, p->r->scratch, seconds, true);
  run_flow(&n);
  for (size_t s = 0; s < p->sets->len; s++)
    n.of[n.source].at[s].room += (int64_t)p->sets->at[s].demand - (int64_t)p->sets->at[s].one_copy;
  run_flow(&n);
  read_shares(p, &n);
}

double rsc_flow_shares(struct rsc_router *r, struct rsc_holder_sets *sets) {
  struct problem p = {r, sets, number_ranks(r, sets)};
  double seconds = least_seconds(&p, false);
  solve(&p, seconds);
  return seconds;
}

void rsc_route_shares(struct rsc_router *r) {
  if (!r->sets.len) return;
  struct problem p = {r, &r->sets, number_ranks(r, &r->sets)};
  double all = least_seconds(&p, false);
  r->out->one_copy_seconds = least_seconds(&p, true);
  double needed = r->out->ingest_seconds > r->out->one_copy_seconds ? r->out->ingest_seconds : r->out->one_copy_seconds;
  r->limit = all > needed ? needed : all;
  solve(&p, r->limit);
}
