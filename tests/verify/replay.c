// SPDX-License-Identifier: Apache-2.0
//
// In: a small opened plan. Out: whether replaying it gives what its specification says. See replay.h.
#include "tests/verify/replay.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum sym_kind { SYM_POISON, SYM_ZERO, SYM_PAD, SYM_GAP, SYM_ELEMENT, SYM_GARBAGE };

struct sym {
  uint32_t kind, tensor, dtype, op, constant, end; // end: 0 pure, 1 as a training buffer, 2 as an inference buffer
  uint64_t index;
};
struct cell { // a byte of staging
  struct sym sym;
  uint32_t byte;
};

struct elem { // where an element of a stream is at one end
  const struct rsp_desc *desc;
  uint32_t ref;
  uint64_t off; // bytes
  uint64_t at;  // byte of the stream
  uint32_t wire;
  bool first; // of a run
};

struct flow { // a stream, element by element
  const struct rsp_stream *s;
  struct elem *elems;
  size_t count;
};

struct rank {
  struct rsp_program program;
  struct sym **buffers; // by gid; NULL if not held
  uint64_t *sizes;      // elements
  struct cell *staging;
  struct flow *flows;
};

struct run {
  const struct rsp_plan *plan;
  struct rank *ranks;
  unsigned char **held; // training: by tensor and element
  const char *wrong;
};

static bool same(const struct sym *a, const struct sym *b) {
  return !memcmp(a, b, sizeof *a);
}

static struct sym garbage(void) {
  return (struct sym){.kind = SYM_GARBAGE};
}

static uint32_t bits(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  return b;
}

// ---- the specification ---------------------------------------------------------------------------------------------

static struct sym meaning(const struct rsp_plan *plan, const struct rsp_buffer *b, const struct rsp_piece *p,
                          uint64_t index) {
  struct sym s = {.kind = SYM_ELEMENT};
  if (p->slot == RSP_SLOT_PAD) return (struct sym){.kind = SYM_PAD};
  if (p->slot == RSP_SLOT_GAP) return (struct sym){.kind = SYM_GAP};
  s.tensor = plan->slots[b->slots + p->slot];
  s.index = index;
  s.dtype = b->dtype;
  s.op = p->op;
  s.constant = p->op == RSP_OP_ADD ? bits(p->constant) : 0;
  bool pure = s.op == RSP_OP_COPY && s.dtype == plan->tensors[s.tensor].dtype;
  s.end = pure ? 0 : b->side == RSP_TRAIN ? 1 : 2;
  return s;
}

// What each element of the buffer should be; false if one has no meaning or two.
static bool specify(const struct rsp_plan *plan, const struct rsp_buffer *b, const struct rsp_entry *e,
                    struct sym *out) {
  for (uint64_t i = 0; i < e->elems; i++) out[i] = (struct sym){.kind = SYM_POISON};
  for (uint64_t i = 0; i < e->piece_count; i++) {
    const struct rsp_piece *p = &plan->pieces[e->pieces + i];
    uint64_t k[64] = {0};
    for (;;) {
      uint64_t at = p->b0, index = p->t0;
      for (uint32_t l = 0; l < p->loop_count; l++) {
        at += k[l] * plan->ploops[p->loops + l].b_step;
        index += k[l] * plan->ploops[p->loops + l].t_step;
      }
      if (at >= e->elems || out[at].kind != SYM_POISON) return false;
      out[at] = meaning(plan, b, p, index);
      uint32_t l = 0;
      while (l < p->loop_count && ++k[l] == plan->ploops[p->loops + l].count) k[l++] = 0;
      if (l == p->loop_count) break;
    }
  }
  for (uint64_t i = 0; i < e->elems; i++) {
    if (out[i].kind == SYM_POISON) return false;
  }
  return true;
}

// ---- set-up --------------------------------------------------------------------------------------------------------

