// SPDX-License-Identifier: Apache-2.0
//
// In: a seed. Out: a random specification, then (maker_flow.c) a program for it, built into a plan. See maker.h.
#include "tests/verify/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t mk_draw(struct mk *m, uint64_t below) {
  m->state = m->state * 6364136223846793005ull + 1442695040888963407ull;
  return (m->state >> 33) % below;
}

void *mk_push(struct mk_buf *b, size_t item) {
  if (b->count == b->capacity) {
    b->capacity = b->capacity ? 2 * b->capacity : 16;
    b->at = realloc(b->at, b->capacity * item);
    if (!b->at) abort();
  }
  b->item = item;
  void *p = (char *)b->at + b->count++ * item;
  memset(p, 0, item);
  return p;
}

struct rsp_str mk_string(struct mk_buf *b, const char *text) {
  struct rsp_str s = {b->count, strlen(text)};
  for (const char *c = text; *c; c++) *(char *)mk_push(b, 1) = *c;
  return s;
}

// A family of tensors of one shape, one per layer.
struct family {
  uint32_t first, layers, dtype;
  uint64_t rows, cols;
  bool skipped; // the training side holds the first half of the rows only
};

// How a side holds a family.
struct way {
  uint32_t cut; // 0 whole, 1 rows, 2 columns
  bool turned;
  uint32_t op;
  float constant;
};

static uint64_t divides(uint64_t extent, uint64_t parts) {
  return extent % parts == 0;
}

static void add_piece(struct mk *m, uint32_t slot, struct way w, uint64_t t0, uint64_t b0, uint64_t rows, uint64_t cols,
                      uint64_t t_row, uint64_t b_row) {
  uint64_t t_col = 1;
  if (w.turned) { // local rows are columns of the tensor
    uint64_t t = rows;
    rows = cols;
    cols = t;
    t_col = t_row;
    t_row = 1;
  }
  if (slot >= RSP_SLOT_GAP) t0 = t_row = t_col = 0;
  struct rsp_piece p = {.t0 = t0, .b0 = b0, .loops = m->ploops.count, .loop_count = 2, .slot = slot};
  p.op = w.op;
  p.constant = w.constant;
  MK_PUSH(&m->ploops, struct rsp_ploop, {rows, t_row, b_row ? b_row : cols});
  MK_PUSH(&m->ploops, struct rsp_ploop, {cols, t_col, 1});
  MK_ADD(&m->pieces, struct rsp_piece, p);
}

// The part of the family that a rank holds.
struct box {
  uint64_t t0, rows, cols;
};

static struct box part_of(const struct family *f, struct way w, uint32_t side, uint32_t rank, uint32_t ranks) {
  struct box b = {0, f->rows, f->cols};
  if (f->skipped && side == RSP_TRAIN) b.rows = f->rows / 2;
  if (w.cut == 1 && divides(b.rows, ranks)) {
    b.rows /= ranks;
    b.t0 = rank * b.rows * f->cols;
  }
  if (w.cut == 2 && divides(f->cols, ranks)) {
    b.cols /= ranks;
    b.t0 = rank * b.cols;
  }
  return b;
}

static void add_empty(struct mk *m, struct rsp_entry *e, uint32_t side) {
  uint64_t n = mk_draw(m, 4);
  if (!n || n == 3) return;
  uint32_t slot = side == RSP_TRAIN || mk_draw(m, 2) ? RSP_SLOT_PAD : RSP_SLOT_GAP;
  add_piece(m, slot, (struct way){0}, 0, e->elems, 1, n, 0, n);
  e->elems += n;
  e->piece_count++;
}

static int by_b0(const void *a, const void *b) {
  const struct rsp_piece *x = a, *y = b;
  return x->b0 < y->b0 ? -1 : x->b0 > y->b0;
}

// One entry: the families one after the other, or, where their rows agree, side by side.
static void add_entry(struct mk *m, const struct family *f, const struct way *w, uint32_t count, uint32_t layers,
                      uint32_t side, uint32_t rank, uint32_t ranks, bool beside, bool tail) {
  struct rsp_entry e = {.dims = m->dims.count, .ndim = 1, .pieces = m->pieces.count};
  uint64_t width = 0;
  for (uint32_t i = 0; i < count; i++) width += part_of(&f[i], w[i], side, rank, ranks).cols;
  for (uint32_t l = 0; l < layers; l++) {
    uint64_t column = e.elems;
    for (uint32_t i = 0; i < count; i++) {
      struct box b = part_of(&f[i], w[i], side, rank, ranks);
      add_piece(m, l * count + i, w[i], b.t0, beside ? column : e.elems, b.rows, b.cols, f[i].cols, beside ? width : 0);
      column += b.cols;
      e.elems += b.rows * b.cols;
      e.piece_count++;
    }
  }
  if (tail) add_empty(m, &e, side);
  qsort(MK_AT(m->pieces, struct rsp_piece, e.pieces), e.piece_count, sizeof(struct rsp_piece), by_b0);
  MK_ADD(&m->dims, uint64_t, e.elems);
  MK_ADD(&m->entries, struct rsp_entry, e);
}

