/* SPDX-License-Identifier: Apache-2.0
 *
 * In: an entry and the stretches of it that arrive. Out: a verdict, which holds for every buffer of that entry.
 *
 * The proof counts: if every wanted element lies in a stretch, and all stretches together have no more elements than
 * that, then each wanted element is written once and nothing else is.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

static struct rspv_nest *nest_of(struct rspv *v, const struct rspv_lattice *lattice) {
  struct rspv_nest *n = rspv_nest_new(&v->work, lattice->digits);
  n->base[RSPV_DST] = lattice->base;
  n->base[RSPV_VAL] = lattice->value;
  for (uint32_t i = 0; i < lattice->digits; i++) {
    memset(&n->axis[i], 0, sizeof n->axis[i]);
    n->axis[i].count = lattice->digit[i].count;
    n->axis[i].step[RSPV_DST] = lattice->digit[i].step;
    n->axis[i].step[RSPV_VAL] = lattice->digit[i].weight;
  }
  return n;
}

static struct rspv_space space_of(struct rspv *v, const struct rspv_lattice *lattices, uint32_t count) {
  struct rspv_lattice *at = rspv_alloc(&v->work.arena, count * sizeof *at);
  uint32_t *id = rspv_alloc(&v->work.arena, count * sizeof *id);
  for (uint32_t i = 0; i < count; i++) {
    at[i] = lattices[i];
    id[i] = i;
  }
  struct rspv_space space;
  rspv_space_make(&v->work.arena, &space, count, at, id);
  return space;
}

static void add_hole(struct rspv *v, struct rspv_verdict *verdict, uint32_t slot, const struct rspv_nest *nest) {
  struct rspv_hole *hole = rspv_alloc(&v->arena, sizeof *hole);
  size_t bytes = sizeof *nest + nest->axes * sizeof nest->axis[0];
  hole->nest = rspv_alloc(&v->arena, bytes);
  memcpy(hole->nest, nest, bytes);
  hole->slot = slot;
  hole->next = verdict->holes;
  verdict->holes = hole;
}

/* How much of the piece arrives; holes are kept. */
static uint64_t check_piece(struct rspv *v, const struct rspv_space *arrived, const struct rspv_lattice *lattice,
                            uint32_t slot, struct rspv_verdict *verdict) {
  struct rspv_nests in, missing;
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  uint64_t covered = 0;
  rspv_nests_init(&in);
  rspv_nests_init(&missing);
  rspv_resolve(&v->work, arrived, nest_of(v, lattice), RSPV_DST, RSPV_VAL2, &in, &missing);
  for (const struct rspv_nest *n = in.first; n; n = n->next) covered += rspv_nest_volume(n);
  for (const struct rspv_nest *n = missing.first; n; n = n->next) add_hole(v, verdict, slot, n);
  if (covered) verdict->slots[verdict->slot_count++] = slot;
  rspv_arena_release(&v->work.arena, mark);
  return covered;
}

/* Something arrives that is not wanted: which element of the buffer? */
static void find_double(struct rspv *v, const struct rspv_space *meaning, const struct rspv_space *arrived,
                        struct rspv_verdict *verdict) {
  verdict->doubled = true;
  struct rspv_nests in;
  for (uint32_t i = 0; i < arrived->count; i++) {
    rspv_nests_init(&in);
    rspv_resolve(&v->work, meaning, nest_of(v, &arrived->at[i]), RSPV_DST, RSPV_VAL, &in, NULL);
    for (const struct rspv_nest *n = in.first; n; n = n->next) {
      if (v->plan->pieces[meaning->id[n->tag]].slot < RSP_SLOT_GAP) continue;
      verdict->padding = true;
      verdict->where = (uint64_t)n->base[RSPV_DST];
      return;
    }
  }
  for (uint32_t i = 1; i < arrived->count; i++) {
    for (uint32_t j = i; j-- > 0 && arrived->reach[j] >= arrived->at[i].base && v->work.left;) {
      rspv_nests_init(&in);
      rspv_split(&v->work, nest_of(v, &arrived->at[i]), RSPV_DST, &arrived->at[j], RSPV_VAL, &in, NULL);
      if (!in.first) continue;
      verdict->where = (uint64_t)in.first->base[RSPV_DST];
      return;
    }
  }
}

