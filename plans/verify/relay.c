/* SPDX-License-Identifier: Apache-2.0
 *
 * In: an incoming stream of a rank. Out: what its bytes are, traced to training buffers through any number of relays:
 * a space in which a byte of the stream is a tensor's element. And, for the descriptors that pass it on: that they
 * read after it has arrived, and how long after.
 *
 * When data is there: round r is packed in phase r, exchanged in phase r + 1, unpacked in phase r + 2; what was
 * exchanged can be read from the next phase on.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

struct carry {
  struct rspv *v;
  uint32_t rank; /* the sender's */
  const struct rsp_desc *desc;
  int64_t wire;
  struct rspv_lattice *at;
  uint32_t *id;
  size_t count, capacity, id_capacity;
  bool good;
};

/* A nest whose SRC is resolved (VAL, tensor) and whose DST is the byte in the stream. */
static void add_carried(struct carry *c, const struct rspv_nest *nest, uint32_t tensor) {
  struct rspv_lattice lattice;
  struct rspv_digit digits[128];
  if (nest->axes > 128) {
    c->good = false;
    return;
  }
  for (uint32_t i = 0; i < nest->axes; i++)
    digits[i] = (struct rspv_digit){nest->axis[i].count, nest->axis[i].step[RSPV_DST], nest->axis[i].step[RSPV_VAL]};
  if (!rspv_lattice_make(&c->v->arena, nest->base[RSPV_DST], nest->base[RSPV_VAL], digits, nest->axes, &lattice)) {
    c->good = false;
    return;
  }
  RSPV_PUSH(c->at, c->count, c->capacity, lattice);
  c->id = rspv_grow(c->id, c->count - 1, &c->id_capacity, sizeof *c->id);
  c->id[c->count - 1] = tensor;
}

static bool visit_carry(void *context, const struct rspv_visit *visit) {
  struct carry *c = context;
  struct rspv *v = c->v;
  const struct rspv_space *space;
  bool relay = c->desc->space == RSP_SPACE_STREAM;
  uint32_t ref = (uint32_t)visit->ref[0];
  if (relay) {
    struct rspv_relay *from = rspv_relay_of(v, c->rank, ref);
    if (!from) return c->good = false;
    space = &from->space;
  } else {
    uint32_t entry = rspv_entry_of(v, v->profile[RSP_TRAIN][c->rank], ref);
    if (entry == RSPV_NONE) return c->good = false;
    space = &v->entries[entry].space;
  }
  struct rspv_nests in;
  rspv_nests_init(&in);
  rspv_resolve(&v->work, space, visit->nest, RSPV_SRC, RSPV_VAL, &in, NULL);
  for (const struct rspv_nest *n = in.first; n; n = n->next) {
    uint32_t id = space->id[n->tag];
    if (!relay) {
      const struct rsp_piece *piece = &v->plan->pieces[id];
      if (piece->slot == RSP_SLOT_PAD || piece->slot == RSP_SLOT_GAP) continue; /* then nothing passes it on */
      id = rspv_tensor_of(v, ref, piece->slot);
    }
    add_carried(c, n, id);
  }
  return c->good;
}

static void carry_part(struct carry *c, const struct rspv_body *body, uint64_t lo, uint64_t hi, uint64_t at) {
  uint64_t begin = 0;
  int64_t wire = (int64_t)body->wire_bytes;
  struct rspv_form form;
  for (uint64_t i = 0; i < body->desc_count && begin < hi && c->good; i++) {
    c->desc = &body->descs[i];
    if (!rspv_form_make(&form, c->desc, body->loops, NULL, NULL)) return;
    uint64_t end = begin + form.elems, from = lo > begin ? lo : begin, to = hi < end ? hi : end;
    if (from < to) {
      rspv_place_in_stream(&form, 1, (int64_t)at + ((int64_t)begin - (int64_t)lo) * wire, wire);
      rspv_form_visit(c->v, &form, from - begin, to - begin, visit_carry, c);
    }
    begin = end;
  }
}

