/* SPDX-License-Identifier: Apache-2.0
 *
 * routes: who sends what to whom. Made by pass/route, read by schedule and lower.
 */
#ifndef RSC_IR_ROUTES_H
#define RSC_IR_ROUTES_H

#include <stdio.h>

#include "compiler/ir/cluster.h"
#include "compiler/ir/flows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements [lo, hi) of a group, from one of its alternatives. */
struct rsc_part {
  int32_t group, alternative;
  int64_t lo, hi;
};

struct rsc_parts {
  RSC_VEC(struct rsc_part);
};

/* Everything of one kind that goes from one process to another, in order of falling wire size. src == dst: a local copy. */
struct rsc_stream {
  int64_t src, dst; /* world ranks */
  bool direct;
  struct rsc_parts parts;
  int64_t bytes; /* wire */
};

enum rsc_link { RSC_LINK_LOCAL, RSC_LINK_NVLINK, RSC_LINK_NETWORK };

struct rsc_routes {
  const struct rsc_stream *streams; /* by src, dst, staged before direct */
  int64_t stream_count;
  int64_t link_bytes[3]; /* by enum rsc_link */
};

static inline enum rsc_link rsc_link_between(const struct rsc_cluster *c, int64_t a, int64_t b) {
  if (a == b) return RSC_LINK_LOCAL;
  return c->hosts[c->processes[a].host].domain == c->hosts[c->processes[b].host].domain ? RSC_LINK_NVLINK
                                                                                          : RSC_LINK_NETWORK;
}

#ifdef __cplusplus
}
#endif

#endif
