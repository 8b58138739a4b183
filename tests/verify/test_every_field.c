// SPDX-License-Identifier: Apache-2.0
//
// In: a range of seeds, or plans; with plans, each how manieth mutant is tried. Out: whether every mutant of every
// field of those plans is refused by structure, refused by a proof, or right all the same. A mutant that is accepted
// and replays wrongly fails the test; so does a plan of which the proofs refuse too few, which would mean that nothing
// was tested.
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
  const char *name;
  uint64_t number, stride;
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
  if (s->number++ % s->stride) {
    memcpy(s->bytes, s->original, s->size);
    return true;
  }
  if (!memcmp(s->bytes, s->original, s->size)) return true; // equal fields were swapped
  const char *why = "";
  enum verdict verdict = judge_mutant(s->bytes, s->size, &report, &why);
  s->tally->verdicts[verdict]++;
  for (int k = 0; verdict == REFUSED_BY_PROOF && k < RSPV_KINDS; k++)
    s->tally->kinds[k] += report.violations[k].count > 0;
  memcpy(s->bytes, s->original, s->size);
  if (verdict != ACCEPTED_BUT_WRONG) return true;
  fprintf(stderr, "%s: %s, record %zu, byte %zu, %s: accepted, but %s\n", s->name, region->name,
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

// Takes over `original`.
static bool test_plan(const char *name, void *original, size_t size, uint64_t stride, struct tally *tally) {
  struct subject s = {.size = size, .name = name, .stride = stride, .tally = tally};
  struct rspv_report report;
  const char *why = "";
  tighten(original, size);
  s.original = original;
  s.bytes = malloc(size);
  if (!s.bytes) abort();
  memcpy(s.bytes, original, size);
  bool good = judge_mutant(s.bytes, size, &report, &why) == EQUIVALENT;
  if (!good) fprintf(stderr, "%s itself is refused, or wrong: %s\n", name, why);
  good = good && all_fields(&s);
  free(original);
  free(s.bytes);
  return good;
}

static bool test_tiny(struct tally *tally) {
  static const char *const names[] = {"tiny", "relay staged", "relay direct", "again staged", "again direct"};
  struct tiny *t = malloc(sizeof *t);
  bool good = t != NULL;
  for (int form = TINY_PLAIN; good && form <= TINY_AGAIN_DIRECT; form++) {
    void *original = NULL;
    size_t size = 0;
    tiny_init_form(t, (enum tiny_form)form);
    good = tiny_build(t, &original, &size) && test_plan(names[form], original, size, 1, tally);
  }
  free(t);
  return good;
}

static bool test_seed(uint64_t seed, struct tally *tally) {
  void *original = NULL;
  size_t size = 0;
  char name[32];
  if (!seed) return test_tiny(tally);
  snprintf(name, sizeof name, "plan %" PRIu64, seed);
  maker_plan(seed, &original, &size);
  return test_plan(name, original, size, 1, tally);
}

static bool test_file(const char *path, uint64_t stride, struct tally *tally) {
  struct rsp_plan plan;
  struct rsp_error error;
  if (rsp_open(path, &plan, &error) != RSP_OK) {
    fprintf(stderr, "%s: %s\n", path, error.text);
    return false;
  }
  size_t size = plan.size;
  void *copy = malloc(size);
  if (!copy) abort();
  memcpy(copy, plan.bytes, size);
  rsp_close(&plan);
  return test_plan(path, copy, size, stride, tally);
}

static bool print_tally(const struct tally *tally, bool all_kinds) {
  bool good = true;
  printf("mutants refused by structure %" PRIu64 ", by proof %" PRIu64 ", still right %" PRIu64
         ", accepted but wrong %" PRIu64 "\n",
         tally->verdicts[0], tally->verdicts[1], tally->verdicts[2], tally->verdicts[3]);
  for (int k = 0; k < RSPV_KINDS; k++) {
    printf("  %-13s %" PRIu64 "\n", rspv_kind_word((enum rspv_kind)k), tally->kinds[k]);
    good &= tally->kinds[k] > 0 || !all_kinds;
  }
  return good;
}

// test_every_field FIRST COUNT | STRIDE --plans PLAN...
int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  struct tally tally = {{0}, {0}};
  bool good = true, files = argc > 2 && !strcmp(argv[2], "--plans");
  uint64_t count = argc > 2 && !files ? strtoull(argv[2], NULL, 10) : 6;
  for (int i = 3; files && i < argc; i++) good &= test_file(argv[i], first ? first : 1, &tally);
  for (uint64_t i = 0; !files && i < count; i++) good &= test_seed(first + i, &tally);
  return !print_tally(&tally, !files && count >= 5) || !good;
}
