/* SPDX-License-Identifier: Apache-2.0
 * See made.h: what moves. In: what the buffers are; out: bodies, streams and parts. */
#include <string.h>

#include "tests/runtime/made_impl.h"

/* Columns [c0, c1) of a group's matrices go from a training rank to an inference rank. */
struct move {
  uint32_t group, train, infer, c0, c1, kind;
  bool turned; /* the sender has the matrix transposed */
};

struct axis {
  uint64_t count;
  int64_t src_ref, src_off, dst_ref, dst_off;
};

/* A descriptor with its shape. */
struct end {
  struct rsp_desc desc;
  struct rsp_shape shape;
};

/* Either end of an axis can be its start. */
static void reverse(struct axis *a, struct rsp_desc *src, struct rsp_desc *dst) {
  int64_t far = (int64_t)a->count - 1;
  src->ref = (uint32_t)((int64_t)src->ref + far * a->src_ref);
  dst->ref = (uint32_t)((int64_t)dst->ref + far * a->dst_ref);
  src->off = (uint64_t)((int64_t)src->off + far * a->src_off);
  dst->off = (uint64_t)((int64_t)dst->off + far * a->dst_off);
  a->src_ref = -a->src_ref, a->src_off = -a->src_off;
  a->dst_ref = -a->dst_ref, a->dst_off = -a->dst_off;
}

/* The loops of a move: over buffers, over rows, over columns if those are no run. */
static uint32_t axes_of(struct maker *m, const struct move *move, struct axis axes[3], struct end *src,
                        struct end *dst) {
  const struct group *g = &m->groups[move->group];
  int64_t su = (int64_t)rsp_dtype_bytes(g->src_dtype), du = (int64_t)rsp_dtype_bytes(g->dst_dtype);
  int64_t rows = g->rows, columns = g->columns;
  uint64_t wide = move->c1 - move->c0;
  uint32_t count = 0;
  bool run = !move->turned && pick(m, 0, 3) != 0;
  src->shape.run = dst->shape.run = run ? wide : 1;
  src->desc.off = (uint64_t)(move->turned ? move->c0 * rows * su : move->c0 * su);
  dst->desc.off = (uint64_t)(move->c0 * du);
  axes[count++] = (struct axis){g->count, 1, 0, 1, 0};
  axes[count++] = (struct axis){g->rows, 0, move->turned ? su : columns * su, 0, columns * du};
  if (!run) axes[count++] = (struct axis){wide, 0, move->turned ? rows * su : su, 0, du};
  for (uint32_t i = 0; i < count; i++) {
    if (pick(m, 0, 4) == 0) reverse(&axes[i], &src->desc, &dst->desc);
  }
  for (uint32_t i = count; i > 1; i--) {
    uint32_t j = (uint32_t)pick(m, 0, i - 1);
    struct axis swap = axes[i - 1];
    axes[i - 1] = axes[j];
    axes[j] = swap;
  }
  return count;
}

/* The row of an equal shape, or of a new one with these loops. */
static uint32_t shape_row(struct rank *r, struct rsp_shape shape, const struct rsp_loop *loops) {
  const struct rsp_shape *old = r->shapes.rows;
  size_t bytes = shape.loop_count * sizeof *loops;
  for (uint64_t i = 0; i < r->shapes.count; i++) {
    shape.loops = old[i].loops;
    if (memcmp(&old[i], &shape, sizeof shape) != 0) continue;
    if (bytes == 0 || memcmp((struct rsp_loop *)r->loops.rows + shape.loops, loops, bytes) == 0) return (uint32_t)i;
  }
  shape.loops = r->loops.count;
  for (uint32_t l = 0; l < shape.loop_count; l++) add(&r->loops, &loops[l], sizeof *loops);
  return (uint32_t)add(&r->shapes, &shape, sizeof shape);
}

static void add_body(struct rank *r, struct end *end, const struct rsp_loop *loops, uint64_t elems, uint32_t wire) {
  end->desc.shape = shape_row(r, end->shape, loops);
  uint64_t at = add(&r->descs, &end->desc, sizeof end->desc);
  ADD(&r->bodies, struct rsp_body, at, 1, elems, wire, 0);
}

