/* SPDX-License-Identifier: Apache-2.0
 *
 * In: slices by which groups enter domains, and each holder's share. Out: legs, with the whole way of every piece: sender,
 * entry rank, the ranks that the entry passes it to over NVLink, and other domains that it passes it on to where the
 * holders' NICs cannot serve every domain in time.
 */
#include <stdlib.h>

#include "compiler/pass/route_impl.h"

enum { GRAIN = 4096 }; /* elements: see route_entries.c */

struct senders {
  struct rsc_router *r;
  double *surplus;    /* per set: bytes that its holders have no time for */
  int64_t *next;      /* per set: the holder whose share is being used up */
  int64_t *turn;      /* per set: groups seen */
  size_t group_legs;  /* first leg of the group at hand */
};

static const struct rsc_seat *seat_of(const struct rsc_router *r, int32_t group, int64_t rank) {
  const struct rsc_seats *seats = &r->holder_seats[group];
  size_t lo = 0, hi = seats->len;
  while (lo + 1 < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (seats->at[mid].rank <= rank) lo = mid;
    else hi = mid;
  }
  while (lo > 0 && seats->at[lo - 1].rank == rank) lo--;
  return &seats->at[lo];
}

/* The entry and everybody it passes the piece to. */
static void add_domain(struct rsc_router *r, struct rsc_leg *leg, int32_t parent, const struct rsc_demand *d,
                       const struct rsc_slice *slice, double bytes) {
  int32_t entry = (int32_t)leg->nodes.len;
  *RSC_PUSH(r->scratch, &leg->nodes) = (struct rsc_node){parent, slice->end, slice->rank};
  for (int32_t i = 0; i < d->seat_count; i++) {
    if (d->seats[i].rank == slice->rank && d->seats[i].end == slice->end) continue;
    *RSC_PUSH(r->scratch, &leg->nodes) = (struct rsc_node){entry, d->seats[i].end, d->seats[i].rank};
    if (d->seats[i].rank != slice->rank) r->nvlink_load[slice->rank] += bytes;
  }
}

static int64_t grain(int64_t lo, double elems) {
  int64_t at = lo + (int64_t)elems;
  return at / GRAIN * GRAIN;
}

/* Elements [lo, hi) of a slice straight from the holders, as their shares last. */
static void send_direct(struct senders *s, const struct rsc_demand *d, const struct rsc_slice *slice, int64_t lo, int64_t hi) {
  struct rsc_router *r = s->r;
  const struct rsc_group *g = &r->flows->groups[d->group];
  int32_t set = r->holders_of[d->group];
  struct rsc_holders *h = &r->sets.at[set];
  while (lo < hi) {
    int64_t at = s->next[set], to = hi;
    double left = h->share[at] / g->wire_bytes;
    if (at + 1 < h->count && left < (double)(hi - lo)) {
      to = grain(lo, left);
      if (to <= lo) {
        s->next[set]++;
        continue;
      }
    }
    double bytes = (double)(to - lo) * g->wire_bytes;
    h->share[at] -= bytes;
    r->out_load[h->ranks[at]] += bytes;
    struct rsc_leg leg = {d->group, seat_of(r, d->group, h->ranks[at])->end, lo, to, h->ranks[at], {0}};
    add_domain(r, &leg, -1, d, slice, bytes);
    *RSC_PUSH(r->scratch, &r->legs) = leg;
    lo = to;
  }
}

struct relay {
  size_t leg;
  int32_t node, depth;
  bool within; /* the node still has time for it */
};

static int32_t depth_of(const struct rsc_leg *leg, int32_t node) {
  int32_t depth = 0;
  for (; leg->nodes.at[node].parent >= 0; node = leg->nodes.at[node].parent) depth++;
  return depth;
}

/* Who passes on the piece that begins at `lo`: an entry with time to spare and the shortest way, else the least loaded. */
static struct relay find_relay(const struct senders *s, int32_t group, int64_t lo, double bytes) {
  const struct rsc_router *r = s->r;
  struct relay best = {0, -1, 0, false};
  for (size_t i = s->group_legs; i < r->legs.len; i++) {
    const struct rsc_leg *leg = &r->legs.at[i];
    if (leg->group != group || lo < leg->lo || lo >= leg->hi) continue;
    for (int32_t n = 0; n < (int32_t)leg->nodes.len; n++) {
      const struct rsc_node *node = &leg->nodes.at[n];
      int64_t from = node->parent < 0 ? leg->src : leg->nodes.at[node->parent].rank;
      if (rsc_link_between(r->cluster, from, node->rank) != RSC_LINK_NETWORK) continue;
      struct relay c = {i, n, depth_of(leg, n), (r->out_load[node->rank] + bytes) / r->nic[node->rank] <= r->limit};
      const struct rsc_node *b = best.node < 0 ? NULL : &r->legs.at[best.leg].nodes.at[best.node];
      bool better = !b || c.within > best.within ||
                    (c.within == best.within &&
                     (c.within && c.depth != best.depth
                          ? c.depth < best.depth
                          : r->out_load[node->rank] / r->nic[node->rank] < r->out_load[b->rank] / r->nic[b->rank]));
      if (better) best = c;
    }
  }
  return best;
}

