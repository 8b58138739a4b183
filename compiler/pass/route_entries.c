/* SPDX-License-Identifier: Apache-2.0
 *
 * In: demands. Out: their slices. Groups that the same ranks of a domain want from the same holders are one unit. A unit
 * enters at all of these ranks, in shares that level their network loads (water-filling); each entry rank then passes
 * its share to the others over NVLink. Units with the least choice go first. Small groups enter whole, so that a unit
 * takes few ways.
 */
#include <stdlib.h>

#include "compiler/pass/route_impl.h"

#define LEVEL_SLACK 1.002 /* of the levelled load: what coarser slices may cost */
enum { GRAIN = 4096 }; /* elements: cuts fall on multiples, so that alike domains are cut alike and runs stay whole */

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
  int32_t count;
  double bytes;
};

/* How much of a group goes to an entry that has `left` bytes of its share: all, or up to a grain's edge. */
static int64_t cut_at(const struct rsc_group *g, int64_t lo, double left) {
  double rest = (double)(g->elems - lo) * g->wire_bytes;
  if (rest <= left + RSC_SLICE_MIN) return g->elems;
  return lo + (int64_t)(left / g->wire_bytes) / GRAIN * GRAIN;
}

/* Slices of about `grain_bytes`, at most one per rank; loads are added up in r->in_load. */
static void slice_unit(struct rsc_router *r, struct unit *u, double grain_bytes) {
  struct entry *entries = RSC_ARRAY(r->scratch, struct entry, u->demands[0].seat_count);
  int32_t count = distinct_ranks(r, &u->demands[0], entries), at = 0;
  double room = u->bytes / grain_bytes;
  int32_t most = room < 1 ? 1 : room < count ? (int32_t)room : count;
  qsort(entries, (size_t)count, sizeof *entries, by_load);
  fill(r, entries, most, u->bytes);
  qsort(entries, (size_t)most, sizeof *entries, by_rank);
  double left = entries[0].share;
  for (int32_t i = 0; i < u->count; i++) {
    struct rsc_demand *d = &u->demands[i];
    const struct rsc_group *g = &r->flows->groups[d->group];
    d->slices = RSC_ARRAY(r->scratch, struct rsc_slice, most);
    d->slice_count = 0;
    for (int64_t lo = 0, hi; lo < g->elems; lo = hi) {
      while (at + 1 < most && left < g->wire_bytes * GRAIN) left += entries[++at].share;
      hi = at + 1 == most ? g->elems : cut_at(g, lo, left);
      if (hi == lo) hi = g->elems; /* less than a grain is left */
      double bytes = (double)(hi - lo) * g->wire_bytes;
      d->slices[d->slice_count++] = (struct rsc_slice){lo, hi, entries[at].rank, end_at(d, entries[at].rank)};
      r->in_load[entries[at].rank] += bytes;
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
  return a->set == b->set && a->domain == b->domain && a->ranks == b->ranks;
}

static double busiest(const struct rsc_router *r) {
  double most = 0;
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->in_load[i] / r->nic[i] > most) most = r->in_load[i] / r->nic[i];
  return most;
}

/* All units in slices of that grain; the seconds of the busiest NIC. */
static double slice_all(struct rsc_router *r, struct unit *units, size_t count, double grain_bytes) {
  for (int64_t i = 0; i < r->cluster->world; i++) r->in_load[i] = 0;
  for (size_t i = 0; i < count; i++) slice_unit(r, &units[i], grain_bytes);
  return busiest(r);
}

void rsc_route_entries(struct rsc_router *r) {
  struct unit *units = RSC_ARRAY(r->scratch, struct unit, r->demands.len);
  size_t count = 0;
  for (size_t i = 0; i < r->demands.len; i++) {
    struct rsc_demand *d = &r->demands.at[i];
    if (!count || !alike(units[count - 1].demands, d)) units[count++] = (struct unit){d, 0, 0};
    units[count - 1].count++;
    units[count - 1].bytes += rsc_group_bytes(r, d->group);
  }
  if (count) qsort(units, count, sizeof *units, by_choice_and_size);
  double total = 0;
  for (size_t i = 0; i < count; i++) total += units[i].bytes;
  /* Level as water would, then the coarsest slices that come near: fewer ways, fewer and larger messages. */
  double level = slice_all(r, units, count, RSC_SLICE_MIN), grain = total;
  while (grain > RSC_SLICE_MIN && slice_all(r, units, count, grain) > level * LEVEL_SLACK) grain /= 2;
  if (grain <= RSC_SLICE_MIN) slice_all(r, units, count, RSC_SLICE_MIN);
  r->out->ingest_seconds = busiest(r);
}
