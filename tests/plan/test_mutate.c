// SPDX-License-Identifier: Apache-2.0
//
// Random mutations of the tiny plan in all its forms, sealed again: each is refused by a rule or is sound enough to be
// walked and printed. Usage: test_plan_mutate [SEED [COUNT]].
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plans/rules.h"
#include "tests/plan/tiny.h"
#include "tests/plan/walk.h"

static uint64_t state;

static uint64_t next(void) { // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t interesting(void) {
  static const uint64_t values[] = {
      0,          1,         2,         3,          7,         8,          16,         64,
      255,        4096,      INT32_MAX, UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 7,
      1ull << 32, 1ull << 61};
  return values[next() % (sizeof values / sizeof values[0])];
}

// Past the seals, which are made right again, what is not padding is worth changing.
static void mutate(unsigned char *bytes, size_t size) {
  size_t at = next() % size, word = next() % 2 ? 8 : 4;
  for (unsigned tries = 0; tries < 20 && !bytes[at]; tries++) at = next() % size;
  uint64_t value;
  switch (next() % 4) {
  case 0:
    bytes[at] ^= (unsigned char)(1u << next() % 8);
    return;
  case 1:
    bytes[at] = (unsigned char)next();
    return;
  case 2:
    at = at / word * word;
    value = interesting();
    if (at + word <= size) memcpy(bytes + at, &value, word);
    return;
  default:
    at = at / word * word;
    if (at + word > size) return;
    value = 0;
    memcpy(&value, bytes + at, word);
    value += next() % 17 - 8;
    memcpy(bytes + at, &value, word);
  }
}

static bool make(int form, void **bytes, size_t *size) {
  struct tiny *t = malloc(sizeof *t);
  if (!t) return false;
  tiny_init_form(t, (enum tiny_form)form);
  bool good = tiny_build(t, bytes, size);
  free(t);
  return good;
}

// The view of a rank reads less, so it may accept more; what it accepts is as sound.
static int open_ranks(int fd, const char *path, const unsigned char *bytes, size_t size) {
  if (ftruncate(fd, (off_t)size) != 0) return 2;
  if (pwrite(fd, bytes, size, 0) != (ssize_t)size) return 2;
  for (uint32_t r = 0; r < TINY_WIDE_WORLD; r++) {
    struct rsp_rank_view view;
    struct rsp_error error;
    enum rsp_status status = rsp_rank_open(path, r, &view, &error);
    if (status == RSP_OK) {
      walk_rank(&view, 100000);
      rsp_rank_close(&view);
    } else if (status != RSP_INVALID || !rsp_rule_name(error.rule)) {
      printf("rank %u: status %d, rule %d: %s\n", r, status, error.rule, error.text);
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 60000, accepted = 0;
  void *made[TINY_FORMS] = {NULL};
  size_t sizes[TINY_FORMS], most = 0;
  FILE *nowhere = fopen("/dev/null", "w");
  if (!nowhere) return 2;
  for (int f = 0; f < TINY_FORMS; f++) {
    if (!make(f, &made[f], &sizes[f])) return 2;
    if (sizes[f] > most) most = sizes[f];
  }
  unsigned char *bytes = malloc(most);
  char path[] = "reshard-mutant-XXXXXX";
  int fd = mkstemp(path);
  if (!bytes || fd < 0) return 2;
  printf("seed %llu\n", (unsigned long long)state);
  for (unsigned long i = 0; i < count; i++) {
    size_t size = sizes[i % TINY_FORMS];
    memcpy(bytes, made[i % TINY_FORMS], size);
    for (uint64_t n = 1 + next() % 3; n; n--) mutate(bytes, size);
    rsp_reseal(bytes, size);
    struct rsp_plan plan;
    struct rsp_error error;
    enum rsp_status status = rsp_open_memory(bytes, size, &plan, &error);
    if (status == RSP_OK) {
      accepted++;
      walk_plan(&plan, 1000000);
      rsp_print(&plan, nowhere);
    } else if (status != RSP_INVALID || !rsp_rule_name(error.rule)) {
      printf("mutation %lu: status %d, rule %d: %s\n", i, status, error.rule, error.text);
      return 1;
    }
    int trouble = i % 8 ? 0 : open_ranks(fd, path, bytes, size);
    if (trouble) return trouble;
  }
  close(fd);
  unlink(path);
  printf("%lu mutants, %lu sound\n", count, accepted);
  fclose(nowhere);
  free(bytes);
  for (int f = 0; f < TINY_FORMS; f++) free(made[f]);
  // A verifier that refuses all, or accepts all, is no verifier.
  return count >= 10000 && (accepted == 0 || accepted > count / 2);
}
