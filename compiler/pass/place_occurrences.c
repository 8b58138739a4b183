/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the pieces of the entries of a class. Out: the occurrences of its slots: what a slot holds in an entry, with its
 * position taken out, is a shape; the shapes of a slot are a family; both are interned for the whole side.
 */
#include <string.h>

#include "compiler/pass/place_impl.h"

void rsc_place_key_nest(struct placer *p, const struct rsc_nest *n, int64_t base) {
  int64_t head[3] = {n->loop_count, n->base[RSC_F_TENSOR], n->base[RSC_F_POS] - base};
  rsc_key_add(p->scratch, &p->key, head, sizeof head);
  for (int32_t i = 0; i < n->loop_count; i++) {
    int64_t loop[3] = {rsc_nest_count(n, i), rsc_nest_step(n, i, RSC_F_TENSOR), rsc_nest_step(n, i, RSC_F_POS)};
    rsc_key_add(p->scratch, &p->key, loop, sizeof loop);
  }
}

static int32_t intern_shape(struct placer *p, const struct rsc_entry *e, int32_t slot, int64_t base) {
  p->key.len = 0;
  for (size_t i = 0; i < e->pieces.len; i++)
    if (e->pieces.at[i].slot == slot) rsc_place_key_nest(p, &e->pieces.at[i].nest, base);
  bool fresh;
  int32_t id = rsc_keys_id(p->shape_keys, p->key.at, p->key.len, &fresh);
  if (!fresh) return id;
  struct rsc_shape shape = {.t_min = INT64_MAX, .t_max = -1};
  for (size_t i = 0; i < e->pieces.len; i++) {
    if (e->pieces.at[i].slot != slot) continue;
    struct rsc_nest n = rsc_nest_copy(p->arena, &e->pieces.at[i].nest, 3);
    n.base[RSC_F_POS] -= base;
    rsc_nest_normalize(&n, RSC_F_TENSOR);
    int64_t lo = n.base[RSC_F_TENSOR], hi = lo + rsc_nest_extent(&n, RSC_F_TENSOR);
    if (lo < shape.t_min) shape.t_min = lo;
    if (hi > shape.t_max) shape.t_max = hi;
    shape.elems += rsc_nest_elems(&n);
    *RSC_PUSH(p->arena, &shape.nests) = n;
  }
  *RSC_PUSH(p->arena, &p->shapes) = shape;
  return id;
}

static int32_t intern_family(struct placer *p, const struct rsc_occurrence *list, int32_t count, bool shared) {
  p->key.len = 0;
  rsc_key_int(p->scratch, &p->key, shared);
  for (int32_t i = 0; i < count; i++) rsc_key_int(p->scratch, &p->key, list[i].shape);
  bool fresh;
  int32_t id = rsc_keys_id(p->family_keys, p->key.at, p->key.len, &fresh);
  if (!fresh) return id;
  int32_t *shapes = RSC_ARRAY(p->arena, int32_t, count);
  for (int32_t i = 0; i < count; i++) shapes[i] = list[i].shape;
  *RSC_PUSH(p->arena, &p->families) = (struct rsc_family){shapes, count, shared};
  return id;
}

/* An occurrence while its entries are being collected. */
struct open_occurrence {
  int32_t shape;
  int64_t base;
  struct {
    RSC_VEC(int32_t);
  } entries;
};

struct open_occurrences {
  RSC_VEC(struct open_occurrence);
};

static void add_occurrence(struct placer *p, struct open_occurrences *list, int32_t entry, int32_t shape,
                           int64_t base) {
  struct open_occurrence *o = NULL;
  for (size_t i = list->len; i-- > 0 && !o;) /* copies stand in neighbouring entries: the search is short */
    if (list->at[i].shape == shape && list->at[i].base == base) o = &list->at[i];
  if (!o) {
    o = RSC_PUSH(p->scratch, list);
    *o = (struct open_occurrence){.shape = shape, .base = base};
  }
  *RSC_PUSH(p->scratch, &o->entries) = entry;
}

/* Numbers the sets of entries of a class. */
struct entry_sets {
  struct rsc_keys *keys;
  RSC_VEC(struct rsc_entry_set);
};

static int32_t intern_entries(struct placer *p, struct entry_sets *sets, const int32_t *at, size_t count) {
  bool fresh;
  int32_t id = rsc_keys_id(sets->keys, at, count * sizeof *at, &fresh);
  if (fresh) {
    int32_t *copy = RSC_ARRAY(p->arena, int32_t, count);
    memcpy(copy, at, count * sizeof *at);
    *RSC_PUSH(p->arena, sets) = (struct rsc_entry_set){copy, (int32_t)count};
  }
  return id;
}

static void close_slot(struct placer *p, struct entry_sets *sets, struct rsc_slot *slot,
                       const struct open_occurrences *list) {
  struct rsc_occurrence *kept = RSC_ARRAY(p->arena, struct rsc_occurrence, list->len);
  for (size_t i = 0; i < list->len; i++) {
    const struct open_occurrence *o = &list->at[i];
    kept[i] = (struct rsc_occurrence){intern_entries(p, sets, o->entries.at, o->entries.len), o->shape, o->base};
  }
  slot->occurrences = kept;
  slot->occurrence_count = (int32_t)list->len;
  slot->family = intern_family(p, kept, slot->occurrence_count, slot->shared);
}

/* One pass over the pieces finds the first position of each slot. */
void rsc_place_occurrences(struct placer *p, struct rsc_class *c, struct rsc_slot *slots) {
  struct open_occurrences *lists = RSC_ARRAY(p->scratch, struct open_occurrences, c->slot_count);
  int32_t *last = RSC_ARRAY(p->scratch, int32_t, c->slot_count); /* entry + 1 */
  for (int32_t e = 0; e < c->entry_count; e++) {
    const struct rsc_entry *entry = &c->entries[e];
    for (size_t i = 0; i < entry->pieces.len; i++) {
      int32_t s = entry->pieces.at[i].slot;
      if (s < 0 || last[s] == e + 1) continue;
      last[s] = e + 1;
      int64_t base = entry->pieces.at[i].nest.base[RSC_F_POS];
      add_occurrence(p, &lists[s], e, intern_shape(p, entry, s, base), base);
    }
  }
  struct entry_sets sets = {.keys = rsc_keys_new(p->scratch)};
  for (int32_t s = 0; s < c->slot_count; s++) close_slot(p, &sets, &slots[s], &lists[s]);
  c->entry_sets = sets.at;
  c->entry_set_count = (int32_t)sets.len;
}
