/* SPDX-License-Identifier: Apache-2.0
 *
 * In: what all passes decided. Out: for one world rank after the other, the tables of its slice. Both ends of a stream
 * get the same parts and bodies of the same shape; only buffers, offsets, steps and conversions are each end's own.
 */
#include "compiler/pass/lower.h"

#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/base/seed.h"

/* A buffer that a rank has, and the first entry of its class that makes the same rows as the rank's. */
struct held {
  int32_t gid, entry;
};

/* A shape in the slice of a rank. */
struct own_shape {
  int64_t stamp; /* the rank, plus one */
  uint32_t number;
};

/* What the slices of all ranks choose from. */
struct common {
  struct rsc_keys *shape_keys;
  struct rsc_key shape;
  struct {
    RSC_VEC(struct rsp_shape);
  } shapes; /* loops: index into the following */
  struct {
    RSC_VEC(struct rsp_loop);
  } loops;
  struct {
    RSC_VEC(struct own_shape);
  } own;                         /* per shape: of the rank at hand */
  const struct rsp_desc **descs; /* per end of a group: its descriptors with shapes of all ranks; NULL: not asked for */
};

struct rsc_programs {
  struct rsc_arena *arena; /* of all ranks */
  struct rsc_arena *own;   /* of the rank at hand */
  struct rsc_arena *holds; /* of the lists of who holds what, and their keys */
  const struct rsc_decided *d;
  int64_t *held_start; /* per world rank, into held; ascending gid */
  struct held *held;
  struct rsc_keys *profiles; /* lists of held entries */
  int64_t *stream_start;     /* per world rank, into stream_of: 2 * stream + (1 at the destination) */
  int64_t *stream_of;
  int32_t *end_base; /* per group: number of its first end's body; the others follow */
  int64_t *incoming; /* per stream: its place in the slice of the rank at hand */
  int64_t *body_of;  /* per such number: body of the rank at hand, if stamp says so */
  int64_t *stamp;
  struct common common;
  bool seeded;
};

/* What a rank holds. */
struct holdings {
  struct {
    RSC_VEC(char);
  } names;
  struct {
    RSC_VEC(struct rsp_str);
  } files;
  struct {
    RSC_VEC(struct rsp_sbuffer);
  } buffers;
  struct {
    RSC_VEC(uint64_t);
  } dims;
  struct {
    RSC_VEC(struct rsp_zero);
  } zeros;
  struct {
    RSC_VEC(struct rsp_zloop);
  } zloops;
};

/* What a rank does. */
struct slice {
  struct {
    RSC_VEC(struct rsp_body);
  } bodies;
  struct {
    RSC_VEC(struct rsp_desc);
  } descs;
  struct {
    RSC_VEC(struct rsp_shape);
  } shapes;
  struct {
    RSC_VEC(struct rsp_loop);
  } loops;
  struct {
    RSC_VEC(struct rsp_stream);
  } streams;
  struct {
    RSC_VEC(struct rsp_part);
  } parts;
};

/* ---- who holds what, who is at the ends of what ---- */

static const int64_t *world_of(const struct rsc_programs *l, enum rsc_side side) {
  return side == RSC_TRAIN ? l->d->cluster->world_of_train : l->d->cluster->world_of_infer;
}

/* What an entry's rows are made of: see add_buffers. */
static struct rsc_key key_of_entry(struct rsc_arena *scratch, const struct rsc_entry *e, bool zeros) {
  struct rsc_key key = {0};
  rsc_key_int(scratch, &key, e->elems);
  rsc_key_int(scratch, &key, e->ndim);
  rsc_key_add(scratch, &key, e->dims, (size_t)e->ndim * sizeof *e->dims);
  for (size_t i = 0; i < e->pieces.len && zeros; i++) {
    const struct rsc_nest *n = &e->pieces.at[i].nest;
    if (e->pieces.at[i].slot != RSC_SLOT_PAD) continue;
    rsc_key_int(scratch, &key, n->base[RSC_F_POS]);
    rsc_key_int(scratch, &key, n->loop_count);
    for (int32_t k = 0; k < n->loop_count; k++) {
      rsc_key_int(scratch, &key, rsc_nest_count(n, k));
      rsc_key_int(scratch, &key, rsc_nest_step(n, k, RSC_F_POS));
    }
  }
  return key;
}

