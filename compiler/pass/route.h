/* SPDX-License-Identifier: Apache-2.0
 *
 * route: flows and a cluster -> struct rsc_routes. minimum: the least that the network must carry.
 */
#ifndef RSC_PASS_ROUTE_H
#define RSC_PASS_ROUTE_H

#include "compiler/ir/pairs.h"
#include "compiler/ir/routes.h"

/* Picks a way for every element to every part that wants it. The process itself serves what it holds; else a holder in
 * the receiver's NVLink domain does; else the element enters the domain once, from the holder or the domain that has
 * time for it, and the entry rank passes it on. `fanout`: to how many ranks of the domain, and to how
 * many other domains, one rank passes a piece on; 0 for no limit. `seed_bug`: see compiler/base/seed.h. Never fails. */
const struct rsc_routes *rsc_route(struct rsc_arena *arena, const struct rsc_pairs *pairs,
                                   const struct rsc_flows *flows, const struct rsc_cluster *cluster, int32_t fanout,
                                   uint64_t seed_bug);

/* Bytes, in the tensors' dtypes: over all NVLink domains, the distinct elements that its ranks want and none of them
 * holds; `by_domain` gets each domain's share. */
int64_t rsc_network_minimum(const struct rsc_pairs *pairs, const struct rsc_cluster *cluster, int64_t *by_domain,
                            int64_t *intersections);

void rsc_routes_print(const struct rsc_routes *routes, FILE *out);

#endif