static void expand_body(struct rank *r, const struct rsp_body *body, const struct rsp_part *part, struct flow *flow,
                        uint64_t *byte) {
  uint64_t number = 0;
  for (uint64_t i = 0; i < body->desc_count; i++) {
    const struct rsp_desc *d = &r->program.descs[body->descs + i];
    uint64_t step = d->space == RSP_SPACE_STREAM ? body->wire_bytes : rsp_dtype_bytes(d->buf_dtype);
    uint64_t k[64] = {0};
    for (;;) {
      int64_t ref = d->ref, off = (int64_t)d->off;
      for (uint32_t l = 0; l < d->loop_count; l++) {
        ref += (int64_t)k[l] * r->program.loops[d->loops + l].ref_step;
        off += (int64_t)k[l] * r->program.loops[d->loops + l].off_step;
      }
      for (uint64_t e = 0; e < d->run; e++, number++) {
        if (number < part->lo || number >= part->hi) continue;
        struct elem *x = &flow->elems[flow->count++];
        *x = (struct elem){d, (uint32_t)ref, (uint64_t)off + e * step, *byte, body->wire_bytes, e == 0};
        if (number == part->lo) x->first = true;
        *byte += body->wire_bytes;
      }
      uint32_t l = d->loop_count;
      while (l > 0 && ++k[l - 1] == r->program.loops[d->loops + l - 1].count) k[--l] = 0;
      if (!l) break;
    }
  }
}

static void expand_stream(struct rank *r, uint64_t index) {
  struct flow *f = &r->flows[index];
  f->s = &r->program.streams[index];
  f->elems = calloc(f->s->bytes + 1, sizeof *f->elems);
  uint64_t byte = 0;
  for (uint64_t p = 0; p < f->s->part_count; p++) {
    const struct rsp_part *part = &r->program.parts[f->s->parts + p];
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

// Message i of the stream in this round; false if it is not active.
static bool active(const struct rsp_stream *s, int64_t round, uint64_t *i) {
  if (round < s->round0 || (round - s->round0) % s->step) return false;
  *i = (uint64_t)(round - s->round0) / s->step;
  return *i < rsp_stream_rounds(s);
}

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
  const struct rsp_desc *d = e->desc;
  if (d->space == RSP_SPACE_STREAM)
    return read_cells(&r->staging[staging_at(&r->program.streams[e->ref], e->off)], e->wire);
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
  const struct rsp_desc *d = e->desc;
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

#define EACH_ELEM(flow, i, e)                                                                                          \
  for (const struct elem *e = (flow)->elems; e < (flow)->elems + (flow)->count; e++)                                   \
    if (e->at / (flow)->s->quantum == (i))

static void pack(struct run *run, struct rank *r, int64_t round) {
  for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
    struct flow *f = &r->flows[n];
    uint64_t i;
    if (f->s->dir != RSP_DIR_OUT || f->s->kind != RSP_KIND_STAGED || !active(f->s, round, &i)) continue;
    EACH_ELEM(f, i, e) write_cells(&r->staging[staging_at(f->s, e->at)], e->wire, take(run, r, e));
  }
}

static struct flow *flow_of(struct rank *r, uint32_t dir, uint32_t peer, uint32_t kind) {
  for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
    const struct rsp_stream *s = r->flows[n].s;
    if (s->dir == dir && s->peer == peer && s->kind == kind) return &r->flows[n];
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
    struct flow *src = flow_of(r, RSP_DIR_SELF_SRC, f->s->peer, f->s->kind);
    EACH_ELEM(f, i, e) put(run, r, e, take(run, r, &src->elems[e - f->elems]));
  }
}

