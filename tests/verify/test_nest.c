// SPDX-License-Identifier: Apache-2.0
//
// In: a seed and a number of cases. Out: whether splitting and resolving random small nests agrees with counting every
// element. This is the ground that all proofs stand on.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/verify/nest.h"

static uint64_t state;

static uint64_t draw(uint64_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (state >> 33) % below;
}

enum { REACH = 4096 }; // positions -REACH .. REACH

struct census {
  unsigned count[2 * REACH]; // how often a position is there
  int64_t second[2 * REACH]; // sum of another function there
  int64_t value[2 * REACH];  // sum of the value there
};

static struct census whole, inside, outside;

static void count_nest(struct census *c, const struct rspv_nest *n, enum rspv_func f, enum rspv_func second,
                       enum rspv_func value) {
  uint64_t k[16] = {0};
  for (;;) {
    int64_t at = n->base[f], other = n->base[second], v = n->base[value];
    for (uint32_t i = 0; i < n->axes; i++) {
      at += (int64_t)k[i] * n->axis[i].step[f];
      other += (int64_t)k[i] * n->axis[i].step[second];
      v += (int64_t)k[i] * n->axis[i].step[value];
    }
    c->count[at + REACH]++;
    c->second[at + REACH] += other;
    c->value[at + REACH] += v;
    uint32_t i = 0;
    while (i < n->axes && ++k[i] == n->axis[i].count) k[i++] = 0;
    if (i == n->axes) return;
  }
}

static void count_all(struct census *c, const struct rspv_nests *list, enum rspv_func value) {
  for (const struct rspv_nest *n = list->first; n; n = n->next) count_nest(c, n, RSPV_DST, RSPV_SRC, value);
}

static struct rspv_nest *random_nest(struct rspv_work *work) {
  static const int64_t steps[] = {0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 15, 16, 24, 32, 48, 64, -1, -4, -6, -16};
  struct rspv_nest *n = rspv_nest_new(work, (uint32_t)draw(5));
  for (int f = 0; f < RSPV_FUNCS; f++) n->base[f] = 0;
  n->base[RSPV_DST] = (int64_t)draw(60) - 10;
  n->base[RSPV_SRC] = (int64_t)draw(1000);
  for (uint32_t i = 0; i < n->axes; i++) {
    memset(&n->axis[i], 0, sizeof n->axis[i]);
    n->axis[i].count = 1 + draw(i ? 6 : 20);
    n->axis[i].step[RSPV_DST] = steps[draw(sizeof steps / sizeof steps[0])];
    n->axis[i].step[RSPV_SRC] = (int64_t)draw(100) - 50;
  }
  return n;
}

static bool random_lattice(struct rspv_arena *arena, struct rspv_lattice *lattice) {
  struct rspv_digit d[4];
  uint32_t n = (uint32_t)draw(4);
  int64_t span = (int64_t)(draw(3) ? 1 : 1 + draw(3));
  for (uint32_t i = 0; i < n; i++) {
    d[i].count = 1 + draw(6);
    d[i].step = span;
    d[i].weight = (int64_t)draw(200);
    span = span * (int64_t)d[i].count + (int64_t)(draw(2) ? 0 : draw(4));
  }
  return rspv_lattice_make(arena, (int64_t)draw(40) - 10, (int64_t)draw(100), d, n, lattice);
}

// The value of a position, by definition.
static bool value_of(const struct rspv_lattice *l, int64_t at, int64_t *value) {
  if (!rspv_lattice_has(l, at)) return false;
  int64_t rest = at - l->base;
  *value = l->value;
  for (uint32_t i = 0; i < l->digits; i++) {
    *value += rest / l->digit[i].step * l->digit[i].weight;
    rest %= l->digit[i].step;
  }
  return true;
}

static bool fail(uint64_t seed, const char *what) {
  fprintf(stderr, "case %" PRIu64 ": %s\n", seed, what);
  return false;
}

