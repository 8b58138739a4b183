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

struct lang_case *lang_read(const char *path, size_t *count) {
  size_t len, room = 0;
  char *text = lang_slurp(path, &len), *end = text + len;
  struct lang_case *cases = NULL, *c = NULL;
  struct lang_file *file = NULL;
  if (!text) die(path, "cannot be read");
  *count = 0;
  for (char *line = text; line < end;) {
    char *nl = memchr(line, '\n', (size_t)(end - line)), *next = nl ? nl + 1 : end;
    size_t n = (size_t)((nl ? nl : end) - line);
    if (n >= 4 && !memcmp(line, "=== ", 4)) {
      if (*count == room) cases = realloc(cases, (room = room * 2 + 8) * sizeof *cases);
      c = &cases[(*count)++];
      memset(c, 0, sizeof *c);
      c->title = copy(line + 4, n - 4);
      file = NULL;
    } else if (c && n >= 4 && !memcmp(line, "--- ", 4)) {
      file = &c->files[c->file_count++];
      *file = (struct lang_file){.name = copy(line + 4, n - 4), .text = copy(next, (size_t)(end - next))};
    } else if (file) {
      file->len = (size_t)(next - line) + file->len;
    } else if (c && n) {
      char *words = copy(line, n);
      directive(c, path, words);
      free(words);
    }
    line = next;
  }
  for (size_t i = 0; i < *count; i++) {
    for (size_t f = 0; f < cases[i].file_count; f++) cases[i].files[f].text[cases[i].files[f].len] = 0;
  }
  free(text);
  return cases;
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
