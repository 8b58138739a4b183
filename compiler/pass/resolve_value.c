/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: what a buffer holds, as a tree with concrete integers. Local shapes are not known here; place works them out.
 */
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/resolve_impl.h"

enum { NDIM_MAX = 8, DEPTH_MAX = 1000 };

struct rsc_knot *rsc_knot_new(struct rsc_resolver *r, enum rsc_value_kind kind, struct rsc_span span,
                              const struct rsc_value *const *children, int64_t count) {
  struct rsc_knot *knot = RSC_NEW(r->values, struct rsc_knot);
  knot->v.kind = kind;
  knot->v.span = span;
  knot->v.tensor = -1;
  knot->v.children = children;
  knot->v.child_count = count;
  knot->leaves = count ? 0 : 1;
  knot->depth = 1;
  for (int64_t i = 0; i < count; i++) {
    const struct rsc_knot *below = rsc_knot_of(children[i]);
    knot->axes |= below->axes;
    knot->leaves += below->leaves;
    knot->tensors = knot->tensors || below->tensors;
    if (knot->depth <= below->depth) knot->depth = below->depth + 1;
    if (knot->leaves <= r->limits.leaves) continue;
    rsc_fail(r, RSC_TOO_LARGE, span, "this value mentions more than %" PRId64 " tensors", r->limits.leaves);
    return NULL;
  }
  if (knot->depth <= DEPTH_MAX) return knot;
  rsc_fail(r, RSC_NESTING, span, "this value is nested too deeply");
  return NULL;
}

/* A node over one value. */
static struct rsc_knot *over(struct rsc_resolver *r, enum rsc_value_kind kind, struct rsc_span span,
                             const struct rsc_value *child) {
  const struct rsc_value **children = RSC_ARRAY(r->values, const struct rsc_value *, 1);
  children[0] = child;
  return rsc_knot_new(r, kind, span, children, 1);
}

static bool give(struct rsc_knot *knot, struct rsc_item *out) {
  if (!knot) return false;
  *out = (struct rsc_item){.kind = RSC_VALUE, .u.value = &knot->v};
  return true;
}

const struct rsc_value *rsc_value_tensor(struct rsc_resolver *r, struct rsc_span span, const char *name, size_t len) {
  if (!len) {
    rsc_fail(r, RSC_NAME_EMPTY, span, "the name of a tensor is not empty");
    return NULL;
  }
  struct rsc_knot *knot = rsc_knot_new(r, RSC_VALUE_TENSOR, span, NULL, 0);
  const struct rsc_symbol *symbol = rsc_intern(r->tensor_names, name, len);
  RSC_ENSURE(r->own, &r->declared, (size_t)symbol->id + 1);
  knot->tensors = true;
  knot->v.tensor = r->declared.at[symbol->id] - 1;
  if (knot->v.tensor < 0) {
    const struct rsc_call *outermost = r->call;
    while (outermost && outermost->outer) outermost = outermost->outer;
    *RSC_PUSH(r->own, &r->pending) =
        (struct rsc_pending){.knot = knot,
                             .name = symbol,
                             .span = span,
                             .call = outermost ? outermost->at->span : (struct rsc_span){.file = -1},
                             .statement = r->statement,
                             .loops = rsc_loop_text(r)};
  }
  return &knot->v;
}

const struct rsc_value *rsc_to_value(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_item *item) {
  if (item->kind == RSC_VALUE) return item->u.value;
  if (item->kind == RSC_STR)
    return rsc_value_tensor(r, item->origin.file >= 0 ? item->origin : e->span, item->u.str, item->len);
  rsc_fail(r, RSC_TYPE_MIXED, e->span, "%s where a value is needed: a tensor's name, a view, cat, stack, ...",
           rsc_kind_text(item->kind));
  return NULL;
}

const struct rsc_value *rsc_eval_value(struct rsc_resolver *r, const struct rsc_ast *e) {
  struct rsc_item item;
  return rsc_eval(r, e, &item) ? rsc_to_value(r, e, &item) : NULL;
}

static bool eval_size(struct rsc_resolver *r, const struct rsc_ast *e, int64_t *out) {
  if (!rsc_eval_int(r, e, "a dimension", out)) return false;
  return *out >= 0 ||
         rsc_fail(r, RSC_TENSOR_SIZE, e->span, "a dimension of %" PRId64 "; dimensions are not negative", *out);
}

