// SPDX-License-Identifier: Apache-2.0
//
// In: a small opened plan. Out: whether replaying it gives what its specification says. See replay.h.
#include "tests/verify/replay.h"

#include <stdlib.h>

#include "tests/verify/replay_impl.h"

// ---- set-up --------------------------------------------------------------------------------------------------------

static void expand_body(struct rank *r, const struct rsp_body *body, const struct rsp_part *part, struct flow *flow,
                        uint64_t *byte) {
  uint64_t number = 0;
  for (uint64_t i = 0; i < body->desc_count; i++) {
    const struct rsp_desc *d = &r->program.descs[body->descs + i];
    const struct rsp_shape *sh = &r->program.shapes[d->shape];
    uint64_t step = rsp_dtype_bytes(sh->buf_dtype);
    uint64_t k[64] = {0};
    for (;;) {
      int64_t ref = d->ref, off = (int64_t)d->off;
      for (uint32_t l = 0; l < sh->loop_count; l++) {
        ref += (int64_t)k[l] * r->program.loops[sh->loops + l].ref_step;
        off += (int64_t)k[l] * r->program.loops[sh->loops + l].off_step;
      }
      for (uint64_t e = 0; e < sh->run; e++, number++) {
        if (number < part->lo || number >= part->hi) continue;
        struct elem *x = &flow->elems[flow->count++];
        *x = (struct elem){sh, (uint32_t)ref, (uint64_t)off + e * step, *byte, body->wire_bytes, e == 0};
        if (number == part->lo) x->first = true;
        *byte += body->wire_bytes;
      }
      uint32_t l = sh->loop_count;
      while (l > 0 && ++k[l - 1] == r->program.loops[sh->loops + l - 1].count) k[--l] = 0;
      if (!l) break;
    }
  }
}

static void expand_stream(struct rank *r, uint64_t index) {
  struct flow *f = &r->flows[index];
  f->s = f->slots = &r->program.streams[index];
  if (f->s->relay != RSP_NO_STREAM) f->slots = &r->program.streams[f->s->relay];
  f->elems = calloc(f->s->bytes + 1, sizeof *f->elems);
  uint64_t byte = 0;
  for (uint64_t p = 0; p < f->slots->part_count; p++) {
    const struct rsp_part *part = &r->program.parts[f->slots->parts + p];
    expand_body(r, &r->program.bodies[part->body], part, f, &byte);
  }
}

static void zero_padding(struct rank *r) {
  for (uint64_t i = 0; i < r->program.slice->zeros.count; i++) {
    const struct rsp_zero *z = &r->program.zeros[i];
    uint64_t k[64] = {0}, size = rsp_dtype_bytes(rsp_program_buffer(&r->program, z->gid)->dtype);
    for (;;) {
      uint64_t off = z->off;
      for (uint32_t l = 0; l < z->loop_count; l++) off += k[l] * r->program.zloops[z->loops + l].step;
      for (uint64_t b = 0; b < z->run_bytes; b++) {
        struct sym *s = &r->buffers[z->gid][(off + b) / size];
        // Bytes of an element zeroed in part leave garbage; a whole one has its first and last byte in the run.
        bool whole = off % size == 0 && z->run_bytes % size == 0;
        *s = whole ? (struct sym){.kind = SYM_ZERO} : garbage();
      }
      uint32_t l = 0;
      while (l < z->loop_count && ++k[l] == r->program.zloops[z->loops + l].count) k[l++] = 0;
      if (l == z->loop_count) break;
    }
  }
}

static void set_buffer(struct run *run, uint32_t rank, uint32_t gid) {
  const struct rsp_plan *plan = run->plan;
  const struct rsp_buffer *b = &plan->buffers[gid];
  struct rank *r = &run->ranks[rank];
  uint32_t side_rank = b->side == RSP_TRAIN ? plan->ranks[rank].train_rank : plan->ranks[rank].infer_rank;
  const struct rsp_entry *e = side_rank == RSP_NO_RANK ? NULL : rsp_buffer_entry(plan, b, side_rank);
  if (!e) return;
  r->buffers[gid] = calloc(e->elems + 1, sizeof(struct sym));
  r->sizes[gid] = e->elems;
  if (!specify(plan, b, e, r->buffers[gid])) run->wrong = "the specification is broken";
  for (uint64_t i = 0; i < e->elems; i++) {
    struct sym *s = &r->buffers[gid][i];
    if (b->side == RSP_INFER)
      *s = (struct sym){.kind = SYM_POISON};
    else if (s->kind == SYM_ELEMENT)
      run->held[s->tensor][s->index] = 1;
  }
}