static uint32_t pick_dtype(struct mk *m, const struct family *f, uint32_t count) {
  static const uint32_t floats[] = {RSP_F32, RSP_BF16, RSP_F64};
  for (uint32_t i = 0; i < count; i++) {
    if (f[i].dtype == RSP_U8) return RSP_U8;
  }
  return mk_draw(m, 2) ? f[0].dtype : floats[mk_draw(m, 3)];
}

static struct way pick_way(struct mk *m, uint32_t side, uint32_t dtype, const struct family *f) {
  struct way w = {(uint32_t)mk_draw(m, 3), mk_draw(m, 3) == 0, RSP_OP_COPY, 0};
  bool may = (dtype == RSP_F32 || dtype == RSP_BF16) && (f->dtype == RSP_F32 || f->dtype == RSP_BF16);
  if (!may || mk_draw(m, 3)) return w;
  w.op = side == RSP_INFER && mk_draw(m, 2) ? RSP_OP_NEG_EXP : RSP_OP_ADD;
  if (w.op == RSP_OP_ADD) w.constant = 0.5f;
  return w;
}

// Buffers for `count` families that belong together: one per layer, or one with all layers.
static void add_buffers(struct mk *m, uint32_t side, const struct family *f, uint32_t count) {
  uint32_t ranks = side == RSP_TRAIN ? m->train_world : m->infer_world, dtype = pick_dtype(m, f, count);
  bool stacked = mk_draw(m, 3) == 0, tail = mk_draw(m, 2), beside = !stacked && count > 1;
  uint32_t layers = stacked ? f->layers : 1, copies = stacked ? 1 : f->layers;
  struct way w[2];
  for (uint32_t i = 0; i < count; i++) {
    w[i] = pick_way(m, side, dtype, &f[i]);
    if (beside) w[i].turned = false;
  }
  for (uint32_t i = 1; i < count && beside; i++) { // rows must agree on every rank
    w[i].cut = w[0].cut;
    beside = part_of(&f[0], w[0], side, 0, ranks).rows == part_of(&f[i], w[i], side, 0, ranks).rows;
  }
  uint64_t state = m->state;
  MK_PUSH(&m->classes, struct rsp_class, {m->entries.count, ranks, layers * count, 0});
  MK_PUSH(&m->rankmaps, struct rsp_rankmap, {m->holds.count, ranks});
  for (uint32_t r = 0; r < ranks; r++) {
    m->state = state; // the same tail on every rank
    add_entry(m, f, w, count, layers, side, r, ranks, beside, tail);
    MK_PUSH(&m->holds, struct rsp_hold, {r, r});
  }
  for (uint32_t c = 0; c < copies; c++) {
    char name[32];
    snprintf(name, sizeof name, "b%zu", m->buffers.count);
    struct rsp_buffer b = {.name = mk_string(&m->strings, name), .side = side, .dtype = dtype};
    b.klass = (uint32_t)m->classes.count - 1;
    b.rankmap = (uint32_t)m->rankmaps.count - 1;
    b.slots = m->slots.count;
    b.file = side;
    b.line = (uint32_t)m->buffers.count + 1;
    b.col = 1;
    MK_ADD(&m->buffers, struct rsp_buffer, b);
    for (uint32_t l = 0; l < layers; l++) {
      for (uint32_t i = 0; i < count; i++) MK_ADD(&m->slots, uint32_t, f[i].first + c + l);
    }
  }
}

static void add_side(struct mk *m, uint32_t side, const struct family *f, uint32_t count) {
  for (uint32_t i = 0; i < count;) {
    bool pair = i + 1 < count && f[i].layers == f[i + 1].layers && mk_draw(m, 2) &&
                (f[i].dtype == RSP_U8) == (f[i + 1].dtype == RSP_U8);
    add_buffers(m, side, &f[i], 1 + pair);
    i += 1 + pair;
  }
}

