/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix: one matrix that both sides hold in parts, a plan from one to the other, and this rank's part of it: what the
 * mpi backend and its rivals move. Either every rank is of both sides, or the first half trains.
 */
#ifndef RESHARD_TOOLS_BENCH_MATRIX_H
#define RESHARD_TOOLS_BENCH_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/reshard.h"

enum bench_cut { BENCH_ROWS, BENCH_COLUMNS, BENCH_CYCLIC_ROWS, BENCH_CYCLIC_COLUMNS };
#define BENCH_BLOCK 64 /* of the cyclic ones */

struct bench_shape {
  uint64_t rows, columns;
  uint32_t unit; /* bytes per element: 2 is bf16, 8 is f64 */
  enum bench_cut train, infer;
  uint64_t chunk;          /* bytes that a rank moves in a round; 0: the compiler's choice */
  bool colocated, swapped; /* each process with both roles; with the inference role of the other one */
};

/* A side's rank's part: local [rows, columns], row-major; NULL without a role. */
struct bench_part {
  unsigned char *data;
  uint64_t rows, columns;
};

struct bench_matrix {
  struct bench_shape shape;
  uint32_t rank, train_ranks, infer_ranks; /* the process; ranks of each side */
  uint32_t train_rank, infer_rank;         /* of this process; beyond the ranks: none */
  struct bench_part train, infer;
  uint64_t bytes, moved; /* wanted; between processes */
  void *plan_bytes;
  struct reshard_plan *plan;
  struct reshard_context *context;
};

/* An exit status; MPI is initialised. Collective. */
int bench_matrix_open(struct bench_matrix *matrix, const struct bench_shape *shape);
void bench_matrix_close(struct bench_matrix *matrix);
bool bench_matrix_refit(struct bench_matrix *matrix);
/* Every element of the inference part, then poisons it. False: says so. */
bool bench_matrix_check(struct bench_matrix *matrix, const char *method);
/* The inference rank that process `p` is. The training rank is p itself. */
uint32_t bench_infer_rank(const struct bench_matrix *matrix, uint32_t p);
static inline bool bench_by_rows(enum bench_cut cut) {
  return cut == BENCH_ROWS || cut == BENCH_CYCLIC_ROWS;
}

#endif
