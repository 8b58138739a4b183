/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve: a layout file -> struct rsc_layout: names, constants, loops, includes, catalogues.
 */
#ifndef RSC_PASS_RESOLVE_H
#define RSC_PASS_RESOLVE_H

#include "compiler/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the side's file through options->load (with its includes and models, which are added to `sources`), parses and
 * resolves it. All errors go to diag; if there was any, the layout is `partial`, or NULL where that has no use.
 * `*trouble` is set when a top file cannot be read. With options->dump "ast" the syntax trees of the side's files are
 * printed to dump_file; with stop_after "parse" that is all, and NULL is returned without an error. The values of the
 * layout's buffers live in `values`: nobody needs them after place. The rest lives in `arena`. */
const struct rsc_layout *rsc_resolve(struct rsc_arena *arena, struct rsc_arena *values, struct rsc_sources *sources,
                                     struct rsc_diag *diag, enum rsc_side side, const struct rsc_options *options,
                                     bool *trouble);

/* What a layout may ask for before it is refused as too large. rsc_resolve has generous limits; fuzzers have small
 * ones. */
struct rsc_limits {
  uint64_t steps;  /* of evaluation */
  int64_t items;   /* of one table */
  int64_t leaves;  /* mentions of tensors, loops unrolled */
  int64_t ranks;   /* of one mesh */
  int64_t scratch; /* bytes of strings and tables at one time */
};
const struct rsc_layout *rsc_resolve_within(struct rsc_arena *arena, struct rsc_arena *values,
                                            struct rsc_sources *sources, struct rsc_diag *diag, enum rsc_side side,
                                            const struct rsc_options *options, const struct rsc_limits *limits,
                                            bool *trouble);

/* Stable text form. */
void rsc_layout_print(const struct rsc_layout *layout, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
