/* SPDX-License-Identifier: Apache-2.0
 *
 * Two contexts on two plans in each process, whose refits overlap: both are begun before either is waited for. Begun in
 * one order everywhere, on one stream; or in another order on every other rank, on streams of their own, as nothing of
 * ours makes one wait for the other (NCCL on a device may: docs/nccl.md). One of the two fails: the other is whole.
 */
#include <string.h>

#include "tests/nccl/play.h"
#include "tests/nccl/standin_cuda.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

enum { WORLD = 4, REFITS = 3 };
#define SEEDS 60

static struct play first, second;
static bool same_order, fails;

static void prepare(struct play *play, uint32_t rank, struct reshard_context **context) {
  CHECK(play_open_context(play, rank, play->plan) == RESHARD_OK, "%s", play->actors[rank].fault.what);
  CHECK(play_bind(play, rank) == RESHARD_OK, "bind");
  *context = play->actors[rank].context;
  CHECK(reshard_prepare(*context) == RESHARD_OK, "prepare");
}

static void body(uint32_t rank, void *arg) {
  (void)arg;
  struct reshard_context *a, *b;
  struct stream *streams[2] = {NULL, NULL};
  prepare(&first, rank, &a);
  prepare(&second, rank, &b);
  CHECK(cudaSetDevice((int)rank) == 0, "cudaSetDevice");
  for (uint32_t i = 0; i < 2 && !same_order; i++) CHECK(cudaStreamCreateWithFlags(&streams[i], 1) == 0, "stream");
  bool swapped = !same_order && rank % 2 == 1;
  for (uint64_t i = 1; i <= REFITS; i++) {
    CHECK(reshard_refit(swapped ? b : a, streams[swapped]) == RESHARD_OK, "refit");
    CHECK(reshard_refit(swapped ? a : b, streams[!swapped]) == RESHARD_OK, "refit");
    /* Waits are collective: in one order on all ranks, not always that of the refits. */
    enum reshard_status of_a = i % 2 ? reshard_wait(a) : RESHARD_PENDING, of_b = reshard_wait(b);
    if (of_a == RESHARD_PENDING) of_a = reshard_wait(a);
    CHECK((of_a == RESHARD_OK) == !fails && of_b == RESHARD_OK, "rank %u: %d and %d", rank, (int)of_a, (int)of_b);
    CHECK(reshard_version(b) == i && reshard_version(a) == (fails ? 0 : i), "rank %u: versions", rank);
    if (fails) break;
  }
  if (fails) CHECK(reshard_refit(b, NULL) == RESHARD_OK && reshard_wait(b) == RESHARD_OK, "the other goes on");
  for (uint32_t i = 0; i < 2 && !same_order; i++) CHECK(cudaStreamDestroy(streams[i]) == 0, "stream");
  reshard_context_close(a);
  reshard_context_close(b);
}

static void open_made(struct play *play, void **bytes, uint64_t seed, uint32_t train) {
  struct made_options options = {.seed = seed,
                                 .train = train,
                                 .infer = WORLD - train,
                                 .relays = seed % 2 == 0,
                                 .groups = 3,
                                 .buffers = 2,
                                 .rows = 10,
                                 .columns = 20};
  size_t size;
  *bytes = made_plan(&options, &size);
  play_open(play, *bytes, size, seed);
}

static void one(uint64_t seed) {
  void *bytes[2];
  struct standin_options options = {.world = WORLD, .seed = seed};
  open_made(&first, &bytes[0], seed, 1);
  open_made(&second, &bytes[1], seed + 1000, 2);
  first.config.flags = seed % 3 == 0 ? RESHARD_NO_GRAPH : 0;
  second.config.flags = seed % 3 == 1 ? RESHARD_NO_GRAPH : seed % 5 == 0 ? RESHARD_VERIFY : 0;
  if (fails) {
    first.inject.kind = RESHARD_INJECT_FAIL;
    first.inject_rank = (uint32_t)(seed % WORLD);
  }
  play_begin(&first, &options);
  play_join(&second);
  standin_run(body, NULL);
  const char *wrong = standin_violation() ? standin_violation()
                      : standin_leak()    ? standin_leak()
                      : fails             ? NULL
                                          : play_compare(&first);
  if (!wrong) wrong = play_compare(&second);
  CHECK(!wrong, "seed %llu: %s\n%s", (unsigned long long)seed, wrong, standin_stuck() ? standin_stuck() : "");
  standin_end();
  for (uint32_t i = 0; i < 2; i++) {
    play_close(i ? &second : &first);
    free(bytes[i]);
  }
}

int main(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    same_order = seed % 2;
    fails = seed % 4 == 0;
    one(seed);
  }
  return 0;
}