/* One body of one descriptor at each end. Returns its elements. */
static uint64_t add_bodies(struct maker *m, const struct move *move, bool twin, struct rank *from, struct rank *to) {
  const struct group *g = &m->groups[move->group];
  struct axis axes[3];
  struct rsp_loop loops[2][3];
  struct end src = {
      .desc.ref = g->src_gid,
      .shape = {.buf_dtype = g->src_dtype, .wire_dtype = g->wire, .op = g->src_op, .constant = g->src_constant}};
  struct end dst = {
      .desc.ref = twin ? g->twin_gid : g->dst_gid,
      .shape = {.buf_dtype = g->dst_dtype, .wire_dtype = g->wire, .op = g->dst_op, .constant = g->dst_constant}};
  uint32_t count = axes_of(m, move, axes, &src, &dst);
  src.shape.loop_count = dst.shape.loop_count = count;
  uint64_t elems = src.shape.run;
  for (uint32_t i = 0; i < count; i++) {
    loops[0][i] = (struct rsp_loop){axes[i].count, axes[i].src_ref, axes[i].src_off};
    loops[1][i] = (struct rsp_loop){axes[i].count, axes[i].dst_ref, axes[i].dst_off};
    elems *= axes[i].count;
  }
  uint32_t wire = (uint32_t)rsp_dtype_bytes(g->wire);
  add_body(from, &src, loops[0], elems, wire);
  add_body(to, &dst, loops[1], elems, wire);
  return elems;
}

/* A body whole or in parts, in any order. Returns bytes. */
static uint64_t add_parts(struct maker *m, struct rank *from, struct rank *to, uint64_t elems, uint64_t wire) {
  uint64_t cut = elems > 1 && pick(m, 0, 2) == 0 ? pick(m, 1, elems - 1) : 0;
  uint64_t a = from->bodies.count - 1, b = to->bodies.count - 1;
  uint64_t first = pick(m, 0, 1) ? cut : 0; /* the second half may go first */
  if (cut == 0 || first == cut) {
    ADD(&from->parts, struct rsp_part, a, first, elems);
    ADD(&to->parts, struct rsp_part, b, first, elems);
  }
  if (cut != 0) {
    ADD(&from->parts, struct rsp_part, a, 0, cut);
    ADD(&to->parts, struct rsp_part, b, 0, cut);
  }
  if (cut != 0 && first == 0) {
    ADD(&from->parts, struct rsp_part, a, cut, elems);
    ADD(&to->parts, struct rsp_part, b, cut, elems);
  }
  return elems * wire;
}

static void place_staging(struct maker *m, struct rank *rank, struct rsp_stream *stream) {
  stream->slots = (uint32_t)pick(m, 2, 3);
  stream->stage_off = rank->staging;
  uint64_t message = stream->bytes < stream->quantum ? stream->bytes : stream->quantum;
  stream->slot_stride = (message + 7) / 8 * 8;
  rank->staging += stream->slots * stream->slot_stride;
}

/* A stream that an inference rank gets: rows of its two ends before they are sorted, and what began it. */
struct flow {
  uint32_t origin, sent; /* rank and row of the stream with parts */
  uint32_t to, got, kind;
  uint32_t from; /* training process of its moves: `origin` */
};

static struct rsp_stream *stream_row(struct maker *m, uint32_t rank, uint32_t row) {
  return &((struct rsp_stream *)m->ranks[rank].streams.rows)[row];
}

static uint32_t next_tag(struct maker *m, uint32_t from, uint32_t to, uint32_t kind) {
  uint32_t *tag = &m->tags[(from * m->world + to) * 2 + kind];
  *tag += (uint32_t)pick(m, 0, 1);
  return (*tag)++;
}

static void last_round(struct maker *m, const struct rsp_stream *s) {
  uint64_t last = s->round0 + (rsp_stream_rounds(s) - 1) * s->step;
  if (last + 1 > m->rounds) m->rounds = (uint32_t)last + 1;
}

