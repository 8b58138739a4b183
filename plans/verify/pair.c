/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a sender's body, a receiver's body, a range of their elements. Out: proof that element k of one is, by the
 * specification, the same tensor's same element as element k of the other, converted as both buffers demand.
 * Descriptors are joined one to one; each joint nest is split by the pieces of the source, then by those of the
 * destination; on what is left both tensor indices are affine and must be the same function.
 *
 * A proof for whole bodies holds for every range and for all ranks with the same programs and the same entries.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

/* What one joint nest was found to be: pairs of slots, or what is wrong. Holds for all buffers of the same two entries.
 */
struct finding {
  const char *wrong;
  enum rspv_kind kind;
  uint32_t dst_slot; /* where it is wrong: RSPV_NONE for no tensor */
  uint64_t lo, hi;
  uint32_t count;
  struct rspv_slots {
    uint32_t src, dst;
  } * slots;
};

struct pair {
  struct rspv *v;
  const struct rspv_end *src, *dst;
  const struct rsp_shape *src_shape, *dst_shape;
  uint32_t desc;
  bool quiet, good;
  uint32_t round;
  struct rspv_arena arena;
  struct rspv_table table; /* words of a joint nest -> number of its finding */
  struct finding **findings;
  size_t count, capacity;
};

static void fail(struct pair *p, enum rspv_kind kind, uint32_t tensor, const struct rspv_visit *visit, uint64_t lo,
                 uint64_t hi, const char *what) {
  p->good = false;
  if (p->quiet) return;
  struct rspv_place place = {tensor, (uint32_t)visit->ref[1], p->dst->rank, p->src->rank, p->round, lo, hi};
  rspv_report_add(p->v, kind, place, "%s", what);
}

