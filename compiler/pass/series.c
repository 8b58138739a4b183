/* SPDX-License-Identifier: Apache-2.0
 *
 * In: tensors in order, of which each mentions the same classes in the same way. Out: nested loops over them in which
 * buffers and positions step evenly. What decides is by how much each end's buffer and position step from tensor to
 * tensor: ends that step alike have the same loops, so these are found once per pattern of steps, not per template.
 */
#include "compiler/base/keys.h"
#include "compiler/pass/intersect.h"

enum { UNKNOWN = -2, STILL = -1 }; /* numbers of steps: not looked at; none */

/* One mention of every tensor. */
struct rsc_column {
  const struct rsc_mention *at; /* per tensor; NULL: not looked at */
  const struct rsc_slot *slots; /* of the class that they all mention */
  bool one_slot;                /* all mention the same */
  int32_t gid_steps;
  int32_t *base_steps; /* per occurrence */
};

struct loops_list {
  const struct rsc_tensor_loops *at;
  size_t len;
};

struct rsc_folder {
  struct rsc_arena *arena, *temp;
  const struct rsc_pairs *pairs;
  struct rsc_keys *steps, *patterns;
  struct {
    RSC_VEC(struct loops_list);
  } found; /* per pattern */
  struct {
    RSC_VEC(int64_t);
  } deltas;
  struct rsc_key key;
};

struct rsc_folder *rsc_folder_new(struct rsc_arena *arena, const struct rsc_pairs *pairs) {
  struct rsc_folder *f = RSC_NEW(arena, struct rsc_folder);
  f->arena = arena;
  f->temp = rsc_arena_new();
  f->pairs = pairs;
  f->steps = rsc_keys_new(arena);
  f->patterns = rsc_keys_new(arena);
  return f;
}

void rsc_folder_end(struct rsc_folder *f) {
  rsc_arena_free(f->temp);
}

const struct rsc_series *rsc_series_new(struct rsc_folder *f, const int32_t *tensors, int32_t count) {
  struct rsc_series *s = RSC_NEW(f->arena, struct rsc_series);
  s->tensors = tensors;
  s->count = count;
  for (int side = 0; side < 2; side++)
    s->columns[side] = RSC_ARRAY(f->arena, struct rsc_column, f->pairs->tensors[tensors[0]].by_side[side].count);
  return s;
}

/* ---- steps ---- */

static struct rsc_column *look_at(struct rsc_folder *f, const struct rsc_series *s, enum rsc_side side,
                                  int32_t mention) {
  struct rsc_column *c = &s->columns[side][mention];
  if (c->at) return c;
  struct rsc_mention *at = RSC_ARRAY(f->arena, struct rsc_mention, s->count);
  c->one_slot = true;
  for (int32_t i = 0; i < s->count; i++) {
    at[i] = f->pairs->tensors[s->tensors[i]].by_side[side].at[mention];
    c->one_slot &= at[i].slot == at[0].slot;
  }
  const struct rsc_class *klass = rsc_class_of(f->pairs, at[0].gid);
  int32_t occurrences = klass->slots[at[0].slot].occurrence_count;
  c->at = at;
  c->slots = klass->slots;
  c->gid_steps = UNKNOWN;
  c->base_steps = RSC_ARRAY(f->arena, int32_t, occurrences);
  for (int32_t o = 0; o < occurrences; o++) c->base_steps[o] = c->one_slot ? STILL : UNKNOWN;
  return c;
}

/* The number of the steps in f->deltas. */
static int32_t number_steps(struct rsc_folder *f) {
  for (size_t i = 0; i < f->deltas.len; i++)
    if (f->deltas.at[i]) return rsc_keys_id(f->steps, f->deltas.at, f->deltas.len * sizeof *f->deltas.at, NULL);
  return STILL;
}

static int32_t gid_steps(struct rsc_folder *f, const struct rsc_series *s, const struct rsc_column *c) {
  f->deltas.len = 0;
  for (int32_t i = 1; i < s->count; i++) *RSC_PUSH(f->arena, &f->deltas) = c->at[i].gid - c->at[i - 1].gid;
  return number_steps(f);
}

