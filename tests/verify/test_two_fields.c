// SPDX-License-Identifier: Apache-2.0
//
// In: a range of seeds and a number of mutants. Out: as test_every_field, for changes of the same field in two to four
// records of tables of one kind: both ends of a stream, two loops, two parts, which no single change can keep in step.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verify/maker.h"
#include "tests/verify/mutants.h"

static uint64_t state;

static uint64_t draw(uint64_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (state >> 33) % below;
}

// "streams of 2" and "streams of 0" are of one kind.
static bool same_kind(const struct region *a, const struct region *b) {
  size_t n = strcspn(a->name, " ");
  return a->record == b->record && n == strcspn(b->name, " ") && !strncmp(a->name, b->name, n);
}

static const struct region *pick(const struct region *regions, size_t count, const struct region *like) {
  for (int tries = 0; tries < 1000; tries++) {
    const struct region *r = &regions[draw(count)];
    if (r->count && (!like || same_kind(r, like))) return r;
  }
  return like ? like : &regions[0];
}

static void change(char *bytes, const struct region *r, size_t field, int64_t delta) {
  char *p = bytes + r->off + draw(r->count) * r->record + field;
  uint32_t word;
  memcpy(&word, p, sizeof word);
  word += (uint32_t)delta;
  memcpy(p, &word, sizeof word);
}

static void mutate(char *bytes, const struct region *regions, size_t count) {
  static const int64_t deltas[] = {1, 1, 2, 4, 8, 16, 24};
  const struct region *first = pick(regions, count, NULL);
  if (!first->count) return;
  size_t field = draw(first->record / 4) * 4;
  int64_t delta = deltas[draw(7)] * (draw(2) ? 1 : -1);
  change(bytes, first, field, delta);
  for (uint64_t more = 1 + draw(3); more-- > 0;)
    change(bytes, pick(regions, count, first), field, draw(2) ? delta : -delta);
}

static bool test_plan(uint64_t seed, uint64_t mutants, uint64_t verdicts[4]) {
  void *original;
  size_t size;
  struct region *regions;
  bool good = true;
  maker_plan(seed, &original, &size);
  char *bytes = malloc(size);
  if (!bytes) abort();
  size_t count = list_regions(original, &regions);
  for (uint64_t i = 0; i < mutants; i++) {
    struct rspv_report report;
    const char *why = "";
    uint64_t before = state;
    memcpy(bytes, original, size);
    mutate(bytes, regions, count);
    enum verdict verdict = judge_mutant(bytes, size, &report, &why);
    verdicts[verdict]++;
    if (verdict != ACCEPTED_BUT_WRONG) continue;
    fprintf(stderr, "plan %" PRIu64 ", state %" PRIu64 ": accepted, but %s\n", seed, before, why);
    good = false;
  }
  free(regions);
  free(original);
  free(bytes);
  return good;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
  uint64_t mutants = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000, verdicts[4] = {0};
  bool good = true;
  state = first;
  for (uint64_t i = 0; i < count; i++) good &= test_plan(first + i, mutants, verdicts);
  printf("mutants refused by structure %" PRIu64 ", by proof %" PRIu64 ", still right %" PRIu64
         ", accepted but wrong %" PRIu64 "\n",
         verdicts[0], verdicts[1], verdicts[2], verdicts[3]);
  return !good || !verdicts[REFUSED_BY_PROOF] || !verdicts[EQUIVALENT];
}
