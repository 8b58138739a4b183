/* SPDX-License-Identifier: Apache-2.0
 *
 * In: slices by which groups enter domains, and each holder's share. Out: legs, with the whole way of every piece:
 * sender, entry rank, the ranks that the entry passes it to over NVLink, and other domains that it passes it on to
 * where the holders' NICs cannot serve every domain in time.
 */
#include <stdlib.h>

#include "compiler/base/seed.h"
#include "compiler/pass/route_impl.h"

#define HOP_COST 0.05 /* of the time there is: what one hop less is worth */

struct leg_list {
  RSC_VEC(size_t);
};

struct senders {
  struct rsc_router *r;
  int64_t next;             /* the holder whose share is being used up */
  struct leg_list *legs_of; /* per group */
  int32_t *first;           /* per group: the domain that the holders serve */
  double *held;             /* per rank: bytes of its shares that it has not sent yet */
  double *busy;             /* per domain: seconds that its NICs will send as holders */
};

static const struct rsc_seat *seat_of(const struct rsc_router *r, int32_t group, int64_t rank) {
  const struct rsc_seats *seats = &r->holder_seats[group];
  size_t lo = 0, hi = seats->len;
  while (lo + 1 < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (seats->at[mid].rank <= rank)
      lo = mid;
    else
      hi = mid;
  }
  while (lo > 0 && seats->at[lo - 1].rank == rank) lo--;
  return &seats->at[lo];
}

/* The entry and everybody it passes the piece to: directly, or, with a fanout, over others that have it by then. */
void rsc_route_add_domain(struct rsc_router *r, struct rsc_leg *leg, int32_t parent, const struct rsc_demand *d,
                          const struct rsc_slice *slice, double bytes) {
  int32_t entry = (int32_t)leg->nodes.len, passed = 0;
  *RSC_PUSH(r->scratch, &leg->nodes) = (struct rsc_node){parent, slice->end, slice->rank, 0};
  for (int32_t i = 0; i < d->seat_count; i++) {
    if (d->seats[i].rank == slice->rank && d->seats[i].end == slice->end) continue;
    int32_t from = r->fanout ? entry + passed / r->fanout : entry;
    *RSC_PUSH(r->scratch, &leg->nodes) = (struct rsc_node){from, d->seats[i].end, d->seats[i].rank, 0};
    int64_t sender = leg->nodes.at[from].rank;
    if (d->seats[i].rank != sender) r->nvlink_load[sender] += bytes;
    passed++;
  }
}

static int64_t grain(int64_t lo, double elems) {
  int64_t at = lo + (int64_t)elems;
  return at / RSC_GRAIN * RSC_GRAIN;
}

static void push_leg(struct senders *s, struct rsc_leg leg) {
  *RSC_PUSH(s->r->scratch, &s->legs_of[leg.group]) = s->r->legs.len;
  *RSC_PUSH(s->r->scratch, &s->r->legs) = leg;
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
    if (used)
      push_leg(s, part);
    else
      r->legs.at[i] = part;
    used = true;
    if (k == 1) middle = at;
  }
  return middle;
}

/* Elements [lo, *hi) of a slice, or the first of them, from a rank that does not hold them: NVLink brings them there.
 */
static void send_after(struct senders *s, const struct rsc_demand *d, const struct rsc_slice *slice, int64_t lo,
                       int64_t *hi, int64_t rank) {
  struct rsc_router *r = s->r;
  const struct leg_list *legs = &s->legs_of[d->group];
  for (size_t k = 0;; k++) {
    const struct rsc_leg *leg = &r->legs.at[legs->at[k]];
    if (lo < leg->lo || lo >= leg->hi) continue;
    int32_t n = 0, nodes = (int32_t)leg->nodes.len;
    while (n < nodes && leg->nodes.at[n].rank != rank) n++;
    if (n == nodes) continue;
    if (leg->hi < *hi) *hi = leg->hi;
    size_t middle = cut_leg(s, legs->at[k], lo, *hi);
    double bytes = (double)(*hi - lo) * r->flows->groups[d->group].wire_bytes;
    rsc_route_add_domain(r, &r->legs.at[middle], n, d, slice, bytes);
    return;
  }
}

/* Elements [lo, hi) of a slice straight from the holders and those who get it from them over NVLink, as their shares
 * last. */
static void send_direct(struct senders *s, const struct rsc_demand *d, const struct rsc_slice *slice, int64_t lo,
                        int64_t hi) {
  struct rsc_router *r = s->r;
  const struct rsc_group *g = &r->flows->groups[d->group];
  struct rsc_holders *h = &r->sets.at[d->set];
  while (lo < hi) {
    bool one = r->seed_bug == RSC_SEED_ROUTE_HOLDER;
    int64_t at = one ? 0 : s->next, to = hi;
    double left = h->share[at] / g->wire_bytes;
    if (!one && at + 1 < h->count && left < (double)(hi - lo)) {
      to = grain(lo, left);
      if (to <= lo) {
        s->next++;
        continue;
      }
    }
    const struct rsc_seat *seat = seat_of(r, d->group, h->ranks[at]);
    struct rsc_leg leg = {d->group, seat->end, lo, to, h->ranks[at], {0}};
    if (seat->rank != leg.src) send_after(s, d, slice, lo, &to, leg.src);
    double bytes = (double)(to - lo) * g->wire_bytes;
    h->share[at] -= bytes;
    r->out_load[leg.src] += bytes;
    s->held[leg.src] -= bytes;
    if (seat->rank == leg.src) {
      rsc_route_add_domain(r, &leg, -1, d, slice, bytes);
      push_leg(s, leg);
    }
    lo = to;
  }
}

