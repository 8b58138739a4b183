/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a plan. Out: the rates of its links, rank by rank; words; memory.
 */
#include <stdlib.h>

#include "plans/sim/impl.h"

void *rspm_alloc(size_t count, size_t size) {
  void *at = calloc(count ? count : 1, size);
  if (!at) abort();
  return at;
}

void *rspm_grow(void *at, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return at;
  *capacity = *capacity ? *capacity * 2 : 16;
  at = realloc(at, *capacity * size);
  if (!at) abort();
  return at;
}

const char *rsp_sim_link_word(enum rsp_sim_link link) {
  static const char *const words[] = {"nic_out", "nic_in", "nvlink_out", "nvlink_in", "memory", "issue"};
  return words[link];
}

const char *rsp_bound_word(enum rsp_bound_term term) {
  static const char *const words[] = {"nothing", "ingest", "egress", "network", "nvlink", "rank", "memory", "latency"};
  return words[term];
}

void rsp_sim_cluster_of(const struct rsp_plan *plan, struct rsp_sim_cluster *cluster) {
  const struct rsp_summary *s = plan->summary;
  const double rates[RSP_SIM_LINKS] = {s->network_bandwidth, s->network_bandwidth,
                                       s->nvlink_bandwidth,  s->nvlink_bandwidth,
                                       s->memory_bandwidth,  s->issue_seconds > 0 ? 1 / s->issue_seconds : 1e30};
  for (int k = 0; k < RSP_SIM_LINKS; k++) {
    cluster->rate[k] = rspm_alloc(plan->header->world, sizeof(double));
    for (uint32_t r = 0; r < plan->header->world; r++) cluster->rate[k][r] = rates[k];
  }
  cluster->network_latency = s->network_latency;
  cluster->nvlink_latency = s->nvlink_latency;
  cluster->issue_seconds = s->issue_seconds;
}

bool rsp_sim_cluster_usable(const struct rsp_plan *plan, const struct rsp_sim_cluster *c) {
  for (int k = 0; k < RSP_SIM_LINKS; k++)
    for (uint32_t r = 0; r < plan->header->world; r++)
      if (!(c->rate[k][r] > 0 && c->rate[k][r] < 1e300)) return false;
  return c->network_latency >= 0 && c->nvlink_latency >= 0 && c->issue_seconds >= 0 && c->network_latency < 1e9 &&
         c->nvlink_latency < 1e9 && c->issue_seconds < 1e9;
}

void rsp_sim_cluster_free(struct rsp_sim_cluster *cluster) {
  for (int k = 0; k < RSP_SIM_LINKS; k++) free(cluster->rate[k]);
  *cluster = (struct rsp_sim_cluster){.network_latency = 0};
}