/* Moves from a process to itself: a pair of streams. Both ends add to the same tables, the source's parts first. */
static void add_self(struct maker *m, const struct move *moves, uint32_t count, uint32_t world) {
  struct rank *r = &m->ranks[world];
  struct rsp_stream s = {.peer = world,
                         .dir = RSP_DIR_SELF_SRC,
                         .relay = RSP_NO_STREAM,
                         .parts = r->parts.count,
                         .quantum = 8 * pick(m, 1, 40),
                         .round0 = (uint32_t)pick(m, 0, 3),
                         .step = (uint32_t)pick(m, 1, 3)};
  struct list twin = {0};
  for (uint64_t wire = 8; wire > 0; wire /= 2) {
    for (uint32_t i = 0; i < count * (m->options->relays ? 2 : 1); i++) {
      const struct move *move = &moves[i % count];
      if (world_of_train(m, move->train) != world || world_of_infer(m, move->infer) != world) continue;
      if (rsp_dtype_bytes(m->groups[move->group].wire) != wire) continue;
      uint64_t elems = add_bodies(m, move, i >= count, r, r), last = r->bodies.count - 1;
      ADD(&r->parts, struct rsp_part, last - 1, 0, elems);
      ADD(&twin, struct rsp_part, last, 0, elems);
      s.bytes += elems * wire;
    }
  }
  s.part_count = twin.count;
  if (s.bytes > 0) {
    add(&r->streams, &s, sizeof s);
    s.dir = RSP_DIR_SELF_DST;
    s.parts = r->parts.count;
    for (uint64_t i = 0; i < twin.count; i++) add(&r->parts, (struct rsp_part *)twin.rows + i, sizeof(struct rsp_part));
    add(&r->streams, &s, sizeof s);
    last_round(m, &s);
  }
  free(twin.rows);
}

/* Both ends of a stream whose parts are there. */
static uint32_t add_ends(struct maker *m, uint32_t from, uint32_t to, struct rsp_stream s, struct rsp_stream d,
                         uint32_t *sent) {
  s.peer = to, s.dir = RSP_DIR_OUT;
  d.peer = from, d.dir = RSP_DIR_IN;
  d.relay = RSP_NO_STREAM;
  s.tag = d.tag = next_tag(m, from, to, s.kind);
  d.kind = s.kind;
  d.bytes = s.bytes, d.quantum = s.quantum, d.round0 = s.round0, d.step = s.step;
  d.part_count = s.part_count ? s.part_count : d.part_count;
  if (s.kind == RSP_KIND_STAGED) {
    if (s.relay == RSP_NO_STREAM) place_staging(m, &m->ranks[from], &s);
    place_staging(m, &m->ranks[to], &d);
  }
  last_round(m, &s);
  *sent = (uint32_t)add(&m->ranks[from].streams, &s, sizeof s);
  return (uint32_t)add(&m->ranks[to].streams, &d, sizeof d);
}

static struct rsp_stream new_times(struct maker *m) {
  return (struct rsp_stream){.relay = RSP_NO_STREAM,
                             .quantum = 8 * pick(m, 1, 40),
                             .round0 = (uint32_t)pick(m, 0, 3),
                             .step = (uint32_t)pick(m, 1, 3)};
}

/* All moves between two processes of one kind make a stream; wide elements first. */
static bool add_stream(struct maker *m, const struct move *moves, uint32_t count, uint32_t from, uint32_t to,
                       uint32_t kind, struct flow *flow) {
  struct rank *src = &m->ranks[from], *dst = &m->ranks[to];
  struct rsp_stream s = new_times(m), d = {.parts = dst->parts.count};
  s.kind = kind;
  s.parts = src->parts.count;
  for (uint64_t wire = 8; wire > 0; wire /= 2) {
    for (uint32_t i = 0; i < count; i++) {
      const struct move *move = &moves[i];
      if (world_of_train(m, move->train) != from || world_of_infer(m, move->infer) != to || move->kind != kind)
        continue;
      if (rsp_dtype_bytes(m->groups[move->group].wire) != wire) continue;
      s.bytes += add_parts(m, src, dst, add_bodies(m, move, false, src, dst), wire);
    }
  }
  if (s.bytes == 0) return false;
  s.part_count = src->parts.count - s.parts;
  *flow = (struct flow){.origin = from, .to = to, .kind = kind, .from = from};
  flow->got = add_ends(m, from, to, s, d, &flow->sent);
  return true;
}