/* Per class of a side and entry: the first entry like it. */
static int32_t **find_alike(struct rsc_arena *scratch, const struct rsc_placement *p, bool zeros) {
  int32_t **alike = RSC_ARRAY(scratch, int32_t *, p->class_count);
  for (int32_t c = 0; c < p->class_count; c++) {
    struct rsc_keys *keys = rsc_keys_new(scratch);
    int32_t *first = RSC_ARRAY(scratch, int32_t, p->classes[c].entry_count);
    alike[c] = RSC_ARRAY(scratch, int32_t, p->classes[c].entry_count);
    for (int32_t e = 0; e < p->classes[c].entry_count; e++) {
      struct rsc_key key = key_of_entry(scratch, &p->classes[c].entries[e], zeros);
      bool fresh;
      int32_t id = rsc_keys_id_of(keys, key.at, key.len, &fresh);
      if (fresh) first[id] = e;
      alike[c][e] = first[id];
    }
  }
  return alike;
}

static void index_buffers(struct rsc_programs *l) {
  const struct rsc_pairs *p = l->d->pairs;
  struct rsc_arena *scratch = rsc_arena_new();
  int32_t **alike[2];
  for (int s = 0; s < 2; s++) alike[s] = find_alike(scratch, p->placement[s], s == RSC_INFER);
  l->held_start = RSC_ARRAY(l->holds, int64_t, l->d->cluster->world + 2);
  int64_t *start = l->held_start + 1; /* filled one ahead, so that filling leaves the starts behind */
  for (int32_t g = 0; g < p->gid_count; g++) {
    const struct rsc_rankmap *m = rsc_rankmap_of(p, g);
    for (int64_t i = 0; i < m->count; i++) start[world_of(l, p->gids[g].side)[m->ranks[i]] + 1]++;
  }
  for (int64_t r = 0; r < l->d->cluster->world; r++) start[r + 1] += start[r];
  l->held = RSC_ARRAY(l->holds, struct held, start[l->d->cluster->world]);
  for (int32_t g = 0; g < p->gid_count; g++) {
    const struct rsc_rankmap *m = rsc_rankmap_of(p, g);
    const int32_t *first = alike[p->gids[g].side][rsc_placed(p, g)->klass];
    for (int64_t i = 0; i < m->count; i++)
      l->held[start[world_of(l, p->gids[g].side)[m->ranks[i]]]++] = (struct held){g, first[m->entries[i]]};
  }
  rsc_arena_free(scratch);
}

static void index_streams(struct rsc_programs *l) {
  const struct rsc_routes *routes = l->d->routes;
  l->stream_start = RSC_ARRAY(l->arena, int64_t, l->d->cluster->world + 2);
  int64_t *start = l->stream_start + 1;
  for (int64_t i = 0; i < routes->stream_count; i++) {
    start[routes->streams[i].src + 1]++;
    start[routes->streams[i].dst + 1]++;
  }
  for (int64_t r = 0; r < l->d->cluster->world; r++) start[r + 1] += start[r];
  l->stream_of = RSC_ARRAY(l->arena, int64_t, 2 * routes->stream_count);
  /* Streams are sorted by (src, dst, kind): sources first gives OUT by peer, then IN by peer. */
  for (int end = 0; end < 2; end++)
    for (int64_t i = 0; i < routes->stream_count; i++)
      l->stream_of[start[end ? routes->streams[i].dst : routes->streams[i].src]++] = 2 * i + end;
}

/* ---- buffers, names, zeros ---- */

static struct rsp_str add_name(struct rsc_programs *l, struct holdings *s, const char *name) {
  size_t len = strlen(name);
  struct rsp_str ref = {s->names.len, len};
  RSC_RESERVE(l->own, &s->names, s->names.len + len + 1);
  if (len) memcpy(s->names.at + s->names.len, name, len);
  s->names.len += len;
  return ref;
}

