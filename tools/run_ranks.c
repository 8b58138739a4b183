// SPDX-License-Identifier: Apache-2.0
//
// run_ranks: in: what this process found. Out: what all found, through libreshard's all-gather over MPI.

#include "tools/run_ranks.h"

#include <stdlib.h>

#include "runtime/reshard.h"
#include "tools/cli/cli.h"

// Another process may fill buffers for long; one that dies ends the job.
#define TIMEOUT_SECONDS 1e6

struct word {
  double seconds;
  int status;
  int yes;
};

int run_ranks_begin(struct run_ranks *ranks, bool is_mpi, const char *program) {
  struct reshard_fault fault;
  *ranks = (struct run_ranks){.program = program, .is_mpi = is_mpi, .count = 1};
  if (!is_mpi || reshard_mpi_init(&ranks->rank, &ranks->count, &fault) == RESHARD_OK) return CLI_YES;
  return cli_trouble(program, "%s", fault.what);
}

static struct word *gather(const struct run_ranks *ranks, const struct word *mine) {
  struct word *all = calloc(ranks->count, sizeof *all);
  struct reshard_fault fault;
  if (all && reshard_mpi_all_gather(&fault, mine, sizeof *mine, all, TIMEOUT_SECONDS) == RESHARD_OK) return all;
  cli_trouble(ranks->program, "%s", all ? fault.what : "out of memory");
  exit(CLI_TROUBLE); // the others cannot be told: mpiexec ends them
}

int run_ranks_agree_time(const struct run_ranks *ranks, int status, double *seconds) {
  if (!ranks->is_mpi) return status;
  struct word *all = gather(ranks, &(struct word){.status = status, .seconds = *seconds});
  for (uint32_t r = 0; r < ranks->count; r++) {
    if (all[r].status > status) status = all[r].status;
    if (all[r].seconds > *seconds) *seconds = all[r].seconds;
  }
  free(all);
  return status;
}

int run_ranks_agree(const struct run_ranks *ranks, int status) {
  double seconds = 0;
  return run_ranks_agree_time(ranks, status, &seconds);
}

uint32_t run_ranks_first(const struct run_ranks *ranks, bool yes) {
  if (!ranks->is_mpi) return yes ? 0 : RUN_NOBODY;
  struct word *all = gather(ranks, &(struct word){.yes = yes});
  uint32_t first = 0;
  while (first < ranks->count && !all[first].yes) first++;
  free(all);
  return first < ranks->count ? first : RUN_NOBODY;
}
