/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused replays of buffers of megabytes: copies are made in pieces, by any rank, past the caches.
 */
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

static void large(uint64_t seed) {
  struct made_options options = {.seed = seed,
                                 .train = (uint32_t)(1 + seed % 3),
                                 .infer = (uint32_t)(1 + seed / 3 % 2),
                                 .groups = 3,
                                 .buffers = 1,
                                 .rows = seed % 2 ? 2600 : 600,
                                 .columns = seed % 2 ? 200 : 900};
  size_t size;
  void *bytes = made_plan(&options, &size);
  replay_plan(bytes, size, RESHARD_FUSED, 0, seed);
  free(bytes);
}

int main(int argc, char **argv) {
  uint64_t plans = argc > 1 ? strtoull(argv[1], NULL, 10) : 20, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + plans; seed++) large(seed);
  return 0;
}
