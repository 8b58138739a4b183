/* SPDX-License-Identifier: Apache-2.0
 * See made.h. */
#include "tests/runtime/made.h"

#include <string.h>

#include "kernels/rsk.h"
#include "tests/runtime/check.h"
#include "tests/runtime/slow.h"

struct list {
  void *rows;
  uint64_t count, room;
};

static uint64_t add(struct list *list, const void *row, uint64_t bytes) {
  if (list->count == list->room) {
    list->room = list->room ? 2 * list->room : 16;
    list->rows = realloc(list->rows, list->room * bytes);
    CHECK(list->rows, "memory");
  }
  memcpy((unsigned char *)list->rows + list->count * bytes, row, bytes);
  return list->count++;
}
#define ADD(list, type, ...) add(list, &(type){__VA_ARGS__}, sizeof(type))

static struct rsp_str add_text(struct list *list, const char *text) {
  struct rsp_str s = {list->count, strlen(text)};
  for (const char *c = text; *c; c++) add(list, c, 1);
  return s;
}

/* Matrices of one shape and dtype: `count` buffers on each side, padding behind each on the inference side. */
struct group {
  uint32_t count, rows, columns, pad;
  uint32_t wire, src_dtype, dst_dtype, src_op, dst_op;
  float src_constant, dst_constant;
  uint32_t src_gid, dst_gid;
};

struct rank {
  struct list names, files, buffers, dims, zeros, bodies, descs, loops, streams, parts;
  uint64_t staging;
};

struct maker {
  uint64_t seed;
  const struct made_options *options;
  uint32_t world, rounds;
  struct group *groups;
  uint32_t group_count, train_gids, infer_gids;
  struct rank *ranks;
  struct list strings, inputs, files, tensors, dims, world_ranks, classes, entries, pieces, ploops, buffers, slots,
      rankmaps, holds, summary;
};

static uint64_t pick(struct maker *m, uint64_t lo, uint64_t hi) {
  return random_in(&m->seed, lo, hi);
}

static uint32_t world_of_train(const struct maker *m, uint32_t rank) {
  (void)m;
  return rank;
}

static uint32_t world_of_infer(const struct maker *m, uint32_t rank) {
  return rank < m->options->shared ? rank : m->options->train + rank - m->options->shared;
}

/* ---- what the buffers are ---------------------------------------------------------------------------------------- */

static void make_group(struct maker *m, struct group *g) {
  static const uint32_t floats[] = {RSP_F16, RSP_BF16, RSP_F32};
  static const uint32_t any[] = {RSP_U8, RSP_BF16, RSP_F32, RSP_I64, RSP_F8E4M3, RSP_F64, RSP_I16};
  *g = (struct group){.count = (uint32_t)pick(m, 1, m->options->buffers),
                      .rows = (uint32_t)pick(m, 1, m->options->rows),
                      .columns = (uint32_t)pick(m, 1, m->options->columns),
                      .pad = pick(m, 0, 1) ? 0 : (uint32_t)pick(m, 1, 9)};
  g->wire = g->src_dtype = g->dst_dtype = any[pick(m, 0, 6)];
  if (m->options->plain || pick(m, 0, 2) == 0) return;
  /* Mostly of one form, so that groups differ in the op or the constant alone. */
  g->wire = g->src_dtype = g->dst_dtype = floats[m->seed % 2];
  if (pick(m, 0, 1)) g->wire = floats[pick(m, 0, 2)];
  if (pick(m, 0, 1)) g->src_dtype = floats[pick(m, 0, 2)];
  if (pick(m, 0, 1)) g->dst_dtype = floats[pick(m, 0, 2)];
  if (pick(m, 0, 2) == 0) {
    g->src_op = RSP_OP_ADD;
    g->src_constant = pick(m, 0, 1) ? 1.0f : 0.5f;
  }
  g->dst_op = (uint32_t)pick(m, RSP_OP_COPY, RSP_OP_ADD);
  if (g->dst_op == RSP_OP_ADD) g->dst_constant = pick(m, 0, 1) ? -0.75f : 3.0f;
}

