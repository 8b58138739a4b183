/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a set of lattices and a nest. Out: which part of the nest lies in which lattice, and what lies in none. A nest is
 * split by the lattice that has its first position; what is outside goes round again. Only a position that nothing
 * has costs a walk through every lattice in reach.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/nest.h"

struct item {
  struct rspv_lattice lattice;
  uint32_t id, order;
};

static int by_base(const void *a, const void *b) {
  const struct item *x = a, *y = b;
  if (x->lattice.base != y->lattice.base) return x->lattice.base < y->lattice.base ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

void rspv_space_make(struct rspv_arena *arena, struct rspv_space *space, uint32_t count, struct rspv_lattice *at,
                     uint32_t *id) {
  struct item *items = rspv_xmalloc(count * sizeof *items);
  for (uint32_t i = 0; i < count; i++) items[i] = (struct item){at[i], id[i], i};
  if (count) qsort(items, count, sizeof *items, by_base);
  space->count = count;
  space->at = at;
  space->id = id;
  space->reach = rspv_alloc(arena, count * sizeof *space->reach);
  for (uint32_t i = 0; i < count; i++) {
    at[i] = items[i].lattice;
    id[i] = items[i].id;
    space->reach[i] = i && space->reach[i - 1] > at[i].last ? space->reach[i - 1] : at[i].last;
  }
  free(items);
}

/* How many lattices have a base of at most `position`. */
static uint32_t bases_to(const struct rspv_space *space, int64_t position) {
  uint32_t lo = 0, hi = space->count;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (space->at[mid].base <= position)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static bool find(const struct rspv_space *space, int64_t position, uint32_t *index) {
  for (uint32_t i = bases_to(space, position); i-- > 0 && space->reach[i] >= position;) {
    if (rspv_lattice_has(&space->at[i], position)) {
      *index = i;
      return true;
    }
  }
  return false;
}

/* Splits by one lattice: the inside is tagged and kept, the outside is added to `rest`. */
static void split_by(struct rspv_work *work, const struct rspv_space *space, uint32_t index,
                     const struct rspv_nest *nest, enum rspv_func f, enum rspv_func g, struct rspv_nests *in,
                     struct rspv_nests *rest) {
  struct rspv_nests inside;
  rspv_nests_init(&inside);
  rspv_split(work, nest, f, &space->at[index], g, &inside, rest);
  if (!in) return;
  for (struct rspv_nest *n = inside.first; n; n = n->next) n->tag = index;
  rspv_nests_join(in, &inside);
}

/* The first position of `nest` is nowhere. */
static void split_by_all(struct rspv_work *work, const struct rspv_space *space, struct rspv_nest *nest,
                         enum rspv_func f, enum rspv_func g, struct rspv_nests *in, struct rspv_nests *missing) {
  struct rspv_nests now, rest;
  int64_t lo, hi;
  rspv_nest_range(nest, f, &lo, &hi);
  rspv_nests_init(&now);
  rspv_nests_add(&now, nest);
  for (uint32_t i = bases_to(space, hi); i-- > 0 && space->reach[i] >= lo && work->left;) {
    rspv_nests_init(&rest);
    for (struct rspv_nest *n = now.first; n; n = n->next) split_by(work, space, i, n, f, g, in, &rest);
    now.first = rest.first;
    now.last = rest.first ? rest.last : &now.first;
  }
  if (missing) rspv_nests_join(missing, &now);
}

void rspv_resolve(struct rspv_work *work, const struct rspv_space *space, const struct rspv_nest *nest,
                  enum rspv_func f, enum rspv_func g, struct rspv_nests *in, struct rspv_nests *missing) {
  struct rspv_nests todo;
  rspv_nests_init(&todo);
  rspv_nests_add(&todo, rspv_nest_copy(work, nest));
  while (todo.first && work->left) {
    struct rspv_nest *n = todo.first;
    todo.first = n->next;
    if (!todo.first) todo.last = &todo.first;
    uint32_t index;
    struct rspv_nests rest;
    rspv_nests_init(&rest);
    if (find(space, n->base[f], &index)) {
      split_by(work, space, index, n, f, g, in, &rest);
      rspv_nests_join(&todo, &rest);
    } else {
      n->next = NULL;
      split_by_all(work, space, n, f, g, in, missing);
    }
  }
}
