/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts: `@axis:rule` in a dimension or after the range of a stack -> struct rsc_cut. All that can be judged without the
 * length that is cut is judged here.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

#define RULES "chunk, balanced, cyclic, cyclic(b), share(k), padded, padded(m), each(sizes), or a table of sizes"

static const struct rsc_mesh *mesh_here(struct rsc_resolver *r) {
  return &r->meshes.at[r->sites.at[r->site].mesh];
}

int32_t rsc_axis_of(struct rsc_resolver *r, const struct rsc_mesh *mesh, const struct rsc_ast *name) {
  struct rsc_guess guess;
  for (int32_t i = 0; i < mesh->axis_count; i++) {
    if (strcmp(mesh->axes[i].name, name->symbol->text) == 0) return i;
  }
  rsc_guess_begin(&guess, name->symbol->text, name->symbol->len);
  for (int32_t i = 0; i < mesh->axis_count; i++)
    rsc_guess_offer(&guess, mesh->axes[i].name, strlen(mesh->axes[i].name));
  rsc_fail(r, RSC_AXIS_UNKNOWN, name->span, "mesh '%s' has no axis '%s'%s", mesh->name, name->symbol->text,
           rsc_guess_text(r->values, &guess));
  rsc_fail_note(r, mesh->span, "mesh '%s' is defined here", mesh->name);
  return -1;
}

static bool find_axis(struct rsc_resolver *r, const struct rsc_ast *name, int32_t *axis) {
  if (r->site < 0)
    return rsc_fail(r, RSC_ON_OUTSIDE, name->span, "a cut by '%s' outside every 'on': there is no mesh to cut by",
                    name->symbol->text);
  *axis = rsc_axis_of(r, mesh_here(r), name);
  return *axis >= 0;
}

static const struct rsc_cut *among(const struct rsc_cut *cuts, int32_t count, int32_t axis) {
  for (int32_t i = 0; i < count; i++) {
    if (cuts[i].axis == axis) return &cuts[i];
  }
  return NULL;
}

static const struct rsc_cut *among_dims(const struct rsc_dim *dims, int32_t count, int32_t axis) {
  for (int32_t i = 0; i < count; i++) {
    const struct rsc_cut *cut = among(dims[i].cuts, dims[i].cut_count, axis);
    if (cut) return cut;
  }
  return NULL;
}

/* The cut below by this axis: the masks lead straight to it. */
static const struct rsc_cut *find_below(const struct rsc_value *const *children, int64_t count, int32_t axis) {
  for (int64_t i = 0; i < count; i++) {
    const struct rsc_value *v = children[i];
    if (!(rsc_knot_of(v)->axes >> axis & 1)) continue;
    const struct rsc_cut *cut = among(v->cuts, v->cut_count, axis);
    if (!cut) cut = among_dims(v->dims, v->dim_count, axis);
    return cut ? cut : find_below(v->children, v->child_count, axis);
  }
  return NULL;
}

static bool cuts_tensors(const struct rsc_cutting *at) {
  for (int64_t i = 0; i < at->child_count; i++)
    if (rsc_knot_of(at->children[i])->tensors) return true;
  return false;
}

static bool may_cut(struct rsc_resolver *r, const struct rsc_ast *name, int32_t axis, const struct rsc_cutting *at,
                    const struct rsc_cut *cuts, int32_t count) {
  const struct rsc_mesh *mesh = mesh_here(r);
  const struct rsc_site *site = &r->sites.at[r->site];
  if (site->pins[axis] >= 0)
    return rsc_fail(r, RSC_AXIS_PINNED, name->span,
                    "axis '%s' is pinned to %" PRId64 " by the 'on' around, so it cannot cut; drop the cut or the pin",
                    mesh->axes[axis].name, site->pins[axis]);
  if (!cuts_tensors(at)) return true; /* a gap is on no way from a tensor */
  const struct rsc_cut *first = among(cuts, count, axis);
  if (!first) first = among_dims(at->dims, at->dim_count, axis);
  if (!first) first = find_below(at->children, at->child_count, axis);
  if (!first) return true;
  rsc_fail(r, RSC_AXIS_CUT_TWICE, name->span,
           "axis '%s' cuts a second time on the way from the tensor to the buffer; an axis cuts once",
           mesh->axes[axis].name);
  rsc_fail_note(r, first->span, "it has cut here");
  return false;
}

