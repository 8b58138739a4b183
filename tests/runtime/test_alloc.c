/* SPDX-License-Identifier: Apache-2.0
 *
 * Refits allocate nothing, open nothing and ask the environment nothing: these calls are counted for the whole process
 * while all ranks refit and wait. Needs the allocator to itself, so it is not built under sanitizers.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/runtime/check.h"
#include "tests/runtime/interpose.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

static _Atomic int watching;
static _Atomic uint64_t calls;

void interpose_seen(const void *caller) {
  (void)caller;
  if (atomic_load(&watching)) atomic_fetch_add(&calls, 1);
}

static pthread_barrier_t barrier;

/* All ranks are here: from now on until the last refit ends nobody allocates. */
static void watch(struct player *p) {
  pthread_barrier_wait(&barrier);
  atomic_store(&watching, 1);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 20; i++) {
    enum reshard_status status = reshard_refit(p->context, NULL);
    if (status == RESHARD_OK) status = reshard_wait(p->context);
    if (status != RESHARD_OK) abort();
  }
  pthread_barrier_wait(&barrier);
  atomic_store(&watching, 0);
  pthread_barrier_wait(&barrier);
}

static void one(uint64_t seed, enum reshard_mode mode, uint64_t delay_seed) {
  struct made_options options = {seed, 2, 2, 0, 4, 3, 20, 30, false, seed % 2 == 0};
  size_t size;
  void *bytes = made_plan(&options, &size);
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[4];
  stage_open(&stage, bytes, size);
  stage_fill(&stage, seed);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(4, &group) == RESHARD_OK, "group");
  players_init(players, &stage, plan, group, mode);
  for (uint32_t r = 0; r < 4; r++) {
    players[r].between = watch;
    players[r].config.delay_seed = delay_seed;
  }
  pthread_barrier_init(&barrier, NULL, 4);
  play(players, 4);
  for (uint32_t r = 0; r < 4; r++) CHECK(players[r].version == 21, "rank %u: %s", r, players[r].fault.what);
  CHECK(atomic_load(&calls) == 0, "%llu calls in refits, seed %llu", (unsigned long long)atomic_load(&calls),
        (unsigned long long)seed);
  pthread_barrier_destroy(&barrier);
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(void) {
  /* The counter counts: the suite would be blind otherwise. */
  atomic_store(&watching, 1);
  free(malloc(1));
  atomic_store(&watching, 0);
  CHECK(atomic_exchange(&calls, 0) == 1, "malloc is not watched");
  struct reshard_host_group *group;
  atomic_store(&watching, 1);
  CHECK(reshard_host_group_new(1, &group) == RESHARD_OK, "group");
  atomic_store(&watching, 0);
  CHECK(atomic_exchange(&calls, 0) > 0, "the library's malloc is not watched");
  reshard_host_group_free(group);
  for (uint64_t seed = 1; seed < 5; seed++) {
    one(seed, RESHARD_FUSED, 0);
    one(seed, RESHARD_STAGED, 0);
  }
  one(9, RESHARD_STAGED, 9);
  return 0;
}
