/* SPDX-License-Identifier: Apache-2.0
 *
 * rivals: other ways to move the same matrix between the same buffers over MPI.
 */
#ifndef RESHARD_TOOLS_BENCH_RIVALS_H
#define RESHARD_TOOLS_BENCH_RIVALS_H

#include "tools/bench/matrix.h"

struct bench_rival {
  const char *name;
  void *(*open)(struct bench_matrix *matrix); /* what a run needs and is not part of it; NULL: cannot */
  bool (*run)(struct bench_matrix *matrix, void *own);
  void (*close)(void *own);
  uint64_t (*moved)(const struct bench_matrix *matrix); /* bytes between processes; NULL: as many as reshard */
};

/* One call with a subarray type for each pair; blocks of rows or of columns. */
extern const struct bench_rival bench_alltoallw;
/* f64 matrices; NULL: not built in. */
extern const struct bench_rival *const bench_pdgemr2d;
/* To the first training rank, from there the whole to each inference rank, which takes its part. */
extern const struct bench_rival bench_gather;

#endif