static uint32_t file_of(struct rsc_programs *l, struct holdings *s, struct rsc_keys *files, int32_t file) {
  bool fresh;
  int32_t titled = rsc_sources_first_titled(l->d->sources, file);
  int32_t id = rsc_keys_id(files, &titled, sizeof titled, &fresh);
  if (fresh) *RSC_PUSH(l->own, &s->files) = add_name(l, s, rsc_sources_title(l->d->sources, file));
  return (uint32_t)id;
}

static void add_zeros(struct rsc_programs *l, struct holdings *s, uint32_t gid, const struct rsc_entry *entry,
                      uint64_t size) {
  for (size_t i = 0; i < entry->pieces.len; i++) {
    const struct rsc_piece *piece = &entry->pieces.at[i];
    if (piece->slot != RSC_SLOT_PAD) continue;
    const struct rsc_nest *n = &piece->nest;
    int32_t loops = n->loop_count;
    bool run = loops && rsc_nest_step(n, loops - 1, RSC_F_POS) == 1;
    loops -= run;
    *RSC_PUSH(l->own, &s->zeros) =
        (struct rsp_zero){gid, (uint32_t)loops, s->zloops.len, (uint64_t)n->base[RSC_F_POS] * size,
                          (run ? (uint64_t)rsc_nest_count(n, loops) : 1) * size};
    for (int32_t k = 0; k < loops; k++)
      *RSC_PUSH(l->own, &s->zloops) =
          (struct rsp_zloop){(uint64_t)rsc_nest_count(n, k), (uint64_t)rsc_nest_step(n, k, RSC_F_POS) * size};
  }
}

static void add_buffers(struct rsc_programs *l, struct holdings *s, int64_t rank) {
  const struct rsc_pairs *p = l->d->pairs;
  struct rsc_keys *files = rsc_keys_new(l->own);
  for (int64_t i = l->held_start[rank]; i < l->held_start[rank + 1]; i++) {
    int32_t g = l->held[i].gid;
    const struct rsc_buffer *b = rsc_buffer_of(p, g);
    const struct rsc_class *c = rsc_class_of(p, g);
    const struct rsc_entry *e = &c->entries[l->held[i].entry];
    uint64_t size = rsp_dtype_bytes(c->dtype);
    struct rsp_sbuffer *out = RSC_PUSH(l->own, &s->buffers);
    *out = (struct rsp_sbuffer){.name = add_name(l, s, b->name),
                                .gid = (uint32_t)g,
                                .side = (uint32_t)p->gids[g].side,
                                .dtype = c->dtype,
                                .ndim = (uint32_t)e->ndim,
                                .dims = s->dims.len,
                                .bytes = (uint64_t)e->elems * size,
                                .line = b->span.line,
                                .col = b->span.col,
                                .align = (uint32_t)size};
    out->file = file_of(l, s, files, b->span.file);
    for (int32_t k = 0; k < e->ndim; k++) *RSC_PUSH(l->own, &s->dims) = (uint64_t)e->dims[k];
    if (p->gids[g].side == RSC_INFER) add_zeros(l, s, (uint32_t)g, e, size);
  }
}

int32_t rsc_lower_held(struct rsc_programs *l, int64_t rank, struct rsp_slice_tables *tables, bool *fresh) {
  const struct held *held = l->held + l->held_start[rank];
  size_t count = (size_t)(l->held_start[rank + 1] - l->held_start[rank]);
  int32_t id = rsc_keys_id_of(l->profiles, held, count * sizeof *held, fresh);
  if (!*fresh) return id;
  struct holdings h = {0};
  rsc_arena_reset(l->own);
  add_buffers(l, &h, rank);
  *tables = (struct rsp_slice_tables){
      .names = h.names.at,
      .names_bytes = h.names.len,
      .files = h.files.at,
      .file_count = h.files.len,
      .buffers = h.buffers.at,
      .buffer_count = h.buffers.len,
      .dims = h.dims.at,
      .dim_count = h.dims.len,
      .zeros = h.zeros.at,
      .zero_count = h.zeros.len,
      .zloops = h.zloops.at,
      .zloop_count = h.zloops.len,
  };
  return id;
}

/* ---- bodies ---- */

