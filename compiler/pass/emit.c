/* SPDX-License-Identifier: Apache-2.0
 *
 * In: what all passes decided, and lower for the slices. Out: the plan's bytes, given away as they are made. The global
 * sections written here are the specification: what every element of every buffer means, class by class.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/pass/lower.h"

struct emitter {
  struct rsc_arena *arena;
  const struct rsc_decided *d;
  struct rsc_keys *strings, *files;
  size_t text_bytes;
  struct {
    RSC_VEC(struct rsp_str);
  } string_refs; /* by key */
  struct {
    RSC_VEC(struct rsp_str);
  } file_names;
  struct {
    RSC_VEC(struct rsp_tensor);
  } tensors;
  struct {
    RSC_VEC(uint64_t);
  } dims;
  struct {
    RSC_VEC(struct rsp_class);
  } classes;
  struct {
    RSC_VEC(struct rsp_entry);
  } entries;
  struct {
    RSC_VEC(struct rsp_piece);
  } pieces;
  struct {
    RSC_VEC(struct rsp_ploop);
  } ploops;
  struct {
    RSC_VEC(struct rsp_buffer);
  } buffers;
  struct {
    RSC_VEC(uint32_t);
  } slots;
  struct {
    RSC_VEC(struct rsp_rankmap);
  } rankmaps;
  struct {
    RSC_VEC(struct rsp_hold);
  } holds;
};

/* The text is read when all strings are known. */
static struct rsp_str add_string(struct emitter *e, const char *text) {
  size_t len = strlen(text);
  bool fresh;
  int32_t id = rsc_keys_id_of(e->strings, text, len, &fresh);
  if (fresh) {
    *RSC_PUSH(e->arena, &e->string_refs) = (struct rsp_str){e->text_bytes, len};
    e->text_bytes += len;
  }
  return e->string_refs.at[id];
}

static const char *emit_strings(struct emitter *e) {
  char *text = RSC_ARRAY(e->arena, char, e->text_bytes);
  for (size_t i = 0; i < e->string_refs.len; i++) {
    const struct rsp_str *s = &e->string_refs.at[i];
    if (s->len) memcpy(text + s->off, rsc_keys_bytes(e->strings, (int32_t)i, NULL), s->len);
  }
  return text;
}

static uint64_t add_dims(struct emitter *e, const int64_t *dims, int32_t ndim) {
  uint64_t at = e->dims.len;
  for (int32_t i = 0; i < ndim; i++) *RSC_PUSH(e->arena, &e->dims) = (uint64_t)dims[i];
  return at;
}

static void emit_tensors(struct emitter *e) {
  const struct rsc_pairs *p = e->d->pairs;
  for (int32_t i = 0; i < p->tensor_count; i++) {
    const struct rsc_paired_tensor *t = &p->tensors[i];
    uint32_t flags = (t->skip_train ? RSP_TENSOR_SKIP_TRAIN : 0) | (t->skip_infer ? RSP_TENSOR_SKIP_INFER : 0);
    *RSC_PUSH(e->arena, &e->tensors) = (struct rsp_tensor){.name = add_string(e, t->tensor->name),
                                                           .dtype = t->tensor->dtype,
                                                           .ndim = (uint32_t)t->tensor->ndim,
                                                           .flags = flags,
                                                           .dims = add_dims(e, t->tensor->dims, t->tensor->ndim),
                                                           .elems = (uint64_t)t->tensor->elems};
  }
}

/* ---- classes ---- */

static void emit_piece(struct emitter *e, const struct rsc_class *c, const struct rsc_piece *piece) {
  const struct rsc_nest *n = &piece->nest;
  struct rsp_piece out = {.t0 = (uint64_t)n->base[RSC_F_TENSOR],
                          .b0 = (uint64_t)n->base[RSC_F_POS],
                          .loops = e->ploops.len,
                          .loop_count = (uint32_t)n->loop_count};
  if (piece->slot >= 0) {
    const struct rsc_slot *slot = &c->slots[piece->slot];
    out.slot = (uint32_t)piece->slot;
    out.op = slot->op;
    out.constant = slot->constant;
    out.flags = slot->replica ? RSP_PIECE_REPLICA : 0;
  } else {
    out.slot = piece->slot == RSC_SLOT_PAD ? RSP_SLOT_PAD : RSP_SLOT_GAP;
  }
  *RSC_PUSH(e->arena, &e->pieces) = out;
  for (int32_t i = 0; i < n->loop_count; i++)
    *RSC_PUSH(e->arena, &e->ploops) =
        (struct rsp_ploop){(uint64_t)rsc_nest_count(n, i), (uint64_t)rsc_nest_step(n, i, RSC_F_TENSOR),
                           (uint64_t)rsc_nest_step(n, i, RSC_F_POS)};
}

