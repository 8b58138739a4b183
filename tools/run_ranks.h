/* SPDX-License-Identifier: Apache-2.0
 *
 * run_ranks: the processes that run one replay together: this one alone, with all ranks as its threads, or one for each
 * rank, started by mpiexec. Each call is made by all of them in the same order.
 */
#ifndef RESHARD_TOOLS_RUN_RANKS_H
#define RESHARD_TOOLS_RUN_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUN_NOBODY UINT32_MAX

struct run_ranks {
  const char *program;
  bool is_mpi;
  uint32_t rank, count; /* of processes */
};

/* An exit status; with `is_mpi` not 0 if there is no MPI. */
int run_ranks_begin(struct run_ranks *ranks, bool is_mpi, const char *program);
/* The worst exit status of all. */
int run_ranks_agree(const struct run_ranks *ranks, int status);
/* The same; *seconds becomes the most of all. */
int run_ranks_agree_time(const struct run_ranks *ranks, int status, double *seconds);
/* The first process that says yes, or RUN_NOBODY. */
uint32_t run_ranks_first(const struct run_ranks *ranks, bool yes);

#ifdef __cplusplus
}
#endif

#endif
