/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target: two sides, from bytes to flows. The input is up to four files, separated by lines of "---": the side's
 * file, then "a" and "b" to include or to take as a model, then the text of -D D. A first line of "#infer" makes it the
 * inference side. What follows a line of "===" is the other side's file; without one it is this side's again. A layout
 * that comes out must print; a refusal must have said something; a buffer is filled, once, by its pieces; and all ends
 * in milliseconds, however many pieces there would be.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/intersect.h"
#include "compiler/pass/pair.h"
#include "compiler/pass/place.h"
#include "compiler/pass/resolve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { THIS, A, B, DEFINE, OTHER, PARTS, NONE };

struct parts {
  const char *at[PARTS];
  size_t len[PARTS], count; /* of THIS to DEFINE */
};

static struct parts split(const char *text, size_t len) {
  const char *other = memmem(text, len, "\n===\n", 5);
  struct parts p = {.at = {text}, .len = {other ? (size_t)(other + 1 - text) : len}, .count = 1};
  p.at[OTHER] = other ? other + 5 : text;
  p.len[OTHER] = other ? len - (size_t)(other + 5 - text) : 0;
  while (p.count <= DEFINE) {
    size_t last = p.count - 1;
    const char *mark = memmem(p.at[last], p.len[last], "\n---\n", 5);
    if (!mark) break;
    p.at[p.count] = mark + 5;
    p.len[p.count++] = p.len[last] - (size_t)(mark + 5 - p.at[last]);
    p.len[last] = (size_t)(mark + 1 - p.at[last]);
  }
  if (!other) p.len[OTHER] = p.len[THIS];
  return p;
}

static bool load(void *user, const char *path, char **text, size_t *len) {
  const struct parts *p = user;
  size_t i = !strcmp(path, "top")     ? THIS
             : !strcmp(path, "other") ? OTHER
             : !strcmp(path, "a")     ? A
             : !strcmp(path, "b")     ? B
                                      : NONE;
  *text = NULL;
  if (i == NONE || (i != OTHER && i >= p->count)) return false;
  *len = p->len[i];
  *text = malloc(*len + 1);
  memcpy(*text, p->at[i], *len);
  return true;
}

static void hear(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)code;
  if (severity == RSC_ERROR && strlen(rendered) > 4) *(bool *)user = true;
}

static void must(bool ok) {
  if (!ok) abort();
}

struct run {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  bool said; /* an error, in what is said of the present pass */
};

/* Ends a pass: it has a result, or it has said why not. */
static bool passed(struct run *r, bool ok) {
  rsc_diag_flush(r->diag);
  must(ok != r->said);
  r->said = false;
  return ok;
}

static void print(const struct rsc_layout *layout, const struct rsc_placement *placed, const struct rsc_flows *flows) {
  char *text;
  size_t len;
  FILE *out = open_memstream(&text, &len);
  if (layout) rsc_layout_print(layout, out);
  if (placed) rsc_placement_print(placed, out);
  if (flows) rsc_flows_print(flows, out);
  fclose(out);
  free(text);
}

/* ---- from two layouts to flows ---- */

enum { MAX_PIECES = 1 << 8, MAX_WORDS = 1 << 9, MAX_RANKS = 1 << 7 };

static int64_t words_of_cuts(const struct rsc_cut *cuts, int32_t count) {
  int64_t words = count;
  for (int32_t i = 0; i < count; i++) words += cuts[i].list_len;
  return words;
}

static int64_t words_of(const struct rsc_value *v) {
  int64_t words = 1 + words_of_cuts(v->cuts, v->cut_count);
  for (int32_t i = 0; i < v->dim_count; i++) words += 1 + words_of_cuts(v->dims[i].cuts, v->dims[i].cut_count);
  for (int64_t i = 0; i < v->child_count && words <= MAX_WORDS; i++) words += words_of(v->children[i]);
  return words;
}

