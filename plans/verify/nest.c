/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a nest and a lattice. Out: the nest cut into parts inside and parts outside. The digits of the
 * position are worked out from the largest down; wherever a digit is not affine on the nest because a loop carries into
 * it, or is in range for a part of the nest only, the nest is cut there first. Loops that carry regularly, as a long
 * run through the rows of a matrix does, are folded in two instead of being cut at each carry.
 */
#include "plans/verify/nest.h"

#include <string.h>

typedef __int128 wide;

struct split {
  struct rspv_work *work;
  const struct rspv_lattice *to;
  enum rspv_func g;
  struct rspv_nests *in, *out;
};

struct rspv_nest *rspv_nest_new(struct rspv_work *work, uint32_t axes) {
  struct rspv_nest *n = rspv_alloc(&work->arena, sizeof *n + axes * sizeof n->axis[0]);
  if (work->left) work->left--;
  n->next = NULL;
  n->axes = axes;
  n->tag = 0;
  memset(n->base, 0, sizeof n->base);
  return n;
}

struct rspv_nest *rspv_nest_copy(struct rspv_work *work, const struct rspv_nest *nest) {
  struct rspv_nest *n = rspv_nest_new(work, nest->axes);
  memcpy(n, nest, sizeof *n + nest->axes * sizeof n->axis[0]);
  n->next = NULL;
  return n;
}

void rspv_nests_add(struct rspv_nests *list, struct rspv_nest *nest) {
  nest->next = NULL;
  *list->last = nest;
  list->last = &nest->next;
}

void rspv_nests_join(struct rspv_nests *list, struct rspv_nests *from) {
  if (!from->first) return;
  *list->last = from->first;
  list->last = from->last;
  rspv_nests_init(from);
}

uint64_t rspv_nest_volume(const struct rspv_nest *nest) {
  uint64_t v = 1;
  for (uint32_t i = 0; i < nest->axes; i++) v *= nest->axis[i].count;
  return v;
}

void rspv_nest_range(const struct rspv_nest *nest, enum rspv_func f, int64_t *lo, int64_t *hi) {
  *lo = *hi = nest->base[f];
  for (uint32_t i = 0; i < nest->axes; i++) {
    int64_t span = (int64_t)(nest->axis[i].count - 1) * nest->axis[i].step[f];
    *(span < 0 ? lo : hi) += span;
  }
}

struct rspv_nest *rspv_nest_cut(struct rspv_work *work, const struct rspv_nest *nest, uint32_t axis, uint64_t from,
                                uint64_t count) {
  bool drop = count == 1;
  struct rspv_nest *n = rspv_nest_new(work, nest->axes - drop);
  n->tag = nest->tag;
  for (int f = 0; f < RSPV_FUNCS; f++) n->base[f] = nest->base[f] + (int64_t)from * nest->axis[axis].step[f];
  memcpy(n->axis, nest->axis, axis * sizeof n->axis[0]);
  if (!drop) {
    n->axis[axis] = nest->axis[axis];
    n->axis[axis].count = count;
  }
  memcpy(n->axis + axis + !drop, nest->axis + axis + 1, (nest->axes - axis - 1) * sizeof n->axis[0]);
  return n;
}

/* Axis `axis` of count outer * inner becomes two. Both are at least 2. */
static struct rspv_nest *fold(struct rspv_work *work, const struct rspv_nest *nest, uint32_t axis, uint64_t inner) {
  struct rspv_nest *n = rspv_nest_new(work, nest->axes + 1);
  n->tag = nest->tag;
  memcpy(n->base, nest->base, sizeof n->base);
  memcpy(n->axis, nest->axis, nest->axes * sizeof n->axis[0]);
  struct rspv_axis *outer = &n->axis[nest->axes];
  *outer = nest->axis[axis];
  outer->count = nest->axis[axis].count / inner;
  for (int f = 0; f < RSPV_FUNCS; f++) outer->step[f] *= (int64_t)inner;
  n->axis[axis].count = inner;
  return n;
}

static void give(struct rspv_nests *list, struct rspv_nest *nest) {
  if (list) rspv_nests_add(list, nest);
}

static uint32_t largest_step(const struct rspv_nest *n, enum rspv_func f) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n->axes; i++) {
    if (n->axis[i].step[f] > n->axis[best].step[f]) best = i;
  }
  return best;
}

