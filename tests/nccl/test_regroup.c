/* SPDX-License-Identifier: Apache-2.0
 *
 * From one world to the next on the stand-in: ranks that leave, join, die, change numbers; functions that NCCL may
 * lack; calls that fail. After each: every byte, the version of all, the pointers that stay, and which way NCCL was
 * asked.
 *
 *   test_nccl_regroup [SEED]
 */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/worlds.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"

#define SEEDS 20
#define MADE(name, seed, train, infer, places)                                                                         \
  struct world name;                                                                                                   \
  world_made(&name, #name, seed, train, infer, places)

static const bool may_grow = STANDIN_NCCL_VERSION >= 22900;

/* Of the step from `before` to `after`: communicators from an id, by shrinking, by growing, over all ranks. */
static void is_way(const struct world *world, struct standin_counts before, uint64_t comms, uint64_t shrunk,
                   uint64_t grown, const char *what) {
  struct standin_counts now = world_counts(world);
  CHECK(now.comms - before.comms == comms && now.shrunk - before.shrunk == shrunk && now.grown - before.grown == grown,
        "%s: %llu from an id, %llu shrunk, %llu grown", what, (unsigned long long)(now.comms - before.comms),
        (unsigned long long)(now.shrunk - before.shrunk), (unsigned long long)(now.grown - before.grown));
}

/* All go there and refit there; the version then. */
static void go(struct world *world, uint64_t version, const char *what) {
  world_meet(world, NULL, true);
  for (uint32_t r = 0; r < world->ranks; r++) {
    const struct process *p = &processes[world->process[r]];
    CHECK(p->status == RESHARD_OK, "%s, %s, rank %u: %d %s", what, world->name, r, (int)p->status, p->fault.what);
    CHECK(reshard_version(p->context) == version - 1, "%s, %s, rank %u: version %llu", what, world->name, r,
          (unsigned long long)reshard_version(p->context));
  }
  world_refit(world);
  world_check(world, RESHARD_OK, version, what);
}

static void shrinks(uint64_t seed) {
  MADE(five, seed, 2, 3, "01234");
  MADE(three, seed + 1, 1, 2, "024");
  MADE(two, seed + 2, 1, 1, "42"); /* other numbers, too */
  worlds_begin(seed);
  go(&five, 1, "shrink");
  struct standin_counts before = world_counts(&three);
  go(&three, 2, "shrink");
  is_way(&three, before, 0, 3, 0, "shrink");
  before = world_counts(&two);
  go(&two, 3, "shrink again");
  is_way(&two, before, 0, 2, 0, "shrink again");
  worlds_end();
  world_free(&five), world_free(&three), world_free(&two);
}

static void grows(uint64_t seed) {
  MADE(three, seed, 1, 2, "012");
  MADE(five, seed + 1, 2, 3, "01324"); /* who joins is not last */
  MADE(six, seed + 2, 2, 4, "501234");
  worlds_begin(seed);
  go(&three, 1, "grow");
  struct standin_counts before = world_counts(&five);
  go(&five, 2, "grow");
  is_way(&five, before, may_grow ? 0 : 5, 0, may_grow ? 5 : 0, "grow");
  before = world_counts(&six);
  go(&six, 3, "grow again");
  is_way(&six, before, may_grow ? 0 : 6, 0, may_grow ? 6 : 0, "grow again");
  worlds_end();
  world_free(&three), world_free(&five), world_free(&six);
}

static void both(uint64_t seed) {
  MADE(five, seed, 2, 3, "01234");
  MADE(four, seed + 1, 1, 3, "1053");  /* 2 and 4 go, 5 comes, the others change numbers */
  MADE(other, seed + 2, 2, 2, "2453"); /* who went comes again */
  worlds_begin(seed);
  go(&five, 1, "both");
  struct standin_counts before = world_counts(&four);
  go(&four, 2, "both");
  is_way(&four, before, may_grow ? 0 : 4, may_grow ? 3 : 0, may_grow ? 4 : 0, "both");
  before = world_counts(&other);
  go(&other, 3, "both again");
  is_way(&other, before, may_grow ? 0 : 4, may_grow ? 2 : 0, may_grow ? 4 : 0, "both again");
  worlds_end();
  world_free(&five), world_free(&four), world_free(&other);
}

/* The same ranks under other numbers: NCCL is not asked at all. Pointers stay where names and sizes do. */
static void renumbers(uint64_t seed) {
  struct world plain, wide;
  MADE(three, seed, 1, 2, "201");
  world_tiny(&plain, "plain", TINY_PLAIN, "012");
  world_tiny(&wide, "wide", TINY_WIDE, "01243");
  worlds_begin(seed);
  go(&plain, 1, "renumber");
  struct standin_counts before = world_counts(&three);
  go(&three, 2, "renumber");
  is_way(&three, before, 0, 0, 0, "renumber");
  go(&plain, 3, "and back");
  go(&wide, 4, "wide");
  go(&plain, 5, "and back again");
  is_way(&three, before, may_grow ? 0 : 3, 3, may_grow ? 3 : 0, "all of it");
  worlds_end();
  world_free(&three), world_free(&plain), world_free(&wide);
}

/* Two jobs become one, of all their ranks or of one each, which have different ranks in communicators of one size. */
static void merges(uint64_t seed, bool all) {
  MADE(left, seed, 1, 1, "01");
  MADE(right, seed + 1, 1, 1, "23");
  MADE(one, seed + 2, all ? 2 : 1, all ? 3 : 1, all ? "02134" : "03");
  worlds_begin(seed);
  go(&left, 1, "merge");
  world_meet(&right, NULL, false);
  for (uint64_t version = 1; version < 4; version++) {
    world_refit(&right);
    world_check(&right, RESHARD_OK, version, "merge");
  }
  struct standin_counts before = world_counts(&one);
  go(&one, 4, "merge"); /* from the largest version on */
  is_way(&one, before, one.ranks, 0, 0, "merge");
  worlds_end();
  world_free(&left), world_free(&right), world_free(&one);
}

/* ---- ranks that die -----------------------------------------------------------------------------------------------
 */

/* In a refit: the communicator is aborted. Those that live go on without, and with one that joins. */
static void dies_in_refit(uint64_t seed) {
  MADE(five, seed, 2, 3, "01234");
  MADE(five_again, seed + 1, 2, 3, "01524");
  worlds_begin(seed);
  go(&five, 1, "death in a refit");
  world_kill_in_refit(&five, "3", (double)(seed % 6) * 4e-6);
  world_check(&five, RESHARD_TIMEOUT, 1, "death in a refit");
  struct standin_counts before = world_counts(&five_again);
  go(&five_again, 2, "after a death in a refit");
  is_way(&five_again, before, 5, 0, 0, "after a death in a refit");
  worlds_end();
  world_free(&five), world_free(&five_again);
}

/* Between refits: the communicator is whole, unless it has told of the death; prepare has failed, so it may be at work.
 */
static void dies_before_prepare(uint64_t seed) {
  MADE(five, seed, 2, 3, "01234");
  MADE(four, seed + 1, 2, 2, "0124");
  worlds_begin(seed);
  go(&five, 1, "death before prepare");
  world_kill("3");
  world_refit(&five);
  world_check(&five, RESHARD_TIMEOUT, 1, "death before prepare");
  struct standin_counts before = world_counts(&four);
  go(&four, 2, "after a death before prepare");
  /* With ABORT if no rank has heard of it from NCCL. */
  if (seed % 2) is_way(&four, before, 0, 4, 0, "after a death before prepare");
  worlds_end();
  world_free(&five), world_free(&four);
}

/* Whoever watches the engines says it at once: no timeout, and nothing was at work. */
static void dies_unseen(uint64_t seed) {
  MADE(five, seed, 2, 3, "01234");
  MADE(five_again, seed + 1, 2, 3, "01254");
  worlds_begin(seed);
  go(&five, 1, "death between refits");
  world_kill("3");
  struct standin_counts before = world_counts(&five_again);
  double begun = standin_now();
  go(&five_again, 2, "after a death between refits");
  CHECK(standin_now() - begun < worlds_timeout, "%g s", standin_now() - begun);
  if (seed % 2 && may_grow) is_way(&five_again, before, 0, 4, 5, "after a death between refits");
  worlds_end();
  world_free(&five), world_free(&five_again);
}

/* ---- refused ------------------------------------------------------------------------------------------------------
 */

/* They do not agree to go over: each context is as it was, prepared, and refits in its old world. */
static void stays(struct world *old, const struct world *next, enum reshard_status status, const char *what) {
  for (uint32_t r = 0; r < next->ranks; r++) {
    const struct process *p = &processes[next->process[r]];
    if (p->is_dead || p->status == RESHARD_OK) continue;
    CHECK(p->status == status, "%s, rank %u: %d %s", what, r, (int)p->status, p->fault.what);
    CHECK(p->seconds < 3 * worlds_timeout, "%s, rank %u: %g s", what, r, p->seconds);
  }
  for (uint32_t r = 0; r < old->ranks; r++)
    CHECK(reshard_version(processes[old->process[r]].context) == 1, "%s: rank %u has moved on", what, r);
  world_refit(old);
  world_check(old, RESHARD_OK, 2, what);
}

static void refused(uint64_t seed) {
  MADE(three, seed, 1, 2, "012");
  MADE(five, seed + 1, 2, 3, "34012");
  worlds_begin(seed);
  go(&three, 1, "a rank that never comes");
  world_meet(&five, "4", true);
  stays(&three, &five, RESHARD_TIMEOUT, "a rank that never comes");
  worlds_end();
  MADE(other, seed + 2, 2, 3, "34012");
  worlds_begin(seed + 1);
  go(&three, 1, "plans that differ");
  worlds_odd_plan = other.plan;
  worlds_odd_process = (uint32_t)(seed % 5);
  world_meet(&five, NULL, true);
  worlds_odd_plan = NULL;
  CHECK(processes[3].status == RESHARD_PLAN_DIFFERS, "%d %s", (int)processes[3].status, processes[3].fault.what);
  stays(&three, &five, RESHARD_PLAN_DIFFERS, "plans that differ");
  worlds_end();
  world_free(&three), world_free(&five), world_free(&other);
}

/* ---- calls that fail ----------------------------------------------------------------------------------------------
 */

/* X(name): what the way over is made of. */
#define WAY(X)                                                                                                         \
  X(ncclCommShrink)                                                                                                    \
  X(ncclCommGetUniqueId)                                                                                               \
  X(ncclCommGrow)                                                                                                      \
  X(ncclCommInitRankConfig)                                                                                            \
  X(ncclGetUniqueId) X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommGetAsyncError) X(cudaSetDevice) X(cudaFree)
