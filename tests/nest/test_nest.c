/* SPDX-License-Identifier: Apache-2.0
 *
 * The algebra of nests against sets of points: random nests are expanded element by element, and factor, clip and split
 * must give exactly the same points. Also the promised number of boxes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/nest.h"

static uint64_t state;

static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

#define CHECK(c, ...)                                                                                                  \
  do {                                                                                                                 \
    if (!(c)) {                                                                                                        \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #c);                                                          \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fprintf(stderr, "\n");                                                                                           \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

enum { SPACE = 4096 };

/* pos[t] = position of tensor element t, or -1. */
static void expand(const struct rsc_nest *n, int f, int64_t *pos) {
  int64_t total = rsc_nest_elems(n);
  for (int64_t k = 0; k < total; k++) {
    int64_t rest = k, t = n->base[RSC_F_TENSOR], p = n->base[f];
    for (int32_t i = n->loop_count; i-- > 0;) {
      int64_t at = rest % rsc_nest_count(n, i);
      rest /= rsc_nest_count(n, i);
      t += at * rsc_nest_step(n, i, RSC_F_TENSOR);
      p += at * rsc_nest_step(n, i, f);
    }
    CHECK(t >= 0 && t < SPACE, "element %" PRId64, t);
    CHECK(pos[t] == -1, "element %" PRId64 " twice", t);
    pos[t] = p;
  }
}

/* A box of mixed-radix digits, any offset, positions in another order of the digits. */
static struct rsc_nest random_nest(struct rsc_arena *arena) {
  int loops = (int)below(4);
  int64_t count[4], step[4], pos_step[4], inner = 1, pos = 1;
  for (int i = 0; i < loops; i++) {
    count[i] = 1 + below(5);
    step[i] = inner + below(3) * (below(2) ? 1 : inner);
    inner = step[i] * (count[i] - 1) + inner;
  }
  for (int i = loops; i-- > 0;) {
    pos_step[i] = pos;
    pos *= count[i];
  }
  struct rsc_nest n = rsc_nest_point(arena, 3);
  for (int i = loops; i-- > 0;) rsc_nest_add_loop(arena, &n, count[i], (int64_t[]){step[i], step[i], pos_step[i]});
  n.base[RSC_F_TENSOR] = n.base[RSC_F_WORK] = below(50);
  n.base[RSC_F_POS] = below(10);
  rsc_nest_normalize(&n, RSC_F_TENSOR);
  return n;
}

static void clear(int64_t *pos) {
  memset(pos, 0xff, SPACE * sizeof *pos);
}

static void expand_all(const struct rsc_nests *list, int f, int64_t *pos) {
  clear(pos);
  for (size_t i = 0; i < list->len; i++) expand(&list->at[i], f, pos);
}

static struct rsc_budget budget = {INT64_MAX};

static void test_factor(struct rsc_arena *arena) {
  static int64_t before[SPACE], after[SPACE];
  struct rsc_nest n = random_nest(arena);
  struct rsc_nests out = {0};
  int64_t block = 1 + below(12);
  clear(before);
  expand(&n, RSC_F_POS, before);
  rsc_nest_factor(arena, &n, RSC_F_TENSOR, block, &budget, &out);
  expand_all(&out, RSC_F_POS, after);
  CHECK(!memcmp(before, after, sizeof before), "factor by %" PRId64, block);
  for (size_t i = 0; i < out.len; i++) {
    struct rsc_nest m = rsc_nest_copy(arena, &out.at[i], 3);
    rsc_nest_freeze(&m, RSC_F_TENSOR, block, NULL);
    CHECK(m.base[RSC_F_TENSOR] + rsc_nest_extent(&m, RSC_F_TENSOR) < block, "a loop leaves its block");
  }
}

static void test_clip(struct rsc_arena *arena) {
  static int64_t before[SPACE], inside[SPACE], outside[SPACE];
  struct rsc_nest n = random_nest(arena);
  struct rsc_nests in = {0}, out = {0};
  int64_t lo = below(80), hi = lo + below(60);
  clear(before);
  expand(&n, RSC_F_POS, before);
  rsc_nest_clip(arena, &n, RSC_F_TENSOR, lo, hi, &in, &out);
  expand_all(&in, RSC_F_POS, inside);
  expand_all(&out, RSC_F_POS, outside);
  for (int64_t t = 0; t < SPACE; t++) {
    bool is_in = t >= lo && t < hi;
    CHECK(inside[t] == (is_in ? before[t] : -1), "in at %" PRId64, t);
    CHECK(outside[t] == (is_in ? -1 : before[t]), "out at %" PRId64, t);
  }
  CHECK((int64_t)in.len <= 2 * n.loop_count + 1, "%zu boxes of %d loops", in.len, n.loop_count);
}

