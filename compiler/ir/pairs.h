/* SPDX-License-Identifier: Apache-2.0
 *
 * pairs: the two placements joined by tensor name, in one canonical order that declaration order does not change.
 * Made by pass/pair, which also proves coverage; read by intersect, lower and emit.
 */
#ifndef RSC_IR_PAIRS_H
#define RSC_IR_PAIRS_H

#include "compiler/ir/placement.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers in plan order: all of train, then all of infer; on each side by the set of ranks that hold it and then by
 * name, numbers in names compared as numbers. The index is the gid. */
struct rsc_gid {
  enum rsc_side side;
  int32_t buffer; /* index into the side's buffers */
};

/* One place of a tensor. */
struct rsc_mention {
  int32_t gid, slot;
};

struct rsc_mentions {
  const struct rsc_mention *at;
  int32_t count;
};

struct rsc_paired_tensor {
  const struct rsc_tensor *tensor; /* either side's declaration; they agree */
  struct rsc_mentions by_side[2];
  bool skip_train, skip_infer;
};

struct rsc_pairs {
  const struct rsc_placement *placement[2];
  const struct rsc_gid *gids;
  int32_t gid_count, train_gids;
  const struct rsc_paired_tensor *tensors; /* by name, numbers as numbers; only those that a buffer mentions */
  int32_t tensor_count;
  const int32_t *tensor_of[2]; /* side's tensor index -> index here, or -1 */
  const char *forgotten;       /* a sentence on tensors that no buffer mentions and no skip matches, or "" */
};

static inline const struct rsc_placed_buffer *rsc_placed(const struct rsc_pairs *p, int32_t gid) {
  return &p->placement[p->gids[gid].side]->buffers[p->gids[gid].buffer];
}
static inline const struct rsc_buffer *rsc_buffer_of(const struct rsc_pairs *p, int32_t gid) {
  return &p->placement[p->gids[gid].side]->layout->buffers[p->gids[gid].buffer];
}
static inline const struct rsc_class *rsc_class_of(const struct rsc_pairs *p, int32_t gid) {
  return &p->placement[p->gids[gid].side]->classes[rsc_placed(p, gid)->klass];
}
static inline const struct rsc_rankmap *rsc_rankmap_of(const struct rsc_pairs *p, int32_t gid) {
  return &p->placement[p->gids[gid].side]->rankmaps[rsc_placed(p, gid)->rankmap];
}
static inline const struct rsc_slot *rsc_slot_of(const struct rsc_pairs *p, struct rsc_mention m) {
  return &rsc_class_of(p, m.gid)->slots[m.slot];
}

#ifdef __cplusplus
}
#endif

#endif