#define NAME(name) #name,
#define NONE(name) 0,
static const char *const way_names[] = {WAY(NAME)};
static uint64_t way_failures[] = {WAY(NONE)};
enum { WAY_NAMES = sizeof way_names / sizeof *way_names };

/* All fail or none; then all can go over, and refit. What fails while the old plan is given up is told by prepare. */
static void one_fails(struct world *from, struct world *to, uint32_t rank, uint64_t call, uint64_t *calls) {
  char what[60];
  snprintf(what, sizeof what, "call %llu of rank %u fails", (unsigned long long)call, rank);
  worlds_begin(call);
  go(from, 1, what);
  standin_fail(to->process[rank], call);
  uint64_t before = standin_counts(to->process[rank]).calls;
  world_meet(to, NULL, true);
  *calls = standin_counts(to->process[rank]).calls - before;
  const char *failed = standin_counts(to->process[rank]).failed;
  standin_fail(0, 0);
  for (uint32_t i = 0; i < WAY_NAMES && failed; i++) way_failures[i] += strcmp(failed, way_names[i]) == 0;
  const struct process *first = &processes[to->process[0]];
  /* Where no rank waits in NCCL for this one, nor for its death to be heard, all are told at once. */
  bool at_once =
      to->ranks > from->ranks && failed && (!strcmp(failed, "cudaSetDevice") || !strcmp(failed, "cudaGetDevice"));
  for (uint32_t r = 0; r < to->ranks; r++) {
    const struct process *p = &processes[to->process[r]];
    CHECK((p->status == RESHARD_OK) == (first->status == RESHARD_OK), "%s (%s): rank %u has %d, rank 0 %d", what,
          failed, r, (int)p->status, (int)first->status);
    CHECK(p->seconds < 4 * worlds_timeout, "%s (%s): rank %u took %g s", what, failed, r, p->seconds);
    CHECK(!at_once || p->seconds < worlds_timeout, "%s (%s): rank %u took %g s", what, failed, r, p->seconds);
    if (p->status == RESHARD_OK || !p->context) continue;
    CHECK(reshard_version(p->context) == 1, "%s (%s): rank %u has moved on", what, failed, r);
    if (p->at == from && p->status != RESHARD_PEER_FAILED && r == rank)
      CHECK(strstr(p->fault.what, failed), "%s (%s): %s", what, failed, p->fault.what);
  }
  if (first->status != RESHARD_OK) world_meet(to, NULL, true);
  for (uint32_t r = 0; r < to->ranks; r++)
    CHECK(processes[to->process[r]].status == RESHARD_OK, "%s (%s): rank %u cannot go on: %s", what, failed, r,
          processes[to->process[r]].fault.what);
  world_refit(to);
  if (processes[to->process[rank]].status != RESHARD_OK) world_refit(to);
  world_check(to, RESHARD_OK, 2, what);
  worlds_end();
}

