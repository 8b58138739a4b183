/* SPDX-License-Identifier: Apache-2.0
 *
 * What any reader of an accepted plan may do, done to all of it: under a sanitizer, a plan that should have been
 * refused shows.
 */
#ifndef WALK_H
#define WALK_H

#include "plans/plan.h"

/* Returns a sum, so that no read can be left out. Work is bounded by `budget` steps. */
uint64_t walk_plan(const struct rsp_plan *plan, uint64_t budget);
uint64_t walk_rank(const struct rsp_rank_view *view, uint64_t budget);

#endif
