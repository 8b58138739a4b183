/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the specification sections of a plan. Out: every entry as a space of lattices, proved to give each element of the
 * buffer exactly one meaning; the profile of every rank; where each training tensor is held.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

static bool piece_lattice(struct rspv *v, const struct rsp_piece *piece, struct rspv_lattice *lattice) {
  const struct rsp_ploop *loops = v->plan->ploops + piece->loops;
  struct rspv_digit digits[64];
  if (piece->loop_count > 64) return false;
  for (uint32_t i = 0; i < piece->loop_count; i++)
    digits[i] = (struct rspv_digit){loops[i].count, (int64_t)loops[i].b_step, (int64_t)loops[i].t_step};
  return rspv_lattice_make(&v->arena, (int64_t)piece->b0, (int64_t)piece->t0, digits, piece->loop_count, lattice);
}

static struct rspv_place at_entry(const struct rspv *v, uint64_t entry, uint64_t element) {
  struct rspv_place place = RSPV_NOWHERE;
  for (uint64_t gid = 0; gid < v->plan->buffer_count; gid++) {
    const struct rsp_class *c = &v->plan->classes[v->plan->buffers[gid].klass];
    if (entry < c->entries || entry - c->entries >= c->entry_count) continue;
    place.buffer = (uint32_t)gid;
    place.lo = element;
    place.hi = element + 1;
    break;
  }
  return place;
}

/* The pieces' volumes add up to the entry (a rule of the format), so if every element is in a piece, each is in one. */
static bool prove_entry(struct rspv *v, uint64_t index) {
  const struct rsp_entry *entry = &v->plan->entries[index];
  const struct rspv_space *space = &v->entries[index].space;
  if (!entry->elems) return true;
  uint64_t total = 0;
  for (uint32_t i = 0; i < space->count; i++) total += space->at[i].volume;
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  struct rspv_nest *whole = rspv_nest_new(&v->work, entry->elems > 1);
  struct rspv_nests missing;
  rspv_nests_init(&missing);
  memset(whole->base, 0, sizeof whole->base);
  if (whole->axes) {
    memset(&whole->axis[0], 0, sizeof whole->axis[0]);
    whole->axis[0].count = entry->elems;
    whole->axis[0].step[RSPV_DST] = 1;
  }
  rspv_resolve(&v->work, space, whole, RSPV_DST, RSPV_VAL, NULL, &missing);
  bool good = total == entry->elems && !missing.first;
  uint64_t where = missing.first ? (uint64_t)missing.first->base[RSPV_DST] : 0;
  rspv_arena_release(&v->work.arena, mark);
  if (rspv_spent(v, RSPV_SPEC, at_entry(v, index, 0))) return false;
  if (!good)
    rspv_report_add(v, RSPV_SPEC, at_entry(v, index, where),
                    "no piece says what this element of the buffer is, and "
                    "another element has two meanings");
  return good;
}

static bool make_entry(struct rspv *v, uint64_t index) {
  const struct rsp_entry *entry = &v->plan->entries[index];
  struct rspv_entry *mine = &v->entries[index];
  if (entry->piece_count > UINT32_MAX / 2) return false;
  uint32_t count = (uint32_t)entry->piece_count;
  struct rspv_lattice *at = rspv_alloc(&v->arena, count * sizeof *at);
  uint32_t *id = rspv_alloc(&v->arena, count * sizeof *id);
  for (uint32_t i = 0; i < count; i++) {
    const struct rsp_piece *piece = &v->plan->pieces[entry->pieces + i];
    id[i] = (uint32_t)(entry->pieces + i);
    if (!piece_lattice(v, piece, &at[i])) {
      rspv_report_add(v, RSPV_SPEC, at_entry(v, index, piece->b0), "the loops of a piece run into each other");
      return false;
    }
    if (piece->slot == RSP_SLOT_PAD)
      mine->padding += at[i].volume;
    else if (piece->slot != RSP_SLOT_GAP)
      mine->wanted += at[i].volume;
  }
  rspv_space_make(&v->arena, &mine->space, count, at, id);
  return prove_entry(v, index);
}

bool rspv_spec(struct rspv *v) {
  uint64_t count = 0;
  for (uint64_t c = 0; c < v->plan->class_count; c++) count += v->plan->classes[c].entry_count;
  v->entries = rspv_xcalloc(count, sizeof *v->entries);
  bool good = true;
  for (uint64_t i = 0; i < count; i++) good &= make_entry(v, i);
  return good;
}

/* Rankmaps that a side's buffers use: a training rank and an inference rank of the same number may share one. */
static unsigned char *rankmap_sides(const struct rsp_plan *plan) {
  unsigned char *sides = rspv_xcalloc(plan->rankmap_count, 1);
  for (uint64_t gid = 0; gid < plan->buffer_count; gid++)
    sides[plan->buffers[gid].rankmap] |= (unsigned char)(1u << plan->buffers[gid].side);
  return sides;
}

