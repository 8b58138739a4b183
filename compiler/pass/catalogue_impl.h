/* SPDX-License-Identifier: Apache-2.0
 *
 * catalogue_impl: what the files of pass/catalogue share.
 */
#ifndef RSC_PASS_CATALOGUE_IMPL_H
#define RSC_PASS_CATALOGUE_IMPL_H

#include "compiler/base/intern.h"
#include "compiler/pass/catalogue_expr.h"

struct rsc_cat_tensors {
  RSC_VEC(struct rsc_tensor);
};

struct rsc_cat {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  const struct rsc_constant *constants;
  size_t constant_count;
  enum rsp_dtype dtype; /* the default, or none */
  struct rsc_cat_tensors tensors;
  struct rsc_interner *names; /* of the tensors, by the same numbers */
  int64_t turns, max_turns;   /* of all loops together */
  struct rsc_cat_text text;   /* scratch of the name being made */
};

/* The dtype that a scalar names, or RSP_DTYPE_NONE after a report. */
enum rsp_dtype rsc_cat_dtype(struct rsc_diag *diag, const struct rsc_yaml *node);

/* Unrolls one entry of `tensors:`. False if anything was reported. */
bool rsc_cat_add_tensors(struct rsc_cat *cat, const struct rsc_yaml *entry);

/* rsc_catalogue_read with a limit of one's own on the turns of all loops, for tests. */
bool rsc_catalogue_read_limited(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                                int64_t max_turns, struct rsc_catalogue *out);

#endif