struct relay {
  size_t leg;
  int32_t node, depth;
  bool within; /* the node still has time for some of it */
  double cost;
};

static int32_t depth_of(const struct rsc_leg *leg, int32_t node) {
  int32_t depth = 0;
  for (; leg->nodes.at[node].parent >= 0; node = leg->nodes.at[node].parent) depth++;
  return depth;
}

/* What a rank will have sent, its shares included. */
static double load_of(const struct senders *s, int64_t rank) {
  return s->r->out_load[rank] + (s->held[rank] > 0 ? s->held[rank] : 0);
}

/* Bytes that a rank may still pass on. */
static double room_of(const struct senders *s, int64_t rank) {
  return s->r->limit * s->r->nic[rank] - load_of(s, rank);
}

/* Who passes on the piece that begins at `lo`: an entry with time to spare, little to send and a short way; else the
 * least loaded. */
static struct relay find_relay(const struct senders *s, int32_t group, int64_t lo, double bytes) {
  double least = bytes < s->r->slice_min ? bytes : s->r->slice_min;
  const struct rsc_router *r = s->r;
  struct relay best = {0, -1, 0, false, 0};
  for (size_t k = 0; k < s->legs_of[group].len; k++) {
    size_t i = s->legs_of[group].at[k];
    const struct rsc_leg *leg = &r->legs.at[i];
    if (lo < leg->lo || lo >= leg->hi) continue;
    for (int32_t n = 0; n < (int32_t)leg->nodes.len; n++) {
      const struct rsc_node *node = &leg->nodes.at[n];
      int64_t from = node->parent < 0 ? leg->src : leg->nodes.at[node->parent].rank;
      if (rsc_link_between(r->cluster, from, node->rank) != RSC_LINK_NETWORK) continue;
      if (r->fanout && node->relays >= r->fanout) continue; /* one that passes on to nobody is always there */
      struct relay c = {i, n, depth_of(leg, n), room_of(s, node->rank) >= least, 0};
      const struct rsc_node *b = best.node < 0 ? NULL : &r->legs.at[best.leg].nodes.at[best.node];
      c.cost = load_of(s, node->rank) / r->nic[node->rank] / r->limit + (c.within ? c.depth * HOP_COST : 0);
      bool better = !b || c.within > best.within || (c.within == best.within && c.cost < best.cost);
      if (better) best = c;
    }
  }
  return best;
}

/* Elements [lo, hi) of a slice from domains that have them already. */
static void send_onward(struct senders *s, const struct rsc_demand *d, const struct rsc_slice *slice, int64_t lo,
                        int64_t hi) {
  struct rsc_router *r = s->r;
  uint32_t wire = r->flows->groups[d->group].wire_bytes;
  while (lo < hi) {
    struct relay from = find_relay(s, d->group, lo, (double)(hi - lo) * wire);
    int64_t rank = r->legs.at[from.leg].nodes.at[from.node].rank;
    int64_t to = r->legs.at[from.leg].hi < hi ? r->legs.at[from.leg].hi : hi;
    int64_t fits = from.within ? grain(lo, room_of(s, rank) / wire) : to;
    if (fits > lo && fits < to && (double)(to - fits) * wire >= r->slice_min) to = fits;
    size_t leg = cut_leg(s, from.leg, lo, to);
    double bytes = (double)(to - lo) * wire;
    r->out_load[rank] += bytes;
    r->legs.at[leg].nodes.at[from.node].relays++;
    rsc_route_add_domain(r, &r->legs.at[leg], from.node, d, slice, bytes);
    lo = to;
  }
}

/* One domain's demands of one set, of which the last `onward` bytes come from other domains. Returns what is left. */
static double send_domain(struct senders *s, const struct rsc_demand *demands, size_t count, double onward) {
  const struct rsc_router *r = s->r;
  for (size_t i = count; i-- > 0;) {
    const struct rsc_demand *d = &demands[i];
    const struct rsc_group *g = &r->flows->groups[d->group];
    double bytes = s->first[d->group] == d->domain ? 0 : onward;
    int64_t from =
        bytes >= rsc_group_bytes(r, d->group) ? 0 : g->elems - (int64_t)(bytes / g->wire_bytes) / RSC_GRAIN * RSC_GRAIN;
    if (from < 0) from = 0;
    onward -= (double)(g->elems - from) * g->wire_bytes;
    for (size_t k = 0; k < d->slices.len; k++) {
      const struct rsc_slice *slice = &d->slices.at[k];
      int64_t cut = from < slice->lo ? slice->lo : from > slice->hi ? slice->hi : from;
      send_direct(s, d, slice, slice->lo, cut);
      send_onward(s, d, slice, cut, slice->hi);
    }
  }
  return onward;
}

