/* SPDX-License-Identifier: Apache-2.0
 *
 * flows: what has to move. Made by pass/intersect, read by route, schedule and lower.
 *
 * A *flow* is one overlap of one training part with one inference part of one tensor. Flows with the same possible
 * senders and the same receivers form a *group*; a group is a sequence of elements, described by descriptors with loops
 * over layers, experts and strides. `alternatives` are the different training places that hold the elements (a primary
 * place and its replicas, parts that share): each is a set of ranks with its own buffers and offsets.
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

/* Vectors have 2 * (1 + alternatives) words: receiver's gid and byte offset, then each alternative's. */
struct rsc_flow_desc {
  int64_t elems, run; /* run: consecutive elements at every end */
  int32_t loop_count;
  const int64_t *base;  /* [words] */
  const int64_t *loops; /* [loop_count][1 + words], outermost first */
  enum rsp_dtype wire;
  const struct rsc_end *ends; /* [1 + alternatives] */
};

struct rsc_flow_descs {
  RSC_VEC(struct rsc_flow_desc);
};

struct rsc_group {
  int32_t receivers;      /* rank set of the inference placement */
  const int32_t *senders; /* [alternatives] rank sets of the training placement */
  int32_t alternatives;
  uint32_t wire_bytes; /* per element */
  bool direct;         /* every run is long and needs no conversion at either end */
  int64_t min_run;     /* shortest run, elements */
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
