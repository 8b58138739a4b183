/* SPDX-License-Identifier: Apache-2.0
 *
 * In: groups with their ends, and a cluster. Out: streams. Each NVLink domain takes in each element once, from outside
 * only if none of its ranks holds it; the rest of the way is NVLink.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/route_impl.h"

static int by_domain_rank_end(const void *a, const void *b) {
  const struct rsc_seat *x = a, *y = b;
  if (x->domain != y->domain) return x->domain < y->domain ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* The seats of ends [lo, hi) of a group, by domain, rank and end. */
static struct rsc_seats find_seats(struct rsc_router *r, const struct rsc_group *g, int32_t lo, int32_t hi,
                                   enum rsc_side side) {
  struct rsc_seats seats = {0};
  const int64_t *world = side == RSC_TRAIN ? r->cluster->world_of_train : r->cluster->world_of_infer;
  for (int32_t e = lo; e < hi; e++) {
    const struct rsc_rankset *set = &r->pairs->placement[side]->ranksets[g->ranksets[e]];
    RSC_RESERVE(r->scratch, &seats, seats.len + (size_t)set->count);
    for (int64_t i = 0; i < set->count; i++) {
      int64_t rank = world[set->ranks[i]];
      int32_t domain = r->cluster->hosts[r->cluster->processes[rank].host].domain;
      seats.at[seats.len++] = (struct rsc_seat){domain, e, rank};
    }
  }
  qsort(seats.at, seats.len, sizeof *seats.at, by_domain_rank_end);
  return seats;
}

static void add_leg(struct rsc_router *r, int32_t group, const struct rsc_seat *from, const struct rsc_seat *to) {
  struct rsc_leg leg = {
      .group = group, .src_end = from->end, .lo = 0, .hi = r->flows->groups[group].elems, .src = from->rank};
  *RSC_PUSH(r->scratch, &leg.nodes) = (struct rsc_node){-1, to->end, to->rank, 0};
  *RSC_PUSH(r->scratch, &r->legs) = leg;
}

/* Of seats in one domain. */
struct few {
  const struct rsc_seat *at;
  size_t count;
};

static const struct rsc_seat *seat_at(const struct few *seats, int64_t rank) {
  for (size_t i = 0; i < seats->count; i++)
    if (seats->at[i].rank == rank) return &seats->at[i];
  return NULL;
}

static size_t count_ranks(const struct few *seats) {
  size_t n = 0;
  for (size_t i = 0; i < seats->count; i++) n += !i || seats->at[i - 1].rank != seats->at[i].rank;
  return n;
}

/* The one whose NVLink is loaded least. */
static const struct rsc_seat *least_loaded(const struct rsc_router *r, const struct few *seats) {
  const struct rsc_seat *best = &seats->at[0];
  for (size_t i = 1; i < seats->count; i++)
    if (r->nvlink_load[seats->at[i].rank] < r->nvlink_load[best->rank]) best = &seats->at[i];
  return best;
}

/* Each piece leaves its holder once, and those who want it pass it on, so that no holder's NVLink is busy for longer
 * than that of the others. */
static void pass_around(struct rsc_router *r, int32_t group, const struct few *wants, const struct few *holds,
                        size_t pieces) {
  const struct rsc_group *g = &r->flows->groups[group];
  struct rsc_demand d = {
      .group = group, .domain = wants->at->domain, .seats = wants->at, .seat_count = (int32_t)wants->count};
  int64_t each = rsc_ceildiv(rsc_ceildiv(g->elems, (int64_t)pieces), RSC_GRAIN) * RSC_GRAIN;
  for (int64_t lo = 0; lo < g->elems; lo += each) {
    const struct rsc_seat *from = least_loaded(r, holds), *entry = least_loaded(r, wants);
    int64_t hi = lo + each < g->elems ? lo + each : g->elems;
    double bytes = (double)(hi - lo) * g->wire_bytes;
    struct rsc_leg leg = {group, from->end, lo, hi, from->rank, {0}};
    struct rsc_slice slice = {lo, hi, entry->rank, entry->end};
    r->nvlink_load[from->rank] += bytes;
    rsc_route_add_domain(r, &leg, -1, &d, &slice, bytes);
    *RSC_PUSH(r->scratch, &r->legs) = leg;
  }
}

