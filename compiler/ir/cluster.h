/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster: where the ranks live. Made by pass/topology from YAML, or by default; read by route and emit.
 */
#ifndef RSC_IR_CLUSTER_H
#define RSC_IR_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rates in bytes per second, one direction; latencies in seconds. */
struct rsc_links {
  double nvlink_bandwidth, nvlink_latency;   /* per GPU */
  double network_bandwidth, network_latency; /* per NIC */
  double memory_bandwidth;                   /* per GPU; a copy counts its reads and its writes */
  double issue_seconds;                      /* cost of issuing one message (`issue` key; default 1e-6) */
};

struct rsc_host {
  const char *name;
  int32_t gpus, nics;
  int32_t domain; /* index into domains */
};

struct rsc_domain {
  const char *name;
};

/* One process: a GPU with a training rank, an inference rank, or both. */
struct rsc_process {
  int32_t host, gpu;
  int64_t train_rank, infer_rank; /* -1: none */
};

struct rsc_cluster {
  struct rsc_links links;
  const struct rsc_host *hosts;
  int64_t host_count;
  const struct rsc_domain *domains;
  int64_t domain_count;
  const struct rsc_process *processes; /* world ranks: all training ranks in order, then the inference ranks that
                                          do not share a training rank's GPU, in order */
  int64_t world;
  const int64_t *world_of_train, *world_of_infer; /* side rank -> world rank */
  int64_t train_world, infer_world;
};

/* A process's share of its host's NICs. */
static inline double rsc_nic_rate(const struct rsc_cluster *c, int64_t rank) {
  const struct rsc_host *h = &c->hosts[c->processes[rank].host];
  return c->links.network_bandwidth * (h->gpus > 0 && h->nics > 0 ? (double)h->nics / h->gpus : 1);
}

/* The stable text dump: links, hosts, ranks, one line each. */
void rsc_cluster_print(const struct rsc_cluster *cluster, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
