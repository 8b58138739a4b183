/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the families of the places of one tensor on both sides. Out: its elements, divided so that each piece is met by
 * the same parts throughout. Done once per combination of families, whatever the number of tensors, layers and experts.
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

/* Lists that change with every occurrence are kept and emptied: there may be thousands of occurrences and of parts. */
struct overlap {
  struct rsc_arena *scratch;
  int64_t *intersections;
  struct rsc_budget *budget;
  struct parts parts, open, done, fresh, rest;
  struct rsc_nests left, still_left;
};

static void swap_parts(struct parts *a, struct parts *b) {
  struct parts t = *a;
  *a = *b;
  *b = t;
}

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

/* Splits every open part by one nest of an end: what meets it gains the end and is done; the rest stays open. */
static void meet(struct overlap *o, const struct rsc_nest *q, struct rsc_meeting end) {
  o->rest.len = 0;
  o->budget->left -= (int64_t)o->open.len / RSC_LOOKS_PER_PIECE;
  for (size_t i = 0; i < o->open.len && !rsc_budget_spent(o->budget); i++) {
    const struct part *p = &o->open.at[i];
    if (apart(&p->nest, q)) {
      *RSC_PUSH(o->scratch, &o->rest) = *p;
      continue;
    }
    struct rsc_nests in = {0}, out = {0};
    int32_t width = 2 + p->end_count;
    struct rsc_nest wide = rsc_nest_copy(o->scratch, &p->nest, width + 1);
    ++*o->intersections;
    rsc_nest_split(o->scratch, &wide, q, width, o->budget, &in, &out);
    for (size_t k = 0; k < out.len; k++) {
      struct part same = *p;
      same.nest = rsc_nest_copy(o->scratch, &out.at[k], width);
      *RSC_PUSH(o->scratch, &o->rest) = same;
    }
    for (size_t k = 0; k < in.len; k++) *RSC_PUSH(o->scratch, &o->done) = with_end(o, p, in.at[k], end);
  }
  swap_parts(&o->open, &o->rest);
}

/* What of `q` no open part has yet becomes a part of its own. */
static void add_rest(struct overlap *o, const struct rsc_nest *q, struct rsc_meeting end) {
  o->left.len = 0;
  *RSC_PUSH(o->scratch, &o->left) = rsc_nest_copy(o->scratch, q, 4);
  for (size_t i = 0; i < o->open.len && o->left.len && !rsc_budget_spent(o->budget); i++) {
    const struct rsc_nest *p = &o->open.at[i].nest;
    o->budget->left -= (int64_t)(o->left.len + i % RSC_LOOKS_PER_PIECE) / RSC_LOOKS_PER_PIECE;
    o->still_left.len = 0;
    for (size_t k = 0; k < o->left.len; k++) {
      if (apart(&o->left.at[k], p)) {
        *RSC_PUSH(o->scratch, &o->still_left) = o->left.at[k];
        continue;
      }
      ++*o->intersections;
      rsc_nest_split(o->scratch, &o->left.at[k], p, 3, o->budget, NULL, &o->still_left);
    }
    struct rsc_nests t = o->left;
    o->left = o->still_left;
    o->still_left = t;
  }
  struct part none = {0};
  for (size_t k = 0; k < o->left.len; k++)
    *RSC_PUSH(o->scratch, &o->fresh) = with_end(o, &none, rsc_nest_copy(o->scratch, &o->left.at[k], 3), end);
}

/* Brings one occurrence in. Settings of one place are disjoint unless it shares: then parts that the place has met
 * already need not be looked at again. */
static void add_occurrence(struct overlap *o, const struct rsc_shape *shape, struct rsc_meeting end, bool shared) {
  o->open.len = o->done.len = o->fresh.len = 0;
  o->budget->left -= (int64_t)o->parts.len / RSC_LOOKS_PER_PIECE;
  for (size_t i = 0; i < o->parts.len; i++) {
    const struct part *p = &o->parts.at[i];
    const struct rsc_meeting *last = &p->ends[p->end_count - 1];
    bool look = shared || last->mention != end.mention || last->wants != end.wants;
    *RSC_PUSH(o->scratch, look ? &o->open : &o->done) = *p;
  }
  if (end.wants)
    for (size_t q = 0; q < shape->nests.len && !rsc_budget_spent(o->budget); q++) add_rest(o, &shape->nests.at[q], end);
  for (size_t q = 0; q < shape->nests.len && !rsc_budget_spent(o->budget); q++) meet(o, &shape->nests.at[q], end);
  for (size_t i = 0; i < o->open.len; i++) *RSC_PUSH(o->scratch, &o->done) = o->open.at[i];
  for (size_t i = 0; i < o->fresh.len; i++) *RSC_PUSH(o->scratch, &o->done) = o->fresh.at[i];
  swap_parts(&o->parts, &o->done);
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

struct rsc_templates rsc_overlap(struct rsc_arena *arena, const struct rsc_meeting_families *f,
                                 struct rsc_budget *budget, int64_t *intersections) {
  struct overlap o = {.scratch = rsc_arena_new(), .intersections = intersections, .budget = budget};
  const enum rsc_side order[2] = {RSC_INFER, RSC_TRAIN};
  for (int s = 0; s < 2; s++)
    for (int32_t m = 0; m < f->counts[order[s]]; m++) {
      const struct rsc_placement *placement = f->placement[order[s]];
      const struct rsc_family *family = &placement->families[f->families[order[s]][m]];
      for (int32_t k = 0; k < family->count && !rsc_budget_spent(budget); k++)
        add_occurrence(&o, &placement->shapes[family->shapes[k]], (struct rsc_meeting){s == 0, m, k}, family->shared);
    }
  struct rsc_templates out = finish(arena, &o.parts);
  rsc_arena_free(o.scratch);
  return out;
}
