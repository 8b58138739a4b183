// SPDX-License-Identifier: Apache-2.0
//
// In: a plan whose strings, tensors and ranks are sound. Out: yes, or the first rule that classes, buffers, rankmaps or
// the summary break. What a class asks of its tensors is worked out once per class, so that the work is linear
// although many buffers share a class.
#include "plans/check.h"

#include <math.h>
#include <stdlib.h>

// What the pieces of a class ask of a slot: a tensor of at least `extent` elements, and a conversion by each op.
struct slot_need {
  uint64_t extent;
  bool ops[RSP_OP_ADD + 1];
};

struct class_need {
  uint64_t max_elems; /* of its largest entry */
  uint64_t slots;     /* index of its first slot_need */
  bool replica, neg_exp;
};

struct rankmap_need {
  uint64_t ranks, entries; /* one more than the largest it names */
};

struct needs {
  const struct rsp_check *check;
  const struct rsp_plan *plan;
  struct class_need *classes;
  struct slot_need *slots;
  struct rankmap_need *rankmaps;
};

static uint64_t rows_of(const struct needs *n, enum rsp_section_kind kind) {
  return n->plan->header->sections[kind].count;
}

static bool check_piece_loops(const struct needs *n, const struct rsp_piece *p, const struct rsp_entry *entry,
                              uint64_t *elems, uint64_t *extent) {
  const struct rsp_check *check = n->check;
  uint64_t t = p->t0, b = p->b0, last = UINT64_MAX;
  *elems = 1;
  if (p->loop_count > RSP_MAX_NEST || !rsp_inside(p->loops, p->loop_count, rows_of(n, RSP_SEC_PLOOPS)))
    return rsp_broken(check, RSP_RULE_PIECE_LOOPS, p, NULL);
  for (uint32_t i = 0; i < p->loop_count; i++) {
    const struct rsp_ploop *loop = &n->plan->ploops[p->loops + i];
    if (!loop->count || !loop->b_step) return rsp_broken(check, RSP_RULE_PLOOP_COUNT, loop, NULL);
    if (loop->b_step > last) return rsp_broken(check, RSP_RULE_PLOOP_ORDER, loop, NULL);
    last = loop->b_step;
    if (p->slot >= RSP_SLOT_GAP && loop->t_step) return rsp_broken(check, RSP_RULE_PIECE_EMPTY, loop, NULL);
    if (__builtin_mul_overflow(*elems, loop->count, elems) || rsp_extent(&t, loop->count, loop->t_step) ||
        rsp_extent(&b, loop->count, loop->b_step))
      return rsp_broken(check, RSP_RULE_PIECE_EXTENT, p, NULL);
  }
  if (b >= entry->elems || t >= INT64_MAX) return rsp_broken(check, RSP_RULE_PIECE_EXTENT, p, NULL);
  *extent = t + 1;
  return true;
}

static bool check_piece(const struct needs *n, const struct rsp_piece *p, const struct rsp_class *klass,
                        const struct rsp_entry *entry, struct class_need *need, uint64_t *elems) {
  const struct rsp_check *check = n->check;
  bool empty = p->slot >= RSP_SLOT_GAP;
  uint32_t constant;
  __builtin_memcpy(&constant, &p->constant, sizeof constant);
  if (p->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, p, "piece");
  if (p->op > RSP_OP_ADD || (p->flags & ~RSP_PIECE_REPLICA) || (constant && p->op != RSP_OP_ADD))
    return rsp_broken(check, RSP_RULE_PIECE_OP, p, "op %u, flags %x", p->op, p->flags);
  if (!empty && p->slot >= klass->slot_count) return rsp_broken(check, RSP_RULE_PIECE_SLOT, p, "slot %u", p->slot);
  if (empty && (p->t0 || p->op || p->flags)) return rsp_broken(check, RSP_RULE_PIECE_EMPTY, p, NULL);
  uint64_t extent;
  if (!check_piece_loops(n, p, entry, elems, &extent)) return false;
  if (empty) return true;
  struct slot_need *slot = &n->slots[need->slots + p->slot];
  if (extent > slot->extent) slot->extent = extent;
  slot->ops[p->op] = true;
  need->replica |= (p->flags & RSP_PIECE_REPLICA) != 0;
  need->neg_exp |= p->op == RSP_OP_NEG_EXP;
  return true;
}