static bool make_relay(struct rspv *v, uint32_t rank, uint32_t index, struct rspv_relay *relay) {
  const struct rsp_stream *in = &v->programs[rank].streams[index];
  const struct rsp_stream *out = rspv_find_stream(&v->programs[in->peer], RSP_DIR_OUT, rank, in->kind);
  if (!out) return false;
  struct carry c = {.v = v, .rank = in->peer, .good = true};
  const struct rsp_part *parts = v->programs[in->peer].parts + out->parts;
  uint64_t at = 0;
  for (uint64_t i = 0; i < out->part_count && c.good; i++) {
    const struct rspv_body *body = &v->bodies[v->body_of[in->peer][parts[i].body]];
    carry_part(&c, body, parts[i].lo, parts[i].hi, at);
    at += (parts[i].hi - parts[i].lo) * body->wire_bytes;
  }
  if (c.good && c.count < UINT32_MAX) {
    struct rspv_lattice *lattices = rspv_alloc(&v->arena, c.count * sizeof *lattices);
    uint32_t *ids = rspv_alloc(&v->arena, c.count * sizeof *ids);
    if (c.count) memcpy(lattices, c.at, c.count * sizeof *lattices);
    if (c.count) memcpy(ids, c.id, c.count * sizeof *ids);
    rspv_space_make(&v->arena, &relay->space, (uint32_t)c.count, lattices, ids);
  }
  free(c.at);
  free(c.id);
  return c.good;
}

struct rspv_relay *rspv_relay_of(struct rspv *v, uint32_t rank, uint32_t index) {
  uint64_t count = v->programs[rank].slice->streams.count;
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, rank, RSPV_NONE, RSPV_NONE, 0, 0};
  if (!v->relay) v->relay = rspv_xcalloc(v->plan->header->world, sizeof *v->relay);
  if (!v->relay[rank]) v->relay[rank] = rspv_xcalloc(count, sizeof **v->relay);
  if (index >= count || v->programs[rank].streams[index].dir != RSP_DIR_IN) {
    rspv_report_add(v, RSPV_PROVENANCE, place, "what is passed on is no incoming stream");
    return NULL;
  }
  struct rspv_relay *relay = &v->relay[rank][index];
  if (relay->state == RSPV_RELAY_DONE) return relay;
  place.peer = v->programs[rank].streams[index].peer;
  if (relay->state == RSPV_RELAY_OPEN) {
    rspv_report_add(v, RSPV_PROGRESS, place, "what is passed on comes, through relays, from itself");
    return NULL;
  }
  if (relay->state == RSPV_RELAY_BAD) return NULL;
  relay->state = RSPV_RELAY_OPEN;
  bool good = make_relay(v, rank, index, relay);
  relay->state = good ? RSPV_RELAY_DONE : RSPV_RELAY_BAD;
  if (!good) rspv_report_add(v, RSPV_PROVENANCE, place, "what is passed on cannot be traced to a training buffer");
  return good ? relay : NULL;
}

/* The rounds of a stream as a lattice over its bytes: the value of a byte is the round that moves it. */
static void rounds_lattice(const struct rsp_stream *s, struct rspv_digit *digits, struct rspv_lattice *lattice) {
  uint64_t rounds = rsp_stream_rounds(s), quantum = s->quantum < s->bytes ? s->quantum : s->bytes;
  digits[0] = (struct rspv_digit){rounds, (int64_t)quantum, s->step};
  digits[1] = (struct rspv_digit){quantum, 1, 0};
  *lattice = (struct rspv_lattice){.last = (int64_t)(s->bytes - 1), /* the last message may be shorter */
                                   .value = s->round0,
                                   .volume = rounds * quantum,
                                   .digits = 2,
                                   .digit = digits};
}

struct order {
  struct rspv *v;
  uint32_t rank;
  const struct rsp_stream *stream;
  const struct rsp_desc *desc;
  int64_t read_phase; /* of round 0: 0 where packed, 1 where sent from staging, 2 where copied */
};

