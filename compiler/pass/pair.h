/* SPDX-License-Identifier: Apache-2.0
 *
 * pair: two placements -> struct rsc_pairs, or the errors of coverage.
 */
#ifndef RSC_PASS_PAIR_H
#define RSC_PASS_PAIR_H

#include "compiler/base/diag.h"
#include "compiler/ir/pairs.h"

/* Joins the sides and reports: tensors that disagree, skips that match nothing, what is wanted and not supplied,
 * supplied and not wanted, supplied twice. Returns NULL if there was an error. `*intersections` counts the box
 * operations. `pieces`: how many the overlaps of a tensor's places may have, RSC_PIECES_MAX or fewer. */
const struct rsc_pairs *rsc_pair(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_placement *train,
                                 const struct rsc_placement *infer, int64_t pieces, int64_t *intersections);

/* coverage.c: the part of the above that looks at elements. */
void rsc_check_coverage(struct rsc_diag *diag, const struct rsc_pairs *pairs, int64_t pieces, int64_t *intersections);

/* ---- overlap_budget.c ---- */

/* What the places of one tensor may cost, shared by coverage and intersect: `pieces`, and a few for each pair of parts,
 * so that regular cuts are never refused for their number of ranks. */
struct rsc_budget rsc_overlap_budget(const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor,
                                     int64_t pieces);
/* The place of this side that is in the most pieces, or -1 if it has none. */
int32_t rsc_most_pieces(const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor, enum rsc_side side);
/* Says that the budget of the places of this tensor is spent. */
void rsc_overlap_spent(struct rsc_diag *diag, const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor);
/* ---- pair.c ---- */

/* <0, 0, >0: bytes compared, but runs of digits by their number. Total order: equal only if the bytes are. */
int rsc_natural_compare(const char *a, const char *b);

#endif