static bool check_entry(const struct needs *n, const struct rsp_entry *e, const struct rsp_class *klass,
                        struct class_need *need, uint64_t *next_piece) {
  const struct rsp_check *check = n->check;
  uint64_t product, sum = 0, elems;
  if (e->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, e, "entry");
  if (e->ndim > RSP_MAX_NDIM || !rsp_inside(e->dims, e->ndim, rows_of(n, RSP_SEC_DIMS)) ||
      rsp_product(n->plan->dims + e->dims, e->ndim, &product) || product != e->elems)
    return rsp_broken(check, RSP_RULE_ENTRY_DIMS, e, NULL);
  if (e->pieces != *next_piece || !rsp_inside(e->pieces, e->piece_count, rows_of(n, RSP_SEC_PIECES)))
    return rsp_broken(check, RSP_RULE_ENTRY_PIECES, e, NULL);
  *next_piece += e->piece_count;
  const struct rsp_piece *pieces = n->plan->pieces + e->pieces;
  for (uint64_t i = 0; i < e->piece_count; i++) {
    if (i && pieces[i].b0 <= pieces[i - 1].b0) return rsp_broken(check, RSP_RULE_PIECE_ORDER, &pieces[i], NULL);
    if (!check_piece(n, &pieces[i], klass, e, need, &elems)) return false;
    // Cannot overflow unnoticed: sum stays at most e->elems, which fits 63 bits, and so must each addend.
    if (elems > e->elems || (sum += elems) > e->elems) return rsp_broken(check, RSP_RULE_ENTRY_COVER, e, NULL);
  }
  if (sum != e->elems)
    return rsp_broken(check, RSP_RULE_ENTRY_COVER, e, "%llu of %llu", (unsigned long long)sum,
                      (unsigned long long)e->elems);
  if (e->elems > need->max_elems) need->max_elems = e->elems;
  return true;
}

static bool check_classes(const struct needs *n) {
  const struct rsp_check *check = n->check;
  const struct rsp_plan *plan = n->plan;
  uint64_t next_entry = 0, next_piece = 0, next_slot = 0;
  for (uint64_t c = 0; c < plan->class_count; c++) {
    const struct rsp_class *klass = &plan->classes[c];
    if (klass->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, klass, "class");
    if (klass->entries != next_entry || !rsp_inside(klass->entries, klass->entry_count, rows_of(n, RSP_SEC_ENTRIES)))
      return rsp_broken(check, RSP_RULE_CLASS_ENTRIES, klass, NULL);
    next_entry += klass->entry_count;
    if (!rsp_inside(next_slot, klass->slot_count, rows_of(n, RSP_SEC_SLOTS)))
      return rsp_broken(check, RSP_RULE_CLASS_SLOTS, klass, NULL);
    struct class_need *need = &n->classes[c];
    need->slots = next_slot;
    next_slot += klass->slot_count;
    for (uint64_t i = 0; i < klass->entry_count; i++)
      if (!check_entry(n, &plan->entries[klass->entries + i], klass, need, &next_piece)) return false;
  }
  if (next_entry != rows_of(n, RSP_SEC_ENTRIES))
    return rsp_broken(check, RSP_RULE_CLASS_ENTRIES, plan->classes, "an entry has no class");
  if (next_piece != rows_of(n, RSP_SEC_PIECES))
    return rsp_broken(check, RSP_RULE_ENTRY_PIECES, plan->entries, "a piece has no entry");
  return true;
}

static bool check_rankmaps(const struct needs *n) {
  const struct rsp_check *check = n->check;
  uint64_t next = 0;
  for (uint64_t m = 0; m < n->plan->rankmap_count; m++) {
    const struct rsp_rankmap *map = &n->plan->rankmaps[m];
    if (map->holds != next || !rsp_inside(map->holds, map->count, rows_of(n, RSP_SEC_HOLDS)))
      return rsp_broken(check, RSP_RULE_RANKMAP_HOLDS, map, NULL);
    next += map->count;
    struct rankmap_need *need = &n->rankmaps[m];
    for (uint64_t i = map->holds; i < next; i++) {
      const struct rsp_hold *hold = &n->plan->holds[i];
      if (hold->rank < need->ranks) return rsp_broken(check, RSP_RULE_RANKMAP_ORDER, hold, "rank %u", hold->rank);
      need->ranks = (uint64_t)hold->rank + 1;
      if (hold->entry >= need->entries) need->entries = (uint64_t)hold->entry + 1;
    }
  }
  if (next != rows_of(n, RSP_SEC_HOLDS))
    return rsp_broken(check, RSP_RULE_RANKMAP_HOLDS, n->plan->rankmaps, "a hold has no rankmap");
  return true;
}

static bool check_slot(const struct needs *n, const struct rsp_buffer *b, const struct slot_need *need,
                       const uint32_t *slot) {
  if (*slot >= n->plan->tensor_count) return rsp_broken(n->check, RSP_RULE_SLOT_TENSOR, slot, "tensor %u", *slot);
  const struct rsp_tensor *t = &n->plan->tensors[*slot];
  if (need->extent > t->elems)
    return rsp_broken(n->check, RSP_RULE_SLOT_EXTENT, slot, "%llu of %llu elements", (unsigned long long)need->extent,
                      (unsigned long long)t->elems);
  uint32_t from = b->side == RSP_TRAIN ? b->dtype : t->dtype, to = b->side == RSP_TRAIN ? t->dtype : b->dtype;
  for (uint32_t op = 0; op <= RSP_OP_ADD; op++)
    if (need->ops[op] && !rsp_conversion_legal(from, to, op))
      return rsp_broken(n->check, RSP_RULE_SLOT_DTYPE, slot, "%s to %s", rsp_dtype_word(from), rsp_dtype_word(to));
  return true;
}

