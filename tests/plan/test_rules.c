// SPDX-License-Identifier: Apache-2.0
//
// Every rule refuses a plan that breaks it, by its number and inside the file; the tiny plan breaks none in any form.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plans/rules.h"
#include "tests/plan/bad.h"

static int failures;

// The view of one rank reads other bytes in another order: it may accept what lies outside its slice, never crash.
static void open_ranks(const char *path) {
  for (uint32_t r = 0; r <= TINY_WIDE_WORLD; r++) {
    struct rsp_rank_view view;
    struct rsp_error error;
    if (rsp_rank_open(path, r, &view, &error) == RSP_OK) rsp_rank_close(&view);
  }
}

static void try_one(const struct bad *bad, const char *path) {
  size_t size;
  unsigned char *bytes = bad_build(bad, &size);
  if (!bytes) exit(2);
  struct rsp_plan plan;
  struct rsp_error error, file_error;
  enum rsp_status status = rsp_open_memory(bytes, size, &plan, &error);
  if (status != RSP_INVALID || error.rule != bad->rule || error.offset > size + 48) {
    printf("%s: expected rule %d, got status %d, rule %d at %llu: %s\n", bad->name, bad->rule, status, error.rule,
           (unsigned long long)error.offset, error.text);
    failures++;
  }
  // The same bytes as a file say the same.
  if (rsp_write_file(path, bytes, size, &file_error) != RSP_OK) exit(2);
  if (rsp_open(path, &plan, &file_error) != status || file_error.rule != error.rule) {
    printf("%s: memory says %d, the file %d: %s\n", bad->name, error.rule, file_error.rule, file_error.text);
    failures++;
  }
  open_ranks(path);
  free(bytes);
}

static void check_good(enum tiny_form form, uint32_t max_peers) {
  void *bytes;
  size_t size;
  struct rsp_plan plan;
  struct rsp_error error;
  struct tiny *t = malloc(sizeof *t);
  if (!t) exit(2);
  tiny_init_form(t, form);
  t->global.max_peers = max_peers;
  if (!tiny_build(t, &bytes, &size)) exit(2);
  if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) {
    printf("form %d of the tiny plan is refused: %s\n", form, error.text);
    failures++;
  }
  free(bytes);
  free(t);
}

static void check_all_rules(void) {
  for (unsigned i = 0; rsp_rule_at(i); i++) {
    int rule = rsp_rule_at(i);
    size_t cases = 0;
    for (size_t b = 0; b < bad_count; b++) cases += bad_plans[b].rule == rule;
    if (!cases) {
      printf("rule %d (%s) has no bad plan\n", rule, rsp_rule_name(rule));
      failures++;
    }
    if (i && rule <= rsp_rule_at(i - 1)) {
      printf("rule %d is out of order\n", rule);
      failures++;
    }
  }
}

int main(void) {
  char path[] = "reshard-bad-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return 2;
  close(fd);
  // Each rank has two peers; one that passes on to itself is not its own.
  for (int form = TINY_PLAIN; form < TINY_FORMS; form++)
    for (uint32_t peers = 0; peers <= 2; peers += 2) check_good((enum tiny_form)form, peers);
  check_all_rules();
  for (size_t i = 0; i < bad_count; i++) try_one(&bad_plans[i], path);
  unlink(path);
  printf("%zu bad plans, %d failures\n", bad_count, failures);
  return failures != 0;
}