static int32_t base_steps(struct rsc_folder *f, const struct rsc_series *s, const struct rsc_column *c,
                          int32_t occurrence) {
  f->deltas.len = 0;
  int64_t before = c->slots[c->at[0].slot].occurrences[occurrence].base;
  for (int32_t i = 1; i < s->count; i++) {
    int64_t base = c->slots[c->at[i].slot].occurrences[occurrence].base;
    *RSC_PUSH(f->arena, &f->deltas) = base - before;
    before = base;
  }
  return number_steps(f);
}

/* ---- loops ---- */

static void add_steps(struct rsc_folder *f, int32_t steps) {
  const int32_t *known = (const void *)f->key.at;
  if (steps == STILL) return;
  for (size_t i = 1; i < f->key.len / sizeof steps; i++)
    if (known[i] == steps) return;
  rsc_key_add(f->arena, &f->key, &steps, sizeof steps);
}

/* The tensors as vectors that step so. */
static int64_t *vectors(struct rsc_folder *f, const int32_t *steps, int32_t words, int32_t count) {
  int64_t *items = RSC_ARRAY(f->temp, int64_t, (size_t)words * (size_t)count);
  for (int32_t w = 0; w < words; w++) {
    const int64_t *deltas = rsc_keys_bytes(f->steps, steps[w], NULL);
    for (int32_t i = 1; i < count; i++)
      items[(int64_t)i * words + w] = items[(int64_t)(i - 1) * words + w] + deltas[i - 1];
  }
  return items;
}

static struct loops_list find_loops(struct rsc_folder *f, const int32_t *steps, int32_t words, int32_t count) {
  rsc_arena_reset(f->temp);
  struct rsc_folds folds = rsc_fold_items(f->temp, vectors(f, steps, words, count), count, words);
  struct rsc_tensor_loops *loops = RSC_ARRAY(f->arena, struct rsc_tensor_loops, folds.len);
  int64_t first = 0;
  for (size_t i = 0; i < folds.len; i++) {
    int64_t *counts = RSC_ARRAY(f->arena, int64_t, folds.at[i].loop_count), tensors = 1;
    for (int32_t k = 0; k < folds.at[i].loop_count; k++) tensors *= counts[k] = folds.at[i].loops[k * (1 + words)];
    loops[i] = (struct rsc_tensor_loops){first, folds.at[i].loop_count, counts};
    first += tensors;
  }
  return (struct loops_list){loops, folds.len};
}

const struct rsc_tensor_loops *rsc_series_fold(struct rsc_folder *f, const struct rsc_series *s,
                                               const struct rsc_template *tp, size_t *count) {
  f->key.len = 0;
  rsc_key_add(f->arena, &f->key, &s->count, sizeof s->count);
  for (int32_t k = 0; k < tp->wants + tp->holds; k++) {
    enum rsc_side side = tp->ends[k].wants ? RSC_INFER : RSC_TRAIN;
    struct rsc_column *c = look_at(f, s, side, tp->ends[k].mention);
    int32_t *base = &c->base_steps[tp->ends[k].occurrence];
    if (c->gid_steps == UNKNOWN) c->gid_steps = gid_steps(f, s, c);
    if (*base == UNKNOWN) *base = base_steps(f, s, c, tp->ends[k].occurrence);
    add_steps(f, c->gid_steps);
    add_steps(f, *base);
  }
  bool fresh;
  int32_t words = (int32_t)(f->key.len / sizeof(int32_t)) - 1;
  int32_t id = rsc_keys_id(f->patterns, f->key.at, f->key.len, &fresh);
  if (fresh) {
    struct loops_list found = find_loops(f, (const int32_t *)(const void *)f->key.at + 1, words, s->count);
    *RSC_PUSH(f->arena, &f->found) = found;
  }
  *count = f->found.at[id].len;
  return f->found.at[id].at;
}
