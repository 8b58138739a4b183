// SPDX-License-Identifier: Apache-2.0
//
// A kept plan opens, whole and by rank, and prints as it did. Usage: test_compat PLAN GOLDEN [--update].
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"

static int fail(const char *what, const struct rsp_error *error) {
  printf("%s: %s\n", what, error->text);
  return 1;
}

static char *read_text(const char *path, size_t *len) {
  FILE *in = fopen(path, "rb");
  char *text = malloc(1 << 20);
  *len = in && text ? fread(text, 1, 1 << 20, in) : 0;
  if (in) fclose(in);
  return text;
}

static int compare(const struct rsp_plan *plan, const char *golden, bool update) {
  char *text = NULL;
  size_t len = 0, expected_len;
  struct rsp_error error;
  FILE *out = open_memstream(&text, &len);
  if (!out || !rsp_print(plan, out)) return 2;
  fclose(out);
  if (update && rsp_write_file(golden, text, len, &error) != RSP_OK) return fail(golden, &error);
  char *expected = read_text(golden, &expected_len);
  bool same = expected && expected_len == len && memcmp(text, expected, len) == 0;
  if (!same) printf("the plan now prints as\n%s", text);
  free(text);
  free(expected);
  return !same;
}

int main(int argc, char **argv) {
  struct rsp_plan plan;
  struct rsp_rank_view view;
  struct rsp_error error;
  if (argc < 3) return 2;
  if (rsp_open(argv[1], &plan, &error) != RSP_OK) return fail(argv[1], &error);
  for (uint32_t r = 0; r < plan.header->world; r++) {
    if (rsp_rank_open(argv[1], r, &view, &error) != RSP_OK) return fail(argv[1], &error);
    rsp_rank_close(&view);
  }
  int status = compare(&plan, argv[2], argc > 3);
  rsp_close(&plan);
  return status;
}
