// SPDX-License-Identifier: Apache-2.0
//
// run_ranks: in: what this process found. Out: what all found, through libreshard's all-gathers.

#include "tools/run_ranks.h"

#include <inttypes.h>
#include <stdio.h>
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

void run_ranks_alone(struct run_ranks *ranks, const char *program) {
  *ranks = (struct run_ranks){.program = program, .count = 1};
}

int run_ranks_begin_mpi(struct run_ranks *ranks, const char *program) {
  struct reshard_fault fault;
  *ranks = (struct run_ranks){.program = program, .apart = true, .count = 1};
  if (reshard_mpi_init(&ranks->rank, &ranks->count, &fault) == RESHARD_OK) return CLI_YES;
  return cli_trouble(program, "%s", fault.what);
}

int run_ranks_begin_directory(struct run_ranks *ranks, const struct run_launch *launch, double timeout_seconds,
                              const char *program) {
  struct reshard_fault fault;
  *ranks = (struct run_ranks){
      .program = program, .apart = true, .rank = (uint32_t)launch->rank, .count = (uint32_t)launch->world};
  if (reshard_directory_open(launch->share, ranks->rank, ranks->count, timeout_seconds, &ranks->directory, &fault) ==
      RESHARD_OK)
    return CLI_YES;
  return cli_trouble(program, "%s", fault.what);
}

int run_ranks_suit(const struct run_ranks *ranks, uint32_t world) {
  bool one = ranks->count == 1;
  if (!ranks->apart || ranks->count == world) return CLI_YES;
  if (ranks->directory || !one)
    return cli_trouble(
        ranks->program, "the plan's world has %" PRIu32 " ranks, but there %s %" PRIu32 " process%s: %s %" PRIu32,
        world, one ? "is" : "are", ranks->count, one ? "" : "es", ranks->directory ? "start" : "mpiexec -n", world);
  return cli_trouble(
      ranks->program,
      "the plan's world has %" PRIu32 " ranks, but there is 1 process: mpiexec -n %" PRIu32
      "; if an mpiexec has started more, it is that of another MPI: this was built with %.60s, and needs "
      "the mpiexec of that (Debian: mpiexec.mpich, mpiexec.openmpi)",
      world, world, reshard_mpi_version());
}

void run_ranks_end(struct run_ranks *ranks) {
  reshard_directory_close(ranks->directory);
}

static enum reshard_status gather_words(const struct run_ranks *ranks, const struct word *mine, struct word *all,
                                        struct reshard_fault *fault) {
  if (!ranks->directory)
    return (enum reshard_status)reshard_mpi_all_gather(fault, mine, sizeof *mine, all, TIMEOUT_SECONDS);
  if (reshard_directory_gather(ranks->directory, mine, sizeof *mine, all, TIMEOUT_SECONDS) == 0) return RESHARD_OK;
  snprintf(fault->what, sizeof fault->what, "the shared directory cannot be written any more");
  return RESHARD_CANNOT_READ;
}

static struct word *gather(const struct run_ranks *ranks, const struct word *mine) {
  struct word *all = calloc(ranks->count, sizeof *all);
  struct reshard_fault fault;
  if (all && gather_words(ranks, mine, all, &fault) == RESHARD_OK) return all;
  cli_trouble(ranks->program, "%s", all ? fault.what : "out of memory");
  exit(CLI_TROUBLE); // the others cannot be told: the launcher ends them
}

int run_ranks_agree_time(const struct run_ranks *ranks, int status, double *seconds) {
  if (!ranks->apart) return status;
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
  if (!ranks->apart) return yes ? 0 : RUN_NOBODY;
  struct word *all = gather(ranks, &(struct word){.yes = yes});
  uint32_t first = 0;
  while (first < ranks->count && !all[first].yes) first++;
  free(all);
  return first < ranks->count ? first : RUN_NOBODY;
}
