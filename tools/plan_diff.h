/* SPDX-License-Identifier: Apache-2.0
 *
 * What changes from one plan to another, by meaning.
 */
#ifndef RESHARD_TOOLS_PLAN_DIFF_H
#define RESHARD_TOOLS_PLAN_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/plan_meaning.h"

#ifdef __cplusplus
extern "C" {
#endif

enum plan_change { PLAN_ADDED, PLAN_REMOVED, PLAN_CHANGED };

struct plan_rank_change {
  enum plan_change change;
  const struct rsp_rank *old_rank, *new_rank; /* the missing one is NULL */
};

struct plan_tensor_change {
  enum plan_change change;
  const struct rsp_tensor *old_tensor, *new_tensor;
};

/* A buffer name on ranks for which the same has changed. */
struct plan_buffer_change {
  enum plan_change change;
  bool dtype, shape, elements;              /* of CHANGED */
  const struct plan_row *old_row, *new_row; /* of the first rank */
  uint32_t *ranks;
  uint64_t rank_count;
};

/* All streams from one process to another. */
struct plan_route_change {
  enum plan_change change;
  bool elements, way; /* of CHANGED: other elements; another link, or zero copy in place of staging */
  struct plan_who from, to;
  enum plan_link old_link, new_link;
  uint64_t old_bytes, new_bytes;
};

struct plan_diff {
  const struct rsp_plan *old_plan, *new_plan;
  struct plan_meaning old_meaning, new_meaning;
  struct plan_rank_change *ranks;
  struct plan_tensor_change *tensors;
  struct plan_buffer_change *buffers;
  struct plan_route_change *routes;
  size_t rank_count, tensor_count, buffer_count, route_count;
  size_t reschedules;   /* pairs of processes whose rounds or message sizes alone change */
  bool inputs;          /* a digest of an input changes: why, not what */
  bool figures, limits; /* bytes per link; rounds, limits, worlds */
  bool rates;           /* the cluster's bandwidths and latencies */
};

/* False without memory. */
bool plan_diff_of(const struct rsp_plan *old_plan, const struct rsp_plan *new_plan, struct plan_diff *diff);
void plan_diff_free(struct plan_diff *diff);
bool plan_diff_same(const struct plan_diff *diff);

/* Both write the whole answer to stdout; the exit status is 0 same, 1 different. */
int plan_diff_text(const char *program, const struct plan_diff *diff);
int plan_diff_json(const char *program, const struct plan_diff *diff);

/* Figures that are compared one by one, for both writers. */
struct plan_figure {
  const char *group, *name; /* "bytes", "network" */
  uint64_t old_value, new_value;
};
enum { PLAN_FIGURES = 12 };
void plan_diff_figures(const struct plan_diff *diff, struct plan_figure figures[PLAN_FIGURES]);

#ifdef __cplusplus
}
#endif

#endif
