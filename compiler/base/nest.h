/* SPDX-License-Identifier: Apache-2.0
 *
 * Affine loop nests: the one way the compiler describes sets of elements. A nest is a set of points
 *     { base + sum k_i * step_i : 0 <= k_i < count_i }
 * where base and steps are vectors of `width` integers, one per *functional*: the element's flat index in its
 * tensor, its position in a buffer, and so on. All functionals walk together, so a nest is a bijection between
 * positions as well as a set.
 *
 * What must stay true of a functional f that an operation works on: sorted by falling step[f], each active loop's
 * step is greater than the extent (sum of (count - 1) * step[f]) of the loops inside it. Boxes of mixed-radix
 * digits have this form, and factor, clip and split keep it.
 *
 * Frozen loops come first; operations carry them along and do not look at them.
 */
#ifndef RSC_BASE_NEST_H
#define RSC_BASE_NEST_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/vec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RSC_F_WORK = 0, RSC_F_TENSOR = 1, RSC_F_POS = 2, RSC_F_SRC = 3 };

struct rsc_nest {
  int32_t width, loop_count, frozen;
  int64_t *base;  /* [width] */
  int64_t *loops; /* [loop_count][1 + width]: count, then the steps */
};

struct rsc_nests {
  RSC_VEC(struct rsc_nest);
};

/* How many nests operations may still make. Loops whose steps do not divide one another leave as many as the product
 * of their periods: an operation that has spent all ends early, with `left` below zero and results of no use. */
struct rsc_budget {
  int64_t left;
};
/* Of one class of buffers over all its coordinates, and of the overlaps of one tensor's places: making as many takes
 * about a second and less than 1 GiB. */
enum { RSC_PIECES_MAX = 1 << 19 };
/* Nests that can be passed over for the price of making one. */
enum { RSC_LOOKS_PER_PIECE = 64 };
static inline bool rsc_budget_spent(const struct rsc_budget *budget) {
  return budget->left < 0;
}

static inline int64_t *rsc_nest_loop(const struct rsc_nest *n, int32_t i) {
  return n->loops + (int64_t)i * (1 + n->width);
}
static inline int64_t rsc_nest_count(const struct rsc_nest *n, int32_t i) {
  return rsc_nest_loop(n, i)[0];
}
static inline int64_t rsc_nest_step(const struct rsc_nest *n, int32_t i, int f) {
  return rsc_nest_loop(n, i)[1 + f];
}

/* A nest of no loops, base zero. */
struct rsc_nest rsc_nest_point(struct rsc_arena *arena, int32_t width);
/* Adds a loop inside all others. */
void rsc_nest_add_loop(struct rsc_arena *arena, struct rsc_nest *nest, int64_t count, const int64_t *steps);
/* A copy with `width` functionals; new ones are zero. */
struct rsc_nest rsc_nest_copy(struct rsc_arena *arena, const struct rsc_nest *nest, int32_t width);
/* Number of points. */
int64_t rsc_nest_elems(const struct rsc_nest *nest);
/* Largest minus smallest value of f over the active loops. */
int64_t rsc_nest_extent(const struct rsc_nest *nest, int f);
/* Thaws, sorts by falling step of f, drops loops of one, merges loops that are one loop in all functionals. */
void rsc_nest_normalize(struct rsc_nest *nest, int f);
bool rsc_nest_equal(const struct rsc_nest *a, const struct rsc_nest *b);

/* Splits a nest so that in each result every active loop either steps by a multiple of `block` in f or stays, with
 * all such loops together, inside one block. Results are appended. At most block / gcd(step, block) results per loop
 * that does not divide; those beyond the first are paid for. */
void rsc_nest_factor(struct rsc_arena *arena, const struct rsc_nest *nest, int f, int64_t block,
                     struct rsc_budget *budget, struct rsc_nests *out);

/* For a factored nest: freezes the loops that step by multiples of `block`, leaves base[f] in [0, block) and returns
 * the quotient that was taken out of it. *first_new is the index of the first loop frozen now. */
int64_t rsc_nest_freeze(struct rsc_nest *nest, int f, int64_t block, int32_t *first_new);

/* The points with lo <= f < hi go to `in`, the others to `out`; either may be NULL. */
void rsc_nest_clip(struct rsc_arena *arena, const struct rsc_nest *nest, int f, int64_t lo, int64_t hi,
                   struct rsc_nests *in, struct rsc_nests *out);

/* Splits `p` by the tensor elements of `q` (width >= 3: q's position is its RSC_F_POS): what both hold goes to `in`,
 * with functional `g` (< p's width) set to q's position; the rest goes to `out` with g zero. Results are normalised by
 * RSC_F_TENSOR; all results are paid for. */
void rsc_nest_split(struct rsc_arena *arena, const struct rsc_nest *p, const struct rsc_nest *q, int g,
                    struct rsc_budget *budget, struct rsc_nests *in, struct rsc_nests *out);

#ifdef __cplusplus
}
#endif

#endif
