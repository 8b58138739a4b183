/* SPDX-License-Identifier: Apache-2.0
 *
 * From one world to the next over MPI: each has a communicator of its own, made by the caller. Run on 5 processes.
 */
#include <string.h>

#include "tests/mpi/ranks.h"
#include "tests/runtime/made.h"

struct step {
  uint32_t train, infer;
  const char *places; /* by world rank, the process as a digit */
};

static const struct step steps[] = {{1, 2, "012"}, {2, 3, "30124"}, {1, 2, "204"}, {1, 2, "042"}, {2, 2, "2041"}};
enum { STEPS = sizeof steps / sizeof *steps };

static struct reshard_context *context;

/* The process's part of the step in its communicator; the old plan stays open until the context has gone over. */
static void go(uint32_t step, uint32_t rank, struct stage *stage, struct reshard_plan *plan, MPI_Comm *comm) {
  struct player player;
  struct reshard_fault fault;
  ranks_fill(stage, rank, 7 + step);
  ranks_player(&player, stage, plan, rank, comm);
  enum reshard_status status;
  if (context) {
    status = reshard_regroup(context, plan, rank, &player.config);
    reshard_last_fault(context, &fault);
  } else {
    status = reshard_context_open(plan, rank, &player.config, &context, &fault);
  }
  CHECK(status == RESHARD_OK, "step %u, rank %u: %s", step, rank, fault.what);
  CHECK(reshard_version(context) == step, "step %u: version %llu", step, (unsigned long long)reshard_version(context));
  CHECK(bind_all(context, stage, rank) == RESHARD_OK, "bind");
  status = reshard_prepare(context);
  if (status == RESHARD_OK) status = reshard_refit(context, NULL);
  if (status == RESHARD_OK) status = reshard_wait(context);
  reshard_last_fault(context, &fault);
  CHECK(status == RESHARD_OK, "step %u, rank %u: %s", step, rank, fault.what);
  CHECK(!stage_check(stage), "step %u: %s", step, stage_check(stage));
}

int main(int argc, char **argv) {
  ranks_init(&argc, &argv);
  CHECK(ranks_count == 5, "run this on 5 processes");
  struct reshard_plan *plans[STEPS];
  void *bytes[STEPS];
  MPI_Comm comms[STEPS];
  struct stage stages[STEPS];
  for (uint32_t i = 0; i < STEPS; i++) {
    struct made_options options = {.seed = 40 + i,
                                   .train = steps[i].train,
                                   .infer = steps[i].infer,
                                   .relays = i % 2 == 0,
                                   .groups = 4,
                                   .buffers = 3,
                                   .rows = 20,
                                   .columns = 30};
    size_t size;
    bytes[i] = made_plan(&options, &size);
    CHECK(reshard_open_memory(bytes[i], size, &plans[i], NULL) == RESHARD_OK, "open");
    stage_open(&stages[i], bytes[i], size);
    const char *at = strchr(steps[i].places, '0' + ranks_self);
    int rank = at ? (int)(at - steps[i].places) : 0;
    MPI_Comm_split(MPI_COMM_WORLD, at ? 0 : MPI_UNDEFINED, rank, &comms[i]);
    if (at) {
      go(i, (uint32_t)rank, &stages[i], plans[i], &comms[i]);
    } else {
      reshard_context_close(context);
      context = NULL;
    }
    if (i > 0) reshard_close(plans[i - 1]);
  }
  reshard_context_close(context);
  reshard_close(plans[STEPS - 1]);
  for (uint32_t i = 0; i < STEPS; i++) {
    stage_close(&stages[i]);
    free(bytes[i]);
    if (comms[i] != MPI_COMM_NULL) MPI_Comm_free(&comms[i]);
  }
  MPI_Finalize();
  return 0;
}
