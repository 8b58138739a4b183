/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/base/nest.h"

#include <assert.h>
#include <string.h>

#include "compiler/base/check.h"

static size_t loop_words(const struct rsc_nest *n) {
  return (size_t)(1 + n->width);
}

struct rsc_nest rsc_nest_point(struct rsc_arena *arena, int32_t width) {
  struct rsc_nest n = {.width = width};
  n.base = RSC_ARRAY(arena, int64_t, width);
  return n;
}

/* A copy with room for `extra` more loops. */
static struct rsc_nest copy_with_room(struct rsc_arena *arena, const struct rsc_nest *nest, int32_t extra) {
  struct rsc_nest n = *nest;
  n.base = RSC_ARRAY(arena, int64_t, n.width);
  n.loops = RSC_ARRAY(arena, int64_t, (size_t)(n.loop_count + extra) * loop_words(&n));
  memcpy(n.base, nest->base, (size_t)n.width * sizeof *n.base);
  if (n.loop_count) memcpy(n.loops, nest->loops, (size_t)n.loop_count * loop_words(&n) * sizeof *n.loops);
  return n;
}

struct rsc_nest rsc_nest_copy(struct rsc_arena *arena, const struct rsc_nest *nest, int32_t width) {
  if (width == nest->width) return copy_with_room(arena, nest, 0);
  struct rsc_nest n = rsc_nest_point(arena, width);
  int32_t both = width < nest->width ? width : nest->width;
  n.loop_count = nest->loop_count;
  n.frozen = nest->frozen;
  n.loops = RSC_ARRAY(arena, int64_t, (size_t)n.loop_count * loop_words(&n));
  memcpy(n.base, nest->base, (size_t)both * sizeof *n.base);
  for (int32_t i = 0; i < n.loop_count; i++)
    memcpy(rsc_nest_loop(&n, i), rsc_nest_loop(nest, i), (size_t)(1 + both) * sizeof *n.loops);
  return n;
}

void rsc_nest_add_loop(struct rsc_arena *arena, struct rsc_nest *nest, int64_t count, const int64_t *steps) {
  *nest = copy_with_room(arena, nest, 1);
  int64_t *loop = rsc_nest_loop(nest, nest->loop_count++);
  loop[0] = count;
  memcpy(loop + 1, steps, (size_t)nest->width * sizeof *steps);
}

int64_t rsc_nest_elems(const struct rsc_nest *nest) {
  int64_t n = 1;
  for (int32_t i = 0; i < nest->loop_count; i++) n *= rsc_nest_count(nest, i);
  return n;
}

static int64_t extent_from(const struct rsc_nest *n, int32_t first, int f) {
  int64_t e = 0;
  for (int32_t i = first; i < n->loop_count; i++) e += (rsc_nest_count(n, i) - 1) * rsc_nest_step(n, i, f);
  return e;
}

int64_t rsc_nest_extent(const struct rsc_nest *nest, int f) {
  return extent_from(nest, nest->frozen, f);
}

static void remove_loop(struct rsc_nest *n, int32_t i) {
  memmove(rsc_nest_loop(n, i), rsc_nest_loop(n, i + 1),
          (size_t)(n->loop_count - i - 1) * loop_words(n) * sizeof *n->loops);
  n->loop_count--;
  if (i < n->frozen) n->frozen--;
}

static void swap_loops(struct rsc_nest *n, int32_t i, int32_t j) {
  int64_t *a = rsc_nest_loop(n, i), *b = rsc_nest_loop(n, j);
  for (size_t w = 0; w < loop_words(n); w++) {
    int64_t t = a[w];
    a[w] = b[w];
    b[w] = t;
  }
}

/* Insertion sort of loops [first, loop_count): nests are short. */
static void sort_loops(struct rsc_nest *n, int32_t first, int f) {
  for (int32_t i = first + 1; i < n->loop_count; i++)
    for (int32_t j = i; j > first && rsc_nest_step(n, j - 1, f) < rsc_nest_step(n, j, f); j--) swap_loops(n, j - 1, j);
}