/* In how many pieces a group is passed around, if it is: where more want it than hold it, or where those who hold it
 * have that much more to send already. */
static size_t pieces_around(const struct rsc_router *r, double bytes, const struct few *wants,
                            const struct few *holds) {
  double pieces = bytes / rsc_slice_min(r->cluster->links.nvlink_bandwidth);
  size_t ranks = count_ranks(wants);
  if (ranks < 2 || pieces < 1) return 0;
  double idle = r->nvlink_load[least_loaded(r, wants)->rank], busy = r->nvlink_load[least_loaded(r, holds)->rank];
  if (ranks <= count_ranks(holds) && busy < idle + bytes) return 0;
  return pieces < (double)ranks ? (size_t)pieces : ranks;
}

/* A domain that holds the group: what a process holds and wants it copies; the others are served by the holder that
 * NVLink has loaded least, or by one another. Those are returned. */
static struct few serve_inside(struct rsc_router *r, int32_t group, const struct few *wants, const struct few *holds) {
  struct rsc_seat *others = RSC_ARRAY(r->scratch, struct rsc_seat, wants->count);
  struct few rest = {others, 0};
  for (size_t w = 0; w < wants->count; w++) {
    const struct rsc_seat *own = seat_at(holds, wants->at[w].rank);
    if (own)
      add_leg(r, group, own, &wants->at[w]);
    else
      others[rest.count++] = wants->at[w];
  }
  double bytes = rsc_group_bytes(r, group);
  size_t pieces = pieces_around(r, bytes, &rest, holds);
  if (pieces) {
    pass_around(r, group, &rest, holds, pieces);
    return rest;
  }
  for (size_t i = 0; i < rest.count; i++) {
    const struct rsc_seat *from = least_loaded(r, holds);
    r->nvlink_load[from->rank] += bytes;
    add_leg(r, group, from, &rest.at[i]);
  }
  return rest;
}

static size_t same_domain(const struct rsc_seats *seats, size_t from) {
  size_t to = from;
  while (to < seats->len && seats->at[to].domain == seats->at[from].domain) to++;
  return to;
}

static int by_rank(const void *a, const void *b) {
  int64_t x = ((const struct rsc_seat *)a)->rank, y = ((const struct rsc_seat *)b)->rank;
  return x < y ? -1 : x > y;
}

static void key_ranks(struct rsc_router *r, struct rsc_key *key, const struct rsc_seat *seats, size_t count) {
  int64_t last = -1;
  for (size_t i = 0; i < count; i++) {
    if (seats[i].rank != last) rsc_key_int(r->scratch, key, seats[i].rank);
    last = seats[i].rank;
  }
}

/* The set of those who can send a group: `helpers` get it over NVLink from its holders. */
static int32_t senders_of_group(struct rsc_router *r, struct rsc_keys *keys, const struct rsc_seats *holds,
                                const struct rsc_seats *helpers) {
  struct rsc_key key = {0};
  key_ranks(r, &key, holds->at, holds->len);
  key_ranks(r, &key, helpers->at, helpers->len);
  bool fresh;
  int32_t id = rsc_keys_id(keys, key.at, key.len, &fresh);
  if (fresh) {
    struct rsc_holders *set = RSC_PUSH(r->scratch, &r->sets);
    *set = (struct rsc_holders){.count = (int64_t)(key.len / sizeof(int64_t))};
    set->ranks = rsc_keys_bytes(keys, id, NULL);
    set->share = RSC_ARRAY(r->scratch, double, set->count);
  }
  return id;
}

static int32_t ranks_of_seats(struct rsc_router *r, struct rsc_keys *keys, const struct rsc_seat *seats, size_t count) {
  struct rsc_key key = {0};
  for (size_t i = 0; i < count; i++) rsc_key_int(r->scratch, &key, seats[i].rank);
  return rsc_keys_id(keys, key.at, key.len, NULL);
}

struct collector {
  struct rsc_router *r;
  struct rsc_keys *holders, *seats;
};