/* The shape of a descriptor at one end, among those of all ranks. */
static uint32_t shape_of(struct rsc_programs *l, const struct rsc_flow_desc *d, int32_t words, int32_t end) {
  struct common *c = &l->common;
  c->shape.len = 0;
  int64_t head[4] = {(int64_t)d->ends[end].dtype * 256 + (int64_t)d->wire, d->ends[end].op, d->run, 0};
  memcpy(&head[3], &d->ends[end].constant, sizeof d->ends[end].constant);
  rsc_key_add(l->arena, &c->shape, head, sizeof head);
  for (int32_t i = 0; i < d->loop_count; i++) {
    const int64_t *loop = d->loops + i * (1 + words);
    const int64_t mine[3] = {loop[0], loop[1 + 2 * end], loop[2 + 2 * end]};
    rsc_key_add(l->arena, &c->shape, mine, sizeof mine);
  }
  bool fresh;
  int32_t id = rsc_keys_id(c->shape_keys, c->shape.at, c->shape.len, &fresh);
  if (!fresh) return (uint32_t)id;
  *RSC_PUSH(l->arena, &c->own) = (struct own_shape){0};
  *RSC_PUSH(l->arena, &c->shapes) = (struct rsp_shape){.buf_dtype = d->ends[end].dtype,
                                                       .wire_dtype = d->wire,
                                                       .op = d->ends[end].op,
                                                       .constant = d->ends[end].constant,
                                                       .run = (uint64_t)d->run,
                                                       .loops = c->loops.len,
                                                       .loop_count = (uint32_t)d->loop_count};
  for (int32_t i = 0; i < d->loop_count; i++) {
    const int64_t *loop = d->loops + i * (1 + words);
    *RSC_PUSH(l->arena, &c->loops) = (struct rsp_loop){(uint64_t)loop[0], loop[1 + 2 * end], loop[2 + 2 * end]};
  }
  return (uint32_t)id;
}

/* One end's descriptors: the same for all ranks that are at it, but for the numbers of shapes. */
static const struct rsp_desc *descs_of(struct rsc_programs *l, int32_t group, int32_t end) {
  const struct rsc_group *g = &l->d->flows->groups[group];
  const struct rsp_desc **known = &l->common.descs[l->end_base[group] + end];
  if (*known) return *known;
  struct rsp_desc *descs = RSC_ARRAY(l->arena, struct rsp_desc, g->descs.len);
  for (size_t i = 0; i < g->descs.len; i++) {
    const struct rsc_flow_desc *d = &g->descs.at[i];
    descs[i] = (struct rsp_desc){.shape = shape_of(l, d, 2 * (g->wants + g->holds), end),
                                 .ref = (uint32_t)d->base[2 * end],
                                 .off = (uint64_t)d->base[2 * end + 1]};
  }
  return *known = descs;
}

/* The shape's number in the slice, which gets it if it has none like it. */
static uint32_t own_shape(struct rsc_programs *l, struct slice *s, int64_t rank, uint32_t shape) {
  struct own_shape *own = &l->common.own.at[shape];
  if (own->stamp == rank + 1) return own->number;
  *own = (struct own_shape){rank + 1, (uint32_t)s->shapes.len};
  struct rsp_shape *mine = RSC_PUSH(l->own, &s->shapes);
  *mine = l->common.shapes.at[shape];
  const struct rsp_loop *loops = l->common.loops.at + mine->loops;
  mine->loops = s->loops.len;
  for (uint32_t i = 0; i < mine->loop_count; i++) *RSC_PUSH(l->own, &s->loops) = loops[i];
  return own->number;
}

static uint64_t body_of(struct rsc_programs *l, struct slice *s, int64_t rank, int32_t group, int32_t end) {
  const struct rsc_group *g = &l->d->flows->groups[group];
  int32_t number = l->end_base[group] + end;
  if (l->stamp[number] == rank + 1) return (uint64_t)l->body_of[number];
  l->stamp[number] = rank + 1;
  l->body_of[number] = (int64_t)s->bodies.len;
  *RSC_PUSH(l->own, &s->bodies) = (struct rsp_body){s->descs.len, g->descs.len, (uint64_t)g->elems, g->wire_bytes, 0};
  const struct rsp_desc *descs = descs_of(l, group, end);
  RSC_RESERVE(l->own, &s->descs, s->descs.len + g->descs.len);
  for (size_t i = 0; i < g->descs.len; i++)
    *RSC_PUSH(l->own, &s->descs) =
        (struct rsp_desc){.shape = own_shape(l, s, rank, descs[i].shape), .ref = descs[i].ref, .off = descs[i].off};
  return (uint64_t)l->body_of[number];
}

