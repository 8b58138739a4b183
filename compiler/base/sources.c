/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the names and texts of the files of one compilation. Out: the same, by index.
 */
#include <string.h>

#include "compiler/base/diag.h"
#include "compiler/base/vec.h"

struct source {
  const char *name, *text;
  size_t len;
};

struct rsc_sources {
  struct rsc_arena *arena;
  RSC_VEC(struct source);
};

struct rsc_sources *rsc_sources_new(struct rsc_arena *arena) {
  struct rsc_sources *sources = RSC_NEW(arena, struct rsc_sources);
  sources->arena = arena;
  return sources;
}

int rsc_sources_add(struct rsc_sources *sources, const char *name, const char *text, size_t len) {
  struct source *s = RSC_PUSH(sources->arena, sources);
  s->name = rsc_arena_strdup(sources->arena, name, strlen(name));
  s->text = rsc_arena_strdup(sources->arena, text, len);
  s->len = len;
  return (int)sources->len - 1;
}

const char *rsc_sources_name(const struct rsc_sources *sources, int file) {
  return file >= 0 && (size_t)file < sources->len ? sources->at[file].name : "";
}

const char *rsc_sources_text(const struct rsc_sources *sources, int file, size_t *len) {
  if (file < 0 || (size_t)file >= sources->len) {
    *len = 0;
    return "";
  }
  *len = sources->at[file].len;
  return sources->at[file].text;
}

int rsc_sources_count(const struct rsc_sources *sources) {
  return (int)sources->len;
}