static void describe_side(struct maker *m, struct group *g, uint32_t side, uint32_t tensor) {
  uint64_t elems = (uint64_t)g->rows * g->columns, pad = side == RSP_INFER ? g->pad : 0;
  uint64_t first = m->pieces.count, dims = ADD(&m->dims, uint64_t, elems + pad);
  uint64_t loop = ADD(&m->ploops, struct rsp_ploop, elems, 1, 1);
  uint32_t op = side == RSP_TRAIN ? g->src_op : g->dst_op;
  float constant = side == RSP_TRAIN ? g->src_constant : g->dst_constant;
  ADD(&m->pieces, struct rsp_piece, .loops = loop, .loop_count = 1, .op = op, .constant = constant);
  if (pad) {
    loop = ADD(&m->ploops, struct rsp_ploop, pad, 0, 1);
    ADD(&m->pieces, struct rsp_piece, .b0 = elems, .loops = loop, .loop_count = 1, .slot = RSP_SLOT_PAD);
  }
  uint64_t entry = ADD(&m->entries, struct rsp_entry, elems + pad, dims, 1, 0, first, m->pieces.count - first);
  uint32_t klass = (uint32_t)ADD(&m->classes, struct rsp_class, entry, 1, 1, 0);
  if (side == RSP_TRAIN)
    g->src_gid = (uint32_t)m->buffers.count;
  else
    g->dst_gid = (uint32_t)m->buffers.count;
  for (uint32_t k = 0; k < g->count; k++) {
    char name[64];
    snprintf(name, sizeof name, "%u.%u.%u", side, klass, k);
    uint64_t slot = ADD(&m->slots, uint32_t, tensor + k);
    ADD(&m->buffers, struct rsp_buffer, .name = add_text(&m->strings, name), .side = side,
        .dtype = side == RSP_TRAIN ? g->src_dtype : g->dst_dtype, .klass = klass, .rankmap = side, .slots = slot,
        .file = side, .line = klass + 1, .col = 1);
  }
}

static void describe(struct maker *m) {
  for (uint32_t i = 0; i < 2; i++) {
    struct rsp_str name = add_text(&m->strings, i == 0 ? "train.layout" : "infer.layout");
    ADD(&m->inputs, struct rsp_input, .kind = i == 0 ? RSP_INPUT_TRAIN : RSP_INPUT_INFER, .name = name);
    ADD(&m->files, struct rsp_str, name.off, name.len);
    uint64_t first = m->holds.count;
    for (uint32_t r = 0; r < (i == 0 ? m->options->train : m->options->infer); r++)
      ADD(&m->holds, struct rsp_hold, r, 0);
    ADD(&m->rankmaps, struct rsp_rankmap, first, m->holds.count - first);
  }
  struct list bases = {0};
  for (uint32_t g = 0; g < m->group_count; g++) {
    uint64_t elems = (uint64_t)m->groups[g].rows * m->groups[g].columns;
    ADD(&bases, uint32_t, (uint32_t)m->tensors.count);
    for (uint32_t k = 0; k < m->groups[g].count; k++) {
      char name[32];
      snprintf(name, sizeof name, "t%u.%u", g, k);
      uint64_t dims = ADD(&m->dims, uint64_t, elems);
      ADD(&m->tensors, struct rsp_tensor, .name = add_text(&m->strings, name), .dtype = m->groups[g].wire, .ndim = 1,
          .dims = dims, .elems = elems);
    }
  }
  for (uint32_t side = 0; side < 2; side++) {
    for (uint32_t g = 0; g < m->group_count; g++) {
      describe_side(m, &m->groups[g], side, ((uint32_t *)bases.rows)[g]);
    }
    if (side == 0) m->train_gids = (uint32_t)m->buffers.count;
  }
  free(bases.rows);
  ADD(&m->summary, struct rsp_summary, .tensors = 1);
}

