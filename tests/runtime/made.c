/* SPDX-License-Identifier: Apache-2.0
 * See made.h: what the buffers are, and the file. */
#include <string.h>

#include "tests/runtime/made_impl.h"

uint64_t made_add(struct list *list, const void *row, uint64_t bytes) {
  if (list->count == list->room) {
    list->room = list->room ? 2 * list->room : 16;
    list->rows = realloc(list->rows, list->room * bytes);
    CHECK(list->rows, "memory");
  }
  memcpy((unsigned char *)list->rows + list->count * bytes, row, bytes);
  return list->count++;
}
static struct rsp_str add_text(struct list *list, const char *text) {
  struct rsp_str s = {list->count, strlen(text)};
  for (const char *c = text; *c; c++) add(list, c, 1);
  return s;
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

/* Returns the first gid. */
static uint32_t describe_side(struct maker *m, const struct group *g, uint32_t side, uint32_t tensor) {
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
  uint32_t gid = (uint32_t)m->buffers.count;
  for (uint32_t k = 0; k < g->count; k++) {
    char name[64];
    snprintf(name, sizeof name, "%u.%u.%u", side, klass, k);
    uint64_t slot = ADD(&m->slots, uint32_t, tensor + k);
    ADD(&m->buffers, struct rsp_buffer, .name = add_text(&m->strings, name), .side = side,
        .dtype = side == RSP_TRAIN ? g->src_dtype : g->dst_dtype, .klass = klass, .rankmap = side, .slots = slot,
        .file = side, .line = klass + 1, .col = 1);
  }
  return gid;
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
  const uint32_t *base = bases.rows;
  for (uint32_t g = 0; g < m->group_count; g++) {
    m->groups[g].src_gid = describe_side(m, &m->groups[g], RSP_TRAIN, base[g]);
  }
  m->train_gids = (uint32_t)m->buffers.count;
  for (uint32_t g = 0; g < m->group_count; g++) {
    m->groups[g].dst_gid = describe_side(m, &m->groups[g], RSP_INFER, base[g]);
  }
  for (uint32_t g = 0; g < m->group_count && m->options->relays; g++) {
    m->groups[g].twin_gid = describe_side(m, &m->groups[g], RSP_INFER, base[g]);
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
      struct rsp_zero zero = {.gid = group->dst_gid + k,
                              .off = (uint64_t)group->rows * group->columns * unit,
                              .run_bytes = group->pad * unit};
      add(&rank->zeros, &zero, sizeof zero);
      zero.gid = group->twin_gid + k;
      if (m->options->relays) add(&rank->zeros, &zero, sizeof zero);
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
                                   .shapes = r->shapes.rows,
                                   .shape_count = r->shapes.count,
                                   .loops = r->loops.rows,
                                   .loop_count = r->loops.count,
                                   .streams = r->streams.rows,
                                   .stream_count = r->streams.count,
                                   .parts = r->parts.rows,
                                   .part_count = r->parts.count};
}

static void *seal(struct maker *m, size_t *size) {
  struct rsp_global_tables global = {.features = m->relays ? RSP_FEATURE_RELAY : 0,
                                     .world = m->world,
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
    struct list *own[] = {&r->names, &r->files,  &r->buffers, &r->dims,    &r->zeros, &r->bodies,
                          &r->descs, &r->shapes, &r->loops,   &r->streams, &r->parts};
    for (uint32_t i = 0; i < sizeof own / sizeof *own; i++) free(own[i]->rows);
  }
  free(m->ranks);
  free(m->groups);
  free(m->tags);
  free(m->flows.rows);
}

void *made_plan(const struct made_options *options, size_t *size) {
  struct maker m = {.seed = options->seed, .options = options, .rounds = 1};
  m.world = options->train + options->infer - options->shared;
  m.group_count = (uint32_t)pick(&m, 1, options->groups);
  m.groups = calloc(m.group_count, sizeof *m.groups);
  m.ranks = calloc(m.world, sizeof *m.ranks);
  m.tags = calloc((size_t)m.world * m.world * 2, sizeof *m.tags);
  CHECK(m.groups && m.ranks && m.tags, "memory");
  for (uint32_t g = 0; g < m.group_count; g++) make_group(&m, &m.groups[g]);
  describe(&m);
  settle_ranks(&m);
  made_move_all(&m);
  void *bytes = seal(&m, size);
  free_maker(&m);
  return bytes;
}