static void fails(uint64_t seed) {
  MADE(four, seed, 2, 2, "0123");
  MADE(less, seed + 1, 1, 2, "203");
  MADE(more, seed + 2, 2, 3, "12304");
  MADE(both_ways, seed + 3, 1, 3, "4031");
  struct world *to[] = {&less, &more, &both_ways};
  for (uint32_t i = 0; i < sizeof to / sizeof *to; i++) {
    for (uint32_t rank = 0; rank < to[i]->ranks; rank++) {
      uint64_t calls = 1;
      for (uint64_t call = 1; call <= calls; call++) one_fails(&four, to[i], rank, call, &calls);
    }
  }
  world_free(&four), world_free(&less), world_free(&more), world_free(&both_ways);
  for (uint32_t i = 0; i < WAY_NAMES; i++) {
    bool is_there = may_grow || (strcmp(way_names[i], "ncclCommGrow") && strcmp(way_names[i], "ncclCommGetUniqueId"));
    bool is_asked =
        !may_grow || (strcmp(way_names[i], "ncclCommInitRankConfig") && strcmp(way_names[i], "ncclGetUniqueId"));
    CHECK(way_failures[i] > 0 || !is_there || !is_asked, "%s never failed", way_names[i]);
  }
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : SEEDS;
  for (uint64_t seed = first; seed <= last; seed++) {
    worlds_flags = (seed % 3 == 0 ? RESHARD_NO_GRAPH : 0) | (seed % 4 == 0 ? RESHARD_REGISTER : 0) |
                   (seed % 5 == 0 ? RESHARD_VERIFY : 0);
    shrinks(seed);
    grows(seed);
    both(seed);
    renumbers(seed);
    merges(seed, true);
    merges(seed, false);
    dies_in_refit(seed);
    dies_before_prepare(seed);
    dies_unseen(seed);
    refused(seed);
  }
  worlds_flags = RESHARD_REGISTER;
  fails(first);
  return 0;
}
