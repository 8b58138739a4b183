/* SPDX-License-Identifier: Apache-2.0
 *
 * In: demands. Out: their slices. What the same ranks of a domain want is one unit, whoever holds it. A unit enters at
 * all of these ranks, in shares that level their loads (water-filling); its groups, sorted by holders, take up one
 * share after the other, as in McNaughton's wrap-around rule ("Scheduling with deadlines and loss functions", 1959). So
 * a unit of n groups and m ranks is cut into n + m - 1 slices at most, not n * m: a holder sends to few entry ranks, a
 * round has few messages. Each entry rank then passes its share to the others over NVLink. Small groups enter whole.
 */
#include <stdlib.h>

#include "compiler/base/seed.h"
#include "compiler/pass/route_impl.h"

#define LEVEL_SLACK 1.002 /* of the levelled load: what coarser slices may cost */

struct entry {
  int64_t rank;
  double load, share; /* seconds already there; bytes given */
};

static int by_load(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  if (x->load < y->load || x->load > y->load) return x->load < y->load ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_rank(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* One entry per rank that wants the group there. */
static int32_t distinct_ranks(const struct rsc_router *r, const struct rsc_demand *d, struct entry *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < d->seat_count; i++) {
    if (n && out[n - 1].rank == d->seats[i].rank) continue;
    int64_t rank = d->seats[i].rank;
    out[n++] = (struct entry){rank, r->in_load[rank] / r->nic[rank], 0};
  }
  return n;
}

/* The end through which a group enters at a rank: the first that the rank has. */
static int32_t end_at(const struct rsc_demand *d, int64_t rank) {
  int32_t i = 0;
  while (d->seats[i].rank != rank) i++;
  return d->seats[i].end;
}

/* Raises the lowest loads to one level until `bytes` are given. Entries are sorted by load. */
static void fill(const struct rsc_router *r, struct entry *entries, int32_t count, double bytes) {
  double rate = 0, held = 0; /* of the entries under water: sum of rates, and of rate * load */
  double level = 0;
  for (int32_t i = 0; i < count; i++) {
    rate += r->nic[entries[i].rank];
    held += r->nic[entries[i].rank] * entries[i].load;
    level = (bytes + held) / rate;
    if (i + 1 == count || level <= entries[i + 1].load) break;
  }
  for (int32_t i = 0; i < count; i++)
    entries[i].share = level > entries[i].load ? (level - entries[i].load) * r->nic[entries[i].rank] : 0;
}

struct unit {
  struct rsc_demand *demands;
  int32_t count, ranks;
  double bytes;
  const double *share; /* of each rank, from a maximum flow; NULL: as water would */
};

struct units {
  struct unit *at; /* least choice first */
  size_t count;
  struct entry *entries; /* room for the ranks of one unit */
};

/* How much of a group goes to an entry that has `left` bytes of its share: all, or up to a grain's edge. */
static int64_t cut_at(const struct rsc_router *r, const struct rsc_group *g, int64_t lo, double left) {
  double rest = (double)(g->elems - lo) * g->wire_bytes;
  if (rest <= left + r->slice_min) return g->elems;
  return lo + (int64_t)(left / g->wire_bytes) / RSC_GRAIN * RSC_GRAIN;
}

struct way {
  int32_t set;
  int64_t holder, entry;
};

/* Ranks that an entry passes a piece to itself. */
static int32_t passed_on(const struct rsc_router *r, const struct rsc_demand *d) {
  int32_t others = d->seat_count - 1;
  return r->fanout && others > r->fanout ? r->fanout : others;
}

static void add_slice(struct rsc_router *r, struct rsc_demand *d, int64_t lo, int64_t hi, int64_t rank, double bytes) {
  *RSC_PUSH(r->scratch, &d->slices) = (struct rsc_slice){lo, hi, rank, end_at(d, rank)};
  r->in_load[rank] += bytes;
  r->passed_load[rank] += bytes * passed_on(r, d);
}

/* The holder that sends the byte at `at` of its set's demands, the holders' shares laid end to end. */
static int64_t holder_at(const struct rsc_holders *h, double at, double *end) {
  int64_t k = 0;
  for (*end = h->share[0]; k + 1 < h->count && *end <= at; *end += h->share[k]) k++;
  return k;
}

/* Where one more holder's pieces enter at a rank, a message comes from it and one goes on to each of the others. */
static void count_ways(struct rsc_router *r, const struct rsc_demand *d, const struct rsc_slice *s, struct way *last) {
  double wire = r->flows->groups[d->group].wire_bytes, at = d->before + (double)s->lo * wire;
  double stop = d->before + (double)s->hi * wire - wire * RSC_GRAIN, end;
  do {
    struct way way = {d->set, holder_at(&r->sets.at[d->set], at, &end), s->rank};
    bool more = way.set != last->set || way.holder != last->holder || way.entry != last->entry;
    for (int32_t i = 0; i < d->seat_count && more; i++) r->ways[d->seats[i].rank]++;
    if (more) r->ways[s->rank] += passed_on(r, d);
    *last = way;
    at = end;
  } while (at < stop && last->holder + 1 < r->sets.at[d->set].count);
}

/* How many ranks a unit enters at. */
static int32_t entries_of(const struct rsc_router *r, const struct unit *u, double grain_bytes) {
  double room = u->bytes / grain_bytes;
  if (r->seed_bug == RSC_SEED_ROUTE_LEADER) return 1;
  if (u->share) return u->ranks;
  return room < 1 ? 1 : room < u->ranks ? (int32_t)room : u->ranks;
}

/* Slices at as many ranks as there are `grain_bytes` in the unit; loads are added up in r->in_load. */
static void slice_unit(struct rsc_router *r, struct unit *u, struct entry *entries, double grain_bytes) {
  int32_t count = distinct_ranks(r, &u->demands[0], entries), most = entries_of(r, u, grain_bytes), at = 0;
  if (u->share && most == count) {
    for (int32_t i = 0; i < count; i++) entries[i].share = u->share[i];
  } else {
    qsort(entries, (size_t)count, sizeof *entries, by_load);
    fill(r, entries, most, u->bytes);
    qsort(entries, (size_t)most, sizeof *entries, by_rank);
  }
  double left = entries[0].share;
  struct way last = {-1, 0, 0};
  for (int32_t i = 0; i < u->count; i++) {
    struct rsc_demand *d = &u->demands[i];
    const struct rsc_group *g = &r->flows->groups[d->group];
    d->slices.len = 0;
    for (int64_t lo = 0, hi; lo < g->elems; lo = hi) {
      while (at + 1 < most && left < g->wire_bytes * RSC_GRAIN) left += entries[++at].share;
      hi = at + 1 == most ? g->elems : cut_at(r, g, lo, left);
      if (hi == lo) hi = g->elems; /* less than a grain is left */
      double bytes = (double)(hi - lo) * g->wire_bytes;
      add_slice(r, d, lo, hi, entries[at].rank, bytes);
      count_ways(r, d, &d->slices.at[d->slices.len - 1], &last);
      left -= bytes;
    }
  }
}

static int by_choice_and_size(const void *a, const void *b) {
  const struct unit *x = a, *y = b;
  if (x->demands->seat_count != y->demands->seat_count) return x->demands->seat_count < y->demands->seat_count ? -1 : 1;
  if (x->bytes < y->bytes || x->bytes > y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->demands < y->demands ? -1 : x->demands > y->demands; /* of one array */
}

static bool alike(const struct rsc_demand *a, const struct rsc_demand *b) {
  return a->domain == b->domain && a->ranks == b->ranks;
}

static double busiest_nic(const struct rsc_router *r) {
  double most = 0;
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->in_load[i] / r->nic[i] > most) most = r->in_load[i] / r->nic[i];
  return most;
}

/* Seconds, of NICs and of what entries pass on beside what NVLink carries anyway. */
static double busiest(const struct rsc_router *r) {
  double most = busiest_nic(r), rate = r->cluster->links.nvlink_bandwidth;
  for (int64_t i = 0; i < r->cluster->world; i++)
    if ((r->passed_load[i] + r->nvlink_load[i]) / rate > most) most = (r->passed_load[i] + r->nvlink_load[i]) / rate;
  return most;
}

struct trial {
  double grain_bytes;
  bool wide_first;
  double seconds;   /* of the busiest link */
  int64_t messages; /* of the rank that has most, in a round */
};

/* All units in slices of that grain. */
static void try_grain(struct rsc_router *r, struct units *units, struct trial *t) {
  for (int64_t i = 0; i < r->cluster->world; i++) r->in_load[i] = r->passed_load[i] = 0, r->ways[i] = 0;
  for (size_t i = 0; i < units->count; i++)
    slice_unit(r, &units->at[t->wide_first ? units->count - 1 - i : i], units->entries, t->grain_bytes);
  t->seconds = busiest(r);
  t->messages = 0;
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->ways[i] > t->messages) t->messages = r->ways[i];
}

