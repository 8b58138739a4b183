/* SPDX-License-Identifier: Apache-2.0
 *
 * place: struct rsc_layout -> struct rsc_placement.
 */
#ifndef RSC_PASS_PLACE_H
#define RSC_PASS_PLACE_H

#include "compiler/base/diag.h"
#include "compiler/base/keys.h"
#include "compiler/ir/placement.h"

/* Both sides intern their shapes and rank sets in tables of their own; errors go to diag, and the return value is
 * NULL if there was any. `pieces`: how many a class of buffers may be cut into, RSC_PIECES_MAX or fewer. */
const struct rsc_placement *rsc_place(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_layout *layout,
                                      int64_t pieces);

#endif
