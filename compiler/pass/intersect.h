/* SPDX-License-Identifier: Apache-2.0
 *
 * intersect: struct rsc_pairs -> struct rsc_flows.
 *
 * Two steps. overlap.c finds, once per combination of families, the *templates*: the overlaps of what one inference slot
 * wants with what training slots hold. intersect.c stamps them out for every tensor by arithmetic, sorts the stamps
 * into groups, and fold.c turns runs of stamps into loops.
 */
#ifndef RSC_PASS_INTERSECT_H
#define RSC_PASS_INTERSECT_H

#include "compiler/ir/flows.h"
#include "compiler/ir/pairs.h"

/* `direct_min`: bytes from which a run that is contiguous at both ends moves without staging. Never fails: pair has
 * proved coverage. `seed_bug`: see compiler/base/seed.h. */
const struct rsc_flows *rsc_intersect(struct rsc_arena *arena, const struct rsc_pairs *pairs, int64_t direct_min,
                                      uint64_t seed_bug);

void rsc_flows_print(const struct rsc_flows *flows, FILE *out);

/* ---- overlap.c ---- */

struct rsc_holder {
  int32_t mention, occurrence; /* of the tensor's training mentions */
};

/* What occurrence `wanted` of the inference slot shares with all of `holders`: nest of width 3 + holder_count with
 * the receiver's position in RSC_F_POS and holder k's in RSC_F_SRC + k, both relative to the occurrences' bases. Loops
 * fall by receiver's position; if the last loop steps by one at every end it is the run. */
struct rsc_template {
  int32_t wanted;
  int32_t holder_count;
  const struct rsc_holder *holders;
  struct rsc_nest nest;
  int64_t elems, run;
};

struct rsc_templates {
  RSC_VEC(struct rsc_template);
};

/* `train`: families of the tensor's training mentions, in order. */
struct rsc_templates rsc_overlap(struct rsc_arena *arena, const struct rsc_placement *train_side,
                                 const int32_t *train, int32_t train_count, const struct rsc_placement *infer_side,
                                 int32_t infer, int64_t *intersections);

/* ---- fold.c ---- */

/* `items`: count vectors of `words` words. Finds nested arithmetic progressions: the result's bases and loops stand for
 * exactly the items, in order. */
struct rsc_fold {
  int32_t loop_count;
  const int64_t *base;  /* [words] */
  const int64_t *loops; /* [loop_count][1 + words], outermost first */
};
struct rsc_folds {
  RSC_VEC(struct rsc_fold);
};
struct rsc_folds rsc_fold_items(struct rsc_arena *arena, const int64_t *items, int64_t count, int32_t words);

#endif
