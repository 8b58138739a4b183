/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans on the stand-in, under thousands of interleavings: every byte of every buffer, no violation, no leak. With
 * graphs and without, registered buffers, several refits. A failing seed says how to run it again:
 *
 *   test_nccl_order PLANS SEEDS [PLAN SEED]
 */
#include <string.h>

#include "tests/nccl/play.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

static const char *program;
static uint64_t runs, picks;

/* Flags by the seed: all of them come with every plan. */
static uint32_t flags_of(uint64_t seed) {
  return (seed % 3 == 0 ? RESHARD_NO_GRAPH : 0) | (seed % 5 < 2 ? RESHARD_REGISTER : 0) |
         (seed % 7 == 0 ? RESHARD_VERIFY : 0) | (seed % 11 == 0 ? RESHARD_GUARD : 0);
}

static void one(struct play *play, uint64_t plan, uint64_t seed) {
  struct standin_options options = {.world = play->stage.plan.header->world, .seed = seed};
  play->config.flags = flags_of(seed);
  play->refits = 1 + seed % 2;
  play_run(play, &options);
  CHECK(!play_wrong(play), "%s\nagain: %s 1 1 %llu %llu\n%s", play_wrong(play), program, (unsigned long long)plan,
        (unsigned long long)seed, standin_stuck() ? standin_stuck() : "");
  for (uint32_t r = 0; r < options.world; r++) picks += standin_counts(r).picks;
  runs++;
  standin_end();
}

/* Plans 1 to TINY_WIDE + 1 are the tiny ones; what follows is made at random. */
static void *plan_of(uint64_t plan, size_t *size) {
  void *bytes;
  if (plan <= TINY_WIDE + 1) {
    struct tiny *tiny = malloc(sizeof *tiny);
    CHECK(tiny, "memory");
    tiny_init_form(tiny, (enum tiny_form)(plan - 1));
    CHECK(tiny_build(tiny, &bytes, size), "tiny");
    free(tiny);
    return bytes;
  }
  uint64_t state = plan;
  struct made_options options = {.seed = plan,
                                 .train = (uint32_t)random_in(&state, 1, 2),
                                 .infer = (uint32_t)random_in(&state, 1, 3),
                                 .relays = plan % 2 == 0,
                                 .groups = 3,
                                 .buffers = 2,
                                 .rows = 10,
                                 .columns = 20};
  if (random_in(&state, 0, 2) == 0) options.shared = 1;
  return made_plan(&options, size);
}

static void all_seeds(uint64_t plan, uint64_t first, uint64_t count) {
  size_t size;
  void *bytes = plan_of(plan, &size);
  struct play play;
  play_open(&play, bytes, size, plan);
  for (uint64_t seed = first; seed < first + count; seed++) one(&play, plan, seed);
  play_close(&play);
  free(bytes);
}

int main(int argc, char **argv) {
  program = argv[0];
  uint64_t plans = argc > 1 ? strtoull(argv[1], NULL, 10) : 16, seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 250;
  uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
  for (uint64_t plan = first; plan < first + plans; plan++) all_seeds(plan, seed, seeds);
  printf("%llu plans, %llu interleavings, %llu points of scheduling\n", (unsigned long long)plans,
         (unsigned long long)runs, (unsigned long long)picks);
  return 0;
}