static uint32_t add_families(struct mk *m, struct family *f) {
  static const uint32_t dtypes[] = {RSP_F32, RSP_BF16, RSP_BF16, RSP_U8, RSP_F64};
  static const uint64_t extents[] = {1, 2, 3, 4, 6};
  uint32_t count = 1 + (uint32_t)mk_draw(m, 3);
  for (uint32_t i = 0; i < count; i++) {
    f[i] = (struct family){(uint32_t)m->tensors.count, 1 + (uint32_t)mk_draw(m, 3), dtypes[mk_draw(m, 5)],
                           extents[mk_draw(m, 5)],     extents[mk_draw(m, 5)],      false};
    f[i].skipped = f[i].rows % 2 == 0 && mk_draw(m, 4) == 0;
    for (uint32_t l = 0; l < f[i].layers; l++) {
      char name[32];
      snprintf(name, sizeof name, "t%u.%u", i, l);
      struct rsp_tensor t = {.name = mk_string(&m->strings, name), .dtype = f[i].dtype, .ndim = 2};
      t.flags = f[i].skipped ? RSP_TENSOR_SKIP_TRAIN : 0;
      t.dims = m->dims.count;
      t.elems = f[i].rows * f[i].cols;
      MK_ADD(&m->dims, uint64_t, f[i].rows);
      MK_ADD(&m->dims, uint64_t, f[i].cols);
      MK_ADD(&m->tensors, struct rsp_tensor, t);
    }
  }
  return count;
}

static void add_ranks(struct mk *m) {
  bool colocated = mk_draw(m, 3) == 0;
  m->train_world = 1 + (uint32_t)mk_draw(m, 3);
  m->infer_world = 1 + (uint32_t)mk_draw(m, 4);
  uint32_t shared = colocated ? 1 : 0;
  m->world = m->train_world + m->infer_world - shared;
  struct rsp_str host = mk_string(&m->strings, "h");
  for (uint32_t w = 0; w < m->world; w++) {
    struct rsp_rank r = {RSP_NO_RANK, RSP_NO_RANK, (uint32_t)mk_draw(m, 2), w, host, host};
    if (w < m->train_world) r.train_rank = w;
    if (w >= m->train_world - shared) r.infer_rank = w - (m->train_world - shared);
    if (r.train_rank != RSP_NO_RANK) m->world_of[RSP_TRAIN][r.train_rank] = w;
    if (r.infer_rank != RSP_NO_RANK) m->world_of[RSP_INFER][r.infer_rank] = w;
    MK_ADD(&m->ranks, struct rsp_rank, r);
  }
}

uint64_t mk_elements(const struct mk *m, uint32_t gid, uint32_t side_rank, struct mk_elem **elems, bool *held) {
  const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
  const struct rsp_rankmap *map = MK_AT(m->rankmaps, struct rsp_rankmap, b->rankmap);
  *elems = NULL;
  *held = side_rank < map->count;
  if (!*held) return 0;
  const struct rsp_class *c = MK_AT(m->classes, struct rsp_class, b->klass);
  uint32_t entry = MK_AT(m->holds, struct rsp_hold, map->holds + side_rank)->entry;
  const struct rsp_entry *e = MK_AT(m->entries, struct rsp_entry, c->entries + entry);
  *elems = calloc(e->elems + 1, sizeof **elems);
  for (uint64_t i = 0; i < e->piece_count; i++) {
    const struct rsp_piece *p = MK_AT(m->pieces, struct rsp_piece, e->pieces + i);
    const struct rsp_ploop *l = MK_AT(m->ploops, struct rsp_ploop, p->loops);
    for (uint64_t r = 0; r < l[0].count; r++) {
      for (uint64_t k = 0; k < l[1].count; k++) {
        struct mk_elem *x = &(*elems)[p->b0 + r * l[0].b_step + k * l[1].b_step];
        *x = (struct mk_elem){0, 0, p->op, p->constant, p->t0 + r * l[0].t_step + k * l[1].t_step};
        if (p->slot >= RSP_SLOT_GAP)
          x->kind = p->slot;
        else
          x->tensor = *MK_AT(m->slots, uint32_t, b->slots + p->slot);
      }
    }
  }
  return e->elems;
}

void mk_tables(struct mk *m, uint32_t rank) {
  struct mk_slice *s = &m->slices[rank];
  for (uint32_t i = 0; i < 2; i++)
    MK_ADD(&s->files, struct rsp_str, mk_string(&s->names, i ? "infer.layout" : "train.layout"));
  for (uint32_t gid = 0; gid < m->buffers.count; gid++) {
    const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
    const struct rsp_rank *r = MK_AT(m->ranks, struct rsp_rank, rank);
    struct mk_elem *elems;
    bool held;
    uint64_t count = mk_elements(m, gid, b->side == RSP_TRAIN ? r->train_rank : r->infer_rank, &elems, &held);
    if (!held) continue;
    size_t size = rsp_dtype_bytes(b->dtype);
    char name[64] = "";
    memcpy(name, (char *)m->strings.at + b->name.off, b->name.len);
    struct rsp_sbuffer x = {
        .name = mk_string(&s->names, name), .gid = gid, .side = b->side, .dtype = b->dtype, .ndim = 1};
    x.dims = s->dims.count;
    x.bytes = count * size;
    x.file = b->file;
    x.line = b->line;
    x.col = b->col;
    x.align = (uint32_t)size;
    MK_ADD(&s->dims, uint64_t, count);
    MK_ADD(&s->buffers, struct rsp_sbuffer, x);
    for (uint64_t i = 0, end; i < count && b->side == RSP_INFER; i = end) {
      for (end = i; end < count && elems[end].kind == elems[i].kind; end++) continue;
      if (elems[i].kind == RSP_SLOT_PAD)
        MK_PUSH(&s->zeros, struct rsp_zero, {gid, 0, s->zloops.count, i * size, (end - i) * size});
    }
    free(elems);
  }
}

