/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_turns: for limits on operations that turns by formula do not keep.
 */
#ifndef RSC_PASS_SCHEDULE_TURNS_H
#define RSC_PASS_SCHEDULE_TURNS_H

#include "compiler/ir/routes.h"

/* The turn of each tree's first hop, at the index of its root, so that no rank has more than max_ops messages in any of
 * `turns` turns, where every stream is one message in its turn; a hop's turn follows its parent's. NULL if not found.
 */
const int64_t *rsc_turns_apart(struct rsc_arena *arena, const struct rsc_routes *routes, int64_t world, int64_t turns,
                               int64_t max_ops);

#endif