static void take_digit(struct split *s, struct rspv_nest *n, uint32_t digit);

/* What to do with the parts of a nest for which function f lies in [0, limit): go on with this digit. */
static void in_range(struct split *s, struct rspv_nest *n, enum rspv_func f, uint32_t digit) {
  if (f == RSPV_DIGIT) {
    int64_t weight = s->to->digit[digit].weight;
    n->base[s->g] += weight * n->base[RSPV_DIGIT];
    for (uint32_t i = 0; i < n->axes; i++) n->axis[i].step[s->g] += weight * n->axis[i].step[RSPV_DIGIT];
    digit++;
  }
  take_digit(s, n, digit);
}

static uint64_t clamp(wide k, uint64_t count) {
  return k < 0 ? 0 : k > (wide)count ? count : (uint64_t)k;
}
static wide floor_div(wide a, wide b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Cuts the nest where function f, which has no negative step, enters and leaves [0, limit). */
static void cut_range(struct split *s, struct rspv_nest *n, enum rspv_func f, int64_t limit, uint32_t digit) {
  int64_t lo, hi;
  rspv_nest_range(n, f, &lo, &hi);
  if (hi < 0 || lo >= limit) {
    give(s->out, n);
    return;
  }
  if (lo >= 0 && hi < limit) {
    in_range(s, n, f, digit);
    return;
  }
  uint32_t axis = largest_step(n, f);
  uint64_t count = n->axis[axis].count;
  wide step = n->axis[axis].step[f], rest = (wide)hi - lo - step * (wide)(count - 1);
  /* Iterations [some, none) touch the range, [from, to) lie wholly in it. */
  uint64_t some = clamp(-floor_div((wide)lo + rest, step), count), from = clamp(-floor_div(lo, step), count);
  uint64_t to = clamp(floor_div((wide)limit - 1 - lo - rest, step) + 1, count);
  uint64_t none = clamp(floor_div((wide)limit - 1 - lo, step) + 1, count);
  if (some > none) some = none;
  if (from >= to) from = to = none;
  if (some) give(s->out, rspv_nest_cut(s->work, n, axis, 0, some));
  for (uint64_t k = some; k < from && s->work->left; k++)
    cut_range(s, rspv_nest_cut(s->work, n, axis, k, 1), f, limit, digit);
  if (from < to) in_range(s, rspv_nest_cut(s->work, n, axis, from, to - from), f, digit);
  for (uint64_t k = to; k < none && s->work->left; k++)
    cut_range(s, rspv_nest_cut(s->work, n, axis, k, 1), f, limit, digit);
  if (none < count) give(s->out, rspv_nest_cut(s->work, n, axis, none, count - none));
}

/* All digits are taken: what is left must be zero. */
static void take_rest(struct split *s, struct rspv_nest *n) {
  if (n->base[RSPV_REST] != 0) {
    give(s->out, n);
    return;
  }
  for (uint32_t i = 0; i < n->axes;) {
    if (n->axis[i].step[RSPV_REST] == 0) {
      i++;
      continue;
    }
    give(s->out, rspv_nest_cut(s->work, n, i, 1, n->axis[i].count - 1));
    n = rspv_nest_cut(s->work, n, i, 0, 1);
  }
  give(s->in, n);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* Axis `axis` carries regularly, every `period` iterations after the first `head`: head, folded middle, tail. */
static void fold_carry(struct split *s, const struct rspv_nest *n, uint32_t axis, uint64_t head, uint64_t period,
                       uint32_t digit) {
  uint64_t count = n->axis[axis].count - head, whole = count / period, tail = count % period;
  if (head) take_digit(s, rspv_nest_cut(s->work, n, axis, 0, head), digit);
  if (whole) {
    struct rspv_nest *mid = rspv_nest_cut(s->work, n, axis, head, whole * period);
    if (whole > 1 && period > 1) mid = fold(s->work, mid, axis, period);
    take_digit(s, mid, digit);
  }
  if (tail) take_digit(s, rspv_nest_cut(s->work, n, axis, head + whole * period, tail), digit);
}

/* Cuts `axis` at each carry. `first` is the smallest remainder of the nest, `rest` what the other axes add to it. */
static void cut_carry(struct split *s, const struct rspv_nest *n, uint32_t axis, int64_t r, wide first, wide rest,
                      int64_t size, uint32_t digit) {
  uint64_t count = n->axis[axis].count;
  for (uint64_t k = 0; k < count && s->work->left;) {
    wide at = (first + (wide)r * (wide)k) % size, room = size - 1 - at - rest;
    uint64_t take = room < 0 ? 1 : clamp(room / r + 1, count - k);
    take_digit(s, rspv_nest_cut(s->work, n, axis, k, take), digit);
    k += take;
  }
}

static int64_t remainder_of(int64_t value, int64_t size) {
  int64_t r = value % size;
  return r < 0 ? r + size : r;
}

/* Remainders of the axes beyond what the digit holds: true if they were dealt with by cutting. */
static bool cut_carries(struct split *s, struct rspv_nest *n, int64_t size, uint32_t digit) {
  wide first = remainder_of(n->base[RSPV_REST], size), sum = first;
  uint32_t axis = 0;
  int64_t r = 0;
  for (uint32_t i = 0; i < n->axes; i++) {
    int64_t ri = remainder_of(n->axis[i].step[RSPV_REST], size);
    sum += (wide)ri * (wide)(n->axis[i].count - 1);
    if (ri > r) {
      r = ri;
      axis = i;
    }
  }
  if (sum < size) return false;
  uint64_t count = n->axis[axis].count;
  wide rest = sum - first - (wide)r * (wide)(count - 1);
  uint64_t period = (uint64_t)size / gcd((uint64_t)size, (uint64_t)r);
  if (size % r == 0 && first % r + rest < r) {
    uint64_t head = first / r ? period - (uint64_t)(first / r) : 0;
    if (head < count && count > period) {
      fold_carry(s, n, axis, head, period, digit);
      return true;
    }
  } else if (count / 2 > period) {
    fold_carry(s, n, axis, 0, period, digit);
    return true;
  }
  cut_carry(s, n, axis, r, first, rest, size, digit);
  return true;
}

/* Works out digit `digit` on the nest. REST holds what is left of the position and has no negative step. */
static void take_digit(struct split *s, struct rspv_nest *n, uint32_t digit) {
  if (!s->work->left) return;
  if (digit == s->to->digits) {
    take_rest(s, n);
    return;
  }
  int64_t size = s->to->digit[digit].step;
  if (cut_carries(s, n, size, digit)) return;
  int64_t r = remainder_of(n->base[RSPV_REST], size);
  n->base[RSPV_DIGIT] = (n->base[RSPV_REST] - r) / size;
  n->base[RSPV_REST] = r;
  for (uint32_t i = 0; i < n->axes; i++) {
    int64_t step = n->axis[i].step[RSPV_REST];
    n->axis[i].step[RSPV_DIGIT] = step / size;
    n->axis[i].step[RSPV_REST] = step % size;
  }
  cut_range(s, n, RSPV_DIGIT, (int64_t)s->to->digit[digit].count, digit);
}

void rspv_split(struct rspv_work *work, const struct rspv_nest *nest, enum rspv_func f,
                const struct rspv_lattice *lattice, enum rspv_func g, struct rspv_nests *in, struct rspv_nests *out) {
  struct split s = {work, lattice, g, in, out};
  struct rspv_nest *n = rspv_nest_new(work, nest->axes);
  n->tag = nest->tag;
  memcpy(n->base, nest->base, sizeof n->base);
  n->axes = 0;
  for (uint32_t i = 0; i < nest->axes; i++) {
    struct rspv_axis a = nest->axis[i];
    if (a.count == 1) continue;
    if (a.step[f] < 0) { /* count this loop downwards: the same set, the same functions */
      for (int k = 0; k < RSPV_FUNCS; k++) {
        n->base[k] += (int64_t)(a.count - 1) * a.step[k];
        a.step[k] = -a.step[k];
      }
    }
    a.step[RSPV_REST] = a.step[f];
    a.step[RSPV_DIGIT] = 0;
    a.step[g] = 0;
    n->axis[n->axes++] = a;
  }
  n->base[RSPV_REST] = n->base[f] - lattice->base;
  n->base[RSPV_DIGIT] = 0;
  n->base[g] = lattice->value;
  cut_range(&s, n, RSPV_REST, lattice->last - lattice->base + 1, 0);
}