static int by_ranks_set_group(const void *a, const void *b) {
  const struct rsc_demand *x = a, *y = b;
  if (x->domain != y->domain) return x->domain < y->domain ? -1 : 1;
  if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
  if (x->set != y->set) return x->set < y->set ? -1 : 1;
  return x->group < y->group ? -1 : x->group > y->group;
}

static struct units find_units(struct rsc_router *r) {
  struct units units = {.at = RSC_ARRAY(r->scratch, struct unit, r->demands.len)};
  int32_t seats = 0;
  for (size_t i = 0; i < r->demands.len; i++)
    if (r->demands.at[i].seat_count > seats) seats = r->demands.at[i].seat_count;
  units.entries = RSC_ARRAY(r->scratch, struct entry, seats);
  qsort(r->demands.at, r->demands.len, sizeof *r->demands.at, by_ranks_set_group);
  for (size_t i = 0; i < r->demands.len; i++) {
    struct rsc_demand *d = &r->demands.at[i];
    if (!units.count || !alike(units.at[units.count - 1].demands, d))
      units.at[units.count++] = (struct unit){d, 0, distinct_ranks(r, d, units.entries), 0, NULL};
    units.at[units.count - 1].count++;
    units.at[units.count - 1].bytes += rsc_group_bytes(r, d->group);
  }
  qsort(units.at, units.count, sizeof *units.at, by_choice_and_size);
  return units;
}