struct rspv_verdict *rspv_wanted(struct rspv *v, uint32_t entry, const uint32_t *stretches, uint32_t count) {
  const struct rspv_entry *e = &v->entries[entry];
  struct rspv_verdict *verdict = rspv_alloc(&v->arena, sizeof *verdict);
  memset(verdict, 0, sizeof *verdict);
  verdict->wanted = e->wanted;
  verdict->slots = rspv_alloc(&v->arena, e->space.count * sizeof *verdict->slots);
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  struct rspv_lattice *lattices = rspv_alloc(&v->work.arena, count * sizeof *lattices);
  for (uint32_t i = 0; i < count; i++) lattices[i] = v->stretches[stretches[i]];
  struct rspv_space arrived = space_of(v, lattices, count);
  uint64_t covered = 0;
  for (uint32_t i = 0; i < count; i++) verdict->delivered += lattices[i].volume;
  for (uint32_t i = 0; i < e->space.count && v->work.left; i++) {
    uint32_t slot = v->plan->pieces[e->space.id[i]].slot;
    if (slot < RSP_SLOT_GAP) covered += check_piece(v, &arrived, &e->space.at[i], slot, verdict);
  }
  if (covered != verdict->delivered) find_double(v, &e->space, &arrived, verdict);
  rspv_arena_release(&v->work.arena, mark);
  return verdict;
}

bool rspv_padding(struct rspv *v, uint32_t entry, const struct rspv_lattice *zeros, uint32_t count, uint64_t *where) {
  const struct rspv_entry *e = &v->entries[entry];
  uint64_t total = 0;
  bool good = true;
  for (uint32_t i = 0; i < count; i++) total += zeros[i].volume;
  *where = count ? (uint64_t)zeros[0].base : 0;
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  struct rspv_space zeroed = space_of(v, zeros, count);
  for (uint32_t i = 0; i < e->space.count && good && e->padding; i++) {
    if (v->plan->pieces[e->space.id[i]].slot != RSP_SLOT_PAD) continue;
    struct rspv_nests missing;
    rspv_nests_init(&missing);
    rspv_resolve(&v->work, &zeroed, nest_of(v, &e->space.at[i]), RSPV_DST, RSPV_VAL2, NULL, &missing);
    if (!missing.first) continue;
    *where = (uint64_t)missing.first->base[RSPV_DST];
    good = false;
  }
  rspv_arena_release(&v->work.arena, mark);
  return good && total == e->padding && v->work.left;
}

/* A piece as a set of tensor elements. */
static bool piece_in_tensor(struct rspv *v, const struct rspv_lattice *piece, struct rspv_lattice *lattice) {
  struct rspv_digit *d = rspv_alloc(&v->work.arena, piece->digits * sizeof *d);
  for (uint32_t i = 0; i < piece->digits; i++)
    d[i] = (struct rspv_digit){piece->digit[i].count, piece->digit[i].weight, piece->digit[i].step};
  return rspv_lattice_make(&v->work.arena, piece->value, piece->base, d, piece->digits, lattice);
}

static bool entry_supplies(struct rspv *v, uint32_t entry, uint32_t slot, const struct rspv_nest *nest) {
  const struct rspv_space *space = &v->entries[entry].space;
  struct rspv_lattice lattice;
  for (uint32_t i = 0; i < space->count; i++) {
    if (v->plan->pieces[space->id[i]].slot != slot) continue;
    if (!piece_in_tensor(v, &space->at[i], &lattice)) return true; /* not provable, so not excused */
    struct rspv_nests in;
    rspv_nests_init(&in);
    rspv_split(&v->work, nest, RSPV_VAL, &lattice, RSPV_VAL2, &in, NULL);
    if (in.first) return true;
  }
  return false;
}

bool rspv_supplied(struct rspv *v, uint32_t tensor, const struct rspv_nest *nest) {
  rspv_holders(v);
  const struct rsp_plan *plan = v->plan;
  for (uint64_t h = v->holder_start[tensor]; h < v->holder_start[tensor + 1]; h++) {
    const struct rsp_buffer *b = &plan->buffers[v->holder_gid[h]];
    const struct rsp_rankmap *map = &plan->rankmaps[b->rankmap];
    uint64_t entries = plan->classes[b->klass].entry_count, first = plan->classes[b->klass].entries;
    unsigned char *seen = rspv_xcalloc(entries, 1);
    bool found = false;
    for (uint64_t i = 0; i < map->count && !found; i++) {
      uint32_t entry = plan->holds[map->holds + i].entry;
      if (seen[entry]) continue;
      seen[entry] = 1;
      struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
      found = entry_supplies(v, (uint32_t)first + entry, v->holder_slot[h], nest);
      rspv_arena_release(&v->work.arena, mark);
    }
    free(seen);
    if (found) return true;
  }
  return false;
}
