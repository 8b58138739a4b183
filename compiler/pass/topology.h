/* SPDX-License-Identifier: Apache-2.0
 *
 * topology: a cluster file (or nothing) and the two worlds -> struct rsc_cluster.
 */
#ifndef RSC_PASS_TOPOLOGY_H
#define RSC_PASS_TOPOLOGY_H

#include "compiler/base/diag.h"
#include "compiler/ir/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `file` is the cluster file's index in sources, or -1 for the default: training ranks and then inference ranks fill
 * hosts of 8 GPUs, one NVLink domain and 8 NICs each, a new host where the sides meet; links 450e9/2e-6, 50e9/5e-6,
 * 3.3e12. Errors go to diag; returns false if there was any. */
bool rsc_topology(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                  int64_t train_world, int64_t infer_world, struct rsc_cluster *out);

#ifdef __cplusplus
}
#endif

#endif
