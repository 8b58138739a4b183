/* SPDX-License-Identifier: Apache-2.0
 *
 * Nests and lattices, the only two shapes that the verifier computes with.
 *
 * A *nest* is a box of loop indices with a few affine functions on it: where the loop is in a buffer, in another
 * buffer, in a tensor. A *lattice* is a set of positions, base + sum digit_i * step_i with every step beyond the reach
 * of the smaller ones, so that a position has at most one digit string, and a value that is affine in the digits.
 *
 * Splitting a nest by a lattice gives nests inside it, on which the lattice's value is a function like the
 * others, and nests outside it; nothing is lost and nothing is doubled. All proofs are made of this.
 *
 * Positions stay within +-2^62: callers check bounds before they build nests.
 */
#ifndef RSPV_NEST_H
#define RSPV_NEST_H

#include <stdbool.h>
#include <stdint.h>

#include "plans/verify/base.h"

/* The functions of a nest. REST and DIGIT are split's own. */
enum rspv_func { RSPV_SRC, RSPV_DST, RSPV_VAL, RSPV_VAL2, RSPV_REST, RSPV_DIGIT, RSPV_FUNCS };

struct rspv_axis {
  uint64_t count; /* at least 2 in a nest made by rspv_nest_make */
  int64_t step[RSPV_FUNCS];
};

struct rspv_nest {
  struct rspv_nest *next;
  uint32_t axes, tag;
  int64_t base[RSPV_FUNCS];
  struct rspv_axis axis[];
};

struct rspv_nests {
  struct rspv_nest *first, **last;
};

struct rspv_digit {
  uint64_t count;
  int64_t step, weight;
};

struct rspv_lattice {
  int64_t base, last; /* smallest and largest position */
  int64_t value;      /* at base */
  uint64_t volume;
  uint32_t digits; /* counts at least 2; steps fall */
  const struct rspv_digit *digit;
};

/* Where nests are made, and how much work may go into it before the plan counts as too irregular to prove. */
struct rspv_work {
  struct rspv_arena arena;
  uint64_t left;
};

struct rspv_nest *rspv_nest_new(struct rspv_work *work, uint32_t axes);
struct rspv_nest *rspv_nest_copy(struct rspv_work *work, const struct rspv_nest *nest);
/* The nest with axis `axis` restricted to [from, from + count); count 1 drops the axis. count >= 1. */
struct rspv_nest *rspv_nest_cut(struct rspv_work *work, const struct rspv_nest *nest, uint32_t axis, uint64_t from,
                                uint64_t count);
uint64_t rspv_nest_volume(const struct rspv_nest *nest);
/* Smallest and largest value of a function. */
void rspv_nest_range(const struct rspv_nest *nest, enum rspv_func f, int64_t *lo, int64_t *hi);

static inline void rspv_nests_init(struct rspv_nests *list) {
  list->first = 0;
  list->last = &list->first;
}
void rspv_nests_add(struct rspv_nests *list, struct rspv_nest *nest);
/* Moves all of `from` to the end of `list`. */
void rspv_nests_join(struct rspv_nests *list, struct rspv_nests *from);

/* Digits in any order, steps of any sign, counts of 1: dropped, turned, sorted, joined. False if the positions are not
 * a lattice in the sense above. The digits live in the arena. */
bool rspv_lattice_make(struct rspv_arena *arena, int64_t base, int64_t value, const struct rspv_digit *digits,
                       uint32_t count, struct rspv_lattice *lattice);
/* The positions of function f of a nest, with the value of function g. */
bool rspv_lattice_of_nest(struct rspv_arena *arena, const struct rspv_nest *nest, enum rspv_func f, enum rspv_func g,
                          struct rspv_lattice *lattice);
bool rspv_lattice_has(const struct rspv_lattice *lattice, int64_t position);

/* Adds to `in` the parts of the nest with f in the lattice, with the lattice's value as function g, and to `out` the
 * others. Either may be NULL. The nest is not changed. */
void rspv_split(struct rspv_work *work, const struct rspv_nest *nest, enum rspv_func f,
                const struct rspv_lattice *lattice, enum rspv_func g, struct rspv_nests *in, struct rspv_nests *out);

/* A sorted set of lattices, usually disjoint. */
struct rspv_space {
  uint32_t count;
  struct rspv_lattice *at; /* base ascends */
  int64_t *reach;          /* largest `last` so far */
  uint32_t *id;            /* the caller's numbers */
};
/* Sorts by base (id goes along) and fills in reach. Arrays are kept. */
void rspv_space_make(struct rspv_arena *arena, struct rspv_space *space, uint32_t count, struct rspv_lattice *at,
                     uint32_t *id);
/* Splits the nest by all of the space: `in` gets every position once, with g and with tag = index into the space;
 * `missing` gets those that are in no lattice. Either may be NULL. */
void rspv_resolve(struct rspv_work *work, const struct rspv_space *space, const struct rspv_nest *nest,
                  enum rspv_func f, enum rspv_func g, struct rspv_nests *in, struct rspv_nests *missing);

#endif