/* Cuts leg i so that [lo, hi) is a leg of its own, and returns its index. */
static size_t cut_leg(struct senders *s, size_t i, int64_t lo, int64_t hi) {
  struct rsc_router *r = s->r;
  struct rsc_leg leg = r->legs.at[i];
  const int64_t ends[4] = {leg.lo, lo, hi, leg.hi};
  size_t middle = i;
  bool used = false;
  for (int k = 0; k < 3; k++) {
    if (ends[k] >= ends[k + 1]) continue;
    struct rsc_leg part = leg;
    part.lo = ends[k];
    part.hi = ends[k + 1];
    part.nodes = (struct rsc_nodes){0};
    for (size_t n = 0; n < leg.nodes.len; n++) *RSC_PUSH(r->scratch, &part.nodes) = leg.nodes.at[n];
    size_t at = used ? r->legs.len : i;
    if (used) *RSC_PUSH(r->scratch, &r->legs) = part;
    else r->legs.at[i] = part;
    used = true;
    if (k == 1) middle = at;
  }
  return middle;
}

/* Elements [lo, hi) of a slice from domains that have them already. */
static void send_onward(struct senders *s, const struct rsc_demand *d, const struct rsc_slice *slice, int64_t lo, int64_t hi) {
  struct rsc_router *r = s->r;
  uint32_t wire = r->flows->groups[d->group].wire_bytes;
  while (lo < hi) {
    struct relay from = find_relay(s, d->group, lo, (double)(hi - lo) * wire);
    int64_t to = r->legs.at[from.leg].hi < hi ? r->legs.at[from.leg].hi : hi;
    size_t leg = cut_leg(s, from.leg, lo, to);
    double bytes = (double)(to - lo) * wire;
    r->out_load[r->legs.at[leg].nodes.at[from.node].rank] += bytes;
    add_domain(r, &r->legs.at[leg], from.node, d, slice, bytes);
    lo = to;
  }
}

/* One group: its demands in turn, another domain first each time; the first always comes from a holder. */
static void send_group(struct senders *s, const struct rsc_demand *demands, int32_t count) {
  struct rsc_router *r = s->r;
  int32_t group = demands[0].group, set = r->holders_of[group];
  const struct rsc_group *g = &r->flows->groups[group];
  int32_t first = (int32_t)(s->turn[set]++ % count);
  s->group_legs = r->legs.len;
  for (int32_t k = 0; k < count; k++) {
    const struct rsc_demand *d = &demands[(first + k) % count];
    double onward = s->surplus[set] / g->wire_bytes;
    int64_t relayed = k == 0 || onward < GRAIN ? 0 : onward >= (double)g->elems ? g->elems : grain(0, onward);
    s->surplus[set] -= (double)relayed * g->wire_bytes;
    for (int32_t i = 0; i < d->slice_count; i++) {
      const struct rsc_slice *slice = &d->slices[i];
      int64_t cut = relayed < slice->lo ? slice->lo : relayed > slice->hi ? slice->hi : relayed;
      send_onward(s, d, slice, slice->lo, cut);
      send_direct(s, d, slice, cut, slice->hi);
    }
  }
}

void rsc_route_senders(struct rsc_router *r) {
  struct senders s = {.r = r};
  s.surplus = RSC_ARRAY(r->scratch, double, r->sets.len);
  s.next = RSC_ARRAY(r->scratch, int64_t, r->sets.len);
  s.turn = RSC_ARRAY(r->scratch, int64_t, r->sets.len);
  for (size_t i = 0; i < r->sets.len; i++) {
    s.surplus[i] = r->sets.at[i].demand;
    for (int64_t k = 0; k < r->sets.at[i].count; k++) s.surplus[i] -= r->sets.at[i].share[k];
  }
  for (size_t i = 0, next; i < r->demands.len; i = next) {
    next = i;
    while (next < r->demands.len && r->demands.at[next].group == r->demands.at[i].group) next++;
    send_group(&s, &r->demands.at[i], (int32_t)(next - i));
  }
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->out_load[i] / r->nic[i] > r->out->egress_seconds) r->out->egress_seconds = r->out_load[i] / r->nic[i];
}