static void test_split(struct rsc_arena *arena) {
  static int64_t p_pos[SPACE], q_pos[SPACE], in_p[SPACE], in_q[SPACE], out_p[SPACE];
  struct rsc_nest p = random_nest(arena), q = random_nest(arena);
  struct rsc_nest wide = rsc_nest_copy(arena, &p, 4);
  struct rsc_nests in = {0}, out = {0};
  clear(p_pos);
  clear(q_pos);
  expand(&p, RSC_F_POS, p_pos);
  expand(&q, RSC_F_POS, q_pos);
  rsc_nest_split(arena, &wide, &q, 3, &budget, &in, &out);
  expand_all(&in, RSC_F_POS, in_p);
  expand_all(&in, 3, in_q);
  expand_all(&out, RSC_F_POS, out_p);
  for (int64_t t = 0; t < SPACE; t++) {
    bool both = p_pos[t] >= 0 && q_pos[t] >= 0;
    CHECK(in_p[t] == (both ? p_pos[t] : -1) && in_q[t] == (both ? q_pos[t] : -1), "both at %" PRId64, t);
    CHECK(out_p[t] == (both ? -1 : p_pos[t]), "rest at %" PRId64, t);
  }
}

/* Steps of 3 in blocks of 10^6 + 1 are a nest for each residue: no more of them are made than are paid for. */
static void test_budget(void) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_nest n = rsc_nest_point(arena, 4), blocks = rsc_nest_point(arena, 3);
  rsc_nest_add_loop(arena, &n, 1000000000, (int64_t[]){0, 3, 3, 0});
  rsc_nest_add_loop(arena, &blocks, 1000, (int64_t[]){0, 1000001, 1000});
  rsc_nest_add_loop(arena, &blocks, 1000, (int64_t[]){0, 1, 1});
  struct rsc_budget few = {100}, enough = {200}, some = {100};
  struct rsc_nests out = {0}, in = {0}, rest = {0};
  rsc_nest_factor(arena, &n, RSC_F_TENSOR, 1000001, &few, &out);
  CHECK(rsc_budget_spent(&few) && out.len <= 102, "%zu nests for 100", out.len);
  out.len = 0;
  rsc_nest_factor(arena, &n, RSC_F_TENSOR, 100, &enough, &out);
  CHECK(!rsc_budget_spent(&enough) && out.len == 100, "%zu nests", out.len);
  CHECK(enough.left == 200 - 99, "%" PRId64 " left", enough.left);
  rsc_nest_split(arena, &n, &blocks, 3, &some, &in, &rest);
  CHECK(rsc_budget_spent(&some) && in.len + rest.len <= 102, "%zu nests for 100", in.len + rest.len);
  rsc_arena_free(arena);
}

/* A flat range of an n-dimensional tensor is at most 2n - 1 boxes, however large the tensor. */
static void test_range_boxes(void) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_nest n = rsc_nest_point(arena, 3);
  const int64_t dims[3] = {1 << 11, 1 << 11, 1 << 11};
  for (int i = 0; i < 3; i++) {
    int64_t step = i == 0 ? dims[1] * dims[2] : i == 1 ? dims[2] : 1;
    rsc_nest_add_loop(arena, &n, dims[i] - 1, (int64_t[]){step, step, step}); /* not whole: loops stay apart */
  }
  struct rsc_nests in = {0};
  rsc_nest_clip(arena, &n, RSC_F_TENSOR, 12345678, 7654321987, &in, NULL);
  int64_t elems = 0;
  for (size_t i = 0; i < in.len; i++) elems += rsc_nest_elems(&in.at[i]);
  CHECK(in.len <= 5, "%zu boxes", in.len);
  CHECK(elems > 0, "none");
  rsc_arena_free(arena);
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
  for (uint64_t i = 0; i < cases; i++) {
    struct rsc_arena *arena = rsc_arena_new();
    state = i * 2 + 1;
    for (int k = 0; k < 4; k++) below(2);
    test_factor(arena);
    test_clip(arena);
    test_split(arena);
    rsc_arena_free(arena);
  }
  test_budget();
  test_range_boxes();
  printf("nest: %" PRIu64 " random cases\n", cases);
  return 0;
}
