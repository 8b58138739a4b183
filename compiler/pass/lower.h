/* SPDX-License-Identifier: Apache-2.0
 *
 * lower: flows, routes and rounds -> one program per world rank, as the tables of its slice. emit: all of it -> bytes.
 * measure: the bytes -> their bound and simulated time.
 */
#ifndef RSC_PASS_LOWER_H
#define RSC_PASS_LOWER_H

#include "compiler/base/diag.h"
#include "compiler/ir/pairs.h"
#include "compiler/ir/rounds.h"
#include "compiler/pass/schedule.h"
#include "compiler/pipeline.h"
#include "plans/plan.h"

/* What the passes have decided, for lower and emit to write down. */
struct rsc_decided {
  const struct rsc_pairs *pairs;
  const struct rsc_flows *flows;
  const struct rsc_cluster *cluster;
  const struct rsc_routes *routes;
  const struct rsc_rounds *rounds;
  const struct rsc_sources *sources;
  const struct rsc_plan_limits *limits;
  int64_t network_minimum;
  uint64_t seed_bug;
  const char *train_path, *infer_path, *cluster_path; /* as given; cluster_path may be NULL */
};

/* One table set per world rank. */
const struct rsp_slice_tables *rsc_lower(struct rsc_arena *arena, const struct rsc_decided *d);

/* The file's bytes, malloc'd. */
void rsc_emit(const struct rsc_decided *d, const struct rsp_slice_tables *slices, void **bytes, size_t *size);

/* Puts the bound and the simulated time into the finished plan, and says them. */
void rsc_measure(const struct rsc_cluster *cluster, void *bytes, size_t size, struct rsc_figures *out);

/* What a side means, whatever its spelling: digest of its world, and of each buffer's name, dtype, ranks and pieces. */
void rsc_side_digest(const struct rsc_pairs *pairs, enum rsc_side side, uint8_t digest[16]);
void rsc_cluster_digest(const struct rsc_cluster *cluster, uint8_t digest[16]);
void rsc_options_digest(const struct rsc_plan_limits *limits, uint8_t digest[16]);

#endif