static int by_place(const void *a, const void *b) {
  const struct unit *x = a, *y = b;
  return x->demands < y->demands ? -1 : x->demands > y->demands; /* of one array, by domain */
}

/* A domain's units as sets of ranks. */
static struct rsc_holder_sets sets_of(struct rsc_router *r, const struct units *units, size_t from, size_t to) {
  struct rsc_holder_sets sets = {0};
  for (size_t i = from; i < to; i++) {
    const struct unit *u = &units->at[i];
    int64_t *ranks = RSC_ARRAY(r->scratch, int64_t, u->ranks);
    distinct_ranks(r, u->demands, units->entries);
    for (int32_t k = 0; k < u->ranks; k++) ranks[k] = units->entries[k].rank;
    *RSC_PUSH(r->scratch, &sets) =
        (struct rsc_holders){ranks, u->ranks, u->bytes, u->bytes, RSC_ARRAY(r->scratch, double, u->ranks)};
  }
  return sets;
}

/* Seconds of the domain's busiest NIC, and if all that take part were as busy. */
static double level_of(const struct rsc_router *r, const struct units *units, size_t from, size_t to, double *mean) {
  double most = 0, bytes = 0, rate = 0;
  int32_t domain = units->at[from].demands->domain;
  for (size_t i = from; i < to; i++) bytes += units->at[i].bytes;
  for (int64_t i = 0; i < r->cluster->world; i++) {
    if (r->cluster->hosts[r->cluster->processes[i].host].domain != domain || r->in_load[i] <= 0) continue;
    rate += r->nic[i];
    if (r->in_load[i] / r->nic[i] > most) most = r->in_load[i] / r->nic[i];
  }
  *mean = bytes / rate;
  return most;
}

