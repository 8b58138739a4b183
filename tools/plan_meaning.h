/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan means, apart from how it is written down: per rank what each buffer holds, and per ordered pair of ranks
 * which elements go where. Order of declaration, class and slot numbers, gids, the cut into pieces and the names of
 * layout files leave no trace.
 */
#ifndef RESHARD_TOOLS_PLAN_MEANING_H
#define RESHARD_TOOLS_PLAN_MEANING_H

#include "plans/plan.h"
#include "tools/plan_poly.h"
#include "tools/plan_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One buffer on one rank of its side. */
struct plan_row {
  const char *name;
  uint64_t name_len;
  uint32_t side, rank, dtype, ndim;
  const uint64_t *dims;
  struct plan_print elements; /* which element of which tensor, padding or gap is where, and by which op */
};

/* A process by its roles, which is what it is in any plan. */
struct plan_who {
  uint32_t train_rank, infer_rank;
};

struct plan_seat {
  struct plan_who who;
  uint32_t world_rank;
};

/* One stream at one of its ends. */
struct plan_route {
  struct plan_who from, to;
  enum plan_link link;
  uint32_t end; /* 0: of the sender, 1: of the receiver */
  uint32_t kind;
  uint64_t bytes;
  struct plan_print elements; /* which bytes of which buffers, at this end */
  uint64_t quantum;
  uint32_t round0, step;
};

struct plan_meaning {
  const struct rsp_plan *plan;
  struct plan_row *rows; /* by side, name, rank */
  size_t row_count;
  struct plan_route *routes; /* by from, to, end, kind, bytes, rounds: tags leave no trace */
  size_t route_count;
  struct plan_seat *seats; /* by who; one per world rank */
};

/* False without memory. */
bool plan_meaning_of(const struct rsp_plan *plan, struct plan_meaning *meaning);
void plan_meaning_free(struct plan_meaning *meaning);

/* Orders: names as bytes; ranks without a role last. */
int plan_compare_names(const char *a, uint64_t a_len, const char *b, uint64_t b_len);
int plan_compare_who(struct plan_who a, struct plan_who b);

/* For plan_meaning.c: the routes of all ranks, unordered. */
bool plan_routes_of(const struct rsp_plan *plan, struct plan_route **routes, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