static void hold(struct maker *m, struct rank *rank, uint32_t side) {
  uint32_t from = side == RSP_TRAIN ? 0 : m->train_gids;
  uint32_t to = side == RSP_TRAIN ? m->train_gids : (uint32_t)m->buffers.count;
  for (uint32_t gid = from; gid < to; gid++) {
    const struct rsp_buffer *b = &((struct rsp_buffer *)m->buffers.rows)[gid];
    const struct rsp_entry *entry = &((struct rsp_entry *)m->entries.rows)[b->klass];
    struct rsp_str name = {rank->names.count, b->name.len};
    for (uint64_t i = 0; i < b->name.len; i++) add(&rank->names, (char *)m->strings.rows + b->name.off + i, 1);
    uint64_t dims = ADD(&rank->dims, uint64_t, entry->elems);
    uint32_t unit = (uint32_t)rsp_dtype_bytes(b->dtype);
    ADD(&rank->buffers, struct rsp_sbuffer, .name = name, .gid = gid, .side = side, .dtype = b->dtype, .ndim = 1,
        .dims = dims, .bytes = entry->elems * unit, .file = b->file, .line = b->line, .col = 1, .align = unit);
  }
  for (uint32_t g = 0; side == RSP_INFER && g < m->group_count; g++) {
    const struct group *group = &m->groups[g];
    uint64_t unit = rsp_dtype_bytes(group->dst_dtype);
    for (uint32_t k = 0; k < group->count && group->pad; k++) {
      ADD(&rank->zeros, struct rsp_zero, .gid = group->dst_gid + k,
          .off = (uint64_t)group->rows * group->columns * unit, .run_bytes = group->pad * unit);
    }
  }
}

static void settle_ranks(struct maker *m) {
  for (uint32_t w = 0; w < m->world; w++) {
    struct rank *rank = &m->ranks[w];
    bool trains = w < m->options->train, infers = w >= m->options->train || w < m->options->shared;
    struct rsp_str host = add_text(&m->strings, "h");
    uint32_t infer_rank = w < m->options->shared ? w : w - m->options->train + m->options->shared;
    ADD(&m->world_ranks, struct rsp_rank, trains ? w : RSP_NO_RANK, infers ? infer_rank : RSP_NO_RANK, 0, w, host,
        host);
    struct rsp_str file = add_text(&rank->names, "train.layout");
    ADD(&rank->files, struct rsp_str, file.off, file.len);
    file = add_text(&rank->names, "infer.layout");
    ADD(&rank->files, struct rsp_str, file.off, file.len);
    if (trains) hold(m, rank, RSP_TRAIN);
    if (infers) hold(m, rank, RSP_INFER);
  }
}

/* ---- what moves -------------------------------------------------------------------------------------------------- */

