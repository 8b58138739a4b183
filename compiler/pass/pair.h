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
 * operations. */
const struct rsc_pairs *rsc_pair(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_placement *train,
                                 const struct rsc_placement *infer, int64_t *intersections);

/* coverage.c: the part of the above that looks at elements. */
void rsc_check_coverage(struct rsc_diag *diag, const struct rsc_pairs *pairs, int64_t *intersections);

/* <0, 0, >0: bytes compared, but runs of digits by their number. Total order: equal only if the bytes are. */
int rsc_natural_compare(const char *a, const char *b);

#endif