/* ---- streams ---- */

static void add_stream(struct rsc_programs *l, struct slice *s, int64_t rank, int64_t index, bool at_dst) {
  const struct rsc_stream *st = &l->d->routes->streams[index];
  const struct rsc_timing *t = &l->d->rounds->timings[index];
  const struct rsc_staging *staging = at_dst ? &t->at_dst : &t->at_src;
  bool self = rsc_is_copy(st), relays = st->parent >= 0 && !at_dst;
  *RSC_PUSH(l->own, &s->streams) = (struct rsp_stream){
      .peer = (uint32_t)(at_dst ? st->src : st->dst),
      .dir = (uint32_t)(self ? (at_dst ? RSP_DIR_SELF_DST : RSP_DIR_SELF_SRC) : (at_dst ? RSP_DIR_IN : RSP_DIR_OUT)),
      .kind = st->direct ? RSP_KIND_DIRECT : RSP_KIND_STAGED,
      .tag = (uint32_t)st->tag,
      .relay = relays ? (uint32_t)l->incoming[st->parent] : RSP_NO_STREAM,
      .slots = (uint32_t)staging->slots,
      .parts = relays ? 0 : s->parts.len,
      .part_count = relays ? 0 : st->parts.len,
      .bytes = (uint64_t)st->bytes,
      .quantum = (uint64_t)t->quantum,
      .round0 = (uint32_t)t->round0,
      .step = (uint32_t)t->step,
      .stage_off = (uint64_t)staging->off,
      .slot_stride = (uint64_t)staging->stride};
  for (size_t i = 0; i < st->parts.len && !relays; i++) {
    const struct rsc_part *part = &st->parts.at[i];
    uint64_t body = body_of(l, s, rank, part->group, at_dst ? part->dst_end : part->src_end);
    *RSC_PUSH(l->own, &s->parts) = (struct rsp_part){body, (uint64_t)part->lo, (uint64_t)part->hi};
  }
}

/* Local copies come last; before them the order is that of the index. */
static void add_streams(struct rsc_programs *l, struct slice *s, int64_t rank) {
  const struct rsc_stream *all = l->d->routes->streams;
  int64_t lo = l->stream_start[rank], hi = l->stream_start[rank + 1], at = 0;
  for (int64_t i = lo; i < hi; i++) { /* where each incoming stream will stand: relays name it */
    if (rsc_is_copy(&all[l->stream_of[i] / 2])) continue;
    if (l->stream_of[i] % 2) l->incoming[l->stream_of[i] / 2] = at;
    at++;
  }
  for (int copies = 0; copies < 2; copies++)
    for (int64_t i = lo; i < hi; i++)
      if (rsc_is_copy(&all[l->stream_of[i] / 2]) == copies)
        add_stream(l, s, rank, l->stream_of[i] / 2, l->stream_of[i] % 2);
}

/* ---- seeded bugs: see base/seed.h ---- */

static bool seed_stream(struct slice *s, uint64_t bug, struct rsp_stream *st) {
  switch (bug) {
  case RSC_SEED_LOWER_SWAP:
    if (st->dir != RSP_DIR_IN || st->part_count < 2) return false;
    struct rsp_part *part = &s->parts.at[st->parts], swap = part[0];
    part[0] = part[1];
    part[1] = swap;
    return true;
  case RSC_SEED_EMIT_SLOT:
    if (st->slots < 2) return false;
    st->slots = 1;
    return true;
  case RSC_SEED_EMIT_COUNT:
    if (st->dir != RSP_DIR_IN || st->bytes <= st->quantum) return false;
    st->quantum += 8;
    return true;
  default:
    return false;
  }
}

