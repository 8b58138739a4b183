/* SPDX-License-Identifier: Apache-2.0
 *
 * run_ranks: the processes that run one replay together: this one alone, with all ranks as its threads, or one for each
 * rank, which meet over MPI or in a directory. Each call is made by all of them in the same order.
 */
#ifndef RESHARD_TOOLS_RUN_RANKS_H
#define RESHARD_TOOLS_RUN_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/run_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUN_NOBODY UINT32_MAX

struct run_ranks {
  const char *program;
  bool apart;                          /* each rank is a process */
  uint32_t rank, count;                /* of processes */
  struct reshard_directory *directory; /* where they meet; NULL: over MPI */
};

/* This process alone, with all ranks. */
void run_ranks_alone(struct run_ranks *ranks, const char *program);
/* An exit status: not 0 if there is no MPI, or if a process does not come to the directory within the timeout. */
int run_ranks_begin_mpi(struct run_ranks *ranks, const char *program);
int run_ranks_begin_directory(struct run_ranks *ranks, const struct run_launch *launch, double timeout_seconds,
                              const char *program);
/* An exit status: not 0, and a sentence, if there are not as many processes as the plan's world has ranks. */
int run_ranks_suit(const struct run_ranks *ranks, uint32_t world);
void run_ranks_end(struct run_ranks *ranks);
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