/* Water finds the level if choices are nested: of two units either one's ranks are all among the other's, or none are.
 * Where they are not, a maximum flow may do better. */
static void find_flows(struct rsc_router *r, struct units *units) {
  qsort(units->at, units->count, sizeof *units->at, by_place);
  for (size_t from = 0, to; from < units->count; from = to) {
    to = from + 1;
    while (to < units->count && units->at[to].demands->domain == units->at[from].demands->domain) to++;
    double mean, most = level_of(r, units, from, to, &mean);
    if (most <= mean * LEVEL_SLACK) continue;
    struct rsc_holder_sets sets = sets_of(r, units, from, to);
    if (most <= rsc_flow_shares(r, &sets) * LEVEL_SLACK) continue;
    for (size_t i = 0; i < sets.len; i++) units->at[from + i].share = sets.at[i].share;
  }
  qsort(units->at, units->count, sizeof *units->at, by_choice_and_size);
}

/* Each demand's place among those of its set, in the order in which senders serve them. */
static void find_places(struct rsc_router *r) {
  qsort(r->demands.at, r->demands.len, sizeof *r->demands.at, rsc_demands_by_set);
  for (size_t i = 1; i < r->demands.len; i++) {
    const struct rsc_demand *last = &r->demands.at[i - 1];
    if (r->demands.at[i].set == last->set) r->demands.at[i].before = last->before + rsc_group_bytes(r, last->group);
  }
}

/* Entries of all units together. They grow as the grain shrinks, so equal sums are the same choice. */
static int64_t all_entries(const struct rsc_router *r, const struct units *units, double grain_bytes) {
  int64_t sum = 0;
  for (size_t i = 0; i < units->count; i++) sum += entries_of(r, &units->at[i], grain_bytes);
  return sum;
}

/* Of the slices that are at least as coarse and come near to `most` seconds, those with the fewest messages at one
 * rank. What many ranks want and pass on to many is often best entered at few, before the rest levels the loads. */
static struct trial find_best(struct rsc_router *r, struct units *units, struct trial best, double most) {
  double grain = r->slice_min;
  int64_t tried = 0;
  for (size_t i = 0; i < units->count; i++)
    if (units->at[i].bytes > grain) grain = units->at[i].bytes;
  for (; grain > r->slice_min; grain /= 2) {
    int64_t entries = all_entries(r, units, grain);
    for (int wide_first = 1; wide_first >= 0 && entries != tried; wide_first--) {
      struct trial t = {grain, wide_first, 0, 0};
      try_grain(r, units, &t);
      if (t.seconds <= most && t.messages < best.messages) best = t;
    }
    tried = entries;
  }
  return best;
}

void rsc_route_entries(struct rsc_router *r) {
  if (!r->demands.len) return;
  find_places(r);
  struct units units = find_units(r);
  struct trial water = {r->slice_min, false, 0, 0};
  try_grain(r, &units, &water); /* counts no messages: the holders have no shares yet */
  find_flows(r, &units);
  try_grain(r, &units, &water);
  r->out->ingest_seconds = busiest_nic(r);
  rsc_route_shares(r);
  try_grain(r, &units, &water);
  struct trial best = find_best(r, &units, water, water.seconds * LEVEL_SLACK);
  try_grain(r, &units, &best);
  r->out->ingest_seconds = busiest_nic(r);
}
