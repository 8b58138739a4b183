// SPDX-License-Identifier: Apache-2.0
//
// No bit of a sealed plan can turn, and no byte be lost or added, without refusal.
#include <stdlib.h>
#include <string.h>

#include "tests/plan/tiny.h"

static int failures;

static void expect_refused(const unsigned char *bytes, size_t size, const char *what, size_t at) {
  struct rsp_plan plan;
  struct rsp_error error;
  if (rsp_open_memory(bytes, size, &plan, &error) == RSP_INVALID && error.rule > 0) return;
  printf("accepted: %s at %zu\n", what, at);
  failures++;
}

int main(void) {
  void *made;
  size_t size;
  if (!tiny_plan(&made, &size)) return 2;
  unsigned char *bytes = calloc(1, size + 8);
  if (!bytes) return 2;
  memcpy(bytes, made, size);
  free(made);
  for (size_t bit = 0; bit < size * 8; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    expect_refused(bytes, size, "a turned bit", bit);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  for (size_t cut = 0; cut < size; cut++) {
    // A copy of its own size, so that a read past the end is seen.
    unsigned char *part = malloc(cut ? cut : 1);
    if (!part) return 2;
    memcpy(part, bytes, cut);
    expect_refused(part, cut, "a truncation", cut);
    free(part);
  }
  for (size_t more = 1; more <= 8; more++) expect_refused(bytes, size + more, "an extension", more);
  free(bytes);
  printf("%zu bits, %zu truncations, %d failures\n", size * 8, size, failures);
  return failures != 0;
}
