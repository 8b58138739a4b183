/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a value tree and a setting of the mesh axes. Out: its local shape and pieces, or an error. This file is the
 * semantics of section "Values" of grammar/LANGUAGE.md; the arithmetic is in place_algebra.c.
 */
#include "compiler/pass/place_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"

/* "[4, 8]" into a buffer of the arena. */
const char *rsc_shape_text(struct rsc_place_context *cx, const int64_t *dims, int32_t ndim) {
  char text[RSC_MAX_DIMS * 24 + 4];
  int at = snprintf(text, sizeof text, "[");
  for (int32_t i = 0; i < ndim; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRId64, i ? ", " : "", dims[i]);
  at += snprintf(text + at, sizeof text - (size_t)at, "]");
  return rsc_arena_strdup(cx->arena, text, (size_t)at);
}

bool rsc_checked_elems(struct rsc_place_context *cx, struct rsc_span span, const int64_t *dims, int32_t ndim) {
  int64_t n = 1;
  bool zero = false;
  for (int32_t i = 0; i < ndim; i++) zero |= dims[i] == 0;
  for (int32_t i = 0; i < ndim && !zero; i++)
    if (rsc_mul(n, dims[i], &n) || n > INT64_MAX / 8) { /* bytes fit too */
      rsc_error(cx->diag, RSC_OVERFLOW, span, "the shape %s%s has more than 2^60 elements",
                rsc_shape_text(cx, dims, ndim), cx->where);
      return false;
    }
  return true;
}

/* Whether the last operation, the one at `span`, has left the pieces within their limit. */
bool rsc_within_pieces(struct rsc_place_context *cx, struct rsc_span span) {
  if (!rsc_budget_spent(cx->budget)) return true;
  rsc_error(cx->diag, RSC_PIECES_LIMIT, span, "this leaves the buffer in too many pieces%s: the cuts do not nest",
            cx->where);
  rsc_note(
      cx->diag, (struct rsc_span){.file = -1},
      "take a larger block, fewer parts, or cuts that nest: the larger block a multiple of the smaller block times "
      "its parts");
  return false;
}

/* ---- view ---- */

static bool view_mismatch(struct rsc_place_context *cx, const struct rsc_value *value, const struct rsc_local *v,
                          const char *why) {
  rsc_error(cx->diag, RSC_VIEW_PRODUCT, value->span, "the view does not fit the local shape %s%s: %s",
            rsc_shape_text(cx, v->dims, v->ndim), cx->where, why);
  return false;
}

/* The real extents of a view's dimensions; *count of them. */
static bool view_dims(struct rsc_place_context *cx, const struct rsc_value *value, const struct rsc_local *v,
                      int64_t *dims, int32_t *count) {
  int32_t written = value->dim_count;
  bool rest = written && value->dims[written - 1].kind == RSC_DIM_REST;
  if (rest) written--;
  if (rest && written > v->ndim) return view_mismatch(cx, value, v, "more dimensions stand before '..' than it has");
  if (written > RSC_MAX_DIMS) return view_mismatch(cx, value, v, "more than 8 dimensions");
  bool keep = rest || written == v->ndim;
  int64_t product = 1, have = rsc_local_elems(v);
  int32_t open = -1;
  for (int32_t i = 0; i < written; i++) {
    const struct rsc_dim *d = &value->dims[i];
    if (d->kind == RSC_DIM_SIZE)
      dims[i] = d->size;
    else if (keep)
      dims[i] = v->dims[i];
    else if (open >= 0)
      return view_mismatch(cx, value, v, "only one '_' can stand for what is left");
    else {
      open = i;
      continue;
    }
    if (rsc_mul(product, dims[i], &product)) return view_mismatch(cx, value, v, "the product exceeds 63 bits");
  }
  *count = written;
  if (rest)
    for (int32_t i = written; i < v->ndim; i++) {
      dims[i] = v->dims[i];
      if (rsc_mul(product, dims[i], &product)) return view_mismatch(cx, value, v, "the product exceeds 63 bits");
      *count = i + 1;
    }
  if (open >= 0) {
    if (product == 0 || have % product != 0) {
      char why[120];
      snprintf(why, sizeof why, "%" PRId64 " elements do not divide by %" PRId64 " to give '_'", have, product);
      return view_mismatch(cx, value, v, why);
    }
    dims[open] = have / product;
    return true;
  }
  if (product != have) {
    char why[120];
    snprintf(why, sizeof why, "it has %" PRId64 " elements, the view %s has %" PRId64, have,
             rsc_shape_text(cx, dims, *count), product);
    return view_mismatch(cx, value, v, why);
  }
  return true;
}

