/* SPDX-License-Identifier: Apache-2.0
 *
 * Meshes, `on`, and sites: the sets of ranks that buffers are on.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/resolve_impl.h"

enum { AXES_MAX = 64 }; /* a site keeps its pinned axes in a mask; axes beyond the 31st can only have size 1 */

static bool eval_axes(struct rsc_resolver *r, const struct rsc_ast *list, struct rsc_axis *axes, int64_t *product) {
  *product = 1;
  if (list->kid_count > AXES_MAX)
    return rsc_fail(r, RSC_AXIS_SIZE, list->span, "%zu axes; a mesh has at most %d", list->kid_count, AXES_MAX);
  for (size_t i = 0; i < list->kid_count; i++) {
    const struct rsc_ast *e = list->kids[i], *name = e->kids[0];
    axes[i].name = name->symbol->text;
    for (size_t k = 0; k < i; k++) {
      if (strcmp(axes[k].name, axes[i].name) == 0)
        return rsc_fail(r, RSC_AXIS_TWICE, name->span, "the mesh already has an axis '%s'", axes[i].name);
    }
    if (!rsc_eval_int(r, e->kids[1], "the size of an axis", &axes[i].size)) return false;
    if (axes[i].size < 1)
      return rsc_fail(r, RSC_AXIS_SIZE, e->kids[1]->span,
                      "axis '%s' of size %" PRId64 "; an axis has at least 1 coordinate", axes[i].name, axes[i].size);
    if (rsc_mul(*product, axes[i].size, product) || *product > r->limits.ranks)
      return rsc_fail(r, RSC_TOO_LARGE, list->span, "the mesh has more than %" PRId64 " ranks", r->limits.ranks);
  }
  return true;
}

struct ranks {
  RSC_VEC(int64_t);
};

static bool add_rank(struct rsc_resolver *r, struct rsc_span span, int64_t rank, int64_t wanted, struct ranks *out) {
  if (rank < 0 || rank >= INT32_MAX)
    return rsc_fail(r, RSC_RANK_RANGE, span, "rank %" PRId64 "; ranks count from 0, to at most 2^31 - 2", rank);
  /* past what the mesh needs only the count matters */
  if ((int64_t)out->len <= wanted) *RSC_PUSH(r->arena, out) = rank;
  return true;
}

static bool add_ranks(struct rsc_resolver *r, const struct rsc_ast *e, int64_t wanted, struct ranks *out,
                      int64_t *count) {
  struct rsc_turns turns;
  struct rsc_item item;
  if (e->kind != RSC_AST_RANGE) {
    if (!rsc_eval(r, e, &item)) return false;
    if (item.kind == RSC_INT)
      turns = (struct rsc_turns){.lo = item.u.number, .count = 1};
    else if (item.kind == RSC_TABLE)
      turns = (struct rsc_turns){.items = item.u.table, .count = (int64_t)item.len};
    else
      return rsc_fail(r, RSC_TYPE_MIXED, e->span, "ranks are numbers, ranges a..b and tables, not %s",
                      rsc_kind_text(item.kind));
  } else if (!rsc_eval_turns(r, e, &turns)) {
    return false;
  }
  for (int64_t i = 0; i < turns.count && (int64_t)out->len <= wanted; i++) {
    item = rsc_turn(&turns, i);
    if (item.kind != RSC_INT)
      return rsc_fail(r, RSC_TYPE_MIXED, e->span, "a table of ranks holds integers, not %s", rsc_kind_text(item.kind));
    if (!add_rank(r, e->span, item.u.number, wanted, out)) return false;
  }
  return !rsc_add(*count, turns.count, count) || rsc_fail(r, RSC_OVERFLOW, e->span, "the rank list is too long");
}

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static bool distinct(struct rsc_resolver *r, const struct rsc_ast *s, const int64_t *ranks, int64_t count) {
  int64_t *sorted = rsc_scratch(r, (size_t)count * sizeof *sorted);
  if (!sorted) return false;
  memcpy(sorted, ranks, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, by_number);
  for (int64_t i = 1; i < count; i++) {
    if (sorted[i] == sorted[i - 1])
      return rsc_fail(r, RSC_RANK_TWICE, s->kids[2]->span, "rank %" PRId64 " stands twice in mesh '%s'", sorted[i],
                      s->kids[0]->symbol->text);
  }
  return true;
}

