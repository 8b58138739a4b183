// SPDX-License-Identifier: Apache-2.0
//
// run_walk: nests of loops as rows. In: a piece of the specification. Out: calls. Adds steps, never divides.

#include "tools/run_walk.h"

#include <stddef.h>

// The outer loops but the last, run row-major by counting up; the last is the row itself.
static bool walk_outer(const struct rsp_ploop *loops, uint32_t outer, struct run_row r,
                       bool (*row)(void *, const struct run_row *), void *user) {
  if (outer == 0) return row(user, &r);
  struct run_row at = r;
  for (uint64_t k = 0; k < loops[0].count; k++) {
    if (!walk_outer(loops + 1, outer - 1, at, row, user)) return false;
    at.t += loops[0].t_step;
    at.b += loops[0].b_step;
  }
  return true;
}

bool run_walk(const struct rsp_plan *plan, const struct rsp_piece *piece, uint64_t part, uint64_t parts,
              bool (*row)(void *user, const struct run_row *r), void *user) {
  const struct rsp_ploop *loops = plan->ploops + piece->loops;
  struct run_row r = {piece->t0, 0, piece->b0, 1, 1};
  if (piece->loop_count == 0) return part != 0 || row(user, &r);
  uint64_t lo = loops[0].count / parts * part + loops[0].count % parts * part / parts;
  uint64_t hi = loops[0].count / parts * (part + 1) + loops[0].count % parts * (part + 1) / parts;
  if (lo == hi) return true;
  r.t += lo * loops[0].t_step;
  r.b += lo * loops[0].b_step;
  const struct rsp_ploop *last = loops + piece->loop_count - 1;
  r.t_step = last->t_step;
  r.b_step = last->b_step;
  r.count = last->count;
  if (piece->loop_count == 1) {
    r.count = hi - lo;
    return row(user, &r);
  }
  for (uint64_t k = lo; k < hi; k++) {
    if (!walk_outer(loops + 1, piece->loop_count - 2, r, row, user)) return false;
    r.t += loops[0].t_step;
    r.b += loops[0].b_step;
  }
  return true;
}