static bool apply_dim(struct rsc_place_context *cx, const struct rsc_dim *dim, int32_t k, struct rsc_local *v) {
  if (dim->padded) {
    if (dim->pad_to < v->dims[k]) {
      rsc_error(cx->diag, RSC_PAD, dim->span, "pad to %" PRId64 " is less than the %" PRId64 " real elements%s",
                dim->pad_to, v->dims[k], cx->where);
      return false;
    }
    int64_t dims[RSC_MAX_DIMS];
    memcpy(dims, v->dims, sizeof dims);
    dims[k] = dim->pad_to;
    if (!rsc_checked_elems(cx, dim->span, dims, v->ndim)) return false;
    rsc_local_pad(cx->arena, cx->budget, v, k, dim->pad_to, v);
    if (!rsc_within_pieces(cx, dim->span)) return false;
  }
  for (int32_t i = 0; i < dim->cut_count; i++)
    if (!rsc_cut_value(cx, &dim->cuts[i], k, v)) {
      rsc_note(cx->diag, (struct rsc_span){.file = -1}, "this is dimension %d of the local shape %s%s", k,
               rsc_shape_text(cx, v->dims, v->ndim), cx->where);
      return false;
    }
  return true;
}

static bool apply_dims(struct rsc_place_context *cx, const struct rsc_value *value, struct rsc_local *v) {
  for (int32_t i = 0; i < value->dim_count && value->dims[i].kind != RSC_DIM_REST; i++)
    if (!apply_dim(cx, &value->dims[i], i, v)) return false;
  return true;
}

static bool place_view(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                       struct rsc_local *out) {
  if (!rsc_place_value(cx, value->children[0], mention, out)) return false;
  int64_t dims[RSC_MAX_DIMS] = {0};
  int32_t count = 0;
  if (!view_dims(cx, value, out, dims, &count)) return false;
  out->ndim = count;
  memcpy(out->dims, dims, sizeof dims);
  return apply_dims(cx, value, out);
}

static bool place_gap(struct rsc_place_context *cx, const struct rsc_value *value, struct rsc_local *out) {
  int64_t dims[RSC_MAX_DIMS] = {0};
  if (value->dim_count > RSC_MAX_DIMS) {
    rsc_error(cx->diag, RSC_NDIM, value->span, "a gap has at most 8 dimensions");
    return false;
  }
  for (int32_t i = 0; i < value->dim_count; i++) dims[i] = value->dims[i].size;
  if (!rsc_checked_elems(cx, value->span, dims, value->dim_count)) return false;
  rsc_local_fill(cx->arena, RSC_SLOT_GAP, dims, value->dim_count, out);
  return apply_dims(cx, value, out);
}

/* ---- cat, stack, slice, permute ---- */

static bool same_but(const struct rsc_local *a, const struct rsc_local *b, int64_t k) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (i != k && a->dims[i] != b->dims[i]) return false;
  return true;
}

static bool differ(struct rsc_place_context *cx, struct rsc_span span, const char *word, const struct rsc_local *a,
                   const struct rsc_local *b) {
  rsc_error(cx->diag, RSC_SHAPES_DIFFER, span, "%s of %s and %s%s", word, rsc_shape_text(cx, a->dims, a->ndim),
            rsc_shape_text(cx, b->dims, b->ndim), cx->where);
  return false;
}

