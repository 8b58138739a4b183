/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of the language on local values, as arithmetic on nests. A value's elements are numbered flat,
 * row-major; reshaping changes no number, so only the operations below touch pieces.
 */
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/place_value.h"

/* The product of the dimensions from k on. Past 64 bits it goes only where another dimension is 0: 0 will do there. */
static int64_t product_from(const struct rsc_local *v, int32_t k) {
  int64_t n = 1;
  for (int32_t i = k; i < v->ndim; i++)
    if (v->dims[i] == 0) return 0;
  for (int32_t i = k; i < v->ndim; i++)
    if (rsc_mul(n, v->dims[i], &n)) return 0;
  return n;
}

int64_t rsc_local_elems(const struct rsc_local *v) {
  return product_from(v, 0);
}

/* Elements of one index of dimension k. */
static int64_t inner_of(const struct rsc_local *v, int32_t k) {
  return product_from(v, k + 1);
}

static void push(struct rsc_arena *arena, struct rsc_local *out, struct rsc_nest nest, int32_t slot) {
  rsc_nest_normalize(&nest, RSC_F_POS);
  *RSC_PUSH(arena, &out->pieces) = (struct rsc_piece){nest, slot};
}

/* Moves one piece from blocks of `from` elements, of which it keeps [lo, hi), to blocks of `to` at offset `at`. */
static void rebase(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_piece *piece, int64_t from,
                   int64_t lo, int64_t hi, int64_t to, int64_t at, struct rsc_local *out) {
  struct rsc_nest whole = piece->nest;
  whole.frozen = 0;
  struct rsc_nests factored = {0};
  rsc_nest_factor(arena, &whole, RSC_F_POS, from, budget, &factored);
  for (size_t i = 0; i < factored.len && !rsc_budget_spent(budget); i++) {
    struct rsc_nest m = rsc_nest_copy(arena, &factored.at[i], 3);
    int32_t first;
    int64_t quotient = rsc_nest_freeze(&m, RSC_F_POS, from, &first);
    struct rsc_nests kept = {0};
    rsc_nest_clip(arena, &m, RSC_F_POS, lo, hi, &kept, NULL);
    if (kept.len > 1) budget->left -= (int64_t)kept.len - 1;
    for (size_t j = 0; j < kept.len; j++) {
      struct rsc_nest r = rsc_nest_copy(arena, &kept.at[j], 3);
      r.base[RSC_F_POS] += quotient * to + at - lo;
      for (int32_t l = 0; l < r.frozen; l++) {
        int64_t *step = &rsc_nest_loop(&r, l)[1 + RSC_F_POS];
        *step = *step / from * to;
      }
      push(arena, out, r, piece->slot);
    }
  }
}

static void set_shape(struct rsc_local *out, const struct rsc_local *v, int32_t k, int64_t dk) {
  struct rsc_local shape = {.ndim = v->ndim};
  memcpy(shape.dims, v->dims, sizeof shape.dims);
  shape.dims[k] = dk;
  *out = shape;
}

void rsc_local_slice(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k,
                     int64_t lo, int64_t hi, struct rsc_local *out) {
  struct rsc_local in = *v;
  int64_t inner = inner_of(v, k);
  set_shape(out, &in, k, hi - lo);
  if (lo == 0 && hi == in.dims[k]) {
    out->pieces = in.pieces;
    return;
  }
  for (size_t i = 0; i < in.pieces.len && !rsc_budget_spent(budget); i++)
    rebase(arena, budget, &in.pieces.at[i], in.dims[k] * inner, lo * inner, hi * inner, (hi - lo) * inner, 0, out);
}

void rsc_local_cat(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *parts, int64_t count,
                   int32_t k, struct rsc_local *out) {
  int64_t inner = inner_of(&parts[0], k), total = 0, at = 0;
  for (int64_t p = 0; p < count; p++) total += parts[p].dims[k];
  struct rsc_local result;
  set_shape(&result, &parts[0], k, total);
  for (int64_t p = 0; p < count; p++) {
    int64_t block = parts[p].dims[k] * inner;
    for (size_t i = 0; i < parts[p].pieces.len && !rsc_budget_spent(budget); i++)
      rebase(arena, budget, &parts[p].pieces.at[i], block, 0, block, total * inner, at, &result);
    at += block;
  }
  *out = result;
}