struct span {
  const struct rsc_demand *demands; /* of one set and domain */
  size_t count;
  double busy;
};

static int by_busy(const void *a, const void *b) {
  const struct span *x = a, *y = b;
  if (x->busy < y->busy || x->busy > y->busy) return x->busy < y->busy ? -1 : 1;
  return x->demands < y->demands ? -1 : x->demands > y->demands; /* of one array, by domain */
}

static size_t same_domain(const struct rsc_router *r, size_t from, size_t end) {
  size_t to = from;
  while (to < end && r->demands.at[to].domain == r->demands.at[from].domain) to++;
  return to;
}

/* Bytes of each of the set's domains, from the last on, that must come from other domains: whole domains where it can
 * be, so that few ways are taken. Each group's first domain is served by the holders. */
static double *share_surplus(struct senders *s, const struct span *spans, size_t domains, double surplus) {
  struct rsc_router *r = s->r;
  double *onward = RSC_ARRAY(r->scratch, double, domains);
  for (size_t k = domains; k-- > 0;)
    for (size_t i = 0; i < spans[k].count; i++) s->first[spans[k].demands[i].group] = spans[k].demands[i].domain;
  for (size_t k = domains; k-- > 1 && surplus > 0;) {
    double bytes = 0;
    for (size_t i = 0; i < spans[k].count; i++) {
      const struct rsc_demand *d = &spans[k].demands[i];
      if (s->first[d->group] != d->domain) bytes += rsc_group_bytes(r, d->group);
    }
    onward[k] = surplus < bytes ? surplus : bytes;
    surplus -= onward[k];
  }
  return onward;
}

/* One set of holders: its domains in turn, those first that have most time to pass on what they get. */
static void send_set(struct senders *s, size_t from, size_t end) {
  struct rsc_router *r = s->r;
  const struct rsc_holders *h = &r->sets.at[r->demands.at[from].set];
  size_t domains = 0;
  struct span *spans = RSC_ARRAY(r->scratch, struct span, end - from);
  for (size_t i = from, next; i < end; i = next) {
    next = same_domain(r, i, end);
    spans[domains++] = (struct span){&r->demands.at[i], next - i, s->busy[r->demands.at[i].domain]};
  }
  qsort(spans, domains, sizeof *spans, by_busy);
  double surplus = h->demand;
  for (int64_t k = 0; k < h->count; k++) surplus -= h->share[k];
  double *onward = share_surplus(s, spans, domains, surplus);
  s->next = 0;
  double left = 0; /* what a domain could not take from others is tried with the next */
  for (size_t k = 0; k < domains; k++) left = send_domain(s, spans[k].demands, spans[k].count, left + onward[k]);
}

/* What ranks and their domains will send as holders. */
static void find_held(struct senders *s) {
  const struct rsc_router *r = s->r;
  double *rate = RSC_ARRAY(r->scratch, double, r->cluster->domain_count);
  for (size_t i = 0; i < r->sets.len; i++)
    for (int64_t k = 0; k < r->sets.at[i].count; k++) s->held[r->sets.at[i].ranks[k]] += r->sets.at[i].share[k];
  for (int64_t i = 0; i < r->cluster->world; i++) {
    int32_t domain = r->cluster->hosts[r->cluster->processes[i].host].domain;
    s->busy[domain] += s->held[i];
    rate[domain] += r->nic[i];
  }
  for (int64_t d = 0; d < r->cluster->domain_count; d++) s->busy[d] /= rate[d] > 0 ? rate[d] : 1;
}

void rsc_route_senders(struct rsc_router *r) {
  struct senders s = {.r = r};
  s.legs_of = RSC_ARRAY(r->scratch, struct leg_list, r->flows->group_count);
  s.first = RSC_ARRAY(r->scratch, int32_t, r->flows->group_count);
  s.held = RSC_ARRAY(r->scratch, double, r->cluster->world);
  s.busy = RSC_ARRAY(r->scratch, double, r->cluster->domain_count);
  find_held(&s);
  for (size_t i = 0; i < r->legs.len; i++) /* of domains that hold: those who get a piece there may send it on */
    if (r->holder_seats[r->legs.at[i].group].len) *RSC_PUSH(r->scratch, &s.legs_of[r->legs.at[i].group]) = i;
  for (size_t i = 0, next; i < r->demands.len; i = next) {
    next = i;
    while (next < r->demands.len && r->demands.at[next].set == r->demands.at[i].set) next++;
    send_set(&s, i, next);
  }
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->out_load[i] / r->nic[i] > r->out->egress_seconds) r->out->egress_seconds = r->out_load[i] / r->nic[i];
}
