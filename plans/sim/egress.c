/* SPDX-License-Identifier: Apache-2.0
 *
 * In: groups of ranks with bytes that only they can be the first to send. Out: the set of ranks for which
 * (bytes of the groups inside) / (rate of their links) is largest: by Hall's theorem the least time in which every
 * group can send one copy. Dinkelbach's method: start with all ranks; while a flow of one copy in that time does not
 * exist, the minimal cut names a set that needs longer.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/sim/bound_impl.h"

struct edge {
  uint32_t to, back; /* index of the edge the other way */
  double room;
};

/* Nodes: groups, then ranks, then source and sink. */
struct net {
  uint32_t nodes, source, sink;
  size_t *starts; /* per node, one more */
  struct edge *edges;
  uint32_t *depth, *queue;
  size_t *next;
};

static void connect(struct net *n, size_t *fill, uint32_t from, uint32_t to) {
  size_t a = fill[from]++, b = fill[to]++;
  n->edges[a] = (struct edge){to, (uint32_t)b, 0};
  n->edges[b] = (struct edge){from, (uint32_t)a, 0};
}

static void build(struct net *n, const struct rspm_groups *in, uint32_t world) {
  uint32_t groups = (uint32_t)in->count;
  n->nodes = groups + world + 2;
  n->source = groups + world;
  n->sink = groups + world + 1;
  n->starts = rspm_alloc((size_t)n->nodes + 2, sizeof *n->starts);
  for (uint32_t g = 0; g < groups; g++) {
    n->starts[g + 1] += in->at[g].rank_count + 1;
    for (size_t i = 0; i < in->at[g].rank_count; i++) n->starts[groups + in->at[g].ranks[i] + 1]++;
  }
  for (uint32_t r = 0; r < world; r++) n->starts[groups + r + 1]++;
  n->starts[n->source + 1] = groups;
  n->starts[n->sink + 1] = world;
  for (uint32_t v = 0; v < n->nodes; v++) n->starts[v + 1] += n->starts[v];
  n->edges = rspm_alloc(n->starts[n->nodes], sizeof *n->edges);
  size_t *fill = rspm_alloc(n->nodes, sizeof *fill);
  memcpy(fill, n->starts, n->nodes * sizeof *fill);
  for (uint32_t g = 0; g < groups; g++) {
    connect(n, fill, n->source, g);
    for (size_t i = 0; i < in->at[g].rank_count; i++) connect(n, fill, g, groups + in->at[g].ranks[i]);
  }
  for (uint32_t r = 0; r < world; r++) connect(n, fill, groups + r, n->sink);
  free(fill);
  n->depth = rspm_alloc(n->nodes, sizeof *n->depth);
  n->queue = rspm_alloc(n->nodes, sizeof *n->queue);
  n->next = rspm_alloc(n->nodes, sizeof *n->next);
}

static void fill_rooms(struct net *n, const struct rspm_groups *in, const double *rates, double seconds) {
  uint32_t groups = (uint32_t)in->count;
  for (uint32_t v = 0; v < n->nodes; v++)
    for (size_t e = n->starts[v]; e < n->starts[v + 1]; e++) {
      struct edge *x = &n->edges[e];
      if (v == n->source)
        x->room = in->at[x->to].bytes;
      else if (v < groups)
        x->room = x->to < n->source ? in->at[v].bytes : 0;
      else if (v < n->source)
        x->room = x->to == n->sink ? rates[v - groups] * seconds : 0;
      else
        x->room = 0;
    }
}

/* Distances from the source over edges with room; whether the sink is reached. Room below `least` counts as none. */
static bool measure(struct net *n, double least) {
  memset(n->depth, 0, n->nodes * sizeof *n->depth);
  size_t head = 0, tail = 0;
  n->depth[n->source] = 1;
  n->queue[tail++] = n->source;
  while (head < tail) {
    uint32_t v = n->queue[head++];
    for (size_t e = n->starts[v]; e < n->starts[v + 1]; e++) {
      const struct edge *x = &n->edges[e];
      if (x->room <= least || n->depth[x->to]) continue;
      n->depth[x->to] = n->depth[v] + 1;
      n->queue[tail++] = x->to;
    }
  }
  return n->depth[n->sink] != 0;
}

static double push(struct net *n, uint32_t v, double bytes, double least) {
  if (v == n->sink) return bytes;
  double sent = 0;
  for (; n->next[v] < n->starts[v + 1]; n->next[v]++) {
    struct edge *x = &n->edges[n->next[v]];
    if (x->room <= least || n->depth[x->to] != n->depth[v] + 1) continue;
    double want = bytes - sent < x->room ? bytes - sent : x->room;
    double got = push(n, x->to, want, least);
    x->room -= got;
    n->edges[x->back].room += got;
    sent += got;
    if (bytes - sent <= least) break;
  }
  return sent;
}

/* Sends one copy in that time as far as it goes, and marks the cut: what the source still reaches. */
static void max_flow(struct net *n, double least) {
  while (measure(n, least)) {
    memcpy(n->next, n->starts, n->nodes * sizeof *n->next);
    push(n, n->source, 1e300, least);
  }
}

double rspm_egress(const struct rspm_groups *in, const double *rates, uint32_t world, bool *inside, double *bytes) {
  struct net n = {0};
  double total = 0, rate = 0, seconds = 0;
  uint32_t groups = (uint32_t)in->count;
  for (uint32_t r = 0; r < world; r++) inside[r] = false;
  for (uint32_t g = 0; g < groups; g++) {
    total += in->at[g].bytes;
    for (size_t i = 0; i < in->at[g].rank_count; i++) inside[in->at[g].ranks[i]] = true;
  }
  for (uint32_t r = 0; r < world; r++) rate += inside[r] ? rates[r] : 0;
  *bytes = total;
  if (total <= 0) return 0;
  seconds = total / rate;
  build(&n, in, world);
  for (;;) {
    fill_rooms(&n, in, rates, seconds);
    max_flow(&n, total * 1e-12);
    double cut = 0, cut_rate = 0;
    for (uint32_t g = 0; g < groups; g++) cut += n.depth[g] ? in->at[g].bytes : 0;
    for (uint32_t r = 0; r < world; r++) cut_rate += n.depth[groups + r] ? rates[r] : 0;
    if (cut_rate <= 0 || cut / cut_rate <= seconds * (1 + 1e-9)) break;
    seconds = cut / cut_rate;
    *bytes = cut;
    for (uint32_t r = 0; r < world; r++) inside[r] = n.depth[groups + r] != 0;
  }
  free(n.starts);
  free(n.edges);
  free(n.depth);
  free(n.queue);
  free(n.next);
  return seconds;
}
