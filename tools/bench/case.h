/* SPDX-License-Identifier: Apache-2.0
 *
 * case: one pair of layouts, compiled, replayed in both modes beside memcpy, and checked.
 */
#ifndef RESHARD_TOOLS_BENCH_CASE_H
#define RESHARD_TOOLS_BENCH_CASE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_case {
  const char *name;
  const char *train, *infer; /* layout files, or their text if they hold a newline */
  const char *model;         /* for --model, or NULL */
  double target;             /* of fused replay to memcpy */
};

struct bench_result {
  uint64_t bytes;       /* delivered by a replay */
  uint32_t world;       /* rank threads */
  double fused, staged; /* GB/s, medians */
  double fused_memcpy, staged_memcpy;
};

/* Messages go to stderr. An exit status: 1 if a byte came out wrong. */
int bench_measure(const struct bench_case *c, uint32_t repeat, struct bench_result *result);

#ifdef __cplusplus
}
#endif

#endif