/* ---- what is passed on ------------------------------------------------------------------------------------------- */

static uint32_t twin_of(const struct maker *m, uint32_t gid) {
  for (const struct group *g = m->groups;; g++) {
    if (gid >= g->dst_gid && gid < g->dst_gid + g->count) return gid - g->dst_gid + g->twin_gid;
    if (gid >= g->twin_gid && gid < g->twin_gid + g->count) return gid - g->twin_gid + g->dst_gid;
  }
}

/* The receiving end of a stream again, for another rank, or for the twins of its buffers. */
static struct rsp_stream copy_end(struct maker *m, const struct rank *from, const struct rsp_stream *in,
                                  struct rank *to, bool twins) {
  struct rsp_stream d = {.parts = to->parts.count, .part_count = in->part_count};
  uint64_t parts = in->parts, last = UINT64_MAX; /* parts of one body follow each other */
  for (uint64_t p = parts; p < parts + d.part_count; p++) {
    struct rsp_part part = ((struct rsp_part *)from->parts.rows)[p];
    if (part.body != last) {
      last = part.body;
      struct rsp_body body = ((struct rsp_body *)from->bodies.rows)[last];
      struct end end = {.desc = ((struct rsp_desc *)from->descs.rows)[body.descs]};
      struct rsp_loop loops[3];
      end.shape = ((struct rsp_shape *)from->shapes.rows)[end.desc.shape];
      for (uint32_t l = 0; l < end.shape.loop_count; l++)
        loops[l] = ((struct rsp_loop *)from->loops.rows)[end.shape.loops + l];
      if (twins) end.desc.ref = twin_of(m, end.desc.ref);
      add_body(to, &end, loops, body.elems, body.wire_bytes);
    }
    part.body = to->bodies.count - 1;
    add(&to->parts, &part, sizeof part);
  }
  return d;
}

/* What `flow` brought goes on to a rank, or to the same one. */
static struct flow pass_on(struct maker *m, const struct flow *flow, uint32_t to, bool twins) {
  struct flow next = *flow;
  struct rsp_stream in = *stream_row(m, flow->to, flow->got), s = in;
  struct rsp_stream d = copy_end(m, &m->ranks[flow->to], &in, &m->ranks[to], twins);
  s.parts = s.part_count = s.stage_off = s.slot_stride = 0;
  s.slots = 0;
  s.round0++;
  s.relay = flow->got;
  m->relays = true;
  uint32_t sent;
  next.to = to;
  next.got = add_ends(m, flow->to, to, s, d, &sent);
  return next;
}

/* Another stream of the same parts from the first sender. */
static struct flow send_again(struct maker *m, const struct flow *flow, uint32_t to, bool twins) {
  struct flow next = *flow;
  struct rsp_stream in = *stream_row(m, flow->to, flow->got), out = *stream_row(m, flow->origin, flow->sent);
  struct rsp_stream d = copy_end(m, &m->ranks[flow->to], &in, &m->ranks[to], twins), s = new_times(m);
  s.kind = flow->kind;
  s.parts = out.parts, s.part_count = out.part_count, s.bytes = out.bytes;
  next.to = to;
  next.got = add_ends(m, flow->origin, to, s, d, &next.sent);
  return next;
}

/* With relays: what came in is wanted by the twins, too. */
static void serve_twins(struct maker *m, uint32_t first) {
  for (uint32_t i = first, end = (uint32_t)m->flows.count; i < end; i++) {
    struct flow flow = ((struct flow *)m->flows.rows)[i];
    struct flow next = pick(m, 0, 2) ? pass_on(m, &flow, flow.to, true) : send_again(m, &flow, flow.to, true);
    add(&m->flows, &next, sizeof next);
  }
}

static bool can_be_direct(const struct group *g) {
  return g->src_dtype == g->wire && g->dst_dtype == g->wire && g->src_op == RSP_OP_COPY && g->dst_op == RSP_OP_COPY;
}