static void start(struct run *run) {
  const struct rsp_plan *plan = run->plan;
  run->ranks = calloc(plan->header->world, sizeof *run->ranks);
  run->held = calloc(plan->tensor_count, sizeof *run->held);
  for (uint64_t t = 0; t < plan->tensor_count; t++) run->held[t] = calloc(plan->tensors[t].elems + 1, 1);
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rank *r = &run->ranks[w];
    rsp_program_of(plan, w, &r->program);
    r->buffers = calloc(plan->buffer_count, sizeof *r->buffers);
    r->sizes = calloc(plan->buffer_count, sizeof *r->sizes);
    for (uint32_t gid = 0; gid < plan->buffer_count; gid++) set_buffer(run, w, gid);
    r->staging = calloc(r->program.slice->staging + 1, sizeof *r->staging);
    for (uint64_t i = 0; i < r->program.slice->staging; i++) r->staging[i].sym = garbage();
    r->flows = calloc(r->program.slice->streams.count + 1, sizeof *r->flows);
    for (uint64_t i = 0; i < r->program.slice->streams.count; i++) expand_stream(r, i);
    zero_padding(r);
  }
}

static void finish(struct run *run) {
  const struct rsp_plan *plan = run->plan;
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rank *r = &run->ranks[w];
    for (uint64_t gid = 0; gid < plan->buffer_count; gid++) free(r->buffers[gid]);
    for (uint64_t i = 0; i < r->program.slice->streams.count; i++) free(r->flows[i].elems);
    free(r->buffers);
    free(r->sizes);
    free(r->staging);
    free(r->flows);
  }
  for (uint64_t t = 0; t < plan->tensor_count; t++) free(run->held[t]);
  free(run->held);
  free(run->ranks);
}

// ---- moving elements -----------------------------------------------------------------------------------------------

static uint64_t staging_at(const struct rsp_stream *s, uint64_t byte) {
  uint64_t i = byte / s->quantum;
  return s->stage_off + i % s->slots * s->slot_stride + byte % s->quantum;
}

static struct sym read_cells(const struct cell *c, uint32_t wire) {
  for (uint32_t b = 0; b < wire; b++) {
    if (c[b].byte != b || !same(&c[b].sym, &c[0].sym)) return garbage();
  }
  return c[0].sym;
}

static void write_cells(struct cell *c, uint32_t wire, struct sym s) {
  for (uint32_t b = 0; b < wire; b++) c[b] = (struct cell){s, b};
}

// What an element is on the wire.
static struct sym take(struct run *run, struct rank *r, const struct elem *e) {
  const struct rsp_shape *d = e->shape;
  struct sym s = r->buffers[e->ref][e->off / rsp_dtype_bytes(d->buf_dtype)];
  if (run->plan->buffers[e->ref].side != RSP_TRAIN || s.kind != SYM_ELEMENT) return garbage();
  uint32_t dtype = run->plan->tensors[s.tensor].dtype, constant = d->op == RSP_OP_ADD ? bits(d->constant) : 0;
  if (d->wire_dtype != dtype || d->buf_dtype != s.dtype || d->op != s.op || constant != s.constant) return garbage();
  s.end = 0;
  s.dtype = dtype;
  s.op = s.constant = 0;
  return s;
}

static void put(struct run *run, struct rank *r, const struct elem *e, struct sym s) {
  const struct rsp_shape *d = e->shape;
  struct sym *to = &r->buffers[e->ref][e->off / rsp_dtype_bytes(d->buf_dtype)];
  if (run->plan->buffers[e->ref].side != RSP_INFER) run->wrong = "a training buffer is written";
  if (to->kind == SYM_ELEMENT) run->wrong = "an element is written twice";
  if (s.kind != SYM_ELEMENT || s.dtype != d->wire_dtype) {
    *to = garbage();
    return;
  }
  s.op = d->op;
  s.constant = d->op == RSP_OP_ADD ? bits(d->constant) : 0;
  s.end = s.op != RSP_OP_COPY || d->buf_dtype != d->wire_dtype ? 2 : 0;
  s.dtype = d->buf_dtype;
  *to = s;
}

static void pack(struct run *run, struct rank *r, int64_t round) {
  for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
    struct flow *f = &r->flows[n];
    uint64_t i;
    if (f->s->dir != RSP_DIR_OUT || f->s->kind != RSP_KIND_STAGED || f->s != f->slots) continue;
    if (!active(f->s, round, &i)) continue;
    EACH_ELEM(f, i, e) write_cells(&r->staging[staging_at(f->s, e->at)], e->wire, take(run, r, e));
  }
}

static struct flow *flow_of(struct rank *r, uint32_t dir, uint32_t peer, uint32_t kind, uint32_t tag) {
  for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
    const struct rsp_stream *s = r->flows[n].s;
    if (s->dir == dir && s->peer == peer && s->kind == kind && s->tag == tag) return &r->flows[n];
  }
  return NULL;
}