static void emit_class(struct emitter *e, const struct rsc_class *c) {
  *RSC_PUSH(e->arena, &e->classes) = (struct rsp_class){
      .entries = e->entries.len, .entry_count = (uint64_t)c->entry_count, .slot_count = (uint32_t)c->slot_count};
  for (int32_t i = 0; i < c->entry_count; i++) {
    const struct rsc_entry *entry = &c->entries[i];
    *RSC_PUSH(e->arena, &e->entries) = (struct rsp_entry){.elems = (uint64_t)entry->elems,
                                                          .dims = add_dims(e, entry->dims, entry->ndim),
                                                          .ndim = (uint32_t)entry->ndim,
                                                          .pieces = e->pieces.len,
                                                          .piece_count = entry->pieces.len};
    for (size_t k = 0; k < entry->pieces.len; k++) emit_piece(e, c, &entry->pieces.at[k]);
  }
}

static void emit_placement(struct emitter *e, const struct rsc_placement *p) {
  for (int32_t i = 0; i < p->class_count; i++) emit_class(e, &p->classes[i]);
  for (int32_t i = 0; i < p->rankmap_count; i++) {
    const struct rsc_rankmap *m = &p->rankmaps[i];
    *RSC_PUSH(e->arena, &e->rankmaps) = (struct rsp_rankmap){e->holds.len, (uint64_t)m->count};
    for (int64_t k = 0; k < m->count; k++)
      *RSC_PUSH(e->arena, &e->holds) = (struct rsp_hold){(uint32_t)m->ranks[k], (uint32_t)m->entries[k]};
  }
}

static uint32_t file_index(struct emitter *e, int32_t file) {
  bool fresh;
  int32_t titled = rsc_sources_first_titled(e->d->sources, file);
  int32_t id = rsc_keys_id(e->files, &titled, sizeof titled, &fresh);
  if (fresh) *RSC_PUSH(e->arena, &e->file_names) = add_string(e, rsc_sources_title(e->d->sources, file));
  return (uint32_t)id;
}

static void emit_buffers(struct emitter *e) {
  const struct rsc_pairs *p = e->d->pairs;
  int32_t class_base[2] = {0, p->placement[RSC_TRAIN]->class_count};
  int32_t map_base[2] = {0, p->placement[RSC_TRAIN]->rankmap_count};
  for (int32_t g = 0; g < p->gid_count; g++) {
    const struct rsc_buffer *b = rsc_buffer_of(p, g);
    const struct rsc_placed_buffer *placed = rsc_placed(p, g);
    enum rsc_side side = p->gids[g].side;
    *RSC_PUSH(e->arena, &e->buffers) = (struct rsp_buffer){.name = add_string(e, b->name),
                                                           .side = (uint32_t)side,
                                                           .dtype = rsc_class_of(p, g)->dtype,
                                                           .klass = (uint32_t)(class_base[side] + placed->klass),
                                                           .rankmap = (uint32_t)(map_base[side] + placed->rankmap),
                                                           .slots = e->slots.len,
                                                           .file = file_index(e, b->span.file),
                                                           .line = b->span.line,
                                                           .col = b->span.col};
    for (int32_t s = 0; s < rsc_class_of(p, g)->slot_count; s++)
      *RSC_PUSH(e->arena, &e->slots) = (uint32_t)p->tensor_of[side][placed->slots[s]];
  }
}

/* ---- ranks, inputs, figures ---- */

