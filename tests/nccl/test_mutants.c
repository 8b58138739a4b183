/* SPDX-License-Identifier: Apache-2.0
 *
 * The suite fails where it must: waits that are dropped, staging that is freed or used too early, messages of the wrong
 * size, outside their group or in another order. Each is a lie of the stand-in about what the backend asked for, so
 * what is found would also be found if the backend asked wrongly.
 */
#include <string.h>

#include "tests/nccl/play.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

/* Plans with several rounds and few slots, so that phases depend on each other. */
static void *plan_of(uint64_t number, size_t *size) {
  struct made_options options = {.seed = 100 + number,
                                 .train = 2,
                                 .infer = 2,
                                 .relays = number % 2 == 0,
                                 .groups = 4,
                                 .buffers = 3,
                                 .rows = 16,
                                 .columns = 30};
  return made_plan(&options, size);
}

/* Whether any of so many interleavings shows it; each run of the sound one is right, so the mutation is to blame. */
static bool is_found(struct play *play, struct standin_options options, uint64_t seeds) {
  bool found = false;
  for (uint64_t seed = 1; seed <= seeds && !found; seed++) {
    options.seed = seed;
    play->config.flags = seed % 2 ? RESHARD_NO_GRAPH : 0;
    play_run(play, &options);
    found = play_wrong(play) != NULL;
    standin_end();
  }
  return found;
}

static struct standin_counts counts_of(struct play *play, uint32_t rank) {
  struct standin_options options = {.world = play->stage.plan.header->world, .seed = 1};
  play->config.flags = RESHARD_NO_GRAPH;
  play_run(play, &options);
  CHECK(!play_wrong(play), "%s", play_wrong(play));
  struct standin_counts counts = standin_counts(rank);
  standin_end();
  return counts;
}

/* Many waits are implied by others, or guard what this plan does not do; a good part must matter. */
static void dropped_waits(struct play *play, uint64_t *dropped, uint64_t *found) {
  struct standin_options options = {.world = play->stage.plan.header->world};
  for (options.rank = 0; options.rank < options.world; options.rank++) {
    uint64_t waits = counts_of(play, options.rank).waits;
    for (options.drop_wait = 1; options.drop_wait <= waits; options.drop_wait++) {
      bool seen = is_found(play, options, 12);
      *found += seen;
      ++*dropped;
    }
  }
}

/* Lies that were told, and that were found. */
enum kind { SHORT_MESSAGE, NO_GROUP, SWAPPED_GROUPS, FREED_EARLY, KINDS };
static const char *const kinds[KINDS] = {"messages too short", "messages outside a group", "groups that changed places",
                                         "blocks freed too early"};
/* Of a hundred: two groups that share no peer may change places, and descriptors of padding are free by then. */
static const uint64_t least[KINDS] = {100, 100, 60, 70};
static uint64_t told[KINDS], found_out[KINDS];

/* The first and the last of `count` places. */
static void each(struct play *play, enum kind kind, uint64_t *where, struct standin_options *options, uint64_t count) {
  for (*where = 1; *where <= count; ++*where) {
    if (*where > 4 && *where + 4 <= count) continue;
    found_out[kind] += is_found(play, *options, 12);
    told[kind]++;
  }
  *where = 0;
}

static void lies(struct play *play) {
  struct standin_options options = {.world = play->stage.plan.header->world};
  for (; options.rank < options.world; options.rank++) {
    struct standin_counts counts = counts_of(play, options.rank);
    each(play, SHORT_MESSAGE, &options.cut_message, &options, counts.sends);
    each(play, NO_GROUP, &options.drop_group, &options, counts.groups);
    if (counts.groups > 1) each(play, SWAPPED_GROUPS, &options.swap_group, &options, counts.groups - 1);
    each(play, FREED_EARLY, &options.free_early, &options, counts.mallocs);
  }
}

static void report(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    printf("%s: %llu, found %llu\n", kinds[kind], (unsigned long long)told[kind], (unsigned long long)found_out[kind]);
    CHECK(told[kind] > 0 && 100 * found_out[kind] >= least[kind] * told[kind], "too few are found");
  }
}

int main(void) {
  uint64_t dropped = 0, found = 0;
  for (uint64_t number = 1; number < 5; number++) {
    size_t size;
    void *bytes = plan_of(number, &size);
    struct play play;
    play_open(&play, bytes, size, number);
    uint64_t d = dropped, f = found;
    dropped_waits(&play, &dropped, &found);
    printf("plan %llu: rounds %u, %llu waits, %llu matter\n", (unsigned long long)number,
           play.stage.plan.header->rounds, (unsigned long long)(dropped - d), (unsigned long long)(found - f));
    CHECK(3 * (found - f) >= dropped - d, "too few dropped waits are found");
    lies(&play);
    play_close(&play);
    free(bytes);
  }
  report();
  return 0;
}