static bool bad_dimension(struct rsc_place_context *cx, const struct rsc_value *value, const struct rsc_local *v) {
  if (value->k >= 0 && value->k < v->ndim) return false;
  rsc_error(cx->diag, RSC_BOUNDS, value->span, "dimension %" PRId64 " of a value with %d dimensions%s", value->k,
            v->ndim, cx->where);
  return true;
}

static bool place_cat(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                      struct rsc_local *out) {
  struct rsc_local *parts = RSC_ARRAY(cx->arena, struct rsc_local, value->child_count);
  int64_t total = 0;
  for (int64_t i = 0; i < value->child_count; i++) {
    if (!rsc_place_value(cx, value->children[i], mention, &parts[i])) return false;
    if (i == 0 && bad_dimension(cx, value, &parts[0])) return false;
    if (i && !same_but(&parts[0], &parts[i], value->k))
      return differ(cx, value->children[i]->span, "cat", &parts[0], &parts[i]);
    if (rsc_add(total, parts[i].dims[value->k], &total)) total = INT64_MAX;
  }
  int64_t dims[RSC_MAX_DIMS];
  memcpy(dims, parts[0].dims, sizeof dims);
  dims[value->k] = total;
  if (!rsc_checked_elems(cx, value->span, dims, parts[0].ndim)) return false;
  rsc_local_cat(cx->arena, cx->budget, parts, value->child_count, (int32_t)value->k, out);
  return rsc_within_pieces(cx, value->span);
}

static void skip_mentions(const struct rsc_value *value, int32_t *mention) {
  if (value->kind == RSC_VALUE_TENSOR) ++*mention;
  for (int64_t i = 0; i < value->child_count; i++) skip_mentions(value->children[i], mention);
}

struct slots {
  RSC_VEC(int64_t); /* child index, or -1 for padding */
};

static bool stack_slots(struct rsc_place_context *cx, const struct rsc_value *value, struct slots *out) {
  for (int64_t i = 0; i < value->child_count; i++) *RSC_PUSH(cx->arena, out) = i;
  for (int32_t c = 0; c < value->cut_count; c++) {
    struct rsc_cut_parts parts = {0};
    struct slots kept = {0};
    if (!rsc_cut_parts(cx, &value->cuts[c], (int64_t)out->len, &parts)) {
      return false;
    }
    for (size_t p = 0; p < parts.len; p++)
      for (int64_t i = parts.at[p].lo; i < parts.at[p].hi; i++)
        *RSC_PUSH(cx->arena, &kept) = i < (int64_t)out->len ? out->at[i] : -1;
    *out = kept;
  }
  return true;
}

/* The child as one row of the stack. */
static bool place_row(struct rsc_place_context *cx, const struct rsc_value *stack, const struct rsc_value *child,
                      int32_t *mention, struct rsc_local *out) {
  if (!rsc_place_value(cx, child, mention, out)) return false;
  if (out->ndim == RSC_MAX_DIMS) {
    rsc_error(cx->diag, RSC_NDIM, stack->span, "a stack of values with 8 dimensions would have 9");
    return false;
  }
  memmove(out->dims + 1, out->dims, (size_t)out->ndim * sizeof *out->dims);
  out->dims[0] = 1;
  out->ndim++;
  return true;
}