/* Small enough to be placed in a moment. */
static bool is_small(const struct rsc_layout *layout) {
  int64_t words = layout->tensor_count + layout->skip_count, ranks = 0;
  for (int64_t i = 0; i < layout->buffer_count && words <= MAX_WORDS; i++) {
    words += words_of(layout->buffers[i].value);
    ranks += layout->meshes[layout->buffers[i].mesh].rank_count;
  }
  return words <= MAX_WORDS && ranks <= MAX_RANKS;
}

/* The pieces of each entry lie in their buffer and tensor and have, together, as many elements as the buffer. */
static void check_placement(const struct rsc_placement *p) {
  for (int32_t c = 0; c < p->class_count; c++)
    for (int32_t e = 0; e < p->classes[c].entry_count; e++) {
      const struct rsc_entry *entry = &p->classes[c].entries[e];
      int64_t elems = 0;
      for (size_t i = 0; i < entry->pieces.len; i++) {
        const struct rsc_nest *n = &entry->pieces.at[i].nest;
        int64_t first = n->base[RSC_F_POS];
        must(first >= 0 && n->base[RSC_F_TENSOR] >= 0 && first + rsc_nest_extent(n, RSC_F_POS) < entry->elems);
        elems += rsc_nest_elems(n);
      }
      must(elems == entry->elems);
    }
}

static void check_flows(const struct rsc_flows *f) {
  for (int32_t g = 0; g < f->group_count; g++) {
    must(f->groups[g].wants > 0 && f->groups[g].holds > 0);
    int64_t elems = 0;
    for (size_t i = 0; i < f->groups[g].descs.len; i++) elems += f->groups[g].descs.at[i].elems;
    must(elems == f->groups[g].elems);
  }
}

static void pair(struct run *r, const struct rsc_layout *const *layout) {
  const struct rsc_placement *placed[2] = {0};
  int64_t intersections = 0;
  for (int s = 0; s < 2; s++) {
    if (!layout[s] || !is_small(layout[s])) continue;
    placed[s] = rsc_place(r->arena, r->diag, layout[s], MAX_PIECES);
    if (!passed(r, placed[s])) continue;
    check_placement(placed[s]);
    print(NULL, placed[s], NULL);
    if (layout[s]->partial) placed[s] = NULL;
  }
  if (!placed[0] || !placed[1]) return;
  const struct rsc_pairs *pairs = rsc_pair(r->arena, r->diag, placed[0], placed[1], MAX_PIECES, &intersections);
  if (!passed(r, pairs)) return;
  const struct rsc_flows *flows = rsc_intersect(r->arena, r->diag, pairs, MAX_PIECES, 64, 0);
  if (!passed(r, flows)) return;
  check_flows(flows);
  print(NULL, NULL, flows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct rsc_limits small = {
      .steps = 1 << 18, .items = 1 << 12, .leaves = 1 << 12, .ranks = 1 << 12, .scratch = 1 << 22};
  struct parts parts = split((const char *)data, size);
  enum rsc_side this = size > 6 && !memcmp(data, "#infer", 6) ? RSC_INFER : RSC_TRAIN;
  char *value = parts.count > DEFINE ? strndup(parts.at[DEFINE], parts.len[DEFINE]) : NULL;
  struct rsc_define define = {-1, "D", value};
  struct rsc_options options = {.train_path = this == RSC_TRAIN ? "top" : "other",
                                .infer_path = this == RSC_TRAIN ? "other" : "top",
                                .defines = &define,
                                .define_count = value != NULL,
                                .load = load,
                                .load_user = &parts};
  struct run r = {.arena = rsc_arena_new()};
  struct rsc_sources *sources = rsc_sources_new(r.arena);
  r.diag = rsc_diag_new(r.arena, sources, hear, &r.said);
  const struct rsc_layout *layout[2];
  for (int s = 0; s < 2; s++) {
    bool trouble;
    layout[s] = rsc_resolve_within(r.arena, r.arena, sources, r.diag, (enum rsc_side)s, &options, &small, &trouble);
    if (passed(&r, layout[s] && !layout[s]->partial)) print(layout[s], NULL, NULL);
  }
  pair(&r, layout);
  rsc_arena_free(r.arena);
  free(value);
  return 0;
}
