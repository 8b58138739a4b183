/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the names and texts of the files of one compilation. Out: the same, by index. A name is for people at a terminal;
 * a title is what the plan calls the file, and does not depend on the directory that the compiler was started in.
 */
#include <string.h>

#include "compiler/base/diag.h"
#include "compiler/base/vec.h"

struct source {
  const char *name, *title, *text;
  size_t len;
  int first; /* of the files with this title */
  const void *made;
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

const char *rsc_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int rsc_sources_add_titled(struct rsc_sources *sources, const char *name, const char *title, const char *text,
                           size_t len) {
  int first = 0, added = (int)sources->len;
  while (first < added && strcmp(sources->at[first].title, title) != 0) first++;
  struct source *s = RSC_PUSH(sources->arena, sources);
  s->name = rsc_arena_strdup(sources->arena, name, strlen(name));
  s->title = rsc_arena_strdup(sources->arena, title, strlen(title));
  s->text = rsc_arena_strdup(sources->arena, text, len);
  s->len = len;
  s->first = first;
  return added;
}

int rsc_sources_add(struct rsc_sources *sources, const char *name, const char *text, size_t len) {
  return rsc_sources_add_titled(sources, name, rsc_base_name(name), text, len);
}

const char *rsc_sources_title(const struct rsc_sources *sources, int file) {
  return file >= 0 && (size_t)file < sources->len ? sources->at[file].title : "";
}

int rsc_sources_first_titled(const struct rsc_sources *sources, int file) {
  return file >= 0 && (size_t)file < sources->len ? sources->at[file].first : -1;
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

void rsc_sources_keep(struct rsc_sources *sources, int file, const void *made) {
  sources->at[file].made = made;
}

const void *rsc_sources_kept(const struct rsc_sources *sources, int file) {
  return sources->at[file].made;
}

int rsc_sources_count(const struct rsc_sources *sources) {
  return (int)sources->len;
}