static bool sizes(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, const int64_t **list,
                  int64_t *len) {
  struct rsc_item item;
  int64_t *ints;
  if (!rsc_eval(r, e, &item)) return false;
  if (item.kind != RSC_TABLE)
    return rsc_fail(r, RSC_CUT_RULE, e->span, "%s, not %s; rules are " RULES, what, rsc_kind_text(item.kind));
  if (!rsc_table_ints(r, &item, e->span, "the argument of a rule", &ints)) return false;
  for (size_t i = 0; i < item.len; i++) {
    if (ints[i] < 0)
      return rsc_fail(r, RSC_CUT_RULE, e->span, "entry %zu is %" PRId64 "; sizes are not negative", i, ints[i]);
  }
  *list = ints;
  *len = (int64_t)item.len;
  return true;
}

static bool share_list(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_axis *axis,
                       const struct rsc_item *item, struct rsc_share *out) {
  int64_t *ints, total = 0;
  if (!rsc_table_ints(r, item, e->span, "the groups of a share", &ints)) return false;
  for (size_t i = 0; i < item->len; i++) {
    if (ints[i] < 1 || ints[i] > axis->size - total)
      total = INT64_MAX / 2;
    else
      total += ints[i];
    if (total > axis->size) break;
  }
  if (total != axis->size)
    return rsc_fail(r, RSC_CUT_RULE, e->span,
                    "these groups do not fill axis '%s' of %" PRId64 "; they are at least 1 each, and add up to it",
                    axis->name, axis->size);
  *out = (struct rsc_share){0, ints, (int64_t)item->len};
  return true;
}

static bool share_of(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_axis *axis,
                     const struct rsc_item *item, struct rsc_share *out) {
  if (item->kind == RSC_TABLE) return share_list(r, e, axis, item, out);
  if (item->kind != RSC_INT)
    return rsc_fail(r, RSC_CUT_RULE, e->span, "share takes an integer or a table of integers, not %s",
                    rsc_kind_text(item->kind));
  *out = (struct rsc_share){item->u.number, NULL, 0};
  if (out->k >= 1 && axis->size % out->k == 0) return true;
  return rsc_fail(r, RSC_CUT_RULE, e->span,
                  "groups of %" PRId64 " do not fill axis '%s' of %" PRId64
                  "; share(k) needs k to divide it, or give the groups: share([2, 1, ...])",
                  out->k, axis->name, axis->size);
}

static struct rsc_share *new_shares(struct rsc_resolver *r, size_t count, struct rsc_cut *cut) {
  struct rsc_share *shares = rsc_scratch(r, (count ? count : 1) * sizeof *shares);
  cut->shares = shares;
  cut->share_count = (int64_t)count;
  return shares;
}

static bool share(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_axis *axis, struct rsc_cut *cut) {
  struct rsc_item item;
  cut->rule = RSC_CUT_SHARE;
  if (!rsc_eval(r, e, &item)) return false;
  struct rsc_share *out = new_shares(r, 1, cut);
  return out && share_of(r, e, axis, &item, out);
}

/* The second argument of each: an entry for each section, each what `share` would take. */
static bool shares_of_each(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_axis *axis,
                           struct rsc_cut *cut) {
  struct rsc_item item;
  if (!rsc_eval(r, e, &item)) return false;
  if (item.kind != RSC_TABLE)
    return rsc_fail(r, RSC_CUT_RULE, e->span, "the shares of each are a table, not %s; rules are " RULES,
                    rsc_kind_text(item.kind));
  if ((int64_t)item.len != cut->list_len)
    return rsc_fail(r, RSC_CUT_RULE, e->span, "%zu shares for %" PRId64 " sections", item.len, cut->list_len);
  struct rsc_share *shares = new_shares(r, item.len, cut);
  for (size_t i = 0; shares && i < item.len; i++)
    if (!share_of(r, e, axis, &item.u.table[i], &shares[i])) return false;
  return shares != NULL;
}