static bool eval_dim(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_cutting *at, struct rsc_dim *dim) {
  *dim = (struct rsc_dim){.kind = RSC_DIM_KEEP, .span = e->span};
  if (e->kind == RSC_AST_DIM_REST) {
    dim->kind = RSC_DIM_REST;
    return true;
  }
  if (e->kids[0]) {
    dim->kind = RSC_DIM_SIZE;
    if (!eval_size(r, e->kids[0], &dim->size)) return false;
  }
  if (e->kids[1]) {
    dim->padded = true;
    if (!eval_size(r, e->kids[1], &dim->pad_to)) return false;
    if (e->kids[0] && dim->pad_to < dim->size)
      return rsc_fail(r, RSC_PAD, e->span, "pad(%" PRId64 ", %" PRId64 ") would cut %" PRId64 " elements off",
                      dim->size, dim->pad_to, dim->size - dim->pad_to);
  }
  struct rsc_cut *cuts;
  if (!rsc_eval_cuts(r, e->kids[2], at, &cuts, &dim->cut_count)) return false;
  dim->cuts = cuts;
  return true;
}

static bool same_dims(const struct rsc_dim *a, const struct rsc_dim *b, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    if (a[i].kind != b[i].kind || a[i].padded != b[i].padded || a[i].size != b[i].size || a[i].pad_to != b[i].pad_to ||
        a[i].cut_count != b[i].cut_count || !rsc_same_cuts(a[i].cuts, b[i].cuts, a[i].cut_count))
      return false;
  }
  return true;
}

/* A view in a loop has mostly the dimensions that it had in the turn before: those are shared. */
static const struct rsc_dim *keep_dims(struct rsc_resolver *r, uint32_t node, const struct rsc_dim *dims,
                                       int32_t count) {
  RSC_ENSURE(r->own, &r->memo, (size_t)node + 1);
  struct rsc_dims_memo *memo = &r->memo.at[node];
  if (memo->dims && memo->count == count && same_dims(memo->dims, dims, count)) return memo->dims;
  struct rsc_dim *kept = RSC_ARRAY(r->values, struct rsc_dim, count ? count : 1);
  if (count) memcpy(kept, dims, (size_t)count * sizeof *kept);
  for (int32_t i = 0; i < count; i++) kept[i].cuts = rsc_keep_cuts(r, dims[i].cuts, dims[i].cut_count);
  *memo = (struct rsc_dims_memo){kept, count};
  return kept;
}

static bool too_many(struct rsc_resolver *r, struct rsc_span span, size_t count) {
  if (count <= NDIM_MAX) return false;
  rsc_fail(r, RSC_NDIM, span, "%zu dimensions; at most %d are allowed", count, NDIM_MAX);
  return true;
}

bool rsc_value_view(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_value *child,
                    struct rsc_item *out) {
  const struct rsc_ast *list = e->kids[1];
  size_t count = list->kid_count;
  bool rest = count && list->kids[count - 1]->kind == RSC_AST_DIM_REST;
  if (too_many(r, list->span, count - rest)) return false;
  struct rsc_dim dims[NDIM_MAX + 1];
  struct rsc_cutting at = {.dims = dims, .children = &child, .child_count = 1};
  for (size_t i = 0; i < count; i++) {
    at.dim_count = (int32_t)i;
    if (!eval_dim(r, list->kids[i], &at, &dims[i])) return false;
  }
  struct rsc_knot *knot = over(r, RSC_VALUE_VIEW, e->span, child);
  if (!knot) return false;
  knot->axes |= at.axes;
  knot->v.dims = keep_dims(r, e->id, dims, (int32_t)count);
  knot->v.dim_count = (int32_t)count;
  return give(knot, out);
}

/* The values of `body` for each turn. */
static bool eval_each(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_value *const **out,
                      int64_t *count) {
  const struct rsc_ast *var = e->kids[2];
  const char *word = e->kids[0]->symbol->text;
  struct rsc_turns turns;
  size_t mark;
  if (!rsc_eval_turns(r, e->kids[3], &turns)) return false;
  if (!turns.count)
    return rsc_fail(r, RSC_STACK_EMPTY, e->kids[3]->span, "'%s' over an empty range has no shape", word);
  if (turns.count > r->limits.leaves)
    return rsc_fail(r, RSC_TOO_LARGE, e->kids[3]->span, "'%s' over %" PRId64 " turns; at most %" PRId64 " are allowed",
                    word, turns.count, r->limits.leaves);
  if (!rsc_enter_turns(r, var, &mark)) return false;
  const struct rsc_value **list = RSC_ARRAY(r->values, const struct rsc_value *, turns.count);
  bool ok = true;
  for (int64_t i = 0; ok && i < turns.count; i++) {
    rsc_set_turn(r, var, rsc_turn(&turns, i));
    list[i] = rsc_eval_value(r, e->kids[5]);
    ok = list[i] != NULL;
  }
  rsc_leave_turns(r, mark);
  *out = list;
  *count = turns.count;
  return ok;
}

