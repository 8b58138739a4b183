// SPDX-License-Identifier: Apache-2.0
//
// Writes plans into a directory: good.plan, and plans that are sealed and sound in structure but deliver wrong
// elements. Each breaks one thing on one rank; `reshard run` must refuse them all.
#include <string.h>

#include "plans/plan.h"
#include "tests/check.h"
#include "tests/plan/tiny.h"

static struct tiny tiny;

static void put(const char *dir, const char *name) {
  void *bytes;
  size_t size;
  char path[4096];
  struct rsp_error error;
  struct rsp_plan plan;
  CHECK(tiny_build(&tiny, &bytes, &size), "%s", name);
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK, "%s: rule %d: %s", name, error.rule, error.text);
  rsp_close(&plan);
  snprintf(path, sizeof path, "%s/%s.plan", dir, name);
  CHECK(rsp_write_file(path, bytes, size, &error) == RSP_OK, "%s: %s", path, error.text);
  free(bytes);
  tiny_init(&tiny);
}

static struct rsp_desc *desc(uint32_t world, uint64_t body) {
  return &tiny.slice[world].descs[tiny.slice[world].bodies[body].descs];
}

int main(int argc, char **argv) {
  CHECK(argc == 2, "make_plans DIR");
  tiny_init(&tiny);
  put(argv[1], "good");
  // Rank 2 puts what comes from rank 0 where what comes from rank 1 belongs, and the other way round.
  desc(2, 0)->off = 16;
  desc(2, 2)->off = 0;
  put(argv[1], "swapped-rows");
  // Rank 0 sends rank 1's columns to rank 2 and the other way round.
  desc(0, 0)->off = 8;
  desc(0, 1)->off = 0;
  put(argv[1], "swapped-columns");
  // Two rows of one receiver in each other's place.
  tiny.slice[2].loops[tiny.slice[2].shapes[desc(2, 0)->shape].loops].off_step = -8;
  desc(2, 0)->off = 8;
  put(argv[1], "reversed-rows");
  // One element too far.
  desc(0, 1)->off = 4;
  put(argv[1], "off-by-one");
  // Padding that nobody zeroes.
  tiny.slices[2].zero_count = 0;
  put(argv[1], "padding");
  // The zeros of a padding over elements.
  tiny.slice[1].zeros[0].off = 12;
  put(argv[1], "zeros");
  return 0;
}
