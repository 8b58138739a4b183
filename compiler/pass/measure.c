/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the finished bytes of a plan. Out: the same with its bound and its simulated time in the summary, sealed anew.
 * Both are found from the bytes alone, so they are the figures of what was written, not of what was meant.
 */
#include <stdio.h>

#include "compiler/pass/lower.h"
#include "plans/sim.h"

void rsc_measure(const struct rsc_cluster *c, void *bytes, size_t size, struct rsc_figures *out) {
  struct rsp_plan plan;
  struct rsp_sim_cluster links;
  struct rsp_sim_result result;
  struct rsp_bound bound;
  rsp_view_built(bytes, size, &plan);
  rsp_sim_cluster_of(&plan, &links);
  for (int64_t r = 0; r < c->world; r++) {
    const struct rsc_host *h = &c->hosts[c->processes[r].host];
    double share = h->nics && h->gpus ? (double)h->nics / h->gpus : 1;
    links.rate[RSP_SIM_NIC_OUT][r] *= share;
    links.rate[RSP_SIM_NIC_IN][r] *= share;
  }
  rsp_simulate(&plan, &links, NULL, NULL, &result);
  rsp_bound_of(&plan, &links, &bound);
  struct rsp_summary *s = (void *)((char *)bytes + plan.header->sections[RSP_SEC_SUMMARY].off);
  s->bound_seconds = out->bound_seconds = bound.seconds;
  s->makespan_seconds = out->simulated_seconds = result.seconds;
  snprintf(out->bound_term, sizeof out->bound_term, "%s", rsp_bound_word(bound.term));
  snprintf(out->bound_words, sizeof out->bound_words, "%s", bound.words);
  rsp_reseal(bytes, size);
  rsp_sim_result_free(&result);
  rsp_sim_cluster_free(&links);
}