static bool same_constant(float a, float b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

static const char *wrong_piece(const struct rsp_piece *piece, const struct rsp_shape *shape, bool source) {
  if (piece->slot == RSP_SLOT_PAD) return source ? "padding is sent" : "padding is written";
  if (piece->slot == RSP_SLOT_GAP) return source ? "a gap is sent" : "a gap is written";
  if (piece->op != shape->op) return "the program's operation is not the layout's";
  if (piece->op == RSP_OP_ADD && !same_constant(piece->constant, shape->constant))
    return "the program adds another constant than the layout says";
  return NULL;
}

static bool same_function(const struct rspv_nest *n) {
  if (n->base[RSPV_VAL] != n->base[RSPV_VAL2]) return false;
  for (uint32_t i = 0; i < n->axes; i++) {
    if (n->axis[i].step[RSPV_VAL] != n->axis[i].step[RSPV_VAL2]) return false;
  }
  return true;
}

static void set_wrong(struct finding *f, enum rspv_kind kind, const char *what, uint32_t slot,
                      const struct rspv_nest *nest, enum rspv_func value) {
  if (f->wrong) return;
  struct rspv_place place = RSPV_NOWHERE;
  rspv_place_range(&place, 0, nest, value);
  f->wrong = what;
  f->kind = kind;
  f->dst_slot = slot;
  f->lo = place.lo;
  f->hi = place.hi;
}

static void add_slots(struct pair *p, struct finding *f, uint32_t src, uint32_t dst) {
  for (uint32_t i = f->count; i-- > 0;) {
    if (f->slots[i].src == src && f->slots[i].dst == dst) return;
  }
  if ((f->count & (f->count - 1)) == 0) { /* full at powers of two */
    struct rspv_slots *more = rspv_alloc(&p->arena, (f->count ? 2 * f->count : 1) * sizeof *more);
    if (f->count) memcpy(more, f->slots, f->count * sizeof *more);
    f->slots = more;
  }
  f->slots[f->count++] = (struct rspv_slots){src, dst};
}

/* One nest with a single source meaning: VAL is the source's tensor index, `src` its slot. */
static void check_destination(struct pair *p, struct finding *f, const struct rspv_space *space, uint32_t src,
                              const struct rspv_nest *nest) {
  struct rspv_nests in;
  rspv_nests_init(&in);
  rspv_resolve(&p->v->work, space, nest, RSPV_DST, RSPV_VAL2, &in, NULL);
  for (const struct rspv_nest *n = in.first; n; n = n->next) {
    const struct rsp_piece *piece = &p->v->plan->pieces[space->id[n->tag]];
    const char *wrong = wrong_piece(piece, p->dst_shape, false);
    bool empty = piece->slot == RSP_SLOT_PAD || piece->slot == RSP_SLOT_GAP;
    if (wrong)
      set_wrong(f, empty ? RSPV_COVER : RSPV_PROVENANCE, wrong, empty ? RSPV_NONE : piece->slot, n,
                empty ? RSPV_DST : RSPV_VAL2);
    else if (!same_function(n))
      set_wrong(f, RSPV_PROVENANCE, "another element arrives", piece->slot, n, RSPV_VAL2);
    else
      add_slots(p, f, src, piece->slot);
  }
}

static struct finding *find_out(struct pair *p, const struct rspv_space *from, const struct rspv_space *to,
                                const struct rspv_nest *nest) {
  struct finding *f = rspv_alloc(&p->arena, sizeof *f);
  memset(f, 0, sizeof *f);
  struct rspv_nests in, missing;
  rspv_nests_init(&in);
  rspv_nests_init(&missing);
  rspv_resolve(&p->v->work, from, nest, RSPV_SRC, RSPV_VAL, &in, &missing);
  if (missing.first)
    set_wrong(f, RSPV_PROVENANCE, "what is sent begins in the middle of an element", RSPV_NONE, missing.first,
              RSPV_DST);
  for (const struct rspv_nest *n = in.first; n; n = n->next) {
    uint32_t id = from->id[n->tag];
    const char *wrong = wrong_piece(&p->v->plan->pieces[id], p->src_shape, true);
    if (wrong)
      set_wrong(f, RSPV_PROVENANCE, wrong, RSPV_NONE, n, RSPV_DST);
    else
      check_destination(p, f, to, p->v->plan->pieces[id].slot, n);
  }
  return f;
}

static struct finding *recall(struct pair *p, uint32_t src_entry, uint32_t dst_entry, const struct rspv_space *from,
                              const struct rspv_space *to, const struct rspv_nest *nest) {
  uint64_t words[5 + 3 * 66];
  uint32_t n = 0;
  words[n++] = p->desc;
  words[n++] = src_entry;
  words[n++] = dst_entry;
  words[n++] = (uint64_t)nest->base[RSPV_SRC];
  words[n++] = (uint64_t)nest->base[RSPV_DST];
  for (uint32_t i = 0; i < nest->axes; i++) {
    words[n++] = nest->axis[i].count;
    words[n++] = (uint64_t)nest->axis[i].step[RSPV_SRC];
    words[n++] = (uint64_t)nest->axis[i].step[RSPV_DST];
  }
  bool fresh;
  uint32_t number = rspv_intern(&p->table, words, n, &fresh);
  if (fresh) {
    struct finding *f = find_out(p, from, to, nest);
    RSPV_PUSH(p->findings, p->count, p->capacity, f);
  }
  return p->findings[number];
}

static bool check_visit(void *context, const struct rspv_visit *visit) {
  struct pair *p = context;
  struct rspv *v = p->v;
  const struct rsp_plan *plan = v->plan;
  uint32_t src = (uint32_t)visit->ref[0], dst = (uint32_t)visit->ref[1], src_entry = RSPV_NONE;
  uint32_t dst_entry = rspv_entry_of(v, p->dst->profile, dst);
  if (plan->buffers[src].side == RSP_TRAIN) src_entry = rspv_entry_of(v, p->src->profile, src);
  if (src_entry == RSPV_NONE || p->src_shape->buf_dtype != plan->buffers[src].dtype) {
    fail(p, RSPV_PROVENANCE, RSPV_NONE, visit, 0, 0, "the sender does not hold this in a training buffer");
    return false;
  }
  if (plan->buffers[dst].side != RSP_INFER || dst_entry == RSPV_NONE ||
      p->dst_shape->buf_dtype != plan->buffers[dst].dtype) {
    fail(p, RSPV_COVER, RSPV_NONE, visit, 0, 0, "the receiver does not hold this in an inference buffer");
    return false;
  }
  const struct finding *f =
      recall(p, src_entry, dst_entry, &v->entries[src_entry].space, &v->entries[dst_entry].space, visit->nest);
  if (f->wrong) {
    uint32_t tensor = f->dst_slot == RSPV_NONE ? RSPV_NONE : rspv_tensor_of(v, dst, f->dst_slot);
    fail(p, f->kind, tensor, visit, f->lo, f->hi, f->wrong);
    return false;
  }
  for (uint32_t i = 0; i < f->count; i++) {
    uint32_t from = rspv_tensor_of(v, src, f->slots[i].src);
    uint32_t to = rspv_tensor_of(v, dst, f->slots[i].dst);
    const char *wrong = from != to ? "another tensor arrives" : NULL;
    if (!wrong && plan->tensors[to].dtype != p->src_shape->wire_dtype)
      wrong = "what travels has not the tensor's dtype";
    if (!wrong) continue;
    fail(p, RSPV_PROVENANCE, to, visit, 0, 0, wrong);
    return false;
  }
  return true;
}

/* Descriptor by descriptor; elements outside [lo, hi) are left out. False if the shapes differ. */
static bool check_bodies(struct pair *p, uint64_t lo, uint64_t hi, uint64_t at) {
  struct rspv *v = p->v;
  const struct rspv_body *a = &v->bodies[p->src->body], *b = &v->bodies[p->dst->body];
  struct rspv_form form;
  if (a->desc_count != b->desc_count || a->elems != b->elems || a->wire_bytes != b->wire_bytes) return false;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < a->desc_count && begin < hi; i++) {
    p->src_shape = &a->shapes[a->descs[i].shape];
    p->dst_shape = &b->shapes[b->descs[i].shape];
    p->desc = (uint32_t)i;
    if (!rspv_form_make(&form, a, b, i)) return false;
    if (p->src_shape->wire_dtype != p->dst_shape->wire_dtype) return false;
    uint64_t end = begin + form.elems, from = lo > begin ? lo : begin, to = hi < end ? hi : end;
    if (from < to) {
      p->round = rspv_round_of(p->src->stream, at + (from - lo) * a->wire_bytes);
      rspv_form_visit(v, &form, from - begin, to - begin, check_visit, p);
      if (!p->good) return true;
    }
    begin = end;
  }
  return true;
}