static bool eval_k(struct rsc_resolver *r, const struct rsc_ast *e, int64_t *k) {
  if (!rsc_eval_int(r, e, "the number of a dimension", k)) return false;
  return (*k >= 0 && *k < NDIM_MAX) ||
         rsc_fail(r, RSC_BOUNDS, e->span, "dimension %" PRId64 "; dimensions are counted from 0", *k);
}

static bool stack_for(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_value *const *children;
  struct rsc_cut *cuts;
  int32_t cut_count;
  int64_t count;
  if (e->kids[1])
    return rsc_fail(
        r, RSC_CALL_ARGS, e->span,
        "stack makes a new first dimension: stack(x in range, v); to join along dimension k, cat(k, x in range, v)");
  if (!eval_each(r, e, &children, &count)) return false;
  struct rsc_cutting at = {.children = children, .child_count = count};
  if (!rsc_eval_cuts(r, e->kids[4], &at, &cuts, &cut_count)) return false;
  struct rsc_knot *knot = rsc_knot_new(r, RSC_VALUE_STACK, e->span, children, count);
  if (!knot) return false;
  knot->axes |= at.axes;
  knot->v.cuts = rsc_keep_cuts(r, cuts, cut_count);
  knot->v.cut_count = cut_count;
  return give(knot, out);
}

static bool cat_for(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *before = e->kids[1];
  const struct rsc_value *const *children;
  int64_t k, count;
  if (!before || before->kid_count != 1)
    return rsc_fail(r, RSC_CALL_ARGS, e->span, "cat takes a dimension and a loop: cat(k, x in range, v)");
  if (e->kids[4]->kid_count)
    return rsc_fail(r, RSC_CALL_ARGS, e->kids[4]->kids[0]->span,
                    "the range of cat takes no cut; view the result: cat(...)[_ @axis]");
  if (!eval_k(r, before->kids[0], &k) || !eval_each(r, e, &children, &count)) return false;
  struct rsc_knot *knot = rsc_knot_new(r, RSC_VALUE_CAT, e->span, children, count);
  if (knot) knot->v.k = k;
  return give(knot, out);
}

bool rsc_value_call_for(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_binding *b = rsc_binding(r, e->kids[0]->symbol);
  if (b->kind == RSC_BUILTIN && b->index == RSC_FN_STACK) return stack_for(r, e, out);
  if (b->kind == RSC_BUILTIN && b->index == RSC_FN_CAT) return cat_for(r, e, out);
  return rsc_fail(r, RSC_CALL_ARGS, e->span, "'%s' takes no 'x in range'; cat and stack do", e->kids[0]->symbol->text);
}

bool rsc_value_replica(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (r->side != RSC_TRAIN)
    return rsc_fail(r, RSC_REPLICA_SIDE, e->span,
                    "replica on the inference side; wanting an element twice is fine there, so drop the word");
  const struct rsc_value *child = rsc_eval_value(r, e->kids[0]);
  return child && give(over(r, RSC_VALUE_REPLICA, e->span, child), out);
}

static bool usage(struct rsc_resolver *r, const struct rsc_ast *e, const char *form) {
  return rsc_fail(r, RSC_CALL_ARGS, e->span, "'%s' with %zu argument%s; write %s", e->kids[0]->symbol->text,
                  e->kids[1]->kid_count, e->kids[1]->kid_count == 1 ? "" : "s", form);
}

static bool cat_list(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  int64_t k, count = (int64_t)args->kid_count - 1;
  if (count < 1) return usage(r, e, "cat(k, v, ...) or cat(k, x in range, v)");
  if (!eval_k(r, args->kids[0], &k)) return false;
  const struct rsc_value **children = RSC_ARRAY(r->values, const struct rsc_value *, count);
  for (int64_t i = 0; i < count; i++) {
    children[i] = rsc_eval_value(r, args->kids[i + 1]);
    if (!children[i]) return false;
  }
  struct rsc_knot *knot = rsc_knot_new(r, RSC_VALUE_CAT, e->span, children, count);
  if (knot) knot->v.k = k;
  return give(knot, out);
}

static bool slice(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  int64_t k, lo, hi;
  if (args->kid_count != 4) return usage(r, e, "slice(v, k, lo, hi)");
  const struct rsc_value *child = rsc_eval_value(r, args->kids[0]);
  if (!child || !eval_k(r, args->kids[1], &k) || !rsc_eval_int(r, args->kids[2], "a bound of slice", &lo) ||
      !rsc_eval_int(r, args->kids[3], "a bound of slice", &hi))
    return false;
  if (lo < 0 || hi < lo)
    return rsc_fail(r, RSC_BOUNDS, e->span, "slice from %" PRId64 " to %" PRId64 "; it needs 0 <= lo <= hi", lo, hi);
  struct rsc_knot *knot = over(r, RSC_VALUE_SLICE, e->span, child);
  if (!knot) return false;
  knot->v.k = k;
  knot->v.lo = lo;
  knot->v.hi = hi;
  return give(knot, out);
}

