/* SPDX-License-Identifier: Apache-2.0
 *
 * lower: flows, routes and rounds -> one program per world rank, as the tables of its slice. emit: all of it -> bytes.
 * All programs together are larger than anything else, so emit has lower make them one at a time. measure: what is
 * written -> its bound and simulated time.
 */
#ifndef RSC_PASS_LOWER_H
#define RSC_PASS_LOWER_H

#include "compiler/base/diag.h"
#include "compiler/ir/pairs.h"
#include "compiler/ir/rounds.h"
#include "compiler/pass/schedule.h"
#include "compiler/pipeline.h"
#include "plans/plan.h"
#include "plans/sim.h"

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

/* Gets ready to make programs. Freed by rsc_lower_end. */
struct rsc_programs *rsc_lower(const struct rsc_decided *d);
/* The number of what a rank holds, the same for ranks that hold the same. If *fresh the first rank with that number was
 * asked for: then `tables` has names to zloops, good until the next call. Not to be called after rsc_lower_rank. */
int32_t rsc_lower_held(struct rsc_programs *programs, int64_t rank, struct rsp_slice_tables *tables, bool *fresh);
/* What a rank does: all but names to zloops. Good until the next call. */
void rsc_lower_rank(struct rsc_programs *programs, int64_t rank, struct rsp_slice_tables *tables);
void rsc_lower_end(struct rsc_programs *programs);

/* Puts the file's bytes. False if `put` did not take them. */
bool rsc_emit(const struct rsc_decided *d, struct rsc_programs *programs, rsp_put_fn put, void *user,
              struct rsc_result *result);

/* Finds the bound and the simulated time, and puts them into the summary. Frees the streams. */
void rsc_measure(const struct rsc_cluster *cluster, const struct rsp_plan *specification,
                 struct rsp_sim_streams *streams, struct rsp_summary *summary, struct rsc_figures *out);

/* What a side means, whatever its spelling: digest of its world, and of each buffer's name, dtype, ranks and pieces. */
void rsc_side_digest(const struct rsc_pairs *pairs, enum rsc_side side, uint8_t digest[16]);
void rsc_cluster_digest(const struct rsc_cluster *cluster, uint8_t digest[16]);
void rsc_options_digest(const struct rsc_plan_limits *limits, uint8_t digest[16]);

#endif