/* VAL is the round that passes on, VAL2 the round that received. */
static void check_lag(struct order *o, const struct rspv_nest *n, uint32_t index) {
  struct rspv *v = o->v;
  int64_t least = n->base[RSPV_VAL] - n->base[RSPV_VAL2], most = least;
  for (uint32_t i = 0; i < n->axes; i++) {
    int64_t d = (n->axis[i].step[RSPV_VAL] - n->axis[i].step[RSPV_VAL2]) * (int64_t)(n->axis[i].count - 1);
    *(d < 0 ? &least : &most) += d;
  }
  struct rspv_relay *relay = rspv_relay_of(v, o->rank, index);
  if (!relay) return;
  if (most + o->read_phase > 0 && (uint64_t)(most + o->read_phase) > relay->lag)
    relay->lag = (uint64_t)(most + o->read_phase);
  if (least + o->read_phase >= 2) return;
  struct rspv_place place = {RSPV_NONE, RSPV_NONE, o->rank, o->stream->peer, (uint32_t)n->base[RSPV_VAL], 0, 0};
  rspv_report_add(v, RSPV_PROGRESS, place,
                  "what is passed on in this round has not arrived: it is received in round %u",
                  (unsigned)n->base[RSPV_VAL2]);
}

static bool visit_order(void *context, const struct rspv_visit *visit) {
  struct order *o = context;
  uint32_t index = (uint32_t)visit->ref[0];
  if (!rspv_relay_of(o->v, o->rank, index)) return false;
  struct rspv_digit out_digits[2], in_digits[2];
  struct rspv_lattice out, in;
  rounds_lattice(o->stream, out_digits, &out);
  rounds_lattice(&o->v->programs[o->rank].streams[index], in_digits, &in);
  struct rspv_nests a, b;
  rspv_nests_init(&a);
  rspv_nests_init(&b);
  rspv_split(&o->v->work, visit->nest, RSPV_DST, &out, RSPV_VAL, &a, NULL);
  for (const struct rspv_nest *n = a.first; n; n = n->next)
    rspv_split(&o->v->work, n, RSPV_SRC, &in, RSPV_VAL2, &b, NULL);
  for (const struct rspv_nest *n = b.first; n; n = n->next) check_lag(o, n, index);
  return true;
}

static void order_part(struct order *o, const struct rspv_body *body, const struct rsp_part *part, uint64_t at) {
  uint64_t begin = 0;
  int64_t wire = (int64_t)body->wire_bytes;
  struct rspv_form form;
  for (uint64_t i = 0; i < body->desc_count && begin < part->hi; i++) {
    o->desc = &body->descs[i];
    if (!rspv_form_make(&form, o->desc, body->loops, NULL, NULL)) return;
    uint64_t end = begin + form.elems, from = part->lo > begin ? part->lo : begin, to = part->hi < end ? part->hi : end;
    if (from < to && o->desc->space == RSP_SPACE_STREAM) {
      rspv_place_in_stream(&form, 1, (int64_t)at + ((int64_t)begin - (int64_t)part->lo) * wire, wire);
      rspv_form_visit(o->v, &form, from - begin, to - begin, visit_order, o);
    }
    begin = end;
  }
}

void rspv_relay_order(struct rspv *v) {
  for (uint32_t r = 0; r < v->plan->header->world; r++) {
    const struct rsp_program *program = &v->programs[r];
    for (uint64_t i = 0; i < program->slice->streams.count; i++) {
      const struct rsp_stream *s = &program->streams[i];
      if (s->dir != RSP_DIR_OUT && s->dir != RSP_DIR_SELF_SRC) continue;
      struct order o = {.v = v, .rank = r, .stream = s};
      o.read_phase = s->dir == RSP_DIR_SELF_SRC ? 2 : s->kind == RSP_KIND_DIRECT;
      uint64_t at = 0;
      for (uint64_t p = 0; p < s->part_count; p++) {
        const struct rsp_part *part = &program->parts[s->parts + p];
        const struct rspv_body *body = &v->bodies[v->body_of[r][part->body]];
        if (body->relays) order_part(&o, body, part, at);
        at += (part->hi - part->lo) * body->wire_bytes;
      }
      struct rspv_place place = {RSPV_NONE, RSPV_NONE, r, s->peer, RSPV_NONE, 0, 0};
      if (rspv_spent(v, RSPV_PROGRESS, place)) return;
    }
  }
}

/* Phases, counted from the round that receives, in which the stream's staging is still read. */
uint64_t rspv_relay_lag(const struct rspv *v, uint32_t rank, uint32_t index) {
  return v->relay && v->relay[rank] ? v->relay[rank][index].lag : 0;
}

void rspv_relays_free(struct rspv *v) {
  if (!v->relay) return;
  for (uint32_t r = 0; r < v->plan->header->world; r++) free(v->relay[r]);
  free(v->relay);
}
