/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the families of the places of one tensor. Out: the overlaps, each with every training occurrence that holds the
 * whole of it. Done once per combination of families, whatever the number of tensors, layers and experts.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/intersect.h"

struct part {
  struct rsc_nest nest; /* width 3 + holders */
  struct rsc_holder *holders;
  int32_t holder_count;
  int32_t mention; /* of the last holder */
};

struct parts {
  RSC_VEC(struct part);
};

struct overlap {
  struct rsc_arena *scratch;
  int64_t *intersections;
};

static void range_of(const struct rsc_nest *n, int64_t *lo, int64_t *hi) {
  *lo = n->base[RSC_F_TENSOR];
  *hi = *lo + rsc_nest_extent(n, RSC_F_TENSOR);
}

static bool apart(const struct rsc_nest *a, const struct rsc_nest *b) {
  int64_t a_lo, a_hi, b_lo, b_hi;
  range_of(a, &a_lo, &a_hi);
  range_of(b, &b_lo, &b_hi);
  return a_hi < b_lo || b_hi < a_lo;
}

/* Splits every part by one nest of a holder: what it holds too gains the holder, as `*met`; the rest stays in `*rest`. */
static void meet(struct overlap *o, const struct parts *parts, const struct rsc_nest *q, struct rsc_holder holder,
                 struct parts *met, struct parts *rest) {
  for (size_t i = 0; i < parts->len; i++) {
    const struct part *p = &parts->at[i];
    if (apart(&p->nest, q)) {
      *RSC_PUSH(o->scratch, rest) = *p;
      continue;
    }
    struct rsc_nests in = {0}, out = {0};
    int32_t width = 3 + p->holder_count;
    struct rsc_nest wide = rsc_nest_copy(o->scratch, &p->nest, width + 1);
    ++*o->intersections;
    rsc_nest_split(o->scratch, &wide, q, width, &in, &out);
    for (size_t k = 0; k < out.len; k++) {
      struct part same = *p;
      same.nest = rsc_nest_copy(o->scratch, &out.at[k], width);
      *RSC_PUSH(o->scratch, rest) = same;
    }
    for (size_t k = 0; k < in.len; k++) {
      struct part more = {.nest = in.at[k], .holder_count = p->holder_count + 1, .mention = holder.mention};
      more.holders = RSC_ARRAY(o->scratch, struct rsc_holder, more.holder_count);
      if (p->holder_count) memcpy(more.holders, p->holders, (size_t)p->holder_count * sizeof *p->holders);
      more.holders[p->holder_count] = holder;
      *RSC_PUSH(o->scratch, met) = more;
    }
  }
}

/* Settings of one place are disjoint unless it shares: then a part that the place already holds need not look again. */
static void meet_shape(struct overlap *o, const struct rsc_shape *shape, struct rsc_holder holder, bool shared,
                       struct parts *done, struct parts *remain) {
  struct parts open = {0}, kept = {0};
  for (size_t i = 0; i < done->len; i++) {
    bool look = shared || done->at[i].mention != holder.mention;
    *RSC_PUSH(o->scratch, look ? &open : &kept) = done->at[i];
  }
  for (size_t q = 0; q < shape->nests.len; q++) {
    struct parts rest = {0};
    meet(o, &open, &shape->nests.at[q], holder, &kept, &rest);
    open = rest;
    rest = (struct parts){0};
    meet(o, remain, &shape->nests.at[q], holder, &kept, &rest);
    *remain = rest;
  }
  for (size_t i = 0; i < open.len; i++) *RSC_PUSH(o->scratch, &kept) = open.at[i];
  *done = kept;
}

static int by_position(const void *a, const void *b) {
  const struct part *x = a, *y = b;
  int64_t p = x->nest.base[RSC_F_POS], q = y->nest.base[RSC_F_POS];
  return p < q ? -1 : p > q;
}

/* The run: the innermost loop if it steps by one at every end. */
static int64_t run_of(const struct rsc_nest *n) {
  if (n->loop_count == 0) return 1;
  const int64_t *loop = rsc_nest_loop(n, n->loop_count - 1);
  for (int f = RSC_F_POS; f < n->width; f++)
    if (loop[1 + f] != 1) return 1;
  return loop[0];
}

static void add_templates(struct rsc_arena *arena, struct parts *done, int32_t wanted, struct rsc_templates *out) {
  qsort(done->at, done->len, sizeof *done->at, by_position);
  for (size_t i = 0; i < done->len; i++) {
    struct part *p = &done->at[i];
    struct rsc_holder *holders = RSC_ARRAY(arena, struct rsc_holder, p->holder_count);
    memcpy(holders, p->holders, (size_t)p->holder_count * sizeof *holders);
    struct rsc_nest nest = rsc_nest_copy(arena, &p->nest, p->nest.width);
    rsc_nest_normalize(&nest, RSC_F_POS);
    *RSC_PUSH(arena, out) =
        (struct rsc_template){wanted, p->holder_count, holders, nest, rsc_nest_elems(&nest), run_of(&nest)};
  }
}

struct rsc_templates rsc_overlap(struct rsc_arena *arena, const struct rsc_placement *train_side,
                                 const int32_t *train, int32_t train_count, const struct rsc_placement *infer_side,
                                 int32_t infer, int64_t *intersections) {
  struct rsc_templates out = {0};
  const struct rsc_family *wants = &infer_side->families[infer];
  for (int32_t w = 0; w < wants->count; w++) {
    struct overlap o = {rsc_arena_new(), intersections};
    const struct rsc_shape *wanted = &infer_side->shapes[wants->shapes[w]];
    struct parts done = {0}, remain = {0};
    for (size_t i = 0; i < wanted->nests.len; i++)
      *RSC_PUSH(o.scratch, &remain) = (struct part){rsc_nest_copy(o.scratch, &wanted->nests.at[i], 3), NULL, 0, -1};
    for (int32_t m = 0; m < train_count; m++) {
      const struct rsc_family *holds = &train_side->families[train[m]];
      for (int32_t h = 0; h < holds->count; h++) {
        const struct rsc_shape *held = &train_side->shapes[holds->shapes[h]];
        if (held->t_max < wanted->t_min || held->t_min > wanted->t_max) continue;
        meet_shape(&o, held, (struct rsc_holder){m, h}, holds->shared, &done, &remain);
      }
    }
    add_templates(arena, &done, w, &out); /* what remains is excused by a skip: pair has checked */
    rsc_arena_free(o.scratch);
  }
  return out;
}
