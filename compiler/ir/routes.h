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

/* Elements [lo, hi) of a group, between two of its ends. A stream that passes on has no source end of its own. */
struct rsc_part {
  int32_t group, src_end, dst_end;
  int64_t lo, hi;
};

struct rsc_parts {
  struct rsc_part *at;
  size_t len;
};

/* Everything that goes from one process to another by one way, in order of falling wire size. src == dst without a
 * parent is a local copy. A stream with a parent passes on, one round later, what the parent brought to src: same
 * elements, same order. */
struct rsc_stream {
  int64_t src, dst; /* world ranks */
  bool direct;
  int32_t tag;    /* tells streams of one (src, dst, direct) apart */
  int64_t parent; /* index of a stream, or -1 */
  int32_t depth;  /* hops before this one */
  int32_t tail;   /* most hops after the first in the whole tree */
  int64_t root;   /* index of the tree's first stream */
  struct rsc_parts parts;
  int64_t bytes; /* wire */
};

/* What a process copies to itself. */
static inline bool rsc_is_copy(const struct rsc_stream *s) {
  return s->src == s->dst && s->parent < 0;
}

enum rsc_link { RSC_LINK_LOCAL, RSC_LINK_NVLINK, RSC_LINK_NETWORK };

struct rsc_routes {
  const struct rsc_stream *streams; /* by src, dst, staged before direct, tag */
  int64_t stream_count;
  int64_t link_bytes[3];   /* by enum rsc_link */
  double ingest_seconds;   /* busiest NIC, in */
  double egress_seconds;   /* busiest NIC, out */
  double one_copy_seconds; /* the least time for the holders to send one copy of everything */
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
