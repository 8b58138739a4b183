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
 * resolves it. All errors go to diag; returns NULL if there was any. `*trouble` is set when a top file cannot be read. */
const struct rsc_layout *rsc_resolve(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag,
                                     enum rsc_side side, const struct rsc_options *options, bool *trouble);

/* Stable text form. */
void rsc_layout_print(const struct rsc_layout *layout, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