static void exchange_pair(struct run *run, struct rank *a, uint32_t from, struct rank *b, uint32_t to, uint32_t kind,
                          int64_t round) {
  struct flow *out = flow_of(a, RSP_DIR_OUT, to, kind), *in = flow_of(b, RSP_DIR_IN, from, kind);
  uint64_t i = 0, j = 0;
  bool sends = out && active(out->s, round, &i), receives = in && active(in->s, round, &j);
  if (sends != receives) run->wrong = "a message has one end only";
  if (!sends || !receives) return;
  uint64_t sent = out->s->bytes - i * out->s->quantum, taken = in->s->bytes - j * in->s->quantum;
  if (sent > out->s->quantum) sent = out->s->quantum;
  if (taken > in->s->quantum) taken = in->s->quantum;
  if (sent != taken) {
    run->wrong = "a message is of two sizes";
    return;
  }
  if (kind == RSP_KIND_STAGED) {
    memcpy(&b->staging[staging_at(in->s, j * in->s->quantum)], &a->staging[staging_at(out->s, i * out->s->quantum)],
           sent * sizeof *a->staging);
    return;
  }
  const struct elem *y = in->elems;
  while (y < in->elems + in->count && y->at / in->s->quantum != j) y++;
  EACH_ELEM(out, i, x) {
    if (x->first != y->first || x->wire != y->wire) run->wrong = "direct messages are of different runs";
    put(run, b, y++, take(run, a, x));
  }
}

static void exchange(struct run *run, int64_t round) {
  uint32_t world = run->plan->header->world;
  for (uint32_t a = 0; a < world && !run->wrong; a++) {
    for (uint32_t b = 0; b < world && !run->wrong; b++) {
      if (a == b) continue;
      exchange_pair(run, &run->ranks[a], a, &run->ranks[b], b, RSP_KIND_STAGED, round);
      exchange_pair(run, &run->ranks[a], a, &run->ranks[b], b, RSP_KIND_DIRECT, round);
    }
  }
}

