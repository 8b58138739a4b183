/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `reshard sim`: the cluster that it runs on, and what it says.
 */
#ifndef RESHARD_TOOLS_SIM_REPORT_H
#define RESHARD_TOOLS_SIM_REPORT_H

#include <jansson.h>

#include "plans/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sim_slow {
  const char *text; /* HOST=FACTOR or HOST:GPU=FACTOR */
  double factor;
  uint32_t ranks; /* that it names */
};

struct sim_run {
  const char *program;
  const struct rsp_plan *plan;
  const char *cluster_path; /* or NULL: the rates in the plan */
  struct sim_slow *slow;
  size_t slow_count;
  struct rsp_sim_cluster cluster;
  struct rsp_sim_result result;
  struct rsp_bound bound;
};

/* The plan's rates, or those of the cluster file, whose processes must sit on the plan's hosts and GPUs; then the slow
 * ones. Says on stderr what is wrong; returns the exit status. */
int sim_cluster_open(struct sim_run *run);

int sim_report_text(const struct sim_run *run);
int sim_report_json(const struct sim_run *run);
/* Draws the timeline and a bar per link. Runs the simulation again. Returns the exit status. */
int sim_svg(const struct sim_run *run, const char *path);

/* What the model does not know, one sentence each; NULL ends. */
extern const char *const sim_left_out[];

/* ---- what text, JSON and picture share ---- */

/* "network out" */
const char *sim_link_title(enum rsp_sim_link link);
/* "training rank 3", "inference rank 8", "process 4". Returns buffer. */
const char *sim_rank_text(const struct rsp_plan *plan, uint32_t rank, char buffer[48]);

struct sim_spread {
  double least, mean, most, bytes;
  double
      uneven; /* time of all rounds if each takes as long as its busiest rank's link, over that of the busiest rank */
};
/* Of a link over the ranks that use it; all zero if none does. */
struct sim_spread sim_spread_of(const struct sim_run *run, enum rsp_sim_link link);

struct sim_busy {
  enum rsp_sim_link link;
  uint32_t rank;
};
/* The busiest links, most first; at most `most` rows, and how many. */
size_t sim_busiest(const struct sim_run *run, struct sim_busy *rows, size_t most);

#ifdef __cplusplus
}
#endif

#endif
