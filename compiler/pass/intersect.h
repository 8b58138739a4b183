/* SPDX-License-Identifier: Apache-2.0
 *
 * intersect: struct rsc_pairs -> struct rsc_flows.
 *
 * Three steps. overlap.c finds, once per combination of families, the *templates*: sets of elements that the same
 * inference parts want and the same training parts hold. intersect.c finds the tensors that each is stamped on, and
 * series.c and fold.c the loops that run over these; the stamps themselves are arithmetic on the ends of the loops.
 */
#ifndef RSC_PASS_INTERSECT_H
#define RSC_PASS_INTERSECT_H

#include "compiler/base/diag.h"
#include "compiler/ir/flows.h"
#include "compiler/ir/pairs.h"

/* `direct_min`: bytes from which a run that is contiguous at both ends moves without staging. `pieces`: how many
 * templates a tensor may have (see pair.h); where there are more, it says so and returns NULL. `seed_bug`: see
 * compiler/base/seed.h. */
const struct rsc_flows *rsc_intersect(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_pairs *pairs,
                                      int64_t pieces, int64_t direct_min, uint64_t seed_bug);

/* The same flows with nothing direct: groups that differ in that only become one. */
const struct rsc_flows *rsc_flows_packed(struct rsc_arena *arena, const struct rsc_flows *flows);

void rsc_flows_print(const struct rsc_flows *flows, FILE *out);

/* ---- overlap.c ---- */

/* A part that meets a template: an occurrence of a mention of the tensor, on the side that `wants` or the one that
 * holds. */
struct rsc_meeting {
  bool wants;
  int32_t mention, occurrence;
};

/* Elements that all of `ends` hold or want: a nest of width 2 + end_count, with end k's position in RSC_F_POS + k,
 * relative to the occurrence's base. Wanting ends come first. Loops fall by the first end's position; if the last loop
 * steps by one at every end it is the run. */
struct rsc_template {
  int32_t wants, holds;
  const struct rsc_meeting *ends;
  struct rsc_nest nest;
  int64_t elems, run;
};

struct rsc_templates {
  RSC_VEC(struct rsc_template);
};

/* The families of a tensor's mentions on both sides, in order. */
struct rsc_meeting_families {
  const struct rsc_placement *placement[2];
  const int32_t *families[2];
  int32_t counts[2];
};

/* Of no use if the budget is spent. */
struct rsc_templates rsc_overlap(struct rsc_arena *arena, const struct rsc_meeting_families *families,
                                 struct rsc_budget *budget, int64_t *intersections);

/* ---- series.c ---- */

/* Tensors whose mentions are of the same classes, with the same shapes: templates are stamped on them in order. */
struct rsc_series {
  const int32_t *tensors;
  int32_t count;
  struct rsc_column *columns[2]; /* series.c's own, per side and mention */
};
struct rsc_folder;

struct rsc_folder *rsc_folder_new(struct rsc_arena *arena, const struct rsc_pairs *pairs);
void rsc_folder_end(struct rsc_folder *folder); /* before its arena */

/* `tensors`: ascending, at least one; they must stay. */
const struct rsc_series *rsc_series_new(struct rsc_folder *folder, const int32_t *tensors, int32_t count);

/* Tensors [first, first + product of counts) of a series as nested loops, outermost first: with each loop every end of
 * the template steps by the same buffers and offset. */
struct rsc_tensor_loops {
  int64_t first;
  int32_t loop_count;
  const int64_t *counts;
};
/* All tensors of the series, in order; *count is the number of nests. */
const struct rsc_tensor_loops *rsc_series_fold(struct rsc_folder *folder, const struct rsc_series *series,
                                               const struct rsc_template *of, size_t *count);

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