static bool test_split(uint64_t seed) {
  struct rspv_work work = {.left = 1000000};
  struct rspv_nests in, out;
  struct rspv_lattice l;
  bool good = true;
  rspv_nests_init(&in);
  rspv_nests_init(&out);
  memset(&whole, 0, sizeof whole);
  memset(&inside, 0, sizeof inside);
  memset(&outside, 0, sizeof outside);
  struct rspv_nest *n = random_nest(&work);
  if (!random_lattice(&work.arena, &l)) return fail(seed, "no lattice");
  count_nest(&whole, n, RSPV_DST, RSPV_SRC, RSPV_VAL);
  rspv_split(&work, n, RSPV_DST, &l, RSPV_VAL, &in, &out);
  count_all(&inside, &in, RSPV_VAL);
  count_all(&outside, &out, RSPV_REST);
  for (int64_t p = -REACH; p < REACH && good; p++) {
    int64_t i = p + REACH, value = 0;
    bool has = value_of(&l, p, &value);
    if (inside.count[i] != (has ? whole.count[i] : 0)) good = fail(seed, "inside");
    if (outside.count[i] != (has ? 0 : whole.count[i])) good = fail(seed, "outside");
    if (inside.second[i] + outside.second[i] != whole.second[i]) good = fail(seed, "another function");
    if (inside.value[i] != value * (int64_t)inside.count[i]) good = fail(seed, "value");
  }
  rspv_arena_free(&work.arena);
  return good;
}

static bool test_resolve(uint64_t seed) {
  struct rspv_work work = {.left = 1000000};
  struct rspv_nests in, out;
  struct rspv_lattice l[6];
  struct rspv_space space;
  uint32_t id[6], count = (uint32_t)draw(7);
  bool good = true;
  rspv_nests_init(&in);
  rspv_nests_init(&out);
  memset(&whole, 0, sizeof whole);
  memset(&inside, 0, sizeof inside);
  memset(&outside, 0, sizeof outside);
  struct rspv_nest *n = random_nest(&work);
  for (uint32_t i = 0; i < count; i++) {
    id[i] = i;
    if (!random_lattice(&work.arena, &l[i])) return fail(seed, "no lattice");
  }
  rspv_space_make(&work.arena, &space, count, l, id);
  count_nest(&whole, n, RSPV_DST, RSPV_SRC, RSPV_VAL);
  rspv_resolve(&work, &space, n, RSPV_DST, RSPV_VAL, &in, &out);
  count_all(&inside, &in, RSPV_VAL);
  count_all(&outside, &out, RSPV_REST);
  for (int64_t p = -REACH; p < REACH && good; p++) {
    int64_t i = p + REACH;
    bool has = false;
    for (uint32_t k = 0; k < count; k++) has |= rspv_lattice_has(&l[k], p);
    if (inside.count[i] != (has ? whole.count[i] : 0)) good = fail(seed, "resolved");
    if (outside.count[i] != (has ? 0 : whole.count[i])) good = fail(seed, "missing");
  }
  for (const struct rspv_nest *x = in.first; x && good; x = x->next) {
    int64_t value;
    if (!value_of(&space.at[x->tag], x->base[RSPV_DST], &value) || value != x->base[RSPV_VAL])
      good = fail(seed, "value of a tag");
  }
  rspv_arena_free(&work.arena);
  return good;
}

// The work for shapes that plans have must not depend on their extents.
static bool test_work(void) {
  const uint64_t sizes[2] = {128, 1 << 16};
  uint64_t used[2];
  for (int i = 0; i < 2; i++) {
    struct rspv_work work = {.left = 1000000};
    uint64_t n = sizes[i];
    struct rspv_nests in, out;
    rspv_nests_init(&in);
    rspv_nests_init(&out);
    struct rspv_digit columns[2] = {{n, (int64_t)n, (int64_t)n}, {n / 4, 1, 1}};
    struct rspv_lattice l;
    if (!rspv_lattice_make(&work.arena, (int64_t)n / 4, 0, columns, 2, &l)) return fail(0, "columns");
    struct rspv_nest *run = rspv_nest_new(&work, 1);
    memset(&run->axis[0], 0, sizeof run->axis[0]);
    run->base[RSPV_DST] = (int64_t)n / 3;
    run->axis[0].count = n * n - n;
    run->axis[0].step[RSPV_DST] = 1;
    rspv_split(&work, run, RSPV_DST, &l, RSPV_VAL, &in, &out);
    used[i] = 1000000 - work.left;
    rspv_arena_free(&work.arena);
  }
  if (used[0] != used[1]) return fail(0, "work grows with the extent");
  return true;
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, cases = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
  bool good = test_work();
  for (uint64_t i = 0; i < cases && good; i++) {
    state = (seed << 32) + i;
    draw(2);
    good = test_split(i) && test_resolve(i);
  }
  printf("nest: seed %" PRIu64 ", %" PRIu64 " cases: %s\n", seed, cases, good ? "good" : "FAILED");
  return !good;
}