/* Each inference buffer's columns are shared out among training ranks. */
static void make_moves(struct maker *m, uint32_t infer, struct list *moves) {
  for (uint32_t g = 0; g < m->group_count; g++) {
    const struct group *group = &m->groups[g];
    for (uint32_t c = 0; c < group->columns;) {
      uint32_t to = pick(m, 0, 1) ? group->columns : (uint32_t)pick(m, c + 1, group->columns);
      uint32_t train = (uint32_t)pick(m, 0, m->options->train - 1);
      bool self = world_of_train(m, train) == world_of_infer(m, infer);
      uint32_t kind = !self && can_be_direct(group) && pick(m, 0, 1) ? RSP_KIND_DIRECT : RSP_KIND_STAGED;
      ADD(moves, struct move, g, train, infer, c, to, kind, pick(m, 0, 1) == 1);
      c = to;
    }
  }
}

/* The moves of another rank, for this one. */
static void follow_moves(struct maker *m, uint32_t leader, uint32_t infer, struct list *moves) {
  for (uint64_t i = 0, count = moves->count; i < count; i++) {
    struct move move = ((struct move *)moves->rows)[i];
    if (move.infer != leader) continue;
    move.infer = infer;
    if (world_of_train(m, move.train) == world_of_infer(m, infer)) move.kind = RSP_KIND_STAGED;
    add(moves, &move, sizeof move);
  }
}

/* A flow from `from` of that kind that has reached `at`, or is for the twins there: either carries the same. */
static bool find_flow(struct maker *m, uint32_t at, uint32_t from, uint32_t kind, struct flow *flow, bool *twins) {
  uint32_t found = 0;
  for (uint64_t i = 0; i < m->flows.count; i++) {
    const struct flow *x = &((struct flow *)m->flows.rows)[i];
    if (x->to != at || x->from != from || x->kind != kind) continue;
    if (found++ > 0 && pick(m, 0, 1)) continue;
    *flow = *x;
    *twins = found > 1; /* those come second */
  }
  return found > 0;
}

static void receive(struct maker *m, uint32_t infer, struct list *moves) {
  uint32_t to = world_of_infer(m, infer), first = (uint32_t)m->flows.count;
  uint32_t leader = m->options->relays && infer > 0 && pick(m, 0, 3) ? (uint32_t)pick(m, 0, infer - 1) : infer;
  if (leader == infer)
    make_moves(m, infer, moves);
  else
    follow_moves(m, leader, infer, moves);
  for (uint32_t from = 0; from < m->world; from++) {
    if (from == to) continue;
    for (uint32_t kind = 0; kind < 2; kind++) {
      struct flow flow = {0}, next = {0};
      bool twins = false;
      bool passed =
          leader != infer && pick(m, 0, 3) && find_flow(m, world_of_infer(m, leader), from, kind, &flow, &twins);
      if (passed)
        next = pass_on(m, &flow, to, twins);
      else if (!add_stream(m, moves->rows, (uint32_t)moves->count, from, to, kind, &next))
        continue;
      add(&m->flows, &next, sizeof next);
    }
  }
  add_self(m, moves->rows, (uint32_t)moves->count, to);
  if (m->options->relays) serve_twins(m, first);
}

static int by_dir(const void *a, const void *b) {
  const struct rsp_stream *x = a, *y = b;
  if (x->dir != y->dir) return x->dir < y->dir ? -1 : 1;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->tag < y->tag ? -1 : x->tag > y->tag;
}

/* In the order of the format; relays name rows. */
static void sort_streams(struct rank *r) {
  struct rsp_stream *rows = r->streams.rows, *old = malloc((r->streams.count + 1) * sizeof *old);
  CHECK(old, "memory");
  if (r->streams.count > 0) {
    memcpy(old, rows, r->streams.count * sizeof *old);
    qsort(rows, r->streams.count, sizeof *rows, by_dir);
  }
  for (uint64_t i = 0; i < r->streams.count; i++) {
    if (rows[i].relay == RSP_NO_STREAM) continue;
    uint32_t row = 0;
    while (by_dir(&rows[row], &old[rows[i].relay]) != 0) row++;
    rows[i].relay = row;
  }
  free(old);
}

void made_move_all(struct maker *m) {
  struct list moves = {0};
  for (uint32_t i = 0; i < m->options->infer; i++) receive(m, i, &moves);
  for (uint32_t w = 0; w < m->world; w++) sort_streams(&m->ranks[w]);
  free(moves.rows);
}
