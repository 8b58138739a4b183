// SPDX-License-Identifier: Apache-2.0
//
// In: a range of seeds. Out: whether every mutant of every field of those plans is refused by structure, refused by a
// proof, or right all the same. A mutant that is accepted and replays wrongly fails the test; so does a plan of which
// the proofs refuse too few, which would mean that nothing was tested.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plan/tiny.h"
#include "tests/verify/maker.h"
#include "tests/verify/mutants.h"

struct tally {
  uint64_t verdicts[4], kinds[RSPV_KINDS];
};

struct subject {
  const void *original;
  void *bytes;
  size_t size;
  uint64_t seed;
  struct tally *tally;
};

// Puts the limit on operations where the plan has it, so that one more is too many.
static void tighten(void *bytes, size_t size) {
  struct rsp_plan plan;
  struct rsp_error error;
  struct rspv_report report;
  if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) return;
  rspv_verify(&plan, &report);
  rsp_close(&plan);
  ((struct rsp_header *)bytes)->max_ops = report.busiest_ops ? report.busiest_ops : 1;
  rsp_reseal(bytes, size);
}

// Judges the bytes as they are now, then restores them.
static bool judge(struct subject *s, const struct region *region, size_t at, const char *change) {
  struct rspv_report report;
  if (!memcmp(s->bytes, s->original, s->size)) return true; // equal fields were swapped
  const char *why = "";
  enum verdict verdict = judge_mutant(s->bytes, s->size, &report, &why);
  s->tally->verdicts[verdict]++;
  for (int k = 0; verdict == REFUSED_BY_PROOF && k < RSPV_KINDS; k++)
    s->tally->kinds[k] += report.violations[k].count > 0;
  memcpy(s->bytes, s->original, s->size);
  if (verdict != ACCEPTED_BUT_WRONG) return true;
  fprintf(stderr, "plan %" PRIu64 ": %s, record %zu, byte %zu, %s: accepted, but %s\n", s->seed, region->name,
          (at - region->off) / region->record, (at - region->off) % region->record, change, why);
  return false;
}

static bool change_word(struct subject *s, const struct region *region, size_t at) {
  static const int deltas[] = {1, -1, 2, -2, 4, -4, 8, -8, 16, -16};
  bool good = true;
  char *p = (char *)s->bytes + at;
  for (size_t i = 0; i < sizeof deltas / sizeof deltas[0]; i++) {
    uint32_t word;
    char text[32];
    memcpy(&word, p, sizeof word);
    word += (uint32_t)deltas[i];
    memcpy(p, &word, sizeof word);
    snprintf(text, sizeof text, "%+d", deltas[i]);
    good &= judge(s, region, at, text);
  }
  if (at % 8 == 0 && (at - region->off) % region->record + 8 <= region->record) { // a borrow through both halves
    uint64_t wide;
    memcpy(&wide, p, sizeof wide);
    wide--;
    memcpy(p, &wide, sizeof wide);
    good &= judge(s, region, at, "-1 of 64 bits");
  }
  return good;
}

static void swap(char *a, char *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char t = a[i];
    a[i] = b[i];
    b[i] = t;
  }
}

static bool change_record(struct subject *s, const struct region *region, size_t record) {
  size_t at = region->off + record * region->record;
  bool good = true;
  for (size_t w = 0; w < region->record; w += 4) {
    good &= change_word(s, region, at + w);
    if (record + 1 < region->count) { // the same field of the next record
      swap((char *)s->bytes + at + w, (char *)s->bytes + at + w + region->record, 4);
      good &= judge(s, region, at + w, "swapped with the next record's");
    }
  }
  for (size_t next = record + 1; next < region->count && next < record + 4; next++) {
    swap((char *)s->bytes + at, (char *)s->bytes + region->off + next * region->record, region->record);
    good &= judge(s, region, at, "record swapped with a later one");
  }
  return good;
}

static bool all_fields(struct subject *s) {
  struct region *regions;
  size_t count = list_regions(s->original, &regions);
  bool good = true;
  for (size_t i = 0; i < count; i++) {
    for (size_t r = 0; r < regions[i].count; r++) good &= change_record(s, &regions[i], r);
  }
  free(regions);
  return good;
}

static bool test_plan(uint64_t seed, struct tally *tally) {
  struct subject s = {.seed = seed, .tally = tally};
  void *original = NULL;
  if (seed)
    maker_plan(seed, &original, &s.size);
  else if (!tiny_plan(&original, &s.size))
    return false;
  tighten(original, s.size);
  s.original = original;
  s.bytes = malloc(s.size);
  if (!s.bytes) abort();
  memcpy(s.bytes, original, s.size);
  struct rspv_report report;
  const char *why = "";
  bool good = judge_mutant(s.bytes, s.size, &report, &why) == EQUIVALENT;
  if (!good) fprintf(stderr, "plan %" PRIu64 " itself is refused, or wrong: %s\n", seed, why);
  good = good && all_fields(&s);
  free(original);
  free(s.bytes);
  return good;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
  struct tally tally = {{0}, {0}};
  bool good = true;
  for (uint64_t i = 0; i < count; i++) good &= test_plan(first + i, &tally);
  printf("plans %" PRIu64 "..%" PRIu64 ": mutants refused by structure %" PRIu64 ", by proof %" PRIu64
         ", still right %" PRIu64 ", accepted but wrong %" PRIu64 "\n",
         first, first + count - 1, tally.verdicts[0], tally.verdicts[1], tally.verdicts[2], tally.verdicts[3]);
  for (int k = 0; k < RSPV_KINDS; k++) {
    printf("  %-13s %" PRIu64 "\n", rspv_kind_word((enum rspv_kind)k), tally.kinds[k]);
    good &= tally.kinds[k] > 0 || count < 5;
  }
  return !good;
}
