/* SPDX-License-Identifier: Apache-2.0
 *
 * diag_test CASES...: compiles each case and compares its messages with those expected in its text: none missing, none
 * more. A Markdown file's fenced examples are cases: see lang_case.h. `diag_test --codes FIRST LAST CASES...`: every
 * code of diag.def in [FIRST, LAST] is expected somewhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/place.h"
#include "tests/lang/lang_case.h"

struct message {
  bool error, met;
  char *where; /* "file:line", or "" */
  unsigned long code;
  char *text;
};

struct messages {
  struct message *at;
  size_t len;
};

static char *copy(const char *text, size_t len) {
  char *s = malloc(len + 1);
  memcpy(s, text, len);
  s[len] = 0;
  return s;
}

static struct message *push(struct messages *m) {
  m->at = realloc(m->at, (m->len + 1) * sizeof *m->at);
  memset(&m->at[m->len], 0, sizeof *m->at);
  return &m->at[m->len++];
}

static void forget(struct messages *m) {
  for (size_t i = 0; i < m->len; i++) free(m->at[i].where), free(m->at[i].text);
  free(m->at);
  *m = (struct messages){0};
}

/* "file:line:col: error[RS0031]: text" or "error[RS0031]: text" */
static void hear(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  const char *nl = strchr(rendered, '\n'),
             *bracket = strstr(rendered, severity == RSC_ERROR ? "error[RS" : "warning[RS");
  struct message *m = push(user);
  m->error = severity == RSC_ERROR;
  m->code = (unsigned long)code;
  size_t before = bracket ? (size_t)(bracket - rendered) : 0;
  while (before && rendered[before - 1] != ':') before--; /* the space, then "col" */
  if (before) before--;
  while (before && rendered[before - 1] != ':') before--;
  if (before) before--;
  m->where = copy(rendered, before);
  m->text = copy(rendered, (size_t)(nl - rendered));
}

/* One `# error[RS0031]@-1: text`; returns where to go on, or NULL at the end. */
static const char *expect(struct messages *out, const struct lang_file *file, const char *at) {
  const char *e = strstr(at, "# error[RS"), *w = strstr(at, "# warning[RS"), *mark = !e || (w && w < e) ? w : e;
  if (!mark) return NULL;
  char *end;
  unsigned long code = strtoul(strstr(mark, "[RS") + 3, &end, 10);
  long line = 1, shift = 0;
  for (const char *p = file->text; p < mark; p++) line += *p == '\n';
  struct message *m = push(out);
  end++;
  bool none = !strncmp(end, "@none", 5);
  if (none)
    end += 5;
  else if (!strncmp(end, "@\"", 2)) {
    size_t quoted = strcspn(end + 2, "\"");
    m->where = copy(end + 2, quoted);
    end += quoted + 3;
  } else if (*end == '@')
    shift = strtol(end + 1, &end, 10);
  char where[256];
  snprintf(where, sizeof where, "%s:%ld", file->name, line + shift);
  m->error = mark == e;
  m->code = code;
  if (!m->where) m->where = none ? copy("", 0) : copy(where, strlen(where));
  while (*end == ':' || *end == ' ') end++;
  size_t len = strcspn(end, "\n");
  const char *next = memmem(end, len, "# error[RS", 10);
  m->text = copy(end, next ? (size_t)(next - end) : len);
  while (*m->text && m->text[strlen(m->text) - 1] == ' ') m->text[strlen(m->text) - 1] = 0;
  return end;
}

static bool matches(const struct message *heard, const struct message *wanted) {
  return !heard->met && heard->error == wanted->error && heard->code == wanted->code &&
         !strcmp(heard->where, wanted->where) && strstr(heard->text, wanted->text);
}

/* A document's examples are whole: they are placed, too. */
static void compile(const struct lang_case *c, bool place, struct messages *heard) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, hear, heard);
  struct rsc_options options = lang_options(c);
  bool trouble;
  const struct rsc_layout *layout = rsc_resolve(arena, arena, sources, diag, c->side, &options, &trouble);
  bool clean = rsc_diag_flush(diag);
  if (clean != (layout && !layout->partial)) {
    fprintf(stderr, "%s: a layout and errors, or neither\n", c->title);
    exit(1);
  }
  if (layout && place) rsc_place(arena, diag, layout, RSC_PIECES_MAX);
  rsc_diag_flush(diag);
  rsc_arena_free(arena);
}

static int check(const char *path, const struct lang_case *c) {
  struct messages heard = {0}, wanted = {0};
  int bad = 0;
  compile(c, strstr(path, ".md") != NULL, &heard);
  for (size_t f = 0; f < c->file_count; f++) {
    for (const char *at = c->files[f].text; at;) at = expect(&wanted, &c->files[f], at);
  }
  for (size_t w = 0; w < wanted.len; w++) {
    size_t h = 0;
    while (h < heard.len && !matches(&heard.at[h], &wanted.at[w])) h++;
    if (h < heard.len) {
      heard.at[h].met = true;
      continue;
    }
    printf("%s: %s: missing: %s: RS%04lu: %s\n", path, c->title, wanted.at[w].where, wanted.at[w].code,
           wanted.at[w].text);
    bad++;
  }
  for (size_t h = 0; h < heard.len; h++) {
    if (heard.at[h].met) continue;
    printf("%s: %s: unexpected: %s\n", path, c->title, heard.at[h].text);
    bad++;
  }
  forget(&heard);
  forget(&wanted);
  return bad;
}

static int run_cases(int count, char **paths) {
  int bad = 0, all = 0;
  for (int i = 0; i < count; i++) {
    size_t n;
    struct lang_case *cases = lang_read(paths[i], &n);
    for (size_t k = 0; k < n; k++) bad += check(paths[i], &cases[k]);
    all += (int)n;
    lang_free(cases, n);
  }
  printf("%d cases, %d wrong messages\n", all, bad);
  return bad || !all;
}

static int check_codes(unsigned long first, unsigned long last, int count, char **paths) {
  static const struct {
    const char *name;
    unsigned long number;
  } codes[] = {
#define RSC_CODE(name, number, sentence) {#name, number},
#include "compiler/base/diag.def"
#undef RSC_CODE
  };
  int missing = 0;
  for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
    char mark[32];
    bool found = false;
    if (codes[k].number < first || codes[k].number > last) continue;
    snprintf(mark, sizeof mark, "[RS%04lu]", codes[k].number);
    for (int i = 0; i < count && !found; i++) {
      size_t len;
      char *text = lang_slurp(paths[i], &len);
      found = text && memmem(text, len, mark, strlen(mark));
      free(text);
    }
    if (!found) printf("RS%04lu %s is expected in no case\n", codes[k].number, codes[k].name), missing++;
  }
  return missing != 0;
}

int main(int argc, char **argv) {
  if (argc > 4 && !strcmp(argv[1], "--codes"))
    return check_codes(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), argc - 4, argv + 4);
  return run_cases(argc - 1, argv + 1);
}
