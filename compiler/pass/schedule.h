/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule: routes -> struct rsc_rounds.
 *
 * Every stream moves the same share in every round that it is active in, so a round inherits the balance of the whole.
 * With more peers than --max-ops or --staging allow at once, streams take turns: `step` rounds apart, by (dst - src)
 * modulo step, so that each rank meets about world / step peers in a round; or where that is too many still, in the
 * first turn that has room (schedule_turns.h).
 */
#ifndef RSC_PASS_SCHEDULE_H
#define RSC_PASS_SCHEDULE_H

#include "compiler/base/diag.h"
#include "compiler/ir/rounds.h"

struct rsc_plan_limits {
  int64_t staging;   /* bytes per rank */
  int64_t chunk;     /* bytes a rank sends or receives per round; 0: chosen */
  int64_t max_ops;   /* sends and receives per rank and round */
  int64_t max_peers; /* 0: none */
  int64_t max_turns; /* rounds between those of one stream; 0: as many as it takes */
  bool apart;        /* each tree of streams in a turn that has room for it; streams are staged */
};

/* Reports and returns NULL if the limits cannot be kept; unless this is the `last` try
 * it does so silently, since other routes may keep them. */
const struct rsc_rounds *rsc_schedule(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_routes *routes,
                                      const struct rsc_flows *flows, const struct rsc_cluster *cluster,
                                      const struct rsc_plan_limits *limits, bool last);

/* What rounds that no limit bends would be, and need of a rank: how many there are, staging, operations in one. */
struct rsc_need {
  int64_t rounds, staging, ops;
};
struct rsc_need rsc_rounds_need(const struct rsc_routes *routes, const struct rsc_flows *flows,
                                const struct rsc_cluster *cluster);

/* The busiest link's seconds, the most streams that one rank sends or receives, and in how many rounds after the first
 * the longest way has brought something to its end; a hop over links that are idle half of the time counts half. */
struct rsc_busiest {
  double seconds, fill;
  int64_t streams;
};
struct rsc_busiest rsc_busiest_of(const struct rsc_routes *routes, const struct rsc_cluster *cluster);

/* About how long the rounds take: to choose by, not to tell. */
double rsc_rounds_seconds(const struct rsc_routes *routes, const struct rsc_rounds *rounds,
                          const struct rsc_cluster *cluster);

void rsc_rounds_print(const struct rsc_routes *routes, const struct rsc_rounds *rounds, FILE *out);

#endif