static const struct rsp_rank *emit_ranks(struct emitter *e) {
  const struct rsc_cluster *c = e->d->cluster;
  struct rsp_rank *ranks = RSC_ARRAY(e->arena, struct rsp_rank, c->world);
  for (int64_t r = 0; r < c->world; r++) {
    const struct rsc_process *p = &c->processes[r];
    ranks[r] = (struct rsp_rank){.train_rank = p->train_rank < 0 ? RSP_NO_RANK : (uint32_t)p->train_rank,
                                 .infer_rank = p->infer_rank < 0 ? RSP_NO_RANK : (uint32_t)p->infer_rank,
                                 .domain = (uint32_t)c->hosts[p->host].domain,
                                 .gpu = (uint32_t)p->gpu,
                                 .host = add_string(e, c->hosts[p->host].name),
                                 .domain_name = add_string(e, c->domains[c->hosts[p->host].domain].name)};
  }
  return ranks;
}

enum { INPUTS = 4 };

static const struct rsp_input *emit_inputs(struct emitter *e) {
  struct rsp_input *inputs = RSC_ARRAY(e->arena, struct rsp_input, INPUTS);
  const char *const paths[INPUTS] = {e->d->train_path, e->d->infer_path, e->d->cluster_path, NULL};
  const uint32_t kinds[INPUTS] = {RSP_INPUT_TRAIN, RSP_INPUT_INFER, RSP_INPUT_CLUSTER, RSP_INPUT_OPTIONS};
  for (int i = 0; i < INPUTS; i++) {
    inputs[i].kind = kinds[i];
    inputs[i].name = add_string(e, paths[i] ? rsc_base_name(paths[i]) : "");
  }
  rsc_side_digest(e->d->pairs, RSC_TRAIN, inputs[0].digest);
  rsc_side_digest(e->d->pairs, RSC_INFER, inputs[1].digest);
  rsc_cluster_digest(e->d->cluster, inputs[2].digest);
  rsc_options_digest(e->d->limits, inputs[3].digest);
  return inputs;
}

/* The times are not known before the plan is: see measure.c. */
static struct rsp_summary *emit_summary(struct emitter *e) {
  const struct rsc_flows *f = e->d->flows;
  const struct rsc_links *l = &e->d->cluster->links;
  struct rsp_summary *s = RSC_NEW(e->arena, struct rsp_summary);
  *s = (struct rsp_summary){.tensors = (uint64_t)f->delivered_tensors,
                            .elements = (uint64_t)f->delivered_elems,
                            .bytes = (uint64_t)f->delivered_bytes,
                            .deliveries = (uint64_t)f->delivered_elems,
                            .wanted_bytes = (uint64_t)f->delivered_bytes,
                            .local_bytes = (uint64_t)e->d->routes->link_bytes[RSC_LINK_LOCAL],
                            .nvlink_bytes = (uint64_t)e->d->routes->link_bytes[RSC_LINK_NVLINK],
                            .network_bytes = (uint64_t)e->d->routes->link_bytes[RSC_LINK_NETWORK],
                            .network_minimum = (uint64_t)e->d->network_minimum,
                            .nvlink_bandwidth = l->nvlink_bandwidth,
                            .nvlink_latency = l->nvlink_latency,
                            .network_bandwidth = l->network_bandwidth,
                            .network_latency = l->network_latency,
                            .memory_bandwidth = l->memory_bandwidth,
                            .issue_seconds = l->issue_seconds};
  return s;
}

static void set(struct rsp_global_tables *g, enum rsp_section_kind kind, const void *at, uint64_t count) {
  g->sections[kind] = at;
  g->counts[kind] = count;
}