/* Columns [c0, c1) of a group's matrices go from a training rank to an inference rank. */
struct move {
  uint32_t group, train, infer, c0, c1, kind;
  bool turned; /* the sender has the matrix transposed */
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
  uint64_t at = add(&from->descs, &src, sizeof src);
  ADD(&from->bodies, struct rsp_body, at, 1, elems, wire, 0);
  at = add(&to->descs, &dst, sizeof dst);
  ADD(&to->bodies, struct rsp_body, at, 1, elems, wire, 0);
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

/* All moves between two processes of one kind make a stream; wide elements first. */
static void add_stream(struct maker *m, const struct move *moves, uint32_t count, uint32_t from, uint32_t to,
                       uint32_t kind) {
  struct rank *src = &m->ranks[from], *dst = &m->ranks[to];
  struct rsp_stream s = {
      .peer = to, .dir = from == to ? RSP_DIR_SELF_SRC : RSP_DIR_OUT, .kind = kind, .parts = src->parts.count};
  struct rsp_stream d = {.peer = from, .dir = from == to ? RSP_DIR_SELF_DST : RSP_DIR_IN, .kind = kind};
  /* In one process both ends add to the same tables: the source's parts first. */
  struct list twin = {0};
  uint64_t bytes = 0;
  for (uint64_t wire = 8; wire > 0; wire /= 2) {
    for (uint32_t i = 0; i < count; i++) {
      const struct move *move = &moves[i];
      if (world_of_train(m, move->train) != from || world_of_infer(m, move->infer) != to || move->kind != kind)
        continue;
      if (rsp_dtype_bytes(m->groups[move->group].wire) != wire) continue;
      if (from == to) {
        uint64_t elems = add_bodies(m, move, src, src);
        uint64_t last = src->bodies.count - 1;
        ADD(&src->parts, struct rsp_part, last - 1, 0, elems);
        ADD(&twin, struct rsp_part, last, 0, elems);
        bytes += elems * wire;
      } else {
        bytes += add_parts(m, src, dst, add_bodies(m, move, src, dst), wire);
      }
    }
  }
  d.parts = from == to ? src->parts.count : dst->parts.count - (src->parts.count - s.parts);
  s.part_count = d.part_count = src->parts.count - s.parts;
  for (uint64_t i = 0; i < twin.count; i++) add(&src->parts, (struct rsp_part *)twin.rows + i, sizeof(struct rsp_part));
  free(twin.rows);
  if (bytes == 0) return;
  s.bytes = d.bytes = bytes;
  s.quantum = d.quantum = 8 * pick(m, 1, 40);
  s.round0 = d.round0 = (uint32_t)pick(m, 0, 3);
  s.step = d.step = (uint32_t)pick(m, 1, 3);
  uint64_t last = s.round0 + ((bytes - 1) / s.quantum) * s.step;
  if (last + 1 > m->rounds) m->rounds = (uint32_t)last + 1;
  if (kind == RSP_KIND_STAGED && from != to) {
    place_staging(m, src, &s);
    place_staging(m, dst, &d);
  }
  add(&src->streams, &s, sizeof s);
  add(&dst->streams, &d, sizeof d);
}

static bool can_be_direct(const struct group *g) {
  return g->src_dtype == g->wire && g->dst_dtype == g->wire && g->src_op == RSP_OP_COPY && g->dst_op == RSP_OP_COPY;
}

/* Each inference buffer's columns are shared out among training ranks. */
static void make_moves(struct maker *m, struct list *moves) {
  for (uint32_t i = 0; i < m->options->infer; i++) {
    for (uint32_t g = 0; g < m->group_count; g++) {
      const struct group *group = &m->groups[g];
      for (uint32_t c = 0; c < group->columns;) {
        uint32_t to = pick(m, 0, 1) ? group->columns : (uint32_t)pick(m, c + 1, group->columns);
        uint32_t train = (uint32_t)pick(m, 0, m->options->train - 1);
        bool self = world_of_train(m, train) == world_of_infer(m, i);
        uint32_t kind = !self && can_be_direct(group) && pick(m, 0, 1) ? RSP_KIND_DIRECT : RSP_KIND_STAGED;
        ADD(moves, struct move, g, train, i, c, to, kind, pick(m, 0, 1) == 1);
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

static void move_all(struct maker *m) {
  struct list moves = {0};
  make_moves(m, &moves);
  for (uint32_t from = 0; from < m->world; from++) {
    for (uint32_t to = 0; to < m->world; to++) {
      for (uint32_t kind = 0; kind < 2; kind++) add_stream(m, moves.rows, (uint32_t)moves.count, from, to, kind);
    }
  }
  for (uint32_t w = 0; w < m->world; w++) {
    struct list *streams = &m->ranks[w].streams;
    if (streams->count > 1) qsort(streams->rows, streams->count, sizeof(struct rsp_stream), by_dir);
  }
  free(moves.rows);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void fill_slice(const struct maker *m, uint32_t w, struct rsp_slice_tables *out) {
  const struct rank *r = &m->ranks[w];
  const struct rsp_rank *row = &((struct rsp_rank *)m->world_ranks.rows)[w];
  *out = (struct rsp_slice_tables){.world_rank = w,
                                   .train_rank = row->train_rank,
                                   .infer_rank = row->infer_rank,
                                   .rounds = m->rounds,
                                   .staging = r->staging,
                                   .names = r->names.rows,
                                   .names_bytes = r->names.count,
                                   .files = r->files.rows,
                                   .file_count = r->files.count,
                                   .buffers = r->buffers.rows,
                                   .buffer_count = r->buffers.count,
                                   .dims = r->dims.rows,
                                   .dim_count = r->dims.count,
                                   .zeros = r->zeros.rows,
                                   .zero_count = r->zeros.count,
                                   .bodies = r->bodies.rows,
                                   .body_count = r->bodies.count,
                                   .descs = r->descs.rows,
                                   .desc_count = r->descs.count,
                                   .loops = r->loops.rows,
                                   .loop_count = r->loops.count,
                                   .streams = r->streams.rows,
                                   .stream_count = r->streams.count,
                                   .parts = r->parts.rows,
                                   .part_count = r->parts.count};
}

static void *seal(struct maker *m, size_t *size) {
  struct rsp_global_tables global = {.world = m->world,
                                     .train_world = m->options->train,
                                     .infer_world = m->options->infer,
                                     .rounds = m->rounds,
                                     .max_ops = 1024,
                                     .staging_limit = 1u << 30,
                                     .chunk = 64};
  const struct list *lists[RSP_SECTION_COUNT] = {
      &m->strings, &m->inputs, &m->files,   &m->tensors, &m->dims,     &m->world_ranks, &m->classes, &m->entries,
      &m->pieces,  &m->ploops, &m->buffers, &m->slots,   &m->rankmaps, &m->holds,       &m->summary, NULL};
  for (uint32_t i = 0; i < RSP_SECTION_COUNT; i++) {
    global.sections[i] = lists[i] ? lists[i]->rows : NULL;
    global.counts[i] = lists[i] ? lists[i]->count : 0;
  }
  struct rsp_slice_tables *slices = calloc(m->world, sizeof *slices);
  CHECK(slices, "memory");
  for (uint32_t w = 0; w < m->world; w++) fill_slice(m, w, &slices[w]);
  void *bytes = NULL;
  CHECK(rsp_build(&global, slices, &bytes, size), "memory");
  free(slices);
  struct rsp_plan plan;
  struct rsp_error error;
  CHECK(rsp_open_memory(bytes, *size, &plan, &error) == RSP_OK, "seed %llu: rule %d: %s",
        (unsigned long long)m->options->seed, error.rule, error.text);
  rsp_close(&plan);
  return bytes;
}

static void free_maker(struct maker *m) {
  struct list *all[] = {&m->strings,     &m->inputs,  &m->files,    &m->tensors, &m->dims,
                        &m->world_ranks, &m->classes, &m->entries,  &m->pieces,  &m->ploops,
                        &m->buffers,     &m->slots,   &m->rankmaps, &m->holds,   &m->summary};
  for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->rows);
  for (uint32_t w = 0; w < m->world; w++) {
    struct rank *r = &m->ranks[w];
    struct list *own[] = {&r->names,  &r->files, &r->buffers, &r->dims,    &r->zeros,
                          &r->bodies, &r->descs, &r->loops,   &r->streams, &r->parts};
    for (uint32_t i = 0; i < sizeof own / sizeof *own; i++) free(own[i]->rows);
  }
  free(m->ranks);
  free(m->groups);
}

void *made_plan(const struct made_options *options, size_t *size) {
  struct maker m = {.seed = options->seed, .options = options, .rounds = 1};
  m.world = options->train + options->infer - options->shared;
  m.group_count = (uint32_t)pick(&m, 1, options->groups);
  m.groups = calloc(m.group_count, sizeof *m.groups);
  m.ranks = calloc(m.world, sizeof *m.ranks);
  CHECK(m.groups && m.ranks, "memory");
  for (uint32_t g = 0; g < m.group_count; g++) make_group(&m, &m.groups[g]);
  describe(&m);
  settle_ranks(&m);
  move_all(&m);
  void *bytes = seal(&m, size);
  free_maker(&m);
  return bytes;
}

/* ---- what must come out ------------------------------------------------------------------------------------------ */

/* The address of element e of a stream, one element at a time: parts, descriptors, loops as the format says. */
struct element {
  const struct rsp_desc *desc;
  unsigned char *at;
};

static struct element element_of(const struct rsp_program *p, const struct rsp_part *part, uint64_t e,
                                 unsigned char **fill) {
  const struct rsp_desc *desc = p->descs + p->bodies[part->body].descs;
  for (;; desc++) {
    uint64_t elems = desc->run;
    for (uint32_t l = 0; l < desc->loop_count; l++) elems *= p->loops[desc->loops + l].count;
    if (e < elems) break;
    e -= elems;
  }
  uint64_t off = desc->off + e % desc->run * rsp_dtype_bytes(desc->buf_dtype), turn = e / desc->run;
  int64_t gid = desc->ref;
  for (uint32_t l = desc->loop_count; l-- > 0;) {
    const struct rsp_loop *loop = &p->loops[desc->loops + l];
    int64_t k = (int64_t)(turn % loop->count);
    turn /= loop->count;
    gid += k * loop->ref_step;
    off += (uint64_t)(k * loop->off_step);
  }
  const struct rsp_sbuffer *buffer = rsp_program_buffer(p, (uint32_t)gid);
  return (struct element){desc, fill[buffer - p->buffers] + off};
}

static void move_element(struct element from, struct element to) {
  uint64_t bits = 0;
  const struct rsp_desc *s = from.desc, *d = to.desc;
  memcpy(&bits, from.at, rsp_dtype_bytes(s->buf_dtype));
  bits = slow_convert(bits, s->buf_dtype, s->wire_dtype, s->op == RSP_OP_ADD ? RSK_OP_SUB : RSK_OP_COPY, s->constant);
  static const uint32_t ops[] = {RSK_OP_COPY, RSK_OP_NEG_EXP, RSK_OP_ADD};
  bits = slow_convert(bits, d->wire_dtype, d->buf_dtype, ops[d->op], d->constant);
  memcpy(to.at, &bits, rsp_dtype_bytes(d->buf_dtype));
}

static void walk_stream(const struct rsp_plan *plan, uint32_t world, const struct rsp_stream *in,
                        unsigned char ***fill) {
  struct rsp_program to, from;
  rsp_program_of(plan, world, &to);
  rsp_program_of(plan, in->peer, &from);
  uint32_t dir = in->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC;
  const struct rsp_stream *out = from.streams;
  while (out->dir != dir || out->peer != world || out->kind != in->kind) out++;
  for (uint64_t p = 0; p < in->part_count; p++) {
    const struct rsp_part *a = &from.parts[out->parts + p], *b = &to.parts[in->parts + p];
    for (uint64_t e = b->lo; e < b->hi; e++) {
      move_element(element_of(&from, a, e, fill[in->peer]), element_of(&to, b, e, fill[world]));
    }
  }
}

void made_walk(const struct rsp_plan *plan, unsigned char ***fill) {
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rsp_program program;
    rsp_program_of(plan, w, &program);
    for (uint64_t s = 0; s < program.slice->streams.count; s++) {
      const struct rsp_stream *stream = &program.streams[s];
      if (stream->dir == RSP_DIR_IN || stream->dir == RSP_DIR_SELF_DST) walk_stream(plan, w, stream, fill);
    }
  }
}