/* holds turned round: start[r] .. start[r + 1] of list are (rankmap, entry) of side rank r. */
struct held {
  uint64_t *start;
  struct rsp_hold *list;
};

static struct held turn_holds(const struct rsp_plan *plan, const unsigned char *sides, uint32_t side, uint32_t ranks) {
  struct held h = {rspv_xcalloc((size_t)ranks + 2, sizeof *h.start), NULL};
  for (int pass = 0; pass < 2; pass++) {
    for (uint64_t m = 0; m < plan->rankmap_count; m++) {
      if (!(sides[m] >> side & 1)) continue;
      const struct rsp_rankmap *map = &plan->rankmaps[m];
      for (uint64_t i = 0; i < map->count; i++) {
        struct rsp_hold hold = plan->holds[map->holds + i];
        if (pass)
          h.list[h.start[hold.rank + 1]++] = (struct rsp_hold){(uint32_t)m, hold.entry};
        else
          h.start[hold.rank + 2]++;
      }
    }
    if (pass) break;
    for (uint32_t r = 0; r < ranks; r++) h.start[r + 2] += h.start[r + 1];
    h.list = rspv_xmalloc(h.start[ranks + 1] * sizeof *h.list);
  }
  return h;
}

static void side_profiles(struct rspv *v, const unsigned char *sides, uint32_t side) {
  const struct rsp_plan *plan = v->plan;
  uint32_t ranks = side == RSP_TRAIN ? plan->header->train_world : plan->header->infer_world;
  struct held held = turn_holds(plan, sides, side, ranks);
  uint64_t *words = rspv_xcalloc(plan->rankmap_count + 1, sizeof *words);
  words[plan->rankmap_count] = side;
  for (uint32_t r = 0; r < ranks; r++) {
    uint32_t world = v->world_of[side][r];
    bool fresh;
    for (uint64_t i = held.start[r]; i < held.start[r + 1]; i++) words[held.list[i].rank] = held.list[i].entry + 1ull;
    v->profile[side][world] = rspv_intern(&v->profiles, words, (uint32_t)plan->rankmap_count + 1, &fresh);
    for (uint64_t i = held.start[r]; i < held.start[r + 1]; i++) words[held.list[i].rank] = 0;
  }
  free(words);
  free(held.start);
  free(held.list);
}

void rspv_profiles(struct rspv *v) {
  const struct rsp_plan *plan = v->plan;
  rspv_table_init(&v->profiles, &v->arena);
  unsigned char *sides = rankmap_sides(plan);
  for (uint32_t side = 0; side < 2; side++) {
    uint32_t ranks = side == RSP_TRAIN ? plan->header->train_world : plan->header->infer_world;
    v->profile[side] = rspv_xmalloc(plan->header->world * sizeof(uint32_t));
    v->world_of[side] = rspv_xcalloc(ranks, sizeof(uint32_t));
    for (uint32_t w = 0; w < plan->header->world; w++) {
      uint32_t r = side == RSP_TRAIN ? plan->ranks[w].train_rank : plan->ranks[w].infer_rank;
      v->profile[side][w] = RSPV_NONE;
      if (r != RSP_NO_RANK) v->world_of[side][r] = w;
    }
    side_profiles(v, sides, side);
  }
  free(sides);
}

uint32_t rspv_entry_of(const struct rspv *v, uint32_t profile, uint32_t gid) {
  if (profile == RSPV_NONE) return RSPV_NONE;
  const struct rsp_buffer *b = &v->plan->buffers[gid];
  uint64_t word = v->profiles.key[profile][b->rankmap];
  return word ? (uint32_t)(v->plan->classes[b->klass].entries + word - 1) : RSPV_NONE;
}

void rspv_holders(struct rspv *v) {
  if (v->holder_start) return;
  const struct rsp_plan *plan = v->plan;
  v->holder_start = rspv_xcalloc(plan->tensor_count + 2, sizeof *v->holder_start);
  for (int pass = 0; pass < 2; pass++) {
    for (uint64_t gid = 0; gid < plan->buffer_count && plan->buffers[gid].side == RSP_TRAIN; gid++) {
      uint32_t slots = plan->classes[plan->buffers[gid].klass].slot_count;
      for (uint32_t s = 0; s < slots; s++) {
        uint32_t t = rspv_tensor_of(v, (uint32_t)gid, s);
        if (!pass) {
          v->holder_start[t + 2]++;
          continue;
        }
        uint64_t at = v->holder_start[t + 1]++;
        v->holder_gid[at] = (uint32_t)gid;
        v->holder_slot[at] = s;
      }
    }
    if (pass) break;
    for (uint64_t t = 0; t < plan->tensor_count; t++) v->holder_start[t + 2] += v->holder_start[t + 1];
    uint64_t total = v->holder_start[plan->tensor_count + 1];
    v->holder_gid = rspv_xmalloc(total * sizeof(uint32_t));
    v->holder_slot = rspv_xmalloc(total * sizeof(uint32_t));
  }
}
