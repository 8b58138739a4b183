/* SPDX-License-Identifier: Apache-2.0
 *
 * flows: what has to move. Made by pass/intersect, read by route, schedule and lower.
 *
 * A *flow* is a set of elements of one tensor that the same inference parts want and the same training parts hold: an
 * overlap refined until every part that meets it holds the whole of it. Flows with the same ends form a *group*, a
 * sequence of elements described by descriptors with loops over layers, experts and strides. The *ends* of a group are
 * first the parts that want it, then the parts that hold it; each is a set of ranks with its own buffers and offsets.
 * A rank may be in several ends.
 */
#ifndef RSC_IR_FLOWS_H
#define RSC_IR_FLOWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/base/vec.h"
#include "plans/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the elements of one end relate to the tensor's. */
struct rsc_end {
  enum rsp_dtype dtype; /* of the buffer */
  uint8_t op;           /* enum rsp_op */
  float constant;
};

/* Vectors have 2 * ends words: each end's gid and byte offset. */
struct rsc_flow_desc {
  int64_t elems, run; /* run: consecutive elements at every end */
  int32_t loop_count;
  const int64_t *base;  /* [words] */
  const int64_t *loops; /* [loop_count][1 + words], outermost first */
  enum rsp_dtype wire;
  const struct rsc_end *ends;
  int32_t order; /* of the flows it was made from, among all; ascending within a group */
};

struct rsc_flow_descs {
  RSC_VEC(struct rsc_flow_desc);
};

struct rsc_group {
  int32_t wants, holds;    /* number of ends of each kind; wants come first */
  const int32_t *ranksets; /* per end: of the inference or of the training placement */
  uint32_t wire_bytes;     /* per element */
  bool direct;             /* every run is long and no end converts */
  int64_t min_run;         /* shortest run, elements */
  int64_t elems, flows;
  struct rsc_flow_descs descs;
};

struct rsc_flows {
  const struct rsc_group *groups;
  int32_t group_count;
  int64_t flow_count, intersections, desc_count;
  int64_t delivered_tensors, delivered_elems, delivered_bytes; /* all copies; bytes in the buffers' dtypes */
};

#ifdef __cplusplus
}
#endif

#endif
