/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the specification and the streams of a plan as they were written. Out: its bound and its simulated time. Both are
 * found from what stands in the file alone, so they are the figures of what was written, not of what was meant.
 */
#include <stdio.h>

#include "compiler/pass/lower.h"

void rsc_measure(const struct rsc_cluster *c, const struct rsp_plan *plan, struct rsp_sim_streams *streams,
                 struct rsp_summary *summary, struct rsc_figures *out) {
  struct rsp_sim_cluster links;
  struct rsp_sim_result result;
  struct rsp_bound bound;
  rsp_sim_cluster_of(plan, &links);
  for (int64_t r = 0; r < c->world; r++) {
    const struct rsc_host *h = &c->hosts[c->processes[r].host];
    double share = h->nics && h->gpus ? (double)h->nics / h->gpus : 1;
    links.rate[RSP_SIM_NIC_OUT][r] *= share;
    links.rate[RSP_SIM_NIC_IN][r] *= share;
  }
  rsp_simulate_streams(streams, plan->header->world, plan->header->rounds, &links, &result);
  rsp_bound_of(plan, &links, &bound);
  summary->bound_seconds = out->bound_seconds = bound.seconds;
  summary->makespan_seconds = out->simulated_seconds = result.seconds;
  snprintf(out->bound_term, sizeof out->bound_term, "%s", rsp_bound_word(bound.term));
  snprintf(out->bound_words, sizeof out->bound_words, "%s", bound.words);
  rsp_sim_result_free(&result);
  rsp_sim_cluster_free(&links);
}