static void unpack(struct run *run, struct rank *r, int64_t round) {
  for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
    struct flow *f = &r->flows[n];
    uint64_t i;
    if (!active(f->s, round, &i)) continue;
    if (f->s->dir == RSP_DIR_IN && f->s->kind == RSP_KIND_STAGED)
      EACH_ELEM(f, i, e) put(run, r, e, read_cells(&r->staging[staging_at(f->s, e->at)], e->wire));
    if (f->s->dir != RSP_DIR_SELF_DST) continue;
    struct flow *src = flow_of(r, RSP_DIR_SELF_SRC, f->s->peer, f->s->kind, f->s->tag);
    EACH_ELEM(f, i, e) put(run, r, e, take(run, r, &src->elems[e - f->elems]));
  }
}

// What a direct relay sends is as it came in.
static struct sym take_again(struct run *run, struct rank *r, const struct elem *e) {
  struct sym s = r->buffers[e->ref][e->off / rsp_dtype_bytes(e->shape->buf_dtype)];
  bool pure = run->plan->buffers[e->ref].side == RSP_INFER && s.kind == SYM_ELEMENT && s.end == 0;
  return pure && s.dtype == e->shape->wire_dtype ? s : garbage();
}

static void exchange_direct(struct run *run, struct rank *a, const struct flow *out, uint64_t i, struct rank *b,
                            const struct flow *in, uint64_t j) {
  const struct elem *y = in->elems;
  while (y < in->elems + in->count && y->at / in->s->quantum != j) y++;
  EACH_ELEM(out, i, x) {
    bool begins[2] = {x->first || x->at % out->s->quantum == 0, y->first || y->at % in->s->quantum == 0};
    if (begins[0] != begins[1] || x->wire != y->wire) run->wrong = "direct messages are of different runs";
    put(run, b, y++, out->s == out->slots ? take(run, a, x) : take_again(run, a, x));
  }
}

// The message that `a` sends on this stream in this round, if any.
static void exchange_stream(struct run *run, struct rank *a, uint32_t from, const struct flow *out, int64_t round) {
  struct rank *b = &run->ranks[out->s->peer];
  struct flow *in = flow_of(b, RSP_DIR_IN, from, out->s->kind, out->s->tag);
  uint64_t i = 0, j = 0;
  bool sends = active(out->s, round, &i), receives = in && active(in->s, round, &j);
  if (sends != receives) run->wrong = "a message has one end only";
  if (!sends || !receives) return;
  uint64_t sent = out->s->bytes - i * out->s->quantum, taken = in->s->bytes - j * in->s->quantum;
  if (sent > out->s->quantum) sent = out->s->quantum;
  if (taken > in->s->quantum) taken = in->s->quantum;
  if (sent != taken) {
    run->wrong = "a message is of two sizes";
    return;
  }
  if (out->s->kind == RSP_KIND_DIRECT) {
    exchange_direct(run, a, out, i, b, in, j);
    return;
  }
  memmove(&b->staging[staging_at(in->s, j * in->s->quantum)], &a->staging[staging_at(out->slots, i * out->s->quantum)],
          sent * sizeof *a->staging);
}

// All messages of the round; every incoming stream that is active must have got one.
static void exchange(struct run *run, int64_t round, bool backwards) {
  uint32_t world = run->plan->header->world;
  for (uint32_t w = 0; w < world && !run->wrong; w++) {
    uint32_t a = backwards ? world - 1 - w : w;
    uint64_t count = run->ranks[a].program.slice->streams.count;
    for (uint64_t k = 0; k < count && !run->wrong; k++) {
      const struct flow *f = &run->ranks[a].flows[backwards ? count - 1 - k : k];
      uint64_t i;
      if (f->s->dir == RSP_DIR_OUT) exchange_stream(run, &run->ranks[a], a, f, round);
      if (f->s->dir != RSP_DIR_IN || !active(f->s, round, &i)) continue;
      const struct flow *out = flow_of(&run->ranks[f->s->peer], RSP_DIR_OUT, a, f->s->kind, f->s->tag);
      if (!out || !active(out->s, round, &i)) run->wrong = "a message has one end only";
    }
  }
}

static void phase(struct run *run, int64_t p, int order, bool backwards) {
  static const char orders[6][4] = {"pxu", "pux", "xpu", "xup", "upx", "uxp"};
  for (const char *step = orders[order]; *step; step++) {
    if (*step == 'x') {
      exchange(run, p - 1, backwards);
      continue;
    }
    for (uint32_t w = 0; w < run->plan->header->world && !run->wrong; w++) {
      if (*step == 'p')
        pack(run, &run->ranks[w], p);
      else
        unpack(run, &run->ranks[w], p - 2);
    }
  }
}

const char *replay(const struct rsp_plan *plan) {
  const char *wrong = NULL;
  int orders = plan->header->features & RSP_FEATURE_RELAY ? 12 : 6;
  for (int order = 0; order < orders && !wrong; order++) {
    struct run run = {.plan = plan};
    start(&run);
    for (int64_t p = 0; p < (int64_t)plan->header->rounds + 2 && !run.wrong; p++) phase(&run, p, order % 6, order >= 6);
    if (!run.wrong) judge(&run);
    wrong = run.wrong;
    finish(&run);
  }
  return wrong;
}