static bool permute(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  if (args->kid_count < 1) return usage(r, e, "permute(v, p0, p1, ...)");
  size_t n = args->kid_count - 1;
  if (too_many(r, e->span, n)) return false;
  const struct rsc_value *child = rsc_eval_value(r, args->kids[0]);
  if (!child) return false;
  int64_t *perm = RSC_ARRAY(r->values, int64_t, n ? n : 1);
  unsigned seen = 0;
  for (size_t i = 0; i < n; i++) {
    if (!rsc_eval_int(r, args->kids[i + 1], "an entry of permute", &perm[i])) return false;
    if (perm[i] < 0 || perm[i] >= (int64_t)n || (seen >> perm[i] & 1))
      return rsc_fail(r, RSC_BOUNDS, args->kids[i + 1]->span,
                      "%" PRId64 " in a permutation of %zu dimensions; each of 0..%zu stands there once", perm[i], n,
                      n);
    seen |= 1u << perm[i];
  }
  struct rsc_knot *knot = over(r, RSC_VALUE_PERMUTE, e->span, child);
  if (!knot) return false;
  knot->v.perm = perm;
  knot->v.perm_len = (int32_t)n;
  return give(knot, out);
}

static bool gap(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  size_t n = args->kid_count;
  if (too_many(r, e->span, n)) return false;
  struct rsc_dim dims[NDIM_MAX];
  for (size_t i = 0; i < n; i++) {
    dims[i] = (struct rsc_dim){.kind = RSC_DIM_SIZE, .span = args->kids[i]->span};
    if (!eval_size(r, args->kids[i], &dims[i].size)) return false;
  }
  struct rsc_knot *knot = rsc_knot_new(r, RSC_VALUE_GAP, e->span, NULL, 0);
  if (!knot) return false;
  knot->v.dims = keep_dims(r, e->id, dims, (int32_t)n);
  knot->v.dim_count = (int32_t)n;
  return give(knot, out);
}

static bool add(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  struct rsc_item c;
  if (args->kid_count != 2) return usage(r, e, "add(v, 0.5)");
  const struct rsc_value *child = rsc_eval_value(r, args->kids[0]);
  if (!child || !rsc_eval(r, args->kids[1], &c)) return false;
  if (c.kind != RSC_DEC && c.kind != RSC_INT)
    return rsc_fail(r, RSC_ADD_CONSTANT, args->kids[1]->span, "add takes a number, not %s", rsc_kind_text(c.kind));
  double constant = c.kind == RSC_DEC ? c.u.decimal : (double)c.u.number;
  if (!(constant <= (double)FLT_MAX && constant >= -(double)FLT_MAX))
    return rsc_fail(r, RSC_ADD_CONSTANT, args->kids[1]->span, "%g is not finite in f32, in which add computes",
                    constant);
  struct rsc_knot *knot = over(r, RSC_VALUE_ADD, e->span, child);
  if (knot) knot->v.constant = constant;
  return give(knot, out);
}

static bool wrap(struct rsc_resolver *r, enum rsc_value_kind kind, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  if (args->kid_count != 1) return usage(r, e, kind == RSC_VALUE_CAST ? "cast(v)" : "neg_exp(v)");
  if (kind == RSC_VALUE_NEG_EXP && r->side != RSC_INFER)
    return rsc_fail(r, RSC_NEG_EXP_SIDE, e->span,
                    "neg_exp on the training side; the training side holds x, the inference side may hold -exp(x)");
  const struct rsc_value *child = rsc_eval_value(r, args->kids[0]);
  return child && give(over(r, kind, e->span, child), out);
}

bool rsc_value_builtin(struct rsc_resolver *r, int which, const struct rsc_ast *e, struct rsc_item *out) {
  switch (which) {
  case RSC_FN_CAT:
    return cat_list(r, e, out);
  case RSC_FN_STACK:
    return usage(r, e, "stack(x in range, v)");
  case RSC_FN_SLICE:
    return slice(r, e, out);
  case RSC_FN_PERMUTE:
    return permute(r, e, out);
  case RSC_FN_GAP:
    return gap(r, e, out);
  case RSC_FN_CAST:
    return wrap(r, RSC_VALUE_CAST, e, out);
  case RSC_FN_NEG_EXP:
    return wrap(r, RSC_VALUE_NEG_EXP, e, out);
  default:
    return add(r, e, out);
  }
}
