/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: the layout language, from bytes to a layout. The input is up to four files, separated by lines of "---":
 * the side's file, then "a" and "b" to include or to take as a model, then the text of -D D. A first line of "#infer"
 * makes it the inference side. A layout that comes out must print; a refusal must have said something.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/resolve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct parts {
  const char *at[4];
  size_t len[4], count;
};

static struct parts split(const char *text, size_t len) {
  struct parts p = {.at = {text}, .len = {len}, .count = 1};
  while (p.count < 4) {
    size_t last = p.count - 1;
    const char *mark = memmem(p.at[last], p.len[last], "\n---\n", 5);
    if (!mark) break;
    p.at[p.count] = mark + 5;
    p.len[p.count++] = p.len[last] - (size_t)(mark + 5 - p.at[last]);
    p.len[last] = (size_t)(mark + 1 - p.at[last]);
  }
  return p;
}

static bool load(void *user, const char *path, char **text, size_t *len) {
  const struct parts *p = user;
  size_t i = !strcmp(path, "top") ? 0 : !strcmp(path, "a") ? 1 : !strcmp(path, "b") ? 2 : 4;
  *text = NULL;
  if (i >= p->count) return false;
  *len = p->len[i];
  *text = malloc(*len + 1);
  memcpy(*text, p->at[i], *len);
  return true;
}

static void hear(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)code;
  if (severity == RSC_ERROR && strlen(rendered) > 4) *(bool *)user = true;
}

static void print(const struct rsc_layout *layout) {
  char *text;
  size_t len;
  FILE *out = open_memstream(&text, &len);
  rsc_layout_print(layout, out);
  fclose(out);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct rsc_limits small = {
      .steps = 1 << 18, .items = 1 << 12, .leaves = 1 << 12, .ranks = 1 << 12, .scratch = 1 << 22};
  struct parts parts = split((const char *)data, size);
  enum rsc_side side = size > 6 && !memcmp(data, "#infer", 6) ? RSC_INFER : RSC_TRAIN;
  char *value = parts.count > 3 ? strndup(parts.at[3], parts.len[3]) : NULL;
  struct rsc_define define = {-1, "D", value};
  struct rsc_options options = {.train_path = "top",
                                .infer_path = "top",
                                .defines = &define,
                                .define_count = value != NULL,
                                .load = load,
                                .load_user = &parts};
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  bool said = false, trouble;
  struct rsc_diag *diag = rsc_diag_new(arena, sources, hear, &said);
  const struct rsc_layout *layout = rsc_resolve_within(arena, arena, sources, diag, side, &options, &small, &trouble);
  rsc_diag_flush(diag);
  bool whole = layout && !layout->partial;
  if (whole == said) abort();
  if (whole) print(layout);
  rsc_arena_free(arena);
  free(value);
  return 0;
}
