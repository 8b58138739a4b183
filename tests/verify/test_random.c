// SPDX-License-Identifier: Apache-2.0
//
// In: a range of seeds. Out: whether the verifier accepts every random plan that replays rightly, with the same figures
// as the planner that made it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plans/verify.h"
#include "tests/verify/maker.h"
#include "tests/verify/replay.h"

static bool check(uint64_t seed, uint64_t *relays, uint64_t *excused) {
  void *bytes;
  size_t size;
  struct rsp_plan plan;
  struct rsp_error error;
  struct rspv_report report;
  maker_plan(seed, &bytes, &size);
  if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) {
    fprintf(stderr, "seed %" PRIu64 ": rule %d: %s\n", seed, error.rule, error.text);
    free(bytes);
    return false;
  }
  const char *wrong = replay(&plan);
  bool good = rspv_verify(&plan, &report) && !wrong;
  if (wrong) fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, wrong);
  for (int k = 0; k < RSPV_KINDS; k++) {
    if (!report.violations[k].count) continue;
    fprintf(stderr, "seed %" PRIu64 ": ", seed);
    rspv_print_violation(&plan, &report, (enum rspv_kind)k, stderr);
  }
  *relays += plan.header->features & RSP_FEATURE_RELAY;
  *excused += report.excused > 0;
  rsp_close(&plan);
  free(bytes);
  return good;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
  uint64_t bad = 0, relays = 0, excused = 0;
  for (uint64_t i = 0; i < count && bad < 10; i++) bad += !check(first + i, &relays, &excused);
  printf("%" PRIu64 " plans, %" PRIu64 " with relays, %" PRIu64 " with excused elements: %" PRIu64 " wrong\n", count,
         relays, excused, bad);
  return bad || !relays || !excused;
}