static bool each(struct rsc_resolver *r, const struct rsc_ast *call, const struct rsc_axis *axis, struct rsc_cut *cut) {
  const struct rsc_ast *args = call->kids[1];
  cut->rule = RSC_CUT_EACH;
  if (!sizes(r, args->kids[0], "each takes a table of section lengths", &cut->list, &cut->list_len)) return false;
  if (args->kid_count == 2 && !shares_of_each(r, args->kids[1], axis, cut)) return false;
  for (int64_t i = 0; i < cut->list_len; i++) {
    const struct rsc_share *s = cut->shares ? &cut->shares[i] : NULL;
    int64_t parts = !s ? axis->size : s->k ? axis->size / s->k : s->group_count;
    if (cut->list[i] % parts)
      return rsc_fail(r, RSC_CUT_RULE, args->kids[0]->span,
                      "section %" PRId64 " of %" PRId64 " cannot be cut evenly into %" PRId64 " parts for axis '%s'", i,
                      cut->list[i], parts, axis->name);
  }
  return true;
}

static bool one_arg(struct rsc_resolver *r, const struct rsc_ast *call, const char *word, struct rsc_cut *cut) {
  if (!rsc_eval_int(r, call->kids[1]->kids[0], "the argument of the rule", &cut->arg)) return false;
  if (cut->arg >= 1) return true;
  return rsc_fail(r, RSC_CUT_RULE, call->span, "%s(%" PRId64 "): the argument is at least 1", word, cut->arg);
}

static bool no_rule(struct rsc_resolver *r, const struct rsc_ast *rule, const struct rsc_symbol *name) {
  static const char *const words[] = {"chunk", "balanced", "cyclic", "share", "padded", "each"};
  struct rsc_guess guess;
  rsc_guess_begin(&guess, name->text, name->len);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) rsc_guess_offer(&guess, words[i], strlen(words[i]));
  const char *text = rsc_guess_text(r->values, &guess);
  return rsc_fail(r, RSC_CUT_RULE, rule->span, "'%s' is no cutting rule here%s%s", name->text, text,
                  *text ? "" : "; rules are " RULES);
}

static bool size_table(struct rsc_resolver *r, const struct rsc_ast *rule, const struct rsc_axis *axis,
                       struct rsc_cut *cut) {
  const struct rsc_ast *name = rule->kind == RSC_AST_CALL ? rule->kids[0] : rule;
  if (name->kind == RSC_AST_NAME && rsc_binding(r, name->symbol)->kind == RSC_UNBOUND)
    return no_rule(r, rule, name->symbol);
  cut->rule = RSC_CUT_SIZES;
  if (!sizes(r, rule, "a cut takes a rule or a table of sizes", &cut->list, &cut->list_len)) return false;
  if (cut->list_len == axis->size) return true;
  return rsc_fail(r, RSC_CUT_RULE, rule->span,
                  "%" PRId64 " sizes for axis '%s' of %" PRId64 "; one for each coordinate", cut->list_len, axis->name,
                  axis->size);
}

static bool eval_rule(struct rsc_resolver *r, const struct rsc_ast *rule, const struct rsc_axis *axis,
                      struct rsc_cut *cut) {
  cut->rule = RSC_CUT_EVEN;
  if (!rule) return true;
  bool call = rule->kind == RSC_AST_CALL, bare = rule->kind == RSC_AST_NAME;
  if (!call && !bare) return size_table(r, rule, axis, cut);
  const char *word = (call ? rule->kids[0] : rule)->symbol->text;
  size_t args = call ? rule->kids[1]->kid_count : 0;
  cut->arg = 1;
  if (strcmp(word, "chunk") == 0 && bare)
    cut->rule = RSC_CUT_CHUNK;
  else if (strcmp(word, "balanced") == 0 && bare)
    cut->rule = RSC_CUT_BALANCED;
  else if (strcmp(word, "cyclic") == 0 && args <= 1)
    cut->rule = RSC_CUT_CYCLIC;
  else if (strcmp(word, "padded") == 0 && args <= 1)
    cut->rule = RSC_CUT_PADDED;
  else {
    cut->arg = 0;
    if (strcmp(word, "share") == 0 && args == 1) return share(r, rule->kids[1]->kids[0], axis, cut);
    if (strcmp(word, "each") == 0 && (args == 1 || args == 2)) return each(r, rule, axis, cut);
    bool known = !strcmp(word, "share") || !strcmp(word, "each") || !strcmp(word, "chunk") ||
                 !strcmp(word, "balanced") || !strcmp(word, "cyclic") || !strcmp(word, "padded");
    if (known)
      return rsc_fail(r, RSC_CUT_RULE, rule->span, "'%s' with %zu argument%s; rules are " RULES, word, args,
                      args == 1 ? "" : "s");
    return size_table(r, rule, axis, cut);
  }
  if (call && !args) return rsc_fail(r, RSC_CUT_RULE, rule->span, "'%s()'; write %s or %s(n)", word, word, word);
  if (call) return one_arg(r, rule, word, cut);
  if (cut->rule == RSC_CUT_CHUNK || cut->rule == RSC_CUT_BALANCED) cut->arg = 0;
  return true;
}

