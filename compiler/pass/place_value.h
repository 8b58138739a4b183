/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of a value tree at one setting of the mesh axes: a local shape and the pieces that fill it.
 */
#ifndef RSC_PASS_PLACE_VALUE_H
#define RSC_PASS_PLACE_VALUE_H

#include "compiler/base/diag.h"
#include "compiler/ir/placement.h"

enum { RSC_MAX_DIMS = 8 }; /* the language's limit */

struct rsc_local {
  int32_t ndim;
  int64_t dims[RSC_MAX_DIMS];
  struct rsc_pieces pieces; /* nests of width 3, normalised by position, in no order; empty extents have none */
};

struct rsc_place_context {
  struct rsc_arena *arena;
  struct rsc_diag *diag;
  const struct rsc_layout *layout;
  const struct rsc_mesh *mesh;
  const int64_t *coords; /* per axis of the mesh; only cut axes are read */
  const char *where;     /* " at tp=1", or "" */
  struct rsc_budget *budget;
};

/* Evaluates; false after an error was reported. `*mention` counts tensor mentions in tree order. */
bool rsc_place_value(struct rsc_place_context *cx, const struct rsc_value *value, int32_t *mention,
                     struct rsc_local *out);

/* "[4, 8]", in the context's arena. */
const char *rsc_shape_text(struct rsc_place_context *cx, const int64_t *dims, int32_t ndim);
/* Whether the shape's bytes can be counted; says so if not. */
bool rsc_checked_elems(struct rsc_place_context *cx, struct rsc_span span, const int64_t *dims, int32_t ndim);
/* Whether the last operation, the one at `span`, has left the pieces within their limit; says so if not. */
bool rsc_within_pieces(struct rsc_place_context *cx, struct rsc_span span);

/* ---- cuts (place_cut.c) ---- */

struct rsc_range {
  int64_t lo, hi;
};

struct rsc_cut_parts {
  int64_t padded; /* extent after the rule's own padding */
  RSC_VEC(struct rsc_range);
};

/* Which indices of an extent d the coordinate keeps; false after an error. For CYCLIC all ranges are listed: used for
 * stacks only. */
bool rsc_cut_parts(struct rsc_place_context *cx, const struct rsc_cut *cut, int64_t d, struct rsc_cut_parts *parts);
/* Cuts dimension k of a local value. */
bool rsc_cut_value(struct rsc_place_context *cx, const struct rsc_cut *cut, int32_t k, struct rsc_local *v);

/* ---- the algebra on local values (place_algebra.c): pure but for the nests that they pay for ---- */

int64_t rsc_local_elems(const struct rsc_local *v);
/* [lo, hi) of dimension k. */
void rsc_local_slice(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k,
                     int64_t lo, int64_t hi, struct rsc_local *out);
/* Concatenation along dimension k; the other dimensions agree. */
void rsc_local_cat(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *parts, int64_t count,
                   int32_t k, struct rsc_local *out);
/* Extends dimension k to `to` with padding. */
void rsc_local_pad(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k, int64_t to,
                   struct rsc_local *out);
void rsc_local_permute(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v,
                       const int64_t *perm, struct rsc_local *out);
/* One piece that fills the shape: a whole tensor (slot >= 0), padding or a gap. */
void rsc_local_fill(struct rsc_arena *arena, int32_t slot, const int64_t *dims, int32_t ndim, struct rsc_local *out);
/* The elements i of dimension k with i / block % of == which, in order (round robin). */
void rsc_local_cyclic(struct rsc_arena *arena, struct rsc_budget *budget, const struct rsc_local *v, int32_t k,
                      int64_t block, int64_t of, int64_t which, struct rsc_local *out);

#endif
