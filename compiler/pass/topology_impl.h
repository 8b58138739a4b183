/* SPDX-License-Identifier: Apache-2.0
 *
 * topology_impl: what the files of pass/topology share.
 */
#ifndef RSC_PASS_TOPOLOGY_IMPL_H
#define RSC_PASS_TOPOLOGY_IMPL_H

#include "compiler/base/intern.h"
#include "compiler/pass/topology.h"
#include "compiler/pass/topology_pattern.h"

/* A GPU by place; the position in its list is the side's rank. */
struct rsc_top_gpu {
  int32_t host, gpu;
};

struct rsc_top_gpus {
  RSC_VEC(struct rsc_top_gpu);
};

struct rsc_top_hosts {
  RSC_VEC(struct rsc_host);
};

struct rsc_top_spans {
  RSC_VEC(struct rsc_span);
};

struct rsc_top_bases {
  RSC_VEC(int64_t);
};

struct rsc_top {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  int64_t max_gpus;
  struct rsc_interner *host_names, *domain_names; /* numbered as hosts and domains are */
  struct rsc_top_hosts hosts;
  struct rsc_top_spans host_spans; /* of the pattern that made each host */
  struct rsc_top_bases first_gpu;  /* per host: how many GPUs the hosts before it have */
  int64_t gpu_count;
};

/* One entry of `hosts:`. False if anything was reported. */
bool rsc_top_add_hosts(struct rsc_top *top, const struct rsc_yaml *entry);

/* The GPUs that `train:` or `infer:` lists, in order, each once. False if anything was reported. */
bool rsc_top_select(struct rsc_top *top, const struct rsc_yaml *node, const char *side, struct rsc_top_gpus *out);

/* Gives the first GPUs of each list to the side's ranks and numbers the processes. Each list is long enough. */
void rsc_top_number(struct rsc_top *top, const struct rsc_top_gpus *train, const struct rsc_top_gpus *infer,
                    struct rsc_cluster *out);

/* rsc_topology with a limit of one's own on the cluster's GPUs, for tests. */
bool rsc_topology_limited(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                          int64_t train_world, int64_t infer_world, int64_t max_gpus, struct rsc_cluster *out);

#endif