static void set(struct rsp_global_tables *g, enum rsp_section_kind kind, struct mk_buf *b) {
  g->sections[kind] = b->at;
  g->counts[kind] = b->count;
}

static struct rsp_slice_tables tables_of(const struct mk *m, uint32_t rank) {
  const struct mk_slice *s = &m->slices[rank];
  const struct rsp_rank *r = MK_AT(m->ranks, struct rsp_rank, rank);
  return (struct rsp_slice_tables){rank,
                                   r->train_rank,
                                   r->infer_rank,
                                   m->rounds,
                                   s->staging,
                                   s->names.at,
                                   s->names.count,
                                   s->files.at,
                                   s->files.count,
                                   s->buffers.at,
                                   s->buffers.count,
                                   s->dims.at,
                                   s->dims.count,
                                   s->zeros.at,
                                   s->zeros.count,
                                   s->zloops.at,
                                   s->zloops.count,
                                   s->bodies.at,
                                   s->bodies.count,
                                   s->descs.at,
                                   s->descs.count,
                                   s->shapes.at,
                                   s->shapes.count,
                                   s->loops.at,
                                   s->loops.count,
                                   s->streams.at,
                                   s->streams.count,
                                   s->parts.at,
                                   s->parts.count};
}

static void build(struct mk *m, void **bytes, size_t *size) {
  struct rsp_global_tables g = {.features = m->relays ? RSP_FEATURE_RELAY : 0,
                                .world = m->world,
                                .train_world = m->train_world,
                                .infer_world = m->infer_world,
                                .rounds = m->rounds,
                                .max_ops = 1024,
                                .staging_limit = 1 << 20,
                                .chunk = 64};
  struct mk_buf *sections[] = {&m->strings, &m->inputs, &m->files,  &m->tensors, &m->dims,  &m->ranks,    &m->classes,
                               &m->entries, &m->pieces, &m->ploops, &m->buffers, &m->slots, &m->rankmaps, &m->holds};
  for (int i = 0; i < 14; i++) set(&g, (enum rsp_section_kind)i, sections[i]);
  g.sections[RSP_SEC_SUMMARY] = &m->summary;
  g.counts[RSP_SEC_SUMMARY] = 1;
  struct rsp_slice_tables *slices = calloc(m->world, sizeof *slices);
  for (uint32_t r = 0; r < m->world; r++) slices[r] = tables_of(m, r);
  if (!rsp_build(&g, slices, bytes, size)) abort();
  free(slices);
  for (int i = 0; i < 14; i++) free(sections[i]->at);
}

void maker_plan(uint64_t seed, void **bytes, size_t *size) {
  uint32_t world_of[2][8] = {{0}};
  struct mk m = {.state = seed * 0x9e3779b97f4a7c15ull + 1, .world_of = world_of};
  struct family families[3];
  mk_draw(&m, 2);
  for (uint32_t i = 0; i < 2; i++) {
    struct rsp_str name = mk_string(&m.strings, i ? "infer.layout" : "train.layout");
    MK_PUSH(&m.inputs, struct rsp_input, {i ? RSP_INPUT_INFER : RSP_INPUT_TRAIN, 0, name, {0}});
    MK_PUSH(&m.files, struct rsp_str, {name.off, name.len});
  }
  add_ranks(&m);
  uint32_t count = add_families(&m, families);
  add_side(&m, RSP_TRAIN, families, count);
  add_side(&m, RSP_INFER, families, count);
  if (mk_draw(&m, 3) == 0)
    add_buffers(&m, RSP_INFER, &families[mk_draw(&m, count)], 1); // wanted again, in another form
  m.slices = calloc(m.world, sizeof *m.slices);
  mk_flows(&m);
  build(&m, bytes, size);
  for (uint32_t r = 0; r < m.world; r++) {
    struct mk_slice *s = &m.slices[r];
    struct mk_buf *all[] = {&s->names,  &s->files, &s->buffers, &s->dims,  &s->zeros,   &s->zloops,
                            &s->bodies, &s->descs, &s->shapes,  &s->loops, &s->streams, &s->parts};
    for (int i = 0; i < 12; i++) free(all[i]->at);
  }
  free(m.slices);
}