static void phase(struct run *run, int64_t p, int order) {
  static const char orders[6][4] = {"pxu", "pux", "xpu", "xup", "upx", "uxp"};
  for (const char *step = orders[order]; *step; step++) {
    if (*step == 'x') {
      exchange(run, p - 1);
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

// ---- the verdict ---------------------------------------------------------------------------------------------------

static void count_ops(struct run *run) {
  for (uint32_t w = 0; w < run->plan->header->world; w++) {
    struct rank *r = &run->ranks[w];
    for (int64_t round = 0; round < run->plan->header->rounds; round++) {
      uint64_t ops = 0, i;
      for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
        struct flow *f = &r->flows[n];
        if (f->s->dir > RSP_DIR_IN || !active(f->s, round, &i)) continue;
        bool begun = false;
        if (f->s->kind == RSP_KIND_STAGED) {
          ops++;
          continue;
        }
        EACH_ELEM(f, i, e) {
          ops += !begun || e->first;
          begun = true;
        }
      }
      if (ops > run->plan->header->max_ops) run->wrong = "too many operations in a round";
    }
  }
}

struct count {
  uint64_t elements, bytes, tensors;
};

static void judge_buffer(struct run *run, struct rank *r, uint32_t w, uint32_t gid, unsigned char *tensors,
                         struct count *count) {
  const struct rsp_plan *plan = run->plan;
  const struct rsp_buffer *b = &plan->buffers[gid];
  const struct rsp_entry *e = rsp_buffer_entry(plan, b, plan->ranks[w].infer_rank);
  struct sym *want = calloc(e->elems + 1, sizeof *want);
  specify(plan, b, e, want);
  for (uint64_t i = 0; i < e->elems; i++) {
    struct sym have = r->buffers[gid][i], x = want[i];
    if (x.kind == SYM_PAD) x.kind = SYM_ZERO;
    if (x.kind == SYM_GAP) x.kind = SYM_POISON;
    if (x.kind == SYM_ELEMENT) {
      bool excused = plan->tensors[x.tensor].flags & RSP_TENSOR_SKIP_TRAIN && !run->held[x.tensor][x.index];
      if (excused) x = (struct sym){.kind = SYM_POISON};
    }
    if (!same(&have, &x)) run->wrong = "an inference buffer is wrong";
    if (x.kind != SYM_ELEMENT) continue;
    count->elements++;
    count->bytes += rsp_dtype_bytes(b->dtype);
    count->tensors += !tensors[x.tensor];
    tensors[x.tensor] = 1;
  }
  free(want);
}

// Bytes that the domain wants and none of its members holds.
static uint64_t intake(struct run *run, uint32_t domain) {
  const struct rsp_plan *plan = run->plan;
  uint64_t bytes = 0;
  for (uint64_t t = 0; t < plan->tensor_count; t++) {
    unsigned char *mark = calloc(plan->tensors[t].elems + 1, 1); // 1 wanted, 2 held
    for (uint32_t w = 0; w < plan->header->world; w++) {
      if (plan->ranks[w].domain != domain) continue;
      for (uint32_t gid = 0; gid < plan->buffer_count; gid++) {
        const struct rsp_buffer *b = &plan->buffers[gid];
        uint32_t side_rank = b->side == RSP_TRAIN ? plan->ranks[w].train_rank : plan->ranks[w].infer_rank;
        if (!run->ranks[w].buffers[gid]) continue;
        const struct rsp_entry *e = rsp_buffer_entry(plan, b, side_rank);
        struct sym *spec = calloc(e->elems + 1, sizeof *spec);
        specify(plan, b, e, spec);
        for (uint64_t i = 0; i < e->elems; i++) {
          if (spec[i].kind == SYM_ELEMENT && spec[i].tensor == t)
            mark[spec[i].index] |= (unsigned char)(b->side == RSP_TRAIN ? 2 : 1);
        }
        free(spec);
      }
    }
    for (uint64_t i = 0; i < plan->tensors[t].elems; i++) {
      bool excused = plan->tensors[t].flags & RSP_TENSOR_SKIP_TRAIN && !run->held[t][i];
      if (mark[i] == 1 && !excused) bytes += rsp_dtype_bytes(plan->tensors[t].dtype);
    }
    free(mark);
  }
  return bytes;
}

static void judge_summary(struct run *run, struct count count) {
  const struct rsp_plan *plan = run->plan;
  const struct rsp_summary *s = plan->summary;
  uint64_t local = 0, nvlink = 0, network = 0, minimum = 0;
  for (uint32_t w = 0; w < plan->header->world; w++) {
    for (uint64_t n = 0; n < run->ranks[w].program.slice->streams.count; n++) {
      const struct rsp_stream *x = run->ranks[w].flows[n].s;
      if (x->dir == RSP_DIR_SELF_SRC) local += x->bytes;
      if (x->dir == RSP_DIR_OUT)
        *(plan->ranks[w].domain == plan->ranks[x->peer].domain ? &nvlink : &network) += x->bytes;
    }
    bool first = true;
    for (uint32_t v = 0; v < w; v++) first &= plan->ranks[v].domain != plan->ranks[w].domain;
    if (first) minimum += intake(run, plan->ranks[w].domain);
  }
  if (s->tensors != count.tensors || s->elements != count.elements || s->deliveries != count.elements ||
      s->bytes != count.bytes || s->wanted_bytes != count.bytes || s->local_bytes != local ||
      s->nvlink_bytes != nvlink || s->network_bytes != network || s->network_minimum != minimum)
    run->wrong = "a figure of the summary is wrong";
}

static void judge(struct run *run) {
  const struct rsp_plan *plan = run->plan;
  unsigned char *tensors = calloc(plan->tensor_count, 1);
  struct count count = {0};
  for (uint32_t w = 0; w < plan->header->world && !run->wrong; w++) {
    for (uint32_t gid = 0; gid < plan->buffer_count; gid++) {
      if (plan->buffers[gid].side == RSP_INFER && run->ranks[w].buffers[gid])
        judge_buffer(run, &run->ranks[w], w, gid, tensors, &count);
    }
  }
  if (!run->wrong) count_ops(run);
  if (!run->wrong) judge_summary(run, count);
  free(tensors);
}

const char *replay(const struct rsp_plan *plan) {
  const char *wrong = NULL;
  for (int order = 0; order < 6 && !wrong; order++) {
    struct run run = {.plan = plan};
    start(&run);
    for (int64_t p = 0; p < (int64_t)plan->header->rounds + 2 && !run.wrong; p++) phase(&run, p, order);
    if (!run.wrong) judge(&run);
    wrong = run.wrong;
    finish(&run);
  }
  return wrong;
}
