/* SPDX-License-Identifier: Apache-2.0
 * See made.h: what moves, when, and where it is staged. */
#include "tests/runtime/made_impl.h"

#define NO_MOVE UINT32_MAX

/* Columns [c0, c1) of a group's matrices go from a training rank to an inference rank. */
struct move {
  uint32_t group, train, infer, c0, c1, kind;
  bool turned; /* the sender has the matrix transposed */
  /* What `source`, a move to the inference rank before, brings there is passed on from there. NO_MOVE: from `train`. */
  uint32_t source;
  bool taken;    /* it is a source itself */
  uint64_t at;   /* byte of its stream where it begins */
  uint64_t desc; /* the receiver's */
  uint32_t last; /* last round of its stream */
};

struct axis {
  uint64_t count;
  int64_t src_ref, src_off, dst_ref, dst_off;
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
static uint32_t axes_of(struct maker *m, const struct move *move, struct axis axes[3], struct rsp_desc *src,
                        struct rsp_desc *dst) {
  const struct group *g = &m->groups[move->group];
  int64_t su = (int64_t)rsp_dtype_bytes(g->src_dtype), du = (int64_t)rsp_dtype_bytes(g->dst_dtype);
  int64_t rows = g->rows, columns = g->columns;
  uint64_t wide = move->c1 - move->c0;
  uint32_t count = 0;
  bool run = !move->turned && pick(m, 0, 3) != 0;
  src->run = dst->run = run ? wide : 1;
  src->off = (uint64_t)(move->turned ? move->c0 * rows * su : move->c0 * su);
  dst->off = (uint64_t)(move->c0 * du);
  axes[count++] = (struct axis){g->count, 1, 0, 1, 0};
  axes[count++] = (struct axis){g->rows, 0, move->turned ? su : columns * su, 0, columns * du};
  if (!run) axes[count++] = (struct axis){wide, 0, move->turned ? rows * su : su, 0, du};
  for (uint32_t i = 0; i < count; i++) {
    if (pick(m, 0, 4) == 0) reverse(&axes[i], src, dst);
  }
  for (uint32_t i = count; i > 1; i--) {
    uint32_t j = (uint32_t)pick(m, 0, i - 1);
    struct axis swap = axes[i - 1];
    axes[i - 1] = axes[j];
    axes[j] = swap;
  }
  return count;
}

/* One body of one descriptor at each end. Returns its elements. */
static uint64_t add_bodies(struct maker *m, const struct move *move, struct rank *from, struct rank *to) {
  const struct group *g = &m->groups[move->group];
  struct axis axes[3];
  struct rsp_desc src = {.ref = g->src_gid,
                         .buf_dtype = g->src_dtype,
                         .wire_dtype = g->wire,
                         .op = g->src_op,
                         .constant = g->src_constant};
  struct rsp_desc dst = {.ref = g->dst_gid,
                         .buf_dtype = g->dst_dtype,
                         .wire_dtype = g->wire,
                         .op = g->dst_op,
                         .constant = g->dst_constant};
  uint32_t count = axes_of(m, move, axes, &src, &dst);
  src.loop_count = dst.loop_count = count;
  src.loops = from->loops.count;
  uint64_t elems = src.run;
  for (uint32_t i = 0; i < count; i++) {
    ADD(&from->loops, struct rsp_loop, axes[i].count, axes[i].src_ref, axes[i].src_off);
    elems *= axes[i].count;
  }
  dst.loops = to->loops.count;
  for (uint32_t i = 0; i < count; i++)
    ADD(&to->loops, struct rsp_loop, axes[i].count, axes[i].dst_ref, axes[i].dst_off);
  uint32_t wire = (uint32_t)rsp_dtype_bytes(g->wire);
  uint64_t at = made_add(&from->descs, &src, sizeof src);
  ADD(&from->bodies, struct rsp_body, at, 1, elems, wire, 0);
  at = made_add(&to->descs, &dst, sizeof dst);
  ADD(&to->bodies, struct rsp_body, at, 1, elems, wire, 0);
  return elems;
}

/* What another move brought to `from` goes to the same places of `to`: the same loops in another order, or one more of
 * them. */
static uint64_t add_relay_bodies(struct maker *m, const struct move *source, struct rank *from, struct rank *to,
                                 uint32_t came_from) {
  struct rsp_desc dst = ((struct rsp_desc *)from->descs.rows)[source->desc];
  struct rsp_desc src = {.ref = came_from,
                         .space = RSP_SPACE_STREAM,
                         .buf_dtype = dst.wire_dtype,
                         .wire_dtype = dst.wire_dtype,
                         .off = source->at,
                         .run = dst.run};
  uint64_t unit = rsp_dtype_bytes(dst.wire_dtype), step = unit * dst.run, elems = dst.run;
  struct rsp_loop in[4], out[4];
  uint32_t count = dst.loop_count;
  for (uint32_t l = count; l-- > 0;) {
    in[l] = ((struct rsp_loop *)from->loops.rows)[dst.loops + l];
    out[l] = (struct rsp_loop){in[l].count, 0, (int64_t)step};
    step *= in[l].count;
    elems *= in[l].count;
  }
  if (count < 4 && pick(m, 0, 2) == 0) {
    in[count] = (struct rsp_loop){dst.run, 0, (int64_t)rsp_dtype_bytes(dst.buf_dtype)};
    out[count++] = (struct rsp_loop){dst.run, 0, (int64_t)unit};
    src.run = dst.run = 1;
  }
  for (uint32_t i = count; i > 1 && pick(m, 0, 1); i--) {
    uint32_t j = (uint32_t)pick(m, 0, i - 1);
    struct rsp_loop a = in[i - 1], b = out[i - 1];
    in[i - 1] = in[j], out[i - 1] = out[j];
    in[j] = a, out[j] = b;
  }
  src.loops = from->loops.count;
  dst.loops = to->loops.count;
  src.loop_count = dst.loop_count = count;
  for (uint32_t l = 0; l < count; l++) {
    made_add(&from->loops, &out[l], sizeof out[l]);
    made_add(&to->loops, &in[l], sizeof in[l]);
  }
  uint64_t at = made_add(&from->descs, &src, sizeof src);
  ADD(&from->bodies, struct rsp_body, at, 1, elems, (uint32_t)unit, 0);
  at = made_add(&to->descs, &dst, sizeof dst);
  ADD(&to->bodies, struct rsp_body, at, 1, elems, (uint32_t)unit, 0);
  return elems;
}

/* A body whole or in parts, in any order unless `ordered`. Returns bytes. */
static uint64_t add_parts(struct maker *m, struct rank *from, struct rank *to, uint64_t elems, uint64_t wire,
                          bool ordered) {
  uint64_t cut = elems > 1 && pick(m, 0, 2) == 0 ? pick(m, 1, elems - 1) : 0;
  uint64_t a = from->bodies.count - 1, b = to->bodies.count - 1;
  uint64_t first = !ordered && pick(m, 0, 1) ? cut : 0; /* the second half may go first */
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

/* `keep`: all of the stream stays to the end. */
static void place_staging(struct maker *m, struct rank *rank, struct rsp_stream *stream, bool keep) {
  stream->slots = keep ? (uint32_t)rsp_stream_rounds(stream) + 1 : (uint32_t)pick(m, 2, 3);
  stream->stage_off = rank->staging;
  uint64_t message = stream->bytes < stream->quantum ? stream->bytes : stream->quantum;
  stream->slot_stride = (message + 7) / 8 * 8 + 8 * pick(m, 0, 2);
  rank->staging += stream->slots * stream->slot_stride;
}

static uint32_t sender_of(const struct maker *m, const struct move *move) {
  return move->source == NO_MOVE ? world_of_train(m, move->train) : world_of_infer(m, move->infer - 1);
}

/* A move in the stream that is being made. Returns its bytes. */
static uint64_t add_move(struct maker *m, struct move *moves, struct move *move, uint32_t from, uint32_t to,
                         struct list *twin, uint64_t bytes) {
  struct rank *src = &m->ranks[from], *dst = &m->ranks[to];
  uint64_t wire = rsp_dtype_bytes(m->groups[move->group].wire);
  move->at = bytes;
  if (from == to) {
    uint64_t elems = add_bodies(m, move, src, src);
    uint64_t last = src->bodies.count - 1;
    ADD(&src->parts, struct rsp_part, last - 1, 0, elems);
    ADD(twin, struct rsp_part, last, 0, elems);
    return elems * wire;
  }
  const struct move *source = move->source == NO_MOVE ? NULL : &moves[move->source];
  uint64_t elems = source ? add_relay_bodies(m, source, src, dst, sender_of(m, source)) : add_bodies(m, move, src, dst);
  move->desc = dst->descs.count - 1;
  return add_parts(m, src, dst, elems, wire, move->taken);
}

static void time_stream(struct maker *m, struct rsp_stream *s, struct rsp_stream *d, uint64_t bytes,
                        uint32_t earliest) {
  s->bytes = d->bytes = bytes;
  s->quantum = d->quantum = 8 * pick(m, 1, 40);
  s->round0 = d->round0 = earliest + (uint32_t)pick(m, 0, 3);
  s->step = d->step = (uint32_t)pick(m, 1, 3);
  uint64_t last = s->round0 + ((bytes - 1) / s->quantum) * s->step;
  if (last + 1 > m->rounds) m->rounds = (uint32_t)last + 1;
}

/* All moves between two processes of one kind make a stream; wide elements first. */
static void add_stream(struct maker *m, struct move *moves, uint32_t count, uint32_t from, uint32_t to, uint32_t kind) {
  struct rank *src = &m->ranks[from], *dst = &m->ranks[to];
  struct rsp_stream s = {
      .peer = to, .dir = from == to ? RSP_DIR_SELF_SRC : RSP_DIR_OUT, .kind = kind, .parts = src->parts.count};
  struct rsp_stream d = {.peer = from, .dir = from == to ? RSP_DIR_SELF_DST : RSP_DIR_IN, .kind = kind};
  struct list twin = {0}, members = {0}; /* in one process the source's parts go first, then the twin's */
  uint64_t bytes = 0;
  uint32_t earliest = 0;
  bool keep = false;
  for (uint64_t wire = 8; wire > 0; wire /= 2) {
    for (uint32_t i = 0; i < count; i++) {
      struct move *move = &moves[i];
      if (sender_of(m, move) != from || world_of_infer(m, move->infer) != to || move->kind != kind) continue;
      if (rsp_dtype_bytes(m->groups[move->group].wire) != wire) continue;
      bytes += add_move(m, moves, move, from, to, &twin, bytes);
      keep = keep || move->taken;
      /* Packed in the phase after the one that exchanged its last message. */
      if (move->source != NO_MOVE && moves[move->source].last + 2 > earliest) earliest = moves[move->source].last + 2;
      ADD(&members, uint32_t, i);
    }
  }
  d.parts = from == to ? src->parts.count : dst->parts.count - (src->parts.count - s.parts);
  s.part_count = d.part_count = src->parts.count - s.parts;
  for (uint64_t i = 0; i < twin.count; i++)
    made_add(&src->parts, (struct rsp_part *)twin.rows + i, sizeof(struct rsp_part));
  if (bytes > 0) {
    time_stream(m, &s, &d, bytes, earliest);
    for (uint64_t i = 0; i < members.count; i++) {
      moves[((uint32_t *)members.rows)[i]].last = s.round0 + (uint32_t)(rsp_stream_rounds(&s) - 1) * s.step;
    }
    if (kind == RSP_KIND_STAGED && from != to) {
      place_staging(m, src, &s, false);
      place_staging(m, dst, &d, keep);
    }
    made_add(&src->streams, &s, sizeof s);
    made_add(&dst->streams, &d, sizeof d);
  }
  free(twin.rows);
  free(members.rows);
}

static bool can_be_direct(const struct group *g) {
  return g->src_dtype == g->wire && g->dst_dtype == g->wire && g->src_op == RSP_OP_COPY && g->dst_op == RSP_OP_COPY;
}

static void make_move(struct maker *m, struct list *moves, uint32_t g, uint32_t infer, uint32_t c0, uint32_t c1) {
  uint32_t train = (uint32_t)pick(m, 0, m->options->train - 1);
  bool self = world_of_train(m, train) == world_of_infer(m, infer);
  uint32_t kind = !self && can_be_direct(&m->groups[g]) && pick(m, 0, 1) ? RSP_KIND_DIRECT : RSP_KIND_STAGED;
  ADD(moves, struct move, g, train, infer, c0, c1, kind, pick(m, 0, 1) == 1, NO_MOVE, false, 0, 0, 0);
}

/* The columns of a group at an inference rank come as they came to the one before, and from there if that can be. */
static void pass_on(struct maker *m, struct list *moves, uint32_t g, uint32_t infer) {
  uint64_t count = moves->count;
  for (uint64_t i = 0; i < count; i++) {
    struct move move = ((struct move *)moves->rows)[i];
    if (move.group != g || move.infer != infer - 1) continue;
    bool relay = move.kind == RSP_KIND_STAGED && sender_of(m, &move) != world_of_infer(m, infer - 1);
    if (!relay || pick(m, 0, 3) == 0) {
      make_move(m, moves, g, infer, move.c0, move.c1);
      continue;
    }
    ((struct move *)moves->rows)[i].taken = true;
    move.infer = infer;
    move.source = (uint32_t)i;
    move.taken = false;
    made_add(moves, &move, sizeof move);
  }
}

/* Each inference buffer's columns are shared out among training ranks. */
static void make_moves(struct maker *m, struct list *moves) {
  for (uint32_t i = 0; i < m->options->infer; i++) {
    for (uint32_t g = 0; g < m->group_count; g++) {
      if (m->options->relays && i > 0 && pick(m, 0, 2)) {
        pass_on(m, moves, g, i);
        continue;
      }
      const struct group *group = &m->groups[g];
      for (uint32_t c = 0; c < group->columns;) {
        uint32_t to = pick(m, 0, 1) ? group->columns : (uint32_t)pick(m, c + 1, group->columns);
        make_move(m, moves, g, i, c, to);
        c = to;
      }
    }
  }
}

static int by_dir(const void *a, const void *b) {
  const struct rsp_stream *x = a, *y = b;
  if (x->dir != y->dir) return x->dir < y->dir ? -1 : 1;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* Streams are in order: a relay's descriptor, which says the peer so far, says the stream from it. */
static void name_streams(struct rank *rank, uint64_t *features) {
  const struct rsp_stream *streams = rank->streams.rows;
  for (uint64_t i = 0; i < rank->descs.count; i++) {
    struct rsp_desc *desc = (struct rsp_desc *)rank->descs.rows + i;
    if (desc->space != RSP_SPACE_STREAM) continue;
    uint32_t s = 0;
    while (streams[s].dir != RSP_DIR_IN || streams[s].peer != desc->ref || streams[s].kind != RSP_KIND_STAGED) s++;
    desc->ref = s;
    *features = RSP_FEATURE_RELAY;
  }
}

void made_moves(struct maker *m) {
  struct list moves = {0};
  make_moves(m, &moves);
  for (uint32_t i = 0; i < m->options->infer; i++) { /* sources before what they are taken by */
    for (uint32_t from = 0; from < m->world; from++) {
      for (uint32_t kind = 0; kind < 2; kind++) {
        add_stream(m, moves.rows, (uint32_t)moves.count, from, world_of_infer(m, i), kind);
      }
    }
  }
  for (uint32_t w = 0; w < m->world; w++) {
    struct list *streams = &m->ranks[w].streams;
    if (streams->count > 1) qsort(streams->rows, streams->count, sizeof(struct rsp_stream), by_dir);
    name_streams(&m->ranks[w], &m->features);
  }
  free(moves.rows);
}