static void collect_group(struct collector *c, int32_t group) {
  struct rsc_router *r = c->r;
  const struct rsc_group *g = &r->flows->groups[group];
  if (g->elems == 0) return;
  struct rsc_seats wants = find_seats(r, g, 0, g->wants, RSC_INFER);
  struct rsc_seats holds = find_seats(r, g, g->wants, g->wants + g->holds, RSC_TRAIN);
  struct rsc_seats helpers = {0};
  size_t first = r->demands.len;
  for (size_t w = 0, h = 0, next; w < wants.len; w = next) {
    next = same_domain(&wants, w);
    while (h < holds.len && holds.at[h].domain < wants.at[w].domain) h++;
    if (h < holds.len && holds.at[h].domain == wants.at[w].domain) {
      struct few here = {wants.at + w, next - w}, there = {holds.at + h, same_domain(&holds, h) - h};
      struct few served = serve_inside(r, group, &here, &there);
      for (size_t i = 0; i < served.count; i++) *RSC_PUSH(r->scratch, &helpers) = served.at[i];
      continue;
    }
    *RSC_PUSH(r->scratch, &r->demands) =
        (struct rsc_demand){.group = group,
                            .domain = wants.at[w].domain,
                            .ranks = ranks_of_seats(r, c->seats, wants.at + w, next - w),
                            .seats = wants.at + w,
                            .seat_count = (int32_t)(next - w)};
  }
  size_t outside = r->demands.len - first;
  if (!outside) return;
  qsort(holds.at, holds.len, sizeof *holds.at, by_rank);
  r->holder_seats[group] = holds;
  int32_t set = senders_of_group(r, c->holders, &holds, &helpers);
  r->sets.at[set].one_copy += rsc_group_bytes(r, group);
  r->sets.at[set].demand += rsc_group_bytes(r, group) * (double)outside;
  for (size_t i = first; i < r->demands.len; i++) r->demands.at[i].set = set;
}

int rsc_demands_by_set(const void *a, const void *b) {
  const struct rsc_demand *x = a, *y = b;
  if (x->set != y->set) return x->set < y->set ? -1 : 1;
  if (x->domain != y->domain) return x->domain < y->domain ? -1 : 1;
  if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
  return x->group < y->group ? -1 : x->group > y->group;
}

static void find_rates(struct rsc_router *r) {
  double least = rsc_nic_rate(r->cluster, 0);
  for (int64_t i = 0; i < r->cluster->world; i++) {
    r->nic[i] = rsc_nic_rate(r->cluster, i);
    if (r->nic[i] < least) least = r->nic[i];
  }
  r->slice_min = rsc_slice_min(least);
}

const struct rsc_routes *rsc_route(struct rsc_arena *arena, const struct rsc_pairs *pairs,
                                   const struct rsc_flows *flows, const struct rsc_cluster *cluster, int32_t fanout,
                                   uint64_t seed_bug) {
  struct rsc_router r = {.arena = arena,
                         .scratch = rsc_arena_new(),
                         .pairs = pairs,
                         .flows = flows,
                         .cluster = cluster,
                         .fanout = fanout,
                         .seed_bug = seed_bug};
  r.out = RSC_NEW(arena, struct rsc_routes);
  r.nic = RSC_ARRAY(r.scratch, double, cluster->world);
  r.in_load = RSC_ARRAY(r.scratch, double, cluster->world);
  r.out_load = RSC_ARRAY(r.scratch, double, cluster->world);
  r.passed_load = RSC_ARRAY(r.scratch, double, cluster->world);
  r.ways = RSC_ARRAY(r.scratch, int64_t, cluster->world);
  r.nvlink_load = RSC_ARRAY(r.scratch, double, cluster->world);
  r.holder_seats = RSC_ARRAY(r.scratch, struct rsc_seats, flows->group_count);
  find_rates(&r);
  struct collector c = {&r, rsc_keys_new(r.scratch), rsc_keys_new(r.scratch)};
  for (int32_t g = 0; g < flows->group_count; g++) collect_group(&c, g);
  rsc_route_entries(&r);
  if (r.demands.len) qsort(r.demands.at, r.demands.len, sizeof *r.demands.at, rsc_demands_by_set);
  rsc_route_senders(&r);
  rsc_route_streams(&r);
  rsc_arena_free(r.scratch);
  return r.out;
}
