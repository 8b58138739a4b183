/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the families of the places of one tensor on both sides. Out: its elements, divided so that each piece is met by the
 * same parts throughout. Done once per combination of families, whatever the number of tensors, layers and experts.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/intersect.h"

struct part {
  struct rsc_nest nest; /* width 2 + end_count */
  struct rsc_meeting *ends;
  int32_t end_count;
};

struct parts {
  RSC_VEC(struct part);
};

struct overlap {
  struct rsc_arena *scratch;
  int64_t *intersections;
};

static bool apart(const struct rsc_nest *a, const struct rsc_nest *b) {
  int64_t a_lo = a->base[RSC_F_TENSOR], b_lo = b->base[RSC_F_TENSOR];
  return a_lo + rsc_nest_extent(a, RSC_F_TENSOR) < b_lo || b_lo + rsc_nest_extent(b, RSC_F_TENSOR) < a_lo;
}

static struct part with_end(struct overlap *o, const struct part *p, struct rsc_nest nest, struct rsc_meeting end) {
  struct part more = {.nest = nest, .end_count = p->end_count + 1};
  more.ends = RSC_ARRAY(o->scratch, struct rsc_meeting, more.end_count);
  if (p->end_count) memcpy(more.ends, p->ends, (size_t)p->end_count * sizeof *p->ends);
  more.ends[p->end_count] = end;
  return more;
}

/* Splits every part by one nest of an end: what meets it gains the end, as `*met`; the rest stays in `*rest`. */
static void meet(struct overlap *o, const struct parts *parts, const struct rsc_nest *q, struct rsc_meeting end,
                 struct parts *met, struct parts *rest) {
  for (size_t i = 0; i < parts->len; i++) {
    const struct part *p = &parts->at[i];
    if (apart(&p->nest, q)) {
      *RSC_PUSH(o->scratch, rest) = *p;
      continue;
    }
    struct rsc_nests in = {0}, out = {0};
    int32_t width = 2 + p->end_count;
    struct rsc_nest wide = rsc_nest_copy(o->scratch, &p->nest, width + 1);
    ++*o->intersections;
    rsc_nest_split(o->scratch, &wide, q, width, &in, &out);
    for (size_t k = 0; k < out.len; k++) {
      struct part same = *p;
      same.nest = rsc_nest_copy(o->scratch, &out.at[k], width);
      *RSC_PUSH(o->scratch, rest) = same;
    }
    for (size_t k = 0; k < in.len; k++) *RSC_PUSH(o->scratch, met) = with_end(o, p, in.at[k], end);
  }
}

/* What of `q` no part has yet becomes a part of its own. */
static void add_rest(struct overlap *o, const struct parts *parts, const struct rsc_nest *q, struct rsc_meeting end,
                     struct parts *out) {
  struct rsc_nests left = {0};
  *RSC_PUSH(o->scratch, &left) = rsc_nest_copy(o->scratch, q, 4);
  for (size_t i = 0; i < parts->len && left.len; i++) {
    struct rsc_nests rest = {0};
    for (size_t k = 0; k < left.len; k++) {
      if (apart(&left.at[k], &parts->at[i].nest)) {
        *RSC_PUSH(o->scratch, &rest) = left.at[k];
        continue;
      }
      ++*o->intersections;
      rsc_nest_split(o->scratch, &left.at[k], &parts->at[i].nest, 3, NULL, &rest);
    }
    left = rest;
  }
  struct part none = {0};
  for (size_t k = 0; k < left.len; k++)
    *RSC_PUSH(o->scratch, out) = with_end(o, &none, rsc_nest_copy(o->scratch, &left.at[k], 3), end);
}

/* Brings one occurrence in. Settings of one place are disjoint unless it shares: then parts that the place has met already
 * need not be looked at again. */
static void add_occurrence(struct overlap *o, const struct rsc_shape *shape, struct rsc_meeting end, bool shared,
                           struct parts *parts) {
  struct parts open = {0}, done = {0}, fresh = {0};
  for (size_t i = 0; i < parts->len; i++) {
    const struct rsc_meeting *last = &parts->at[i].ends[parts->at[i].end_count - 1];
    bool look = shared || last->mention != end.mention || last->wants != end.wants;
    *RSC_PUSH(o->scratch, look ? &open : &done) = parts->at[i];
  }
  if (end.wants)
    for (size_t q = 0; q < shape->nests.len; q++) add_rest(o, &open, &shape->nests.at[q], end, &fresh);
  for (size_t q = 0; q < shape->nests.len; q++) {
    struct parts rest = {0};
    meet(o, &open, &shape->nests.at[q], end, &done, &rest);
    open = rest;
  }
  for (size_t i = 0; i < open.len; i++) *RSC_PUSH(o->scratch, &done) = open.at[i];
  for (size_t i = 0; i < fresh.len; i++) *RSC_PUSH(o->scratch, &done) = fresh.at[i];
  *parts = done;
}

static int by_end_and_position(const void *a, const void *b) {
  const struct part *x = a, *y = b;
  if (x->ends[0].mention != y->ends[0].mention) return x->ends[0].mention < y->ends[0].mention ? -1 : 1;
  if (x->ends[0].occurrence != y->ends[0].occurrence) return x->ends[0].occurrence < y->ends[0].occurrence ? -1 : 1;
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

static int32_t count_wants(const struct part *p) {
  int32_t n = 0;
  while (n < p->end_count && p->ends[n].wants) n++;
  return n;
}

/* Elements that nobody holds are left out: pair has checked that a skip excuses them. */
static struct rsc_templates finish(struct rsc_arena *arena, struct parts *parts) {
  struct rsc_templates out = {0};
  if (parts->len) qsort(parts->at, parts->len, sizeof *parts->at, by_end_and_position);
  for (size_t i = 0; i < parts->len; i++) {
    struct part *p = &parts->at[i];
    int32_t wants = count_wants(p);
    if (wants == p->end_count) continue;
    struct rsc_meeting *ends = RSC_ARRAY(arena, struct rsc_meeting, p->end_count);
    memcpy(ends, p->ends, (size_t)p->end_count * sizeof *ends);
    struct rsc_nest nest = rsc_nest_copy(arena, &p->nest, p->nest.width);
    rsc_nest_normalize(&nest, RSC_F_POS);
    *RSC_PUSH(arena, &out) =
        (struct rsc_template){wants, p->end_count - wants, ends, nest, rsc_nest_elems(&nest), run_of(&nest)};
  }
  return out;
}

struct rsc_templates rsc_overlap(struct rsc_arena *arena, const struct rsc_meeting_families *f, int64_t *intersections) {
  struct overlap o = {rsc_arena_new(), intersections};
  struct parts parts = {0};
  const enum rsc_side order[2] = {RSC_INFER, RSC_TRAIN};
  for (int s = 0; s < 2; s++)
    for (int32_t m = 0; m < f->counts[order[s]]; m++) {
      const struct rsc_placement *placement = f->placement[order[s]];
      const struct rsc_family *family = &placement->families[f->families[order[s]][m]];
      for (int32_t k = 0; k < family->count; k++)
        add_occurrence(&o, &placement->shapes[family->shapes[k]], (struct rsc_meeting){s == 0, m, k}, family->shared,
                       &parts);
    }
  struct rsc_templates out = finish(arena, &parts);
  rsc_arena_free(o.scratch);
  return out;
}
