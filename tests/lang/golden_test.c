/* SPDX-License-Identifier: Apache-2.0
 *
 * golden_test [--update] CASES...: for each case, the syntax tree, the layout and the messages as they are printed,
 * compared with FILE.ast, FILE.layout and FILE.messages beside the case file (those that exist; --update writes them).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lang/lang_case.h"

static void hear(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)severity;
  (void)code;
  fputs(rendered, user);
}

struct text {
  char *at;
  size_t len;
  FILE *out;
};

static void compile(const struct lang_case *c, struct text *ast, struct text *layout, struct text *messages) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, hear, messages->out);
  struct rsc_options options = lang_options(c);
  options.dump = "ast";
  options.dump_file = ast->out;
  bool trouble;
  fprintf(ast->out, "=== %s\n", c->title);
  fprintf(layout->out, "=== %s\n", c->title);
  fprintf(messages->out, "=== %s\n", c->title);
  const struct rsc_layout *l = rsc_resolve(arena, arena, sources, diag, c->side, &options, &trouble);
  rsc_diag_flush(diag);
  if (l && !l->partial) rsc_layout_print(l, layout->out);
  rsc_arena_free(arena);
}

static int compare(const char *path, const char *suffix, const struct text *got, bool update) {
  char name[1024];
  snprintf(name, sizeof name, "%s.%s", path, suffix);
  size_t len;
  char *want = lang_slurp(name, &len);
  if (!want) return 0;
  bool same = len == got->len && !memcmp(want, got->at, len);
  size_t at = 0, line = 1;
  while (at < len && at < got->len && want[at] == got->at[at]) line += want[at++] == '\n';
  free(want);
  if (same) return 0;
  if (update) {
    FILE *f = fopen(name, "wb");
    fwrite(got->at, 1, got->len, f);
    fclose(f);
    return 0;
  }
  while (at && got->at[at - 1] != '\n') at--;
  printf("%s:%zu: differs; now it is:\n%.*s\n", name, line, 400, at < got->len ? got->at + at : "(the end)");
  return 1;
}

int main(int argc, char **argv) {
  bool update = argc > 1 && !strcmp(argv[1], "--update");
  int bad = 0, first = update ? 2 : 1;
  for (int i = first; i < argc; i++) {
    struct text texts[3];
    size_t n;
    struct lang_case *cases = lang_read(argv[i], &n);
    for (int t = 0; t < 3; t++) texts[t].out = open_memstream(&texts[t].at, &texts[t].len);
    for (size_t k = 0; k < n; k++) compile(&cases[k], &texts[0], &texts[1], &texts[2]);
    for (int t = 0; t < 3; t++) fclose(texts[t].out);
    bad += compare(argv[i], "ast", &texts[0], update) + compare(argv[i], "layout", &texts[1], update) +
           compare(argv[i], "messages", &texts[2], update);
    for (int t = 0; t < 3; t++) free(texts[t].at);
    lang_free(cases, n);
  }
  return bad || argc <= first;
}