bool rsc_eval_cuts(struct rsc_resolver *r, const struct rsc_ast *list, struct rsc_cutting *at, struct rsc_cut **out,
                   int32_t *count) {
  *out = NULL;
  *count = 0;
  if (!list->kid_count) return true;
  struct rsc_cut *cuts = rsc_scratch(r, list->kid_count * sizeof *cuts);
  if (!cuts) return false;
  memset(cuts, 0, list->kid_count * sizeof *cuts);
  for (size_t i = 0; i < list->kid_count; i++) {
    const struct rsc_ast *e = list->kids[i];
    cuts[i].span = e->span;
    if (!find_axis(r, e->kids[0], &cuts[i].axis) || !may_cut(r, e->kids[0], cuts[i].axis, at, cuts, (int32_t)i) ||
        !eval_rule(r, e->kids[1], &mesh_here(r)->axes[cuts[i].axis], &cuts[i]))
      return false;
    if (cuts_tensors(at)) at->axes |= UINT64_C(1) << cuts[i].axis;
  }
  *out = cuts;
  *count = (int32_t)list->kid_count;
  return true;
}

static const int64_t *keep_list(struct rsc_resolver *r, const int64_t *list, int64_t len) {
  if (!list) return NULL;
  int64_t *kept = RSC_ARRAY(r->values, int64_t, len ? len : 1);
  if (len) memcpy(kept, list, (size_t)len * sizeof *kept);
  return kept;
}

static const struct rsc_share *keep_shares(struct rsc_resolver *r, const struct rsc_cut *cut) {
  if (!cut->shares) return NULL;
  struct rsc_share *kept = RSC_ARRAY(r->values, struct rsc_share, cut->share_count ? cut->share_count : 1);
  for (int64_t i = 0; i < cut->share_count; i++) {
    kept[i] = cut->shares[i];
    kept[i].groups = keep_list(r, kept[i].groups, kept[i].group_count);
  }
  return kept;
}

const struct rsc_cut *rsc_keep_cuts(struct rsc_resolver *r, const struct rsc_cut *cuts, int32_t count) {
  if (!count) return NULL;
  struct rsc_cut *kept = RSC_ARRAY(r->values, struct rsc_cut, count);
  memcpy(kept, cuts, (size_t)count * sizeof *kept);
  for (int32_t i = 0; i < count; i++) {
    kept[i].list = keep_list(r, cuts[i].list, cuts[i].list_len);
    kept[i].shares = keep_shares(r, &cuts[i]);
  }
  return kept;
}

static bool same_list(const int64_t *a, const int64_t *b, int64_t len) {
  return !a == !b && (!a || !len || memcmp(a, b, (size_t)len * sizeof *a) == 0);
}

static bool same_shares(const struct rsc_cut *a, const struct rsc_cut *b) {
  if (!a->shares != !b->shares || a->share_count != b->share_count) return false;
  for (int64_t i = 0; i < a->share_count; i++) {
    const struct rsc_share *x = &a->shares[i], *y = &b->shares[i];
    if (x->k != y->k || x->group_count != y->group_count || !same_list(x->groups, y->groups, x->group_count))
      return false;
  }
  return true;
}

/* Of one place in the source, so that places need no comparison. */
bool rsc_same_cuts(const struct rsc_cut *a, const struct rsc_cut *b, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    if (a[i].rule != b[i].rule || a[i].axis != b[i].axis || a[i].arg != b[i].arg || a[i].list_len != b[i].list_len ||
        !same_list(a[i].list, b[i].list, a[i].list_len) || !same_shares(&a[i], &b[i]))
      return false;
  }
  return true;
}