static bool same_shape(const struct slice *s, const struct rsp_shape *a, const struct rsp_shape *b) {
  if (a->run != b->run || a->buf_dtype != b->buf_dtype || a->loop_count != b->loop_count) return false;
  for (uint32_t i = 0; i < a->loop_count; i++)
    if (s->loops.at[a->loops + i].count != s->loops.at[b->loops + i].count) return false;
  return true;
}

/* Each returns true once the bug is in. */
static bool seed_slice(struct slice *s, uint64_t bug) {
  for (size_t i = 0; i < s->streams.len; i++)
    if (seed_stream(s, bug, &s->streams.at[i])) return true;
  for (size_t i = 0; i < s->descs.len; i++) {
    struct rsp_desc *d = &s->descs.at[i];
    const struct rsp_shape *sh = &s->shapes.at[d->shape];
    if (bug == RSC_SEED_LOWER_STEP && sh->loop_count) {
      struct rsp_loop *loop = &s->loops.at[sh->loops + sh->loop_count - 1];
      int64_t size = (int64_t)rsp_dtype_bytes(sh->buf_dtype);
      if (loop->off_step > size && loop->count > 1) {
        loop->off_step -= size;
        return true;
      }
    }
    if (bug == RSC_SEED_EMIT_SWAP && i + 1 < s->descs.len && d[1].ref == d->ref && d[1].off != d->off &&
        same_shape(s, sh, &s->shapes.at[d[1].shape])) {
      uint64_t swap = d->off;
      d->off = d[1].off;
      d[1].off = swap;
      return true;
    }
  }
  return false;
}

/* ---- the pass ---- */

void rsc_lower_rank(struct rsc_programs *l, int64_t rank, struct rsp_slice_tables *tables) {
  if (l->holds) rsc_arena_free(l->holds);
  l->holds = NULL;
  rsc_arena_reset(l->own);
  struct slice s = {0};
  const struct rsc_process *process = &l->d->cluster->processes[rank];
  add_streams(l, &s, rank);
  if (l->d->seed_bug && !l->seeded) l->seeded = seed_slice(&s, l->d->seed_bug);
  *tables = (struct rsp_slice_tables){
      .world_rank = (uint32_t)rank,
      .train_rank = process->train_rank < 0 ? RSP_NO_RANK : (uint32_t)process->train_rank,
      .infer_rank = process->infer_rank < 0 ? RSP_NO_RANK : (uint32_t)process->infer_rank,
      .rounds = (uint32_t)l->d->rounds->rounds,
      .staging = (uint64_t)l->d->rounds->staging[rank],
      .bodies = s.bodies.at,
      .body_count = s.bodies.len,
      .descs = s.descs.at,
      .desc_count = s.descs.len,
      .shapes = s.shapes.at,
      .shape_count = s.shapes.len,
      .loops = s.loops.at,
      .loop_count = s.loops.len,
      .streams = s.streams.at,
      .stream_count = s.streams.len,
      .parts = s.parts.at,
      .part_count = s.parts.len,
  };
}

struct rsc_programs *rsc_lower(const struct rsc_decided *d) {
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_programs *l = RSC_NEW(arena, struct rsc_programs);
  *l = (struct rsc_programs){.arena = arena, .own = rsc_arena_new(), .holds = rsc_arena_new(), .d = d};
  l->profiles = rsc_keys_new(l->holds);
  index_buffers(l);
  index_streams(l);
  int32_t ends = 0;
  l->end_base = RSC_ARRAY(arena, int32_t, d->flows->group_count);
  for (int32_t g = 0; g < d->flows->group_count; g++) {
    l->end_base[g] = ends;
    ends += d->flows->groups[g].wants + d->flows->groups[g].holds;
  }
  l->incoming = RSC_ARRAY(arena, int64_t, d->routes->stream_count);
  l->body_of = RSC_ARRAY(arena, int64_t, ends);
  l->stamp = RSC_ARRAY(arena, int64_t, ends);
  l->common.shape_keys = rsc_keys_new(arena);
  l->common.descs = RSC_ARRAY(arena, const struct rsp_desc *, ends);
  return l;
}

void rsc_lower_end(struct rsc_programs *l) {
  if (!l) return;
  rsc_arena_free(l->holds);
  rsc_arena_free(l->own);
  rsc_arena_free(l->arena); /* l itself is in it */
}
