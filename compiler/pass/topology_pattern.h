/* SPDX-License-Identifier: Apache-2.0
 *
 * topology_pattern: "r[0-3]n[00-17]" and what it stands for. Private to pass/topology.
 *
 * A bracket holds numbers and ranges, "[0-3,7]"; the digits written decide the padding. Several brackets stand for all
 * combinations, the last one fastest.
 */
#ifndef RSC_PASS_TOPOLOGY_PATTERN_H
#define RSC_PASS_TOPOLOGY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/diag.h"
#include "compiler/base/vec.h"
#include "compiler/base/yaml.h"

enum { RSC_GROUPS_MAX = 8 }; /* brackets in one pattern; racks, hosts and GPUs need three */

struct rsc_top_group {
  RSC_VEC(const char *); /* the texts it stands for, at least one */
};

struct rsc_top_pattern {
  struct rsc_span span;
  const char *literals[RSC_GROUPS_MAX + 1]; /* before each group, and after the last */
  struct rsc_top_group groups[RSC_GROUPS_MAX];
  size_t group_count;
  int64_t count; /* of combinations */
};

struct rsc_top_patterns {
  RSC_VEC(struct rsc_top_pattern);
};

/* Reads a scalar of patterns separated by commas, or a list of such scalars, and appends them. A pattern may stand for
 * at most `max` names. False if anything was reported. */
bool rsc_top_read_patterns(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_yaml *node,
                           const char *what, int64_t max, struct rsc_top_patterns *out);

/* The text of one combination, choice[i] being the value of group i. */
const char *rsc_top_text(struct rsc_arena *arena, const struct rsc_top_pattern *pattern, const size_t *choice);

/* Moves to the next combination; false after the last. Begin with zeros. */
bool rsc_top_next(const struct rsc_top_pattern *pattern, size_t *choice);

/* Whether two groups stand for the same texts in the same order. */
bool rsc_top_same_group(const struct rsc_top_group *a, const struct rsc_top_group *b);

#endif
