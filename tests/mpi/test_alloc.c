/* SPDX-License-Identifier: Apache-2.0
 *
 * Refits over MPI: our own objects allocate nothing, open nothing and ask the environment nothing. Calls are told apart
 * by the object that they come from: the MPI library does as it likes. Needs the allocator to itself, so it is not
 * built under sanitizers.
 */
#include <dlfcn.h>
#include <string.h>

#include "tests/mpi/ranks.h"
#include "tests/runtime/interpose.h"
#include "tests/runtime/made.h"

static int watching;
static uint64_t calls, calls_of_others;

void interpose_seen(const void *caller) {
  Dl_info from;
  if (!watching) return;
  if (dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "libreshard"))
    calls++;
  else
    calls_of_others++;
}

static void refits(const struct player *p, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    enum reshard_status status = reshard_refit(p->context, NULL);
    if (status == RESHARD_OK) status = reshard_wait(p->context);
    CHECK(status == RESHARD_OK, "%d", (int)status);
  }
}

static void one(uint64_t seed, uint32_t flags) {
  struct made_options options = {seed, 2, 2, 0, 4, 3, 20, 30, false, seed % 2 == 0};
  size_t size;
  void *bytes = made_plan(&options, &size);
  struct stage stage;
  struct reshard_plan *plan;
  struct player player;
  stage_open(&stage, bytes, size);
  ranks_fill(&stage, (uint32_t)ranks_self, seed);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  ranks_player(&player, &stage, plan, (uint32_t)ranks_self, NULL);
  player.config.flags = flags;
  player.refits = 0;
  calls = 0;
  watching = 1;
  play_alone(&player);
  CHECK(player.prepared == RESHARD_OK && calls > 0, "set-up is seen to allocate: %s", player.fault.what);
  watching = 0;
  refits(&player, 2);
  calls = 0;
  watching = 1;
  refits(&player, 20);
  watching = 0;
  CHECK(calls == 0, "seed %llu: %llu calls in 20 refits", (unsigned long long)seed, (unsigned long long)calls);
  CHECK(!stage_check(&stage), "%s", stage_check(&stage));
  reshard_context_close(player.context);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(int argc, char **argv) {
  ranks_init(&argc, &argv);
  CHECK(ranks_count == 4, "mpiexec -n 4");
  for (uint64_t seed = 1; seed <= 6; seed++) one(seed, seed % 3 ? RESHARD_VERIFY : 0);
  if (ranks_self == 0) printf("none of ours, %llu of others\n", (unsigned long long)calls_of_others);
  MPI_Finalize();
  return 0;
}
