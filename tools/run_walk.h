/* SPDX-License-Identifier: Apache-2.0
 *
 * run_walk: a piece of the specification as rows: the innermost loop of its nest, once per step of the outer ones.
 */
#ifndef RESHARD_TOOLS_RUN_WALK_H
#define RESHARD_TOOLS_RUN_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensor elements t, t + t_step, ... are buffer elements b, b + b_step, ...; count of them. */
struct run_row {
  uint64_t t, t_step, b, b_step, count;
};

/* Calls `row` for each row of the share `part` of `parts` of the piece (the outermost loop is shared out), until it
 * returns false. Returns false if it did. */
bool run_walk(const struct rsp_plan *plan, const struct rsp_piece *piece, uint64_t part, uint64_t parts,
              bool (*row)(void *user, const struct run_row *r), void *user);

#ifdef __cplusplus
}
#endif

#endif
