/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.inject has one rank do wrong ends as on the other backends: the promised error within the timeout on
 * every live rank, versions where they were, and the next context of the same processes works.
 */
#include <string.h>

#include "tests/nccl/play.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"

#define TIMEOUT 0.05
#define SEEDS 4

static void open_play(struct play *play, enum tiny_form form) {
  struct tiny *tiny = malloc(sizeof *tiny);
  void *bytes;
  size_t size;
  CHECK(tiny, "memory");
  tiny_init_form(tiny, form);
  CHECK(tiny_build(tiny, &bytes, &size), "tiny");
  free(tiny);
  play_open(play, bytes, size, 5);
  play->config.timeout_seconds = TIMEOUT;
}

static void close_play(struct play *play) {
  const void *bytes = play->bytes;
  play_close(play);
  free((void *)(uintptr_t)bytes);
}

/* ---- one rank does something wrong --------------------------------------------------------------------------------
 */

struct wrong {
  enum reshard_inject_kind kind;
  double seconds;
  enum reshard_status own, peers, also; /* of the rank, of the others */
  const char *says;                     /* on the rank, and where the status is PEER_FAILED; NULL: anything */
};

static const struct wrong wrongs[] = {
    {RESHARD_INJECT_DIE, 0, RESHARD_BACKEND_FAILED, RESHARD_PEER_FAILED, RESHARD_TIMEOUT, NULL},
    {RESHARD_INJECT_FAIL, 0, RESHARD_BACKEND_FAILED, RESHARD_PEER_FAILED, RESHARD_PEER_FAILED, "was made to fail"},
    {RESHARD_INJECT_STALL, TIMEOUT / 4, RESHARD_OK, RESHARD_OK, RESHARD_OK, NULL},
    {RESHARD_INJECT_STALL, 50, RESHARD_TIMEOUT, RESHARD_TIMEOUT, RESHARD_PEER_FAILED, NULL},
};

static void one(const struct wrong *wrong, enum tiny_form form, uint32_t rank, uint32_t round, uint64_t seed) {
  struct play play;
  struct standin_options options = {.world = TINY_WORLD, .seed = seed, .deaf = seed % 2};
  open_play(&play, form);
  play.config.flags = seed % 3 == 0 ? RESHARD_NO_GRAPH : seed % 3 == 1 ? RESHARD_VERIFY : 0;
  play.inject = (struct reshard_inject){wrong->kind, round, wrong->seconds};
  play.inject_rank = rank;
  play.again = true;
  play_run(&play, &options);
#define SAY "kind %d, form %d, rank %u, round %u, seed %llu: rank %u "
#define SAID (int)wrong->kind, (int)form, rank, round, (unsigned long long)seed, r
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    const struct actor *a = &play.actors[r];
    enum reshard_status is = a->refitted;
    CHECK(is == (r == rank ? wrong->own : wrong->peers) || (r != rank && is == wrong->also), SAY "has %d %s", SAID,
          (int)is, a->fault.what);
    CHECK(a->version == (wrong->own == RESHARD_OK), SAY "has version %llu", SAID, (unsigned long long)a->version);
    CHECK(a->seconds < 1.5 * TIMEOUT + (r == rank ? wrong->seconds < TIMEOUT ? wrong->seconds : TIMEOUT : 0),
          SAY "took %g s", SAID, a->seconds);
    if (wrong->says) CHECK(strstr(a->fault.what, wrong->says) && a->fault.rank == rank, SAY "%s", SAID, a->fault.what);
    CHECK(a->second == RESHARD_OK, SAY "cannot go on: %s", SAID, a->fault.what);
  }
  CHECK(!standin_violation() && !standin_leak() && !play_compare(&play), "%s",
        standin_violation() ? standin_violation()
        : standin_leak()    ? standin_leak()
                            : play_compare(&play));
  standin_end();
  close_play(&play);
}

static void all_wrongs(void) {
  static const enum tiny_form forms[] = {TINY_PLAIN, TINY_RELAY_STAGED, TINY_AGAIN_DIRECT};
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    for (uint32_t w = 0; w < sizeof wrongs / sizeof *wrongs; w++) {
      for (uint32_t rank = 0; rank < TINY_WORLD; rank++) {
        for (uint32_t round = 0; round < 2; round++) one(&wrongs[w], forms[seed % 3], rank, round, seed);
      }
    }
  }
}

/* Prepare cannot allocate: on that rank, on all, and the next context can. */
static void no_memory(uint32_t rank) {
  struct play play;
  struct standin_options options = {.world = TINY_WORLD, .seed = 1 + rank};
  open_play(&play, TINY_PLAIN);
  play.inject.kind = RESHARD_INJECT_NO_MEMORY;
  play.inject_rank = rank;
  play.again = true;
  play_run(&play, &options);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    const struct actor *a = &play.actors[r];
    CHECK(a->prepared == (r == rank ? RESHARD_NO_MEMORY : RESHARD_PEER_FAILED) && a->second == RESHARD_OK,
          "rank %u: %d, then %d", r, (int)a->prepared, (int)a->second);
    CHECK(strstr(a->fault.what, "cannot allocate"), "%s", a->fault.what);
  }
  CHECK(!standin_violation() && !standin_leak() && !play_compare(&play), "%s", "no memory");
  standin_end();
  close_play(&play);
}

int main(void) {
  all_wrongs();
  for (uint32_t rank = 0; rank < TINY_WORLD; rank++) no_memory(rank);
  return 0;
}