void rsc_local_fill(struct rsc_arena *arena, int32_t slot, const int64_t *dims, int32_t ndim, struct rsc_local *out) {
  *out = (struct rsc_local){.ndim = ndim};
  if (ndim) memcpy(out->dims, dims, (size_t)ndim * sizeof *dims);
  int64_t n = rsc_local_elems(out);
  if (n == 0) return;
  struct rsc_nest nest = rsc_nest_point(arena, 3);
  int64_t t = slot >= 0;
  rsc_nest_add_loop(arena, &nest, n, (int64_t[]){0, t, 1});
  push(arena, out, nest, slot);
}

void rsc_local_pad(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k, int64_t to,
                   struct rsc_local *out) {
  struct rsc_local parts[2] = {*v, {0}};
  if (to == v->dims[k]) {
    *out = *v;
    return;
  }
  int64_t dims[RSC_MAX_DIMS];
  memcpy(dims, v->dims, sizeof dims);
  dims[k] = to - v->dims[k];
  rsc_local_fill(arena, RSC_SLOT_PAD, dims, v->ndim, &parts[1]);
  rsc_local_cat(arena, budget, parts, 2, k, out);
}

void rsc_local_permute(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v,
                       const int64_t *perm, struct rsc_local *out) {
  struct rsc_local in = *v, result = {.ndim = v->ndim};
  int64_t old_stride[RSC_MAX_DIMS], new_stride[RSC_MAX_DIMS]; /* both by old dimension */
  for (int32_t d = 0; d < in.ndim; d++) {
    result.dims[d] = in.dims[perm[d]];
    old_stride[d] = inner_of(&in, d);
  }
  for (int32_t d = 0; d < in.ndim; d++) new_stride[perm[d]] = inner_of(&result, d);
  for (size_t i = 0; i < in.pieces.len && !rsc_budget_spent(budget); i++) {
    struct rsc_nests parts = {0}, next;
    struct rsc_nest whole = in.pieces.at[i].nest;
    whole.frozen = 0;
    *RSC_PUSH(arena, &parts) = whole;
    for (int32_t d = 0; d < in.ndim; d++) { /* largest strides first: finer factors keep the coarser */
      next = (struct rsc_nests){0};
      for (size_t p = 0; p < parts.len; p++)
        rsc_nest_factor(arena, &parts.at[p], RSC_F_POS, old_stride[d], budget, &next);
      parts = next;
    }
    for (size_t p = 0; p < parts.len; p++) {
      struct rsc_nest m = rsc_nest_copy(arena, &parts.at[p], 3);
      int64_t rest = m.base[RSC_F_POS], base = 0;
      for (int32_t d = 0; d < in.ndim; d++) {
        base += rest / old_stride[d] * new_stride[d];
        rest %= old_stride[d];
      }
      m.base[RSC_F_POS] = base;
      for (int32_t l = 0; l < m.loop_count; l++) {
        int64_t *step = &rsc_nest_loop(&m, l)[1 + RSC_F_POS];
        int32_t d = 0;
        while (!(old_stride[d] <= *step && *step < old_stride[d] * in.dims[d])) d++;
        *step = *step / old_stride[d] * new_stride[d];
      }
      push(arena, &result, m, in.pieces.at[i].slot);
    }
  }
  *out = result;
}

void rsc_local_cyclic(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k,
                      int64_t block, int64_t of, int64_t which, struct rsc_local *out) {
  int64_t d = v->dims[k], inner = inner_of(v, k), period = block * of, whole = d / period;
  int64_t rest = d - whole * period, lo = which * block, hi = lo + block;
  int64_t rest_lo = lo < rest ? lo : rest, rest_hi = hi < rest ? hi : rest;
  struct rsc_local full, tail, parts[2];
  rsc_local_slice(arena, budget, v, k, 0, whole * period, &full);
  set_shape(&parts[0], v, k, whole * block);
  if (whole)
    for (size_t i = 0; i < full.pieces.len && !rsc_budget_spent(budget); i++)
      rebase(arena, budget, &full.pieces.at[i], period * inner, lo * inner, hi * inner, block * inner, 0, &parts[0]);
  rsc_local_slice(arena, budget, v, k, whole * period, d, &tail);
  rsc_local_slice(arena, budget, &tail, k, rest_lo, rest_hi, &parts[1]);
  rsc_local_cat(arena, budget, parts, 2, k, out);
}