static bool eval_ranks(struct rsc_resolver *r, const struct rsc_ast *s, int64_t product, const int64_t **out) {
  const struct rsc_ast *list = s->kids[2];
  struct ranks ranks = {0};
  int64_t count = 0;
  if (!list) {
    RSC_RESERVE(r->arena, &ranks, product);
    for (int64_t i = 0; i < product; i++) ranks.at[i] = i;
    *out = ranks.at;
    return true;
  }
  for (size_t i = 0; i < list->kid_count; i++) {
    if (!add_ranks(r, list->kids[i], product, &ranks, &count)) return false;
  }
  if (count != product)
    return rsc_fail(r, RSC_RANK_COUNT, list->span, "%" PRId64 " rank%s for mesh '%s', whose axes make %" PRId64, count,
                    count == 1 ? "" : "s", s->kids[0]->symbol->text, product);
  *out = ranks.at;
  return distinct(r, s, ranks.at, product);
}

void rsc_run_mesh(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *name = s->kids[0], *list = s->kids[1];
  struct rsc_axis *axes = RSC_ARRAY(r->arena, struct rsc_axis, list->kid_count);
  int64_t product;
  const int64_t *ranks = NULL;
  bool ok = eval_axes(r, list, axes, &product) && eval_ranks(r, s, product, &ranks);
  if (!rsc_may_define(r, name->symbol, name->span)) return;
  struct rsc_binding b = {.kind = RSC_CONST, .item.kind = RSC_BROKEN, .span = name->span};
  if (ok) {
    b.kind = RSC_MESH_NAME;
    b.index = (int32_t)r->meshes.len;
    *RSC_PUSH(r->arena, &r->meshes) = (struct rsc_mesh){.name = name->symbol->text,
                                                        .axes = axes,
                                                        .axis_count = (int32_t)list->kid_count,
                                                        .ranks = ranks,
                                                        .rank_count = product,
                                                        .span = name->span};
  }
  rsc_bind(r, name->symbol, b);
}

static bool find_mesh(struct rsc_resolver *r, const struct rsc_ast *name, int32_t *mesh) {
  const struct rsc_binding *b = rsc_binding(r, name->symbol);
  if (b->kind == RSC_MESH_NAME) {
    *mesh = b->index;
    return true;
  }
  if (b->kind == RSC_CONST && b->item.kind == RSC_BROKEN) return false;
  if (b->kind != RSC_UNBOUND) return rsc_fail(r, RSC_NAME_KIND, name->span, "'%s' is no mesh", name->symbol->text);
  struct rsc_guess guess;
  rsc_guess_begin(&guess, name->symbol->text, name->symbol->len);
  for (size_t i = 0; i < r->meshes.len; i++)
    rsc_guess_offer(&guess, r->meshes.at[i].name, strlen(r->meshes.at[i].name));
  return rsc_fail(r, RSC_NAME_UNKNOWN, name->span, "no mesh '%s' is visible here%s", name->symbol->text,
                  rsc_guess_text(r->arena, &guess));
}

static bool pin(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_mesh *mesh, int64_t *pins) {
  const char *name = e->kids[0]->symbol->text;
  int32_t axis = rsc_axis_of(r, mesh, e->kids[0]);
  if (axis < 0) return false;
  int64_t at, size = mesh->axes[axis].size;
  if (!rsc_eval_int(r, e->kids[1], "a coordinate", &at)) return false;
  if (pins[axis] >= 0)
    return rsc_fail(r, RSC_AXIS_TWICE, e->kids[0]->span, "axis '%s' is already pinned to %" PRId64, name, pins[axis]);
  if (at < 0 || at >= size)
    return rsc_fail(r, RSC_COORDINATE_RANGE, e->kids[1]->span,
                    "coordinate %" PRId64 " on axis '%s', which has 0 to %" PRId64, at, name, size - 1);
  pins[axis] = at;
  return true;
}

void rsc_run_on(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *name = s->kids[0], *list = s->kids[1];
  int32_t outer = r->site, mesh = outer >= 0 ? r->sites.at[outer].mesh : -1;
  bool doubtful = r->doubtful;
  /* `on M` in an `on`, and `on [..]` outside one, have been refused */
  if ((name != NULL) == (outer >= 0)) return;
  if (name && !find_mesh(r, name, &mesh)) return;
  struct rsc_mesh m = r->meshes.at[mesh];
  int64_t pins[AXES_MAX];
  for (int32_t i = 0; i < m.axis_count; i++) pins[i] = outer >= 0 ? r->sites.at[outer].pins[i] : -1;
  for (size_t i = 0; list && i < list->kid_count; i++) {
    if (!pin(r, list->kids[i], &m, pins)) r->doubtful = true;
  }
  r->site = rsc_site_of(r, mesh, pins);
  rsc_run_block(r, s->kids[2]);
  r->site = outer;
  r->doubtful = doubtful;
}

