/* SPDX-License-Identifier: Apache-2.0
 *
 * Flows regrouped as packed are those that intersect finds when no run is long enough to be direct.
 * Usage: test_packed LIBRARY {TRAIN INFER}...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/intersect.h"
#include "compiler/pass/pair.h"
#include "compiler/pass/place.h"
#include "compiler/pass/resolve.h"
#include "tests/check.h"

static bool load(void *user, const char *path, char **text, size_t *len) {
  (void)user;
  *text = NULL;
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  fseek(f, 0, SEEK_END);
  *len = (size_t)ftell(f);
  rewind(f);
  *text = malloc(*len + 1);
  CHECK(fread(*text, 1, *len, f) == *len, "%s", path);
  fclose(f);
  return true;
}

static void say(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)code;
  if (severity == RSC_ERROR) fputs(rendered, stderr);
}

static const struct rsc_pairs *paired(struct rsc_arena *arena, const char *library, char *const path[2]) {
  const struct rsc_options o = {.train_path = path[0], .infer_path = path[1], .library_dir = library, .load = load};
  struct rsc_sources *sources = rsc_sources_new(arena);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, say, NULL);
  const struct rsc_placement *placed[2];
  int64_t intersections = 0;
  for (int s = 0; s < 2; s++) {
    bool trouble = false;
    const struct rsc_layout *l = rsc_resolve(arena, arena, sources, diag, (enum rsc_side)s, &o, &trouble);
    placed[s] = l ? rsc_place(arena, diag, l, RSC_PIECES_MAX) : NULL;
    rsc_diag_flush(diag);
    CHECK(placed[s], "%s", path[s]);
  }
  const struct rsc_pairs *pairs = rsc_pair(arena, diag, placed[0], placed[1], RSC_PIECES_MAX, &intersections);
  rsc_diag_flush(diag);
  CHECK(pairs, "%s to %s", path[0], path[1]);
  return pairs;
}

static bool same_end(struct rsc_end a, struct rsc_end b) {
  return a.dtype == b.dtype && a.op == b.op && !memcmp(&a.constant, &b.constant, sizeof a.constant);
}

static bool same_desc(const struct rsc_flow_desc *a, const struct rsc_flow_desc *b, int32_t ends) {
  size_t base = 2 * (size_t)ends, loops = (size_t)a->loop_count * (1 + base);
  if (a->elems != b->elems || a->run != b->run || a->wire != b->wire || a->order != b->order) return false;
  if (a->loop_count != b->loop_count || memcmp(a->base, b->base, base * sizeof *a->base) != 0) return false;
  if (loops && memcmp(a->loops, b->loops, loops * sizeof *a->loops) != 0) return false;
  for (int32_t k = 0; k < ends; k++)
    if (!same_end(a->ends[k], b->ends[k])) return false;
  return true;
}

static void check_group(const struct rsc_group *a, const struct rsc_group *b, const char *what) {
  int32_t ends = a->wants + a->holds;
  CHECK(a->wants == b->wants && a->holds == b->holds && a->wire_bytes == b->wire_bytes, "%s", what);
  CHECK(!memcmp(a->ranksets, b->ranksets, (size_t)ends * sizeof *a->ranksets), "%s", what);
  CHECK(!a->direct && !b->direct, "%s", what);
  CHECK(a->min_run == b->min_run && a->elems == b->elems && a->flows == b->flows, "%s", what);
  CHECK(a->descs.len == b->descs.len, "%s: %zu, %zu descriptors", what, a->descs.len, b->descs.len);
  for (size_t i = 0; i < a->descs.len; i++)
    CHECK(same_desc(&a->descs.at[i], &b->descs.at[i], ends), "%s: descriptor %zu", what, i);
}

/* How many groups became part of another. */
static int32_t check_packed(struct rsc_arena *arena, const struct rsc_pairs *pairs, int64_t direct_min,
                            const char *what) {
  const struct rsc_flows *from = rsc_intersect(arena, NULL, pairs, RSC_PIECES_MAX, direct_min, 0);
  const struct rsc_flows *packed = rsc_flows_packed(arena, from);
  const struct rsc_flows *wanted = rsc_intersect(arena, NULL, pairs, RSC_PIECES_MAX, INT64_MAX, 0);
  CHECK(packed->group_count == wanted->group_count, "%s: %d, %d", what, packed->group_count, wanted->group_count);
  CHECK(packed->flow_count == wanted->flow_count && packed->desc_count == wanted->desc_count, "%s", what);
  CHECK(packed->intersections == wanted->intersections, "%s", what);
  CHECK(packed->delivered_tensors == wanted->delivered_tensors, "%s", what);
  CHECK(packed->delivered_elems == wanted->delivered_elems, "%s", what);
  CHECK(packed->delivered_bytes == wanted->delivered_bytes, "%s", what);
  for (int32_t g = 0; g < packed->group_count; g++) check_group(&packed->groups[g], &wanted->groups[g], what);
  return from->group_count - packed->group_count;
}

int main(int argc, char **argv) {
  static const int64_t direct_min[] = {1, 16, 1 << 10, 1 << 20, 1 << 23, INT64_MAX};
  int32_t joined = 0;
  CHECK(argc > 3 && argc % 2 == 0, "usage: test_packed LIBRARY {TRAIN INFER}...");
  for (int i = 2; i < argc; i += 2) {
    struct rsc_arena *arena = rsc_arena_new();
    const struct rsc_pairs *pairs = paired(arena, argv[1], argv + i);
    for (size_t k = 0; k < sizeof direct_min / sizeof *direct_min; k++) {
      char what[512];
      snprintf(what, sizeof what, "%s, direct from %" PRId64 " bytes", argv[i], direct_min[k]);
      joined += check_packed(arena, pairs, direct_min[k], what);
    }
    rsc_arena_free(arena);
  }
  CHECK(joined > 0, "no pair has direct and staged flows between the same ends: nothing was tested");
  return 0;
}