static bool one_loop(const struct rsc_nest *n, int32_t outer, int32_t inner) {
  int64_t count = rsc_nest_count(n, inner);
  for (int f = 0; f < n->width; f++)
    if (rsc_nest_step(n, outer, f) != rsc_nest_step(n, inner, f) * count) return false;
  return true;
}

void rsc_nest_normalize(struct rsc_nest *nest, int f) {
  nest->frozen = 0;
  for (int32_t i = nest->loop_count; i-- > 0;)
    if (rsc_nest_count(nest, i) == 1) remove_loop(nest, i);
  sort_loops(nest, 0, f);
  for (int32_t i = nest->loop_count - 1; i-- > 0;)
    if (one_loop(nest, i, i + 1)) {
      rsc_nest_loop(nest, i + 1)[0] *= rsc_nest_count(nest, i);
      remove_loop(nest, i);
    }
}

bool rsc_nest_equal(const struct rsc_nest *a, const struct rsc_nest *b) {
  return a->width == b->width && a->loop_count == b->loop_count &&
         !memcmp(a->base, b->base, (size_t)a->width * sizeof *a->base) &&
         (!a->loop_count || !memcmp(a->loops, b->loops, (size_t)a->loop_count * loop_words(a) * sizeof *a->loops));
}

/* ---- factor ---- */

/* The nest with loop i cut to iterations [from, from + count), each `stride` of the old ones apart. */
static struct rsc_nest with_range(struct rsc_arena *arena, const struct rsc_nest *n, int32_t i, int64_t from,
                                  int64_t count, int64_t stride, int32_t room) {
  struct rsc_nest m = copy_with_room(arena, n, room);
  int64_t *loop = rsc_nest_loop(&m, i);
  for (int f = 0; f < m.width; f++) {
    m.base[f] += from * loop[1 + f];
    loop[1 + f] *= stride;
  }
  loop[0] = count;
  if (count == 1) remove_loop(&m, i);
  return m;
}

