/* SPDX-License-Identifier: Apache-2.0
 *
 * In: strides and counts. Out: the lattice they span, in one canonical form. Assumes that positions fit (nest.h).
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/nest.h"

static int by_falling_step(const void *a, const void *b) {
  const struct rspv_digit *x = a, *y = b;
  return x->step == y->step ? 0 : x->step < y->step ? 1 : -1;
}

/* Joins a digit with the next smaller one where the two count through without a gap, in position and in value. */
static uint32_t join(struct rspv_digit *d, uint32_t n) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct rspv_digit *top = kept ? &d[kept - 1] : NULL;
    __int128 span = (__int128)d[i].count * d[i].step, rise = (__int128)d[i].count * d[i].weight;
    if (top && top->step == span && top->weight == rise) {
      top->count *= d[i].count;
      top->step = d[i].step;
      top->weight = d[i].weight;
    } else {
      d[kept++] = d[i];
    }
  }
  return kept;
}

bool rspv_lattice_make(struct rspv_arena *arena, int64_t base, int64_t value, const struct rspv_digit *digits,
                       uint32_t count, struct rspv_lattice *lattice) {
  struct rspv_digit *d = rspv_alloc(arena, count * sizeof *d);
  uint32_t n = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (digits[i].count == 1) continue;
    d[n] = digits[i];
    if (d[n].step < 0) { /* count it downwards */
      base += (int64_t)(d[n].count - 1) * d[n].step;
      value += (int64_t)(d[n].count - 1) * d[n].weight;
      d[n].step = -d[n].step;
      d[n].weight = -d[n].weight;
    }
    n++;
  }
  if (n) qsort(d, n, sizeof *d, by_falling_step);
  int64_t last = base;
  uint64_t volume = 1;
  for (uint32_t i = n; i-- > 0;) {
    if (d[i].step <= last - base) return false;
    last += (int64_t)(d[i].count - 1) * d[i].step;
    volume *= d[i].count;
  }
  lattice->base = base;
  lattice->last = last;
  lattice->value = value;
  lattice->volume = volume;
  lattice->digits = join(d, n);
  lattice->digit = d;
  return true;
}

bool rspv_lattice_of_nest(struct rspv_arena *arena, const struct rspv_nest *nest, enum rspv_func f, enum rspv_func g,
                          struct rspv_lattice *lattice) {
  struct rspv_digit *d = rspv_alloc(arena, nest->axes * sizeof *d);
  for (uint32_t i = 0; i < nest->axes; i++) {
    d[i].count = nest->axis[i].count;
    d[i].step = nest->axis[i].step[f];
    d[i].weight = nest->axis[i].step[g];
  }
  return rspv_lattice_make(arena, nest->base[f], nest->base[g], d, nest->axes, lattice);
}

bool rspv_lattice_has(const struct rspv_lattice *lattice, int64_t position) {
  if (position < lattice->base || position > lattice->last) return false;
  int64_t rest = position - lattice->base;
  for (uint32_t i = 0; i < lattice->digits; i++) {
    const struct rspv_digit *d = &lattice->digit[i];
    if ((uint64_t)(rest / d->step) >= d->count) return false;
    rest %= d->step;
  }
  return rest == 0;
}