static bool check_buffer_refs(const struct needs *n, const struct rsp_buffer *b) {
  const struct rsp_check *check = n->check;
  const struct rsp_header *h = n->plan->header;
  if (!rsp_check_str(check, n->plan, &b->name)) return false;
  if (b->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, b, "buffer");
  if (b->klass >= n->plan->class_count) return rsp_broken(check, RSP_RULE_BUFFER_CLASS, b, "class %u", b->klass);
  if (b->rankmap >= n->plan->rankmap_count)
    return rsp_broken(check, RSP_RULE_BUFFER_RANKMAP, b, "rankmap %u", b->rankmap);
  if (b->file >= n->plan->file_count) return rsp_broken(check, RSP_RULE_BUFFER_FILE, b, "file %u", b->file);
  const struct rankmap_need *map = &n->rankmaps[b->rankmap];
  if (map->ranks > (b->side == RSP_TRAIN ? h->train_world : h->infer_world) ||
      map->entries > n->plan->classes[b->klass].entry_count)
    return rsp_broken(check, RSP_RULE_BUFFER_HOLDS, b, NULL);
  return true;
}

static bool check_buffer(const struct needs *n, const struct rsp_buffer *b, uint64_t *next_slot) {
  const struct rsp_check *check = n->check;
  if (!check_buffer_refs(n, b)) return false;
  const struct class_need *need = &n->classes[b->klass];
  uint64_t bytes, slot_count = n->plan->classes[b->klass].slot_count;
  if (!rsp_dtype_bytes(b->dtype) ||
      __builtin_mul_overflow(need->max_elems, (uint64_t)rsp_dtype_bytes(b->dtype), &bytes) || bytes > INT64_MAX)
    return rsp_broken(check, RSP_RULE_BUFFER_DTYPE, b, "dtype %u", b->dtype);
  if ((need->replica && b->side != RSP_TRAIN) || (need->neg_exp && b->side != RSP_INFER))
    return rsp_broken(check, RSP_RULE_BUFFER_OPS, b, NULL);
  if (b->slots != *next_slot || !rsp_inside(b->slots, slot_count, rows_of(n, RSP_SEC_SLOTS)))
    return rsp_broken(check, RSP_RULE_BUFFER_SLOTS, b, NULL);
  *next_slot += slot_count;
  for (uint64_t s = 0; s < slot_count; s++)
    if (!check_slot(n, b, &n->slots[need->slots + s], &n->plan->slots[b->slots + s])) return false;
  return true;
}

static bool check_buffers(const struct needs *n) {
  uint64_t next_slot = 0;
  uint32_t side = RSP_TRAIN;
  if (n->plan->buffer_count > UINT32_MAX)
    return rsp_broken(n->check, RSP_RULE_BUFFER_SIDE, n->plan->buffers, "more buffers than gids");
  for (uint64_t i = 0; i < n->plan->buffer_count; i++) {
    const struct rsp_buffer *b = &n->plan->buffers[i];
    if (b->side > RSP_INFER || b->side < side) return rsp_broken(n->check, RSP_RULE_BUFFER_SIDE, b, NULL);
    side = b->side;
    if (!check_buffer(n, b, &next_slot)) return false;
  }
  if (next_slot != rows_of(n, RSP_SEC_SLOTS))
    return rsp_broken(n->check, RSP_RULE_BUFFER_SLOTS, n->plan->buffers, "a slot has no buffer");
  return true;
}

static bool check_summary(const struct rsp_check *check, const struct rsp_summary *s) {
  if (s->wanted_bytes != s->bytes) return rsp_broken(check, RSP_RULE_SUMMARY, &s->wanted_bytes, NULL);
  for (const double *v = &s->bound_seconds; v <= &s->issue_seconds; v++)
    if (!(*v >= 0) || !isfinite(*v)) return rsp_broken(check, RSP_RULE_SUMMARY, v, NULL);
  return true;
}

bool rsp_check_buffers(const struct rsp_check *check, const struct rsp_plan *plan) {
  struct needs n = {.check = check, .plan = plan};
  // One more than the rows, so that an empty section is no failed allocation.
  n.classes = calloc((size_t)plan->class_count + 1, sizeof *n.classes);
  n.slots = calloc((size_t)rows_of(&n, RSP_SEC_SLOTS) + 1, sizeof *n.slots);
  n.rankmaps = calloc((size_t)plan->rankmap_count + 1, sizeof *n.rankmaps);
  bool good = n.classes && n.slots && n.rankmaps ? check_classes(&n) && check_rankmaps(&n) && check_buffers(&n)
                                                 : rsp_no_memory(check);
  free(n.classes);
  free(n.slots);
  free(n.rankmaps);
  return good && check_summary(check, plan->summary);
}