/* Loop i steps by a divisor of block and what is inside it stays within its step: head, whole blocks, tail. */
static void factor_dividing(struct rsc_arena *arena, const struct rsc_nest *n, int f, int64_t block, int32_t i,
                            struct rsc_nests *out) {
  int64_t step = rsc_nest_step(n, i, f), count = rsc_nest_count(n, i), period = block / step;
  int64_t at = rsc_floormod(n->base[f], block) / step;
  int64_t head = at == 0 ? 0 : (period - at < count ? period - at : count);
  int64_t whole = (count - head) / period, tail = count - head - whole * period;
  if (head) *RSC_PUSH(arena, out) = with_range(arena, n, i, 0, head, 1, 0);
  if (whole == 1) *RSC_PUSH(arena, out) = with_range(arena, n, i, head, period, 1, 0);
  if (whole > 1) {
    struct rsc_nest m = with_range(arena, n, i, head, period, 1, 1);
    /* loop i becomes (whole, block) around (period, step) */
    int32_t at_loop = i;
    if (period == 1) {
      m = with_range(arena, n, i, head, whole, 1, 0);
    } else {
      m.loop_count++;
      for (int32_t j = m.loop_count - 1; j > at_loop; j--)
        memcpy(rsc_nest_loop(&m, j), rsc_nest_loop(&m, j - 1), loop_words(&m) * sizeof *m.loops);
      int64_t *outer = rsc_nest_loop(&m, at_loop);
      outer[0] = whole;
      for (int g = 0; g < m.width; g++) outer[1 + g] *= period;
    }
    *RSC_PUSH(arena, out) = m;
  }
  if (tail) *RSC_PUSH(arena, out) = with_range(arena, n, i, head + whole * period, tail, 1, 0);
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

void rsc_nest_factor(struct rsc_arena *arena, const struct rsc_nest *n, int f, int64_t block, struct rsc_budget *budget,
                     struct rsc_nests *out) {
  int32_t i = n->frozen;
  while (i < n->loop_count && rsc_nest_step(n, i, f) % block == 0) i++;
  if (rsc_floormod(n->base[f], block) + extent_from(n, i, f) < block) {
    *RSC_PUSH(arena, out) = *n;
    return;
  }
  assert(i < n->loop_count);
  int64_t step = rsc_nest_step(n, i, f), count = rsc_nest_count(n, i);
  if (step < block && block % step == 0) {
    if (rsc_floormod(n->base[f], step) + extent_from(n, i + 1, f) < step) {
      size_t before = out->len;
      factor_dividing(arena, n, f, block, i, out);
      budget->left -= (int64_t)(out->len - before) - 1;
      return;
    }
    struct rsc_nests inner = {0};
    struct rsc_nest m = *n;
    m.frozen = i + 1;
    rsc_nest_factor(arena, &m, f, step, budget, &inner);
    for (size_t k = 0; k < inner.len && !rsc_budget_spent(budget); k++) {
      inner.at[k].frozen = n->frozen;
      rsc_nest_factor(arena, &inner.at[k], f, block, budget, out);
    }
    return;
  }
  int64_t period = block / gcd(step, block);
  for (int64_t k = 0; k < period && k < count && !rsc_budget_spent(budget); k++) {
    struct rsc_nest m = with_range(arena, n, i, k, rsc_ceildiv(count - k, period), period, 0);
    budget->left -= k > 0;
    rsc_nest_factor(arena, &m, f, block, budget, out);
  }
}

int64_t rsc_nest_freeze(struct rsc_nest *n, int f, int64_t block, int32_t *first_new) {
  if (first_new) *first_new = n->frozen;
  for (int32_t i = n->frozen; i < n->loop_count; i++) {
    if (rsc_nest_step(n, i, f) % block != 0) continue;
    for (int32_t j = i; j > n->frozen; j--) swap_loops(n, j - 1, j);
    n->frozen++;
  }
  int64_t quotient = rsc_floordiv(n->base[f], block);
  n->base[f] -= quotient * block;
  return quotient;
}

/* ---- clip ---- */

static int64_t clamp(int64_t v, int64_t lo, int64_t hi) {
  return v < lo ? lo : v > hi ? hi : v;
}
static int64_t floor_ceil(int64_t a, int64_t b) {
  return -rsc_floordiv(-a, b);
}

void rsc_nest_clip(struct rsc_arena *arena, const struct rsc_nest *n, int f, int64_t lo, int64_t hi,
                   struct rsc_nests *in, struct rsc_nests *out) {
  int64_t min = n->base[f], extent = rsc_nest_extent(n, f), max = min + extent;
  if (max < lo || min >= hi) {
    if (out) *RSC_PUSH(arena, out) = *n;
    return;
  }
  if (min >= lo && max < hi) {
    if (in) *RSC_PUSH(arena, in) = *n;
    return;
  }
  int32_t a = n->frozen;
  assert(a < n->loop_count);
  int64_t step = rsc_nest_step(n, a, f), count = rsc_nest_count(n, a), inner = extent - (count - 1) * step;
  /* Iterations [touch_lo, touch_hi) meet the range; of these [full_lo, full_hi) lie in it. */
  int64_t touch_lo = clamp(floor_ceil(lo - inner - min, step), 0, count);
  int64_t touch_hi = clamp(rsc_floordiv(hi - 1 - min, step) + 1, touch_lo, count);
  int64_t full_lo = clamp(floor_ceil(lo - min, step), touch_lo, touch_hi);
  int64_t full_hi = clamp(rsc_floordiv(hi - 1 - inner - min, step) + 1, full_lo, touch_hi);
  if (out && touch_lo > 0) *RSC_PUSH(arena, out) = with_range(arena, n, a, 0, touch_lo, 1, 0);
  if (in && full_hi > full_lo) *RSC_PUSH(arena, in) = with_range(arena, n, a, full_lo, full_hi - full_lo, 1, 0);
  if (out && count > touch_hi) *RSC_PUSH(arena, out) = with_range(arena, n, a, touch_hi, count - touch_hi, 1, 0);
  for (int64_t k = touch_lo; k < touch_hi; k++) {
    if (k == full_lo && full_hi > full_lo) {
      k = full_hi - 1;
      continue;
    }
    struct rsc_nest m = with_range(arena, n, a, k, 1, 1, 0);
    rsc_nest_clip(arena, &m, f, lo, hi, in, out);
  }
}

/* ---- split ---- */

struct split {
  struct rsc_arena *arena;
  const struct rsc_nest *q;
  int g;
  struct rsc_budget *budget;
  struct rsc_nests *in, *out;
};

/* Hands a finished part over: the working functional becomes the tensor's again. */
static void finish(struct split *s, struct rsc_nest n, bool inside) {
  struct rsc_nests *to = inside ? s->in : s->out;
  s->budget->left--;
  if (!to) return;
  n = copy_with_room(s->arena, &n, 0);
  n.base[RSC_F_WORK] = n.base[RSC_F_TENSOR];
  if (!inside) n.base[s->g] = 0;
  for (int32_t i = 0; i < n.loop_count; i++) {
    int64_t *loop = rsc_nest_loop(&n, i) + 1;
    loop[RSC_F_WORK] = loop[RSC_F_TENSOR];
    if (!inside) loop[s->g] = 0;
  }
  rsc_nest_normalize(&n, RSC_F_TENSOR);
  *RSC_PUSH(s->arena, to) = n;
}

/* p's working functional is its distance from q's base within q's loops before j. */
static void split_level(struct split *s, const struct rsc_nest *p, int32_t j) {
  const struct rsc_nest *q = s->q;
  bool last = j == q->loop_count;
  int64_t step = last ? 1 : rsc_nest_step(q, j, RSC_F_TENSOR), count = last ? 1 : rsc_nest_count(q, j);
  int64_t pos_step = last ? 0 : rsc_nest_step(q, j, RSC_F_POS);
  struct rsc_nests factored = {0};
  rsc_nest_factor(s->arena, p, RSC_F_WORK, step, s->budget, &factored);
  for (size_t k = 0; k < factored.len && !rsc_budget_spent(s->budget); k++) {
    struct rsc_nests in = {0}, out = {0};
    rsc_nest_clip(s->arena, &factored.at[k], RSC_F_WORK, 0, count * step, &in, &out);
    for (size_t i = 0; i < out.len; i++) finish(s, out.at[i], false);
    for (size_t i = 0; i < in.len; i++) {
      if (last) {
        finish(s, in.at[i], true);
        continue;
      }
      struct rsc_nest m = copy_with_room(s->arena, &in.at[i], 0);
      int32_t first;
      int64_t quotient = rsc_nest_freeze(&m, RSC_F_WORK, step, &first);
      m.base[s->g] += quotient * pos_step;
      for (int32_t l = first; l < m.frozen; l++) {
        int64_t *loop = rsc_nest_loop(&m, l) + 1;
        loop[s->g] += loop[RSC_F_WORK] / step * pos_step;
        loop[RSC_F_WORK] = 0;
      }
      split_level(s, &m, j + 1);
    }
  }
}

void rsc_nest_split(struct rsc_arena *arena, const struct rsc_nest *p, const struct rsc_nest *q, int g,
                    struct rsc_budget *budget, struct rsc_nests *in, struct rsc_nests *out) {
  struct split s = {arena, q, g, budget, in, out};
  struct rsc_nest m = copy_with_room(arena, p, 0);
  m.frozen = 0;
  m.base[RSC_F_WORK] = m.base[RSC_F_TENSOR] - q->base[RSC_F_TENSOR];
  m.base[g] = q->base[RSC_F_POS];
  for (int32_t i = 0; i < m.loop_count; i++) {
    int64_t *loop = rsc_nest_loop(&m, i) + 1;
    loop[RSC_F_WORK] = loop[RSC_F_TENSOR];
    loop[g] = 0;
  }
  sort_loops(&m, 0, RSC_F_WORK);
  split_level(&s, &m, 0);
}