static void emit_specification(struct emitter *e, struct rsp_global_tables *g) {
  const struct rsc_decided *d = e->d;
  const struct rsc_pairs *p = d->pairs;
  RSC_RESERVE(e->arena, &e->tensors, p->tensor_count);
  RSC_RESERVE(e->arena, &e->buffers, p->gid_count);
  emit_tensors(e);
  emit_placement(e, p->placement[RSC_TRAIN]);
  emit_placement(e, p->placement[RSC_INFER]);
  emit_buffers(e);
  set(g, RSP_SEC_INPUTS, emit_inputs(e), INPUTS);
  set(g, RSP_SEC_RANKS, emit_ranks(e), (uint64_t)d->cluster->world);
  set(g, RSP_SEC_TENSORS, e->tensors.at, e->tensors.len);
  set(g, RSP_SEC_CLASSES, e->classes.at, e->classes.len);
  set(g, RSP_SEC_ENTRIES, e->entries.at, e->entries.len);
  set(g, RSP_SEC_PIECES, e->pieces.at, e->pieces.len);
  set(g, RSP_SEC_PLOOPS, e->ploops.at, e->ploops.len);
  set(g, RSP_SEC_BUFFERS, e->buffers.at, e->buffers.len);
  set(g, RSP_SEC_SLOTS, e->slots.at, e->slots.len);
  set(g, RSP_SEC_RANKMAPS, e->rankmaps.at, e->rankmaps.len);
  set(g, RSP_SEC_HOLDS, e->holds.at, e->holds.len);
  set(g, RSP_SEC_DIMS, e->dims.at, e->dims.len);
  set(g, RSP_SEC_FILES, e->file_names.at, e->file_names.len);
  set(g, RSP_SEC_STRINGS, emit_strings(e), e->text_bytes);
}

/* Every rank's holdings, then every rank's slice. */
static bool emit_programs(struct emitter *e, struct rsp_builder *b, struct rsc_programs *programs,
                          struct rsp_sim_streams *streams) {
  int64_t world = e->d->cluster->world;
  int32_t *block_of = RSC_ARRAY(e->arena, int32_t, world); /* per rank; lower's numbers are the builder's */
  struct rsp_slice_tables tables;
  for (int64_t r = 0; r < world; r++) {
    bool fresh;
    block_of[r] = rsc_lower_held(programs, r, &tables, &fresh);
    if (fresh) rsp_build_held(b, &tables);
  }
  bool good = true;
  for (int64_t r = 0; r < world && good; r++) {
    struct rsp_program written;
    rsc_lower_rank(programs, r, &tables);
    good = rsp_build_slice(b, &tables, (size_t)block_of[r], &written);
    if (good) rsp_sim_streams_add(streams, (uint32_t)r, &written);
  }
  return good;
}

bool rsc_emit(const struct rsc_decided *d, struct rsc_programs *programs, rsp_put_fn put, void *user,
              struct rsc_result *result) {
  struct emitter e = {.arena = rsc_arena_new(), .d = d};
  e.strings = rsc_keys_new(e.arena);
  e.files = rsc_keys_new(e.arena);
  bool relays = false;
  for (int64_t i = 0; i < d->routes->stream_count; i++) relays |= d->routes->streams[i].parent >= 0;
  struct rsp_global_tables g = {.features = relays ? RSP_FEATURE_RELAY : 0,
                                .world = (uint32_t)d->cluster->world,
                                .train_world = (uint32_t)d->cluster->train_world,
                                .infer_world = (uint32_t)d->cluster->infer_world,
                                .rounds = (uint32_t)d->rounds->rounds,
                                .max_ops = (uint32_t)d->limits->max_ops,
                                .max_peers = (uint32_t)d->limits->max_peers,
                                .staging_limit = (uint64_t)d->limits->staging,
                                .chunk = (uint64_t)d->rounds->chunk};
  emit_specification(&e, &g);
  struct rsp_summary *summary = emit_summary(&e);
  set(&g, RSP_SEC_SUMMARY, summary, 1);
  struct rsp_builder *b = rsp_build_begin(&g, put, user);
  if (!b) rsc_oom(0);
  struct rsp_plan specification;
  rsp_build_view(b, &specification);
  struct rsp_sim_streams *streams = rsp_sim_streams_new(g.world, specification.ranks);
  if (emit_programs(&e, b, programs, streams))
    rsc_measure(d->cluster, &specification, streams, summary, &result->figures);
  else
    rsp_sim_streams_free(streams);
  bool good = rsp_build_end(b, &result->header);
  result->summary = *summary;
  result->plan_bytes = (size_t)result->header.file_bytes;
  rsc_arena_free(e.arena);
  return good;
}