static bool place_stack(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                        struct rsc_local *out) {
  struct slots slots = {0};
  if (!stack_slots(cx, value, &slots)) return false;
  int32_t *first = RSC_ARRAY(cx->arena, int32_t, value->child_count);
  for (int64_t i = 0; i < value->child_count; i++) {
    first[i] = *mention;
    skip_mentions(value->children[i], mention);
  }
  struct rsc_local shape, *rows = RSC_ARRAY(cx->arena, struct rsc_local, slots.len + 1);
  int32_t at = first[0];
  if (!place_row(cx, value, value->children[0], &at, &shape)) return false;
  for (size_t s = 0; s < slots.len; s++) {
    int64_t i = slots.at[s];
    if (i < 0) {
      rsc_local_fill(cx->arena, RSC_SLOT_PAD, shape.dims, shape.ndim, &rows[s]);
      continue;
    }
    at = first[i];
    if (!place_row(cx, value, value->children[i], &at, &rows[s])) return false;
    if (!same_but(&shape, &rows[s], -1)) return differ(cx, value->children[i]->span, "stack", &shape, &rows[s]);
  }
  int64_t dims[RSC_MAX_DIMS];
  memcpy(dims, shape.dims, sizeof dims);
  dims[0] = (int64_t)slots.len;
  if (!rsc_checked_elems(cx, value->span, dims, shape.ndim)) return false;
  if (slots.len)
    rsc_local_cat(cx->arena, cx->budget, rows, (int64_t)slots.len, 0, out);
  else
    rsc_local_slice(cx->arena, cx->budget, &shape, 0, 0, 0, out);
  return rsc_within_pieces(cx, value->span);
}

static bool place_slice(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                        struct rsc_local *out) {
  if (!rsc_place_value(cx, value->children[0], mention, out) || bad_dimension(cx, value, out)) return false;
  if (value->lo < 0 || value->lo > value->hi || value->hi > out->dims[value->k]) {
    rsc_error(cx->diag, RSC_BOUNDS, value->span,
              "slice [%" PRId64 ", %" PRId64 ") of dimension %" PRId64 ", which has %" PRId64 " elements%s", value->lo,
              value->hi, value->k, out->dims[value->k], cx->where);
    return false;
  }
  rsc_local_slice(cx->arena, cx->budget, out, (int32_t)value->k, value->lo, value->hi, out);
  return rsc_within_pieces(cx, value->span);
}

static bool place_permute(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                          struct rsc_local *out) {
  if (!rsc_place_value(cx, value->children[0], mention, out)) return false;
  uint32_t seen = 0;
  for (int32_t i = 0; i < value->perm_len && value->perm_len <= RSC_MAX_DIMS; i++)
    if (value->perm[i] >= 0 && value->perm[i] < value->perm_len) seen |= 1u << value->perm[i];
  if (value->perm_len != out->ndim || seen != (1u << value->perm_len) - 1) {
    rsc_error(cx->diag, RSC_BOUNDS, value->span,
              "permute needs each of the dimensions 0 to %d once; the value has %d dimensions%s", out->ndim - 1,
              out->ndim, cx->where);
    return false;
  }
  rsc_local_permute(cx->arena, cx->budget, out, value->perm, out);
  return rsc_within_pieces(cx, value->span);
}

bool rsc_place_value(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                     struct rsc_local *out) {
  const struct rsc_tensor *tensor;
  switch (value->kind) {
  case RSC_VALUE_TENSOR:
    tensor = &cx->layout->tensors[value->tensor];
    rsc_local_fill(cx->arena, (*mention)++, tensor->dims, tensor->ndim, out);
    return true;
  case RSC_VALUE_VIEW:
    return place_view(cx, value, mention, out);
  case RSC_VALUE_CAT:
    return place_cat(cx, value, mention, out);
  case RSC_VALUE_STACK:
    return place_stack(cx, value, mention, out);
  case RSC_VALUE_SLICE:
    return place_slice(cx, value, mention, out);
  case RSC_VALUE_PERMUTE:
    return place_permute(cx, value, mention, out);
  case RSC_VALUE_GAP:
    return place_gap(cx, value, out);
  case RSC_VALUE_CAST:
  case RSC_VALUE_NEG_EXP:
  case RSC_VALUE_ADD:
  case RSC_VALUE_REPLICA:
    return rsc_place_value(cx, value->children[0], mention, out);
  }
  return false;
}
