/* SPDX-License-Identifier: Apache-2.0
 *
 * Random plans, one process per rank, on communicators of as many ranks as each plan has, with and without guards and
 * hashes: every byte of every buffer, and around it, after each of several refits with other contents. Then one
 * context many times, and many contexts, which leave nothing behind.
 *
 *   test_mpi_replay [PLANS [FIRST [CYCLES]]]
 */
#include <string.h>

#include "tests/mpi/ranks.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/made.h"

static void refits(struct stage *stage, const void *bytes, size_t size, uint32_t rank, const MPI_Comm *comm,
                   uint64_t seed) {
  struct reshard_plan *plan;
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  for (uint32_t pass = 0; pass < 2; pass++) {
    struct player player;
    ranks_fill(stage, rank, seed + 77 * pass);
    ranks_player(&player, stage, plan, rank, comm);
    player.refits = 1 + pass;
    player.config.flags = (seed % 2 ? RESHARD_VERIFY : 0) | (seed % 3 ? RESHARD_GUARD : 0);
    play_alone(&player);
    CHECK(player.version == 1 + pass, "seed %llu rank %u pass %u: %s", (unsigned long long)seed, rank, pass,
          player.fault.what);
    reshard_context_close(player.context);
    CHECK(!stage_check(stage), "seed %llu, pass %u: %s", (unsigned long long)seed, pass, stage_check(stage));
  }
  reshard_close(plan);
}

/* The ranks that the plan has come along, in the other order if the seed says so. */
static void one_plan(const void *bytes, size_t size, uint64_t seed) {
  struct stage stage;
  stage_open(&stage, bytes, size);
  int world = (int)stage.plan.header->world, rank;
  bool takes_part = ranks_self < world;
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, seed % 2 ? ranks_self : -ranks_self, &comm);
  if (takes_part) {
    MPI_Comm_rank(comm, &rank);
    refits(&stage, bytes, size, (uint32_t)rank, &comm, seed);
    MPI_Comm_free(&comm);
  }
  stage_close(&stage);
}

static void made(uint64_t seed) {
  uint64_t state = seed;
  uint32_t most = (uint32_t)ranks_count / 2;
  struct made_options options = {.seed = seed,
                                 .train = (uint32_t)random_in(&state, 1, most),
                                 .infer = (uint32_t)random_in(&state, 1, (uint64_t)ranks_count - most),
                                 .relays = seed % 2 == 0,
                                 .groups = seed % 3 == 0 ? 8 : 3,
                                 .buffers = 3,
                                 .rows = 14,
                                 .columns = 30};
  uint32_t least = options.train < options.infer ? options.train : options.infer;
  options.shared = random_in(&state, 0, 2) ? 0 : (uint32_t)random_in(&state, 0, least);
  size_t size;
  void *bytes = made_plan(&options, &size);
  one_plan(bytes, size, seed);
  free(bytes);
}

static void tiny_one(const void *bytes, size_t size) {
  for (uint64_t seed = 0; seed < 4; seed++) one_plan(bytes, size, seed);
}

/* One context many times; then as many contexts: what they take is given back. */
static void many(uint64_t cycles) {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  MPI_Comm comm;
  CHECK(tiny_plan(&bytes, &size), "tiny");
  stage_open(&stage, bytes, size);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  MPI_Comm_split(MPI_COMM_WORLD, ranks_self < TINY_WORLD ? 0 : MPI_UNDEFINED, 0, &comm);
  size_t heap = 0;
  for (uint64_t i = 0; i < cycles && ranks_self < TINY_WORLD; i++) {
    struct player player;
    ranks_player(&player, &stage, plan, (uint32_t)ranks_self, &comm);
    ranks_fill(&stage, player.rank, i);
    if (i == 0) player.refits = (uint32_t)cycles;
    play_alone(&player);
    CHECK(player.version == (i == 0 ? cycles : 1), "cycle %llu: %s", (unsigned long long)i, player.fault.what);
    reshard_context_close(player.context);
    CHECK(!stage_check(&stage), "%s", stage_check(&stage));
    if (i == cycles / 5) heap = ranks_heap();
  }
  /* The library keeps pools of its own; a context takes 10 KB. */
  size_t now = ranks_heap();
  CHECK(ranks_self >= TINY_WORLD || now < heap + 100 * cycles, "%zu bytes more after %llu contexts", now - heap,
        (unsigned long long)cycles);
  if (ranks_self < TINY_WORLD) MPI_Comm_free(&comm);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(int argc, char **argv) {
  ranks_init(&argc, &argv);
  uint64_t plans = argc > 1 ? strtoull(argv[1], NULL, 10) : 20, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  uint64_t cycles = argc > 3 ? strtoull(argv[3], NULL, 10) : 50;
  if (ranks_count >= TINY_WORLD) CHECK(tiny_each(tiny_one), "tiny");
  for (uint64_t seed = first; seed < first + plans; seed++) made(seed);
  if (ranks_count >= TINY_WORLD && cycles > 0) many(cycles);
  if (ranks_self == 0) printf("%llu plans on up to %d ranks\n", (unsigned long long)plans, ranks_count);
  MPI_Finalize();
  return 0;
}
