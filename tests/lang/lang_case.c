/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lang/lang_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *lang_slurp(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  char *text = malloc((size_t)size + 1);
  *len = fread(text, 1, (size_t)size, f);
  text[*len] = 0;
  fclose(f);
  return text;
}

static void die(const char *path, const char *what) {
  fprintf(stderr, "%s: %s\n", path, what);
  exit(2);
}

static char *copy(const char *text, size_t len) {
  char *s = malloc(len + 1);
  memcpy(s, text, len);
  s[len] = 0;
  return s;
}

static void directive(struct lang_case *c, const char *path, char *line) {
  char *value = strchr(line, ':');
  if (!value) die(path, line);
  *value++ = 0;
  while (*value == ' ') value++;
  if (!strcmp(line, "side"))
    c->side = !strcmp(value, "infer") ? RSC_INFER : RSC_TRAIN;
  else if (!strcmp(line, "include-dir"))
    c->include_dirs[c->include_dir_count++] = copy(value, strlen(value));
  else if (!strcmp(line, "model"))
    c->model = copy(value, strlen(value));
  else if (!strcmp(line, "other"))
    c->other = copy(value, strlen(value));
  else if (!strcmp(line, "define")) {
    struct rsc_define *d = &c->defines[c->define_count++];
    d->side = !strncmp(value, "train.", 6) ? RSC_TRAIN : !strncmp(value, "infer.", 6) ? RSC_INFER : -1;
    if (d->side >= 0) value += 6;
    char *equals = strchr(value, '=');
    d->name = copy(value, (size_t)(equals - value));
    d->text = copy(equals + 1, strlen(equals + 1));
  } else
    die(path, line);
}

struct reader {
  const char *path;
  struct lang_case *cases, *c;
  size_t count, room;
  struct lang_file *file;  /* that lines are added to */
  struct lang_case shared; /* of a document */
  size_t line;
};

static void begin_case(struct reader *r, const char *title, size_t len) {
  if (r->count == r->room) r->cases = realloc(r->cases, (r->room = r->room * 2 + 8) * sizeof *r->cases);
  r->c = &r->cases[r->count++];
  memset(r->c, 0, sizeof *r->c);
  r->c->title = copy(title, len);
  r->file = NULL;
}

static void begin_file(struct reader *r, struct lang_case *c, const char *name, size_t len) {
  r->file = &c->files[c->file_count++];
  *r->file = (struct lang_file){.name = copy(name, len), .text = copy("", 0)};
}

static void add_line(struct lang_file *file, const char *line, size_t len) {
  file->text = realloc(file->text, file->len + len + 1);
  memcpy(file->text + file->len, line, len);
  file->len += len;
  file->text[file->len] = 0;
}

static void case_line(struct reader *r, const char *line, size_t n, size_t whole) {
  if (n >= 4 && !memcmp(line, "=== ", 4))
    begin_case(r, line + 4, n - 4);
  else if (r->c && n >= 4 && !memcmp(line, "--- ", 4))
    begin_file(r, r->c, line + 4, n - 4);
  else if (r->file)
    add_line(r->file, line, whole);
  else if (r->c && n) {
    char *words = copy(line, n);
    directive(r->c, r->path, words);
    free(words);
  }
}

static bool starts(const char *line, size_t n, const char *with) {
  return n >= strlen(with) && !memcmp(line, with, strlen(with));
}

static void begin_example(struct reader *r, bool infer) {
  char title[64];
  snprintf(title, sizeof title, "line %zu", r->line);
  begin_case(r, title, strlen(title));
  r->c->side = infer ? RSC_INFER : RSC_TRAIN;
  begin_file(r, r->c, "main.layout", 11);
  for (size_t i = 0; i < r->shared.file_count; i++) {
    const struct lang_file *f = &r->shared.files[i];
    r->c->files[r->c->file_count++] = (struct lang_file){copy(f->name, strlen(f->name)), copy(f->text, f->len), f->len};
  }
}

static void document_line(struct reader *r, const char *line, size_t n, size_t whole) {
  if (!starts(line, n, "```")) {
    if (r->file) add_line(r->file, line, whole);
    return;
  }
  bool inside = r->file != NULL;
  r->file = NULL;
  if (inside) return;
  if (starts(line, n, "```layout") || starts(line, n, "```refused"))
    begin_example(r, starts(line, n, "```layout infer"));
  else if (starts(line, n, "```yaml "))
    begin_file(r, &r->shared, line + 8, n - 8);
  else if (starts(line, n, "```part "))
    begin_file(r, &r->shared, line + 8, n - 8);
  else
    die(r->path, "a fenced block of no known kind");
}

struct lang_case *lang_read(const char *path, size_t *count) {
  size_t len, name_len = strlen(path);
  struct reader r = {.path = path};
  char *text = lang_slurp(path, &len);
  if (!text) die(path, "cannot be read");
  const char *end = text + len;
  bool document = name_len > 3 && !strcmp(path + name_len - 3, ".md");
  for (const char *line = text, *next; line < end; line = next) {
    const char *nl = memchr(line, '\n', (size_t)(end - line));
    next = nl ? nl + 1 : end;
    r.line++;
    (document ? document_line : case_line)(&r, line, (size_t)((nl ? nl : end) - line), (size_t)(next - line));
  }
  for (size_t i = 0; i < r.shared.file_count; i++) free(r.shared.files[i].name), free(r.shared.files[i].text);
  free(text);
  *count = r.count;
  return r.cases;
}

void lang_free(struct lang_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct lang_case *c = &cases[i];
    for (size_t f = 0; f < c->file_count; f++) free(c->files[f].name), free(c->files[f].text);
    for (size_t d = 0; d < c->define_count; d++) free((char *)c->defines[d].name), free((char *)c->defines[d].text);
    for (size_t d = 0; d < c->include_dir_count; d++) free((char *)c->include_dirs[d]);
    free(c->title), free(c->model), free(c->other);
  }
  free(cases);
}

static bool load(void *user, const char *path, char **text, size_t *len) {
  const struct lang_case *c = user;
  for (size_t i = 0; i < c->file_count; i++) {
    if (strcmp(c->files[i].name, path) != 0) continue;
    *len = c->files[i].len;
    *text = copy(c->files[i].text, *len);
    return true;
  }
  *text = copy("no such file", 12);
  return false;
}

struct rsc_options lang_options(const struct lang_case *c) {
  const char *other = c->other ? c->other : c->files[0].name;
  return (struct rsc_options){.train_path = c->side == RSC_TRAIN ? c->files[0].name : other,
                              .infer_path = c->side == RSC_INFER ? c->files[0].name : other,
                              .model_path = c->model,
                              .defines = c->defines,
                              .define_count = c->define_count,
                              .include_dirs = c->include_dirs,
                              .include_dir_count = c->include_dir_count,
                              .load = load,
                              .load_user = (void *)c};
}
