/* SPDX-License-Identifier: Apache-2.0
 *
 * route: flows and a cluster -> struct rsc_routes. minimum: the least that the network must carry.
 */
#ifndef RSC_PASS_ROUTE_H
#define RSC_PASS_ROUTE_H

#include "compiler/ir/pairs.h"
#include "compiler/ir/routes.h"

/* Picks a sender for every receiver of every group: the process itself where it holds the elements, else the least loaded
 * holder, in the receiver's NVLink domain if one is there. Never fails. */
const struct rsc_routes *rsc_route(struct rsc_arena *arena, const struct rsc_pairs *pairs,
                                   const struct rsc_flows *flows, const struct rsc_cluster *cluster);

/* Bytes, in the tensors' dtypes: over all NVLink domains, the distinct elements that its ranks want and none of them
 * holds; `by_domain` gets each domain's share. */
int64_t rsc_network_minimum(const struct rsc_pairs *pairs, const struct rsc_cluster *cluster, int64_t *by_domain,
                            int64_t *intersections);

void rsc_routes_print(const struct rsc_routes *routes, FILE *out);

#endif