static bool prove(struct rspv *v, const struct rspv_end *src, const struct rspv_end *dst, uint64_t lo, uint64_t hi,
                  uint64_t at, bool quiet) {
  struct pair p = {.v = v, .src = src, .dst = dst, .quiet = quiet, .good = true};
  rspv_table_init(&p.table, &p.arena);
  bool shape = check_bodies(&p, lo, hi, at);
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, src->rank, dst->rank, rspv_round_of(src->stream, at), 0, 0};
  if (!shape && !quiet)
    rspv_report_add(v, RSPV_MATCHING, place, "sender and receiver describe the same bytes by loops of different shape");
  bool spent = rspv_spent(v, RSPV_PROVENANCE, place);
  rspv_table_free(&p.table);
  rspv_arena_free(&p.arena);
  free(p.findings);
  return p.good && shape && !spent;
}

/* The proof for this range, made once for all pairs of the same programs and profiles. */
static bool remember(struct rspv *v, const struct rspv_end *src, const struct rspv_end *dst, uint64_t lo, uint64_t hi,
                     uint64_t at, bool quiet) {
  uint64_t words[] = {(uint64_t)src->body << 32 | dst->body, (uint64_t)src->profile << 32 | dst->profile, lo, hi,
                      quiet ? 1 : 0};
  bool fresh;
  uint32_t number = rspv_intern(&v->pair_table, words, sizeof words / sizeof words[0], &fresh);
  if (fresh) {
    RSPV_PUSH(v->pair_good, v->pair_count, v->pair_capacity, 0);
    v->pair_good[number] = prove(v, src, dst, lo, hi, at, quiet);
  }
  return v->pair_good[number];
}

void rspv_pair(struct rspv *v, const struct rspv_end *src, const struct rspv_end *dst, uint64_t lo, uint64_t hi,
               uint64_t at) {
  if (remember(v, src, dst, 0, v->bodies[src->body].elems, 0, true)) return;
  remember(v, src, dst, lo, hi, at, false);
}
