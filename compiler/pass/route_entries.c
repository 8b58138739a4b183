/* SPDX-License-Identifier: Apache-2.0
 *
 * In: demands. Out: their slices. A group that several ranks of a domain want enters at all of them, in shares that level
 * the ranks' network loads (water-filling); each entry rank then passes its share to the others over NVLink. Demands with
 * the least choice go first.
 */
#include <stdlib.h>

#include "compiler/pass/route_impl.h"

enum { GRAIN = 4096 }; /* elements: cuts fall on multiples, so that alike domains are cut alike and runs stay whole */

struct entry {
  int64_t rank;
  int32_t end;
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
    out[n++] = (struct entry){rank, d->seats[i].end, r->in_load[rank] / r->nic[rank], 0};
  }
  return n;
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

static void slice_demand(struct rsc_router *r, struct rsc_demand *d) {
  const struct rsc_group *g = &r->flows->groups[d->group];
  double bytes = rsc_group_bytes(r, d->group), given = 0;
  struct entry *entries = RSC_ARRAY(r->scratch, struct entry, d->seat_count);
  int32_t count = distinct_ranks(r, d, entries), most = (int32_t)(bytes / RSC_SLICE_MIN < count ? bytes / RSC_SLICE_MIN : count);
  qsort(entries, (size_t)count, sizeof *entries, by_load);
  if (most < 1) most = 1;
  fill(r, entries, most, bytes);
  qsort(entries, (size_t)most, sizeof *entries, by_rank);
  d->slices = RSC_ARRAY(r->scratch, struct rsc_slice, most);
  int64_t lo = 0;
  for (int32_t i = 0; i < most; i++) {
    given += entries[i].share;
    int64_t hi = i + 1 == most ? g->elems : (int64_t)(given / g->wire_bytes + 0.5) / GRAIN * GRAIN;
    if (hi > g->elems) hi = g->elems;
    if (hi <= lo) continue;
    d->slices[d->slice_count++] = (struct rsc_slice){lo, hi, entries[i].rank, entries[i].end};
    r->in_load[entries[i].rank] += (double)(hi - lo) * g->wire_bytes;
    lo = hi;
  }
}

struct turn {
  int64_t demand;
  int32_t seats;
  double bytes;
};

static int by_choice_and_size(const void *a, const void *b) {
  const struct turn *x = a, *y = b;
  if (x->seats != y->seats) return x->seats < y->seats ? -1 : 1;
  if (x->bytes < y->bytes || x->bytes > y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->demand < y->demand ? -1 : x->demand > y->demand;
}

void rsc_route_entries(struct rsc_router *r) {
  struct turn *turns = RSC_ARRAY(r->scratch, struct turn, r->demands.len);
  for (size_t i = 0; i < r->demands.len; i++)
    turns[i] = (struct turn){(int64_t)i, r->demands.at[i].seat_count, rsc_group_bytes(r, r->demands.at[i].group)};
  qsort(turns, r->demands.len, sizeof *turns, by_choice_and_size);
  for (size_t i = 0; i < r->demands.len; i++) slice_demand(r, &r->demands.at[turns[i].demand]);
  for (int64_t i = 0; i < r->cluster->world; i++)
    if (r->in_load[i] / r->nic[i] > r->out->ingest_seconds) r->out->ingest_seconds = r->in_load[i] / r->nic[i];
}
