/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of route: what they share. In order:
 *   route.c          who wants and who holds each group, domain by domain; what needs no network
 *   route_entries.c  by which ranks of a domain each group enters it
 *   route_flow.c     how much each holder sends: a maximum flow
 *   route_senders.c  who sends each piece, and what domains pass on to one another
 *   route_streams.c  pieces that take the same way become a stream
 */
#ifndef RSC_PASS_ROUTE_IMPL_H
#define RSC_PASS_ROUTE_IMPL_H

#include "compiler/base/keys.h"
#include "compiler/pass/route.h"

enum {
  RSC_GRAIN = 4096
}; /* elements: cuts fall on multiples, so that alike domains are cut alike and runs stay whole */

/* A rank at one end of a group. */
struct rsc_seat {
  int32_t domain, end;
  int64_t rank; /* world */
};

struct rsc_seats {
  RSC_VEC(struct rsc_seat);
};

/* A step of a piece's way: to `rank`, into end `end`, from node `parent` (-1: from the sender). */
struct rsc_node {
  int32_t parent, end;
  int64_t rank;
  int32_t relays; /* other domains that it passes the piece on to */
};

struct rsc_nodes {
  RSC_VEC(struct rsc_node);
};

/* Elements [lo, hi) of a group and their whole way. nodes[0] is the first receiver. */
struct rsc_leg {
  int32_t group, src_end;
  int64_t lo, hi, src;
  struct rsc_nodes nodes;
};

struct rsc_legs {
  RSC_VEC(struct rsc_leg);
};

/* A domain that needs a group from outside, and the slices in which it enters. Slices ascend and fill the group. */
struct rsc_slice {
  int64_t lo, hi, rank; /* enters at this rank ... */
  int32_t end;          /* ... into this end */
};

struct rsc_slices {
  RSC_VEC(struct rsc_slice);
};

struct rsc_demand {
  int32_t group, set, domain;
  int32_t ranks;                /* interned list of the seats' ranks: alike demands can take one way */
  const struct rsc_seat *seats; /* who wants it there, by rank and end */
  int32_t seat_count;
  struct rsc_slices slices;
  double before; /* bytes of the set's demands before this one */
};

struct rsc_demands {
  RSC_VEC(struct rsc_demand);
};

/* Groups that the same ranks hold, or any of them can carry. Those who want a group where others of their domain hold
 * it can send it on too: they come after the holders. */
struct rsc_holders {
  const int64_t *ranks; /* world; each kind ascends within a domain */
  int64_t count;
  double demand, one_copy; /* bytes: of all domains; of the groups once */
  double *share;           /* per rank: bytes that it sends */
};

struct rsc_holder_sets {
  RSC_VEC(struct rsc_holders);
};

struct rsc_router {
  struct rsc_arena *arena, *scratch;
  const struct rsc_pairs *pairs;
  const struct rsc_flows *flows;
  const struct rsc_cluster *cluster;
  double slice_min;               /* rsc_slice_min of the slowest NIC */
  double *nic;                    /* bytes per second of each rank's share of its host's NICs */
  double *in_load, *out_load;     /* network bytes per rank */
  double *nvlink_load;            /* bytes out per rank */
  double *passed_load;            /* of these, what entries will pass on: while entries are chosen */
  int64_t *ways;                  /* messages per round and rank, about: while entries are chosen */
  struct rsc_demands demands;     /* by set of holders, domain, ranks, group */
  struct rsc_seats *holder_seats; /* per group: by rank */
  struct rsc_holder_sets sets;
  struct rsc_legs legs;
  int32_t fanout;    /* see rsc_route */
  uint64_t seed_bug; /* the same */
  double limit;      /* seconds of egress that the plan aims at */
  struct rsc_routes *out;
};

/* The entry of a slice, after node `parent` of the leg, and everybody in its domain that it passes the piece to. */
void rsc_route_add_domain(struct rsc_router *r, struct rsc_leg *leg, int32_t parent, const struct rsc_demand *d,
                          const struct rsc_slice *slice, double bytes);
int rsc_demands_by_set(const void *a, const void *b); /* for qsort: by set, domain, ranks, group */
/* Fills the demands' slices, by rsc_route_shares on the way. */
void rsc_route_entries(struct rsc_router *r);
/* Shares of the sets' demands among their ranks, in the least time, to within a thousandth; returns it. */
double rsc_flow_shares(struct rsc_router *r, struct rsc_holder_sets *sets);
/* Fills the sets' shares; sets limit and the routes' one_copy_seconds. */
void rsc_route_shares(struct rsc_router *r);
void rsc_route_senders(struct rsc_router *r);
void rsc_route_streams(struct rsc_router *r);

/* Bytes below which a group is not divided among ranks: what a link moves while some messages are issued and arrive. */
static inline double rsc_slice_min(double rate) {
  double bytes = rate * 21e-6, least = 16384, most = 1 << 20;
  return bytes > most ? most : bytes < least ? least : bytes;
}

static inline double rsc_group_bytes(const struct rsc_router *r, int32_t group) {
  return (double)r->flows->groups[group].elems * r->flows->groups[group].wire_bytes;
}

#endif
