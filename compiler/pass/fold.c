/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a list of vectors. Out: the same list as nested loops. Each pass joins maximal runs of neighbours that have the
 * same loops and a constant difference; passes repeat until nothing joins, so layers x experts become two loops.
 */
#include <string.h>

#include "compiler/pass/intersect.h"

static bool same_loops(const struct rsc_fold *a, const struct rsc_fold *b, int32_t words) {
  return a->loop_count == b->loop_count &&
         (a->loops == b->loops ||
          !memcmp(a->loops, b->loops, (size_t)a->loop_count * (size_t)(1 + words) * sizeof *a->loops));
}

static bool steps_by(const struct rsc_fold *a, const struct rsc_fold *b, const int64_t *delta, int32_t words) {
  for (int32_t w = 0; w < words; w++)
    if (b->base[w] - a->base[w] != delta[w]) return false;
  return true;
}

/* `first` repeated `count` times by `delta`. */
static struct rsc_fold wrap(struct rsc_arena *arena, const struct rsc_fold *first, int64_t count, const int64_t *delta,
                            int32_t words) {
  size_t stride = (size_t)(1 + words);
  int64_t *loops = RSC_ARRAY(arena, int64_t, (size_t)(first->loop_count + 1) * stride);
  loops[0] = count;
  memcpy(loops + 1, delta, (size_t)words * sizeof *delta);
  if (first->loop_count) memcpy(loops + stride, first->loops, (size_t)first->loop_count * stride * sizeof *loops);
  return (struct rsc_fold){first->loop_count + 1, first->base, loops};
}

static bool fold_pass(struct rsc_arena *arena, struct rsc_folds *list, int32_t words) {
  struct rsc_folds out = {0};
  int64_t *delta = RSC_ARRAY(arena, int64_t, words);
  for (size_t i = 0; i < list->len;) {
    size_t end = i + 1;
    if (end < list->len && same_loops(&list->at[i], &list->at[end], words)) {
      for (int32_t w = 0; w < words; w++) delta[w] = list->at[end].base[w] - list->at[i].base[w];
      while (end < list->len && same_loops(&list->at[i], &list->at[end], words) &&
             steps_by(&list->at[end - 1], &list->at[end], delta, words))
        end++;
    }
    *RSC_PUSH(arena, &out) = end - i == 1 ? list->at[i] : wrap(arena, &list->at[i], (int64_t)(end - i), delta, words);
    i = end;
  }
  bool shorter = out.len < list->len;
  *list = out;
  return shorter;
}

struct rsc_folds rsc_fold_items(struct rsc_arena *arena, const int64_t *items, int64_t count, int32_t words) {
  struct rsc_folds list = {0};
  RSC_RESERVE(arena, &list, count);
  for (int64_t i = 0; i < count; i++) *RSC_PUSH(arena, &list) = (struct rsc_fold){0, items + i * words, NULL};
  while (fold_pass(arena, &list, words)) {
  }
  return list;
}