int32_t rsc_site_of(struct rsc_resolver *r, int32_t mesh, const int64_t *pins) {
  size_t axes = (size_t)r->meshes.at[mesh].axis_count;
  int64_t bytes[AXES_MAX + 1];
  bytes[0] = mesh;
  memcpy(bytes + 1, pins, axes * sizeof *pins);
  bool fresh;
  int32_t id = rsc_keys_id(r->site_keys, bytes, (axes + 1) * sizeof *bytes, &fresh);
  if (!fresh) return id;
  struct rsc_site site = {.mesh = mesh};
  int64_t *kept = RSC_ARRAY(r->arena, int64_t, axes);
  memcpy(kept, pins, axes * sizeof *pins);
  site.pins = kept;
  for (size_t i = 0; i < axes; i++) site.pinned |= (uint64_t)(pins[i] >= 0) << i;
  *RSC_PUSH(r->arena, &r->sites) = site;
  return id;
}

/* The ranks of a site, ascending. */
static const struct rsc_site *with_ranks(struct rsc_resolver *r, int32_t id) {
  struct rsc_site *site = &r->sites.at[id];
  if (site->ranks) return site;
  const struct rsc_mesh *mesh = &r->meshes.at[site->mesh];
  int64_t count = 1, index = 0, coords[AXES_MAX] = {0};
  for (int32_t i = 0; i < mesh->axis_count; i++) count *= site->pins[i] < 0 ? mesh->axes[i].size : 1;
  int64_t *ranks = RSC_ARRAY(r->arena, int64_t, count);
  for (int64_t n = 0; n < count; n++) {
    index = 0;
    for (int32_t i = 0; i < mesh->axis_count; i++)
      index = index * mesh->axes[i].size + (site->pins[i] < 0 ? coords[i] : site->pins[i]);
    ranks[n] = mesh->ranks[index];
    for (int32_t i = mesh->axis_count - 1; i >= 0; i--) {
      if (site->pins[i] >= 0) continue;
      if (++coords[i] < mesh->axes[i].size) break;
      coords[i] = 0;
    }
  }
  qsort(ranks, (size_t)count, sizeof *ranks, by_number);
  site->ranks = ranks;
  site->rank_count = count;
  return site;
}

int64_t rsc_common_rank(struct rsc_resolver *r, int32_t a, int32_t b) {
  const struct rsc_site *x = with_ranks(r, a), *y = with_ranks(r, b);
  for (int64_t i = 0, j = 0; i < x->rank_count && j < y->rank_count;) {
    if (x->ranks[i] == y->ranks[j]) return x->ranks[i];
    if (x->ranks[i] < y->ranks[j])
      i++;
    else
      j++;
  }
  return -1;
}

bool rsc_sites_meet(struct rsc_resolver *r, int32_t a, int32_t b) {
  const struct rsc_site *x = &r->sites.at[a], *y = &r->sites.at[b];
  if (x->mesh == y->mesh) {
    for (int32_t i = 0; i < r->meshes.at[x->mesh].axis_count; i++) {
      if (x->pins[i] >= 0 && y->pins[i] >= 0 && x->pins[i] != y->pins[i]) return false;
    }
    return true;
  }
  int32_t pair[2] = {a < b ? a : b, a < b ? b : a};
  bool fresh;
  int32_t id = rsc_keys_id(r->overlap_keys, pair, sizeof pair, &fresh);
  if (fresh) *RSC_PUSH(r->arena, &r->overlaps) = rsc_common_rank(r, a, b) >= 0;
  return r->overlaps.at[id];
}

bool rsc_meshes_meet(struct rsc_resolver *r, int32_t a, int32_t b) {
  int64_t free[AXES_MAX];
  if (a == b) return true;
  for (int i = 0; i < AXES_MAX; i++) free[i] = -1;
  int32_t x = rsc_site_of(r, a, free), y = rsc_site_of(r, b, free);
  return rsc_sites_meet(r, x, y);
}
