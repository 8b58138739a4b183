// SPDX-License-Identifier: Apache-2.0
//
// Out: the plan that tiny.h draws, and its forms with a relay.
#include "tests/plan/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plans/plan.h"

static bool relays(enum tiny_form form) {
  return form != TINY_PLAIN && form != TINY_WIDE;
}
static bool goes_on(enum tiny_form form) { // to another rank
  return form == TINY_RELAY_STAGED || form == TINY_RELAY_DIRECT;
}
static uint32_t kind_of(enum tiny_form form) {
  return form == TINY_RELAY_STAGED || form == TINY_AGAIN_STAGED ? RSP_KIND_STAGED : RSP_KIND_DIRECT;
}

static struct rsp_str add(char *table, uint64_t *used, const char *text) {
  struct rsp_str s = {*used, strlen(text)};
  memcpy(table + s.off, text, s.len);
  *used += s.len;
  return s;
}

static struct rsp_str global_string(struct tiny *t, const char *text) {
  return add(t->strings, &t->global.counts[RSP_SEC_STRINGS], text);
}

static void set(struct tiny *t, enum rsp_section_kind kind, const void *rows, uint64_t count) {
  t->global.sections[kind] = rows;
  t->global.counts[kind] = count;
}

static void init_inputs(struct tiny *t) {
  const struct {
    uint32_t kind;
    const char *name;
  } rows[] = {{RSP_INPUT_TRAIN, "train.layout"},
              {RSP_INPUT_INFER, "infer.layout"},
              {RSP_INPUT_CLUSTER, "tiny.yaml"},
              {RSP_INPUT_OPTIONS, ""}};
  for (unsigned i = 0; i < 4; i++) {
    t->inputs[i].kind = rows[i].kind;
    t->inputs[i].name = global_string(t, rows[i].name);
    memset(t->inputs[i].digest, (int)(0x11 * (i + 1)), 16);
  }
  t->files[0] = t->inputs[0].name;
  t->files[1] = t->inputs[1].name;
  set(t, RSP_SEC_INPUTS, t->inputs, 4);
  set(t, RSP_SEC_FILES, t->files, 2);
}

static void init_tensors(struct tiny *t) {
  const uint64_t dims[] = {4, 4, 8, 2, 4, 8, 4, 2, 10}; // w, b; then the local shapes of init_meaning
  memcpy(t->dims, dims, sizeof dims);
  t->tensors[0] =
      (struct rsp_tensor){.name = global_string(t, "w"), .dtype = RSP_F32, .ndim = 2, .dims = 0, .elems = 16};
  t->tensors[1] =
      (struct rsp_tensor){.name = global_string(t, "b"), .dtype = RSP_BF16, .ndim = 1, .dims = 2, .elems = 8};
  set(t, RSP_SEC_TENSORS, t->tensors, 2);
  set(t, RSP_SEC_DIMS, t->dims, 9);
}

static void init_ranks(struct tiny *t) {
  struct rsp_str h0 = global_string(t, "h0"), h1 = global_string(t, "h1");
  t->ranks[0] = (struct rsp_rank){0, RSP_NO_RANK, 0, 0, h0, h0};
  t->ranks[1] = (struct rsp_rank){1, 0, 0, 1, h0, h0};
  t->ranks[2] = (struct rsp_rank){RSP_NO_RANK, 1, 1, 0, h1, h1};
  set(t, RSP_SEC_RANKS, t->ranks, TINY_WORLD);
}

static void init_meaning(struct tiny *t) {
  const struct rsp_class classes[] = {{0, 2, 1, 0}, {2, 1, 1, 0}, {3, 2, 1, 0}, {5, 1, 1, 0}};
  const struct rsp_entry entries[] = {
      {8, 3, 2, 0, 0, 1}, {8, 3, 2, 0, 1, 1},                      // train w: rows of rank 0, of rank 1
      {8, 5, 1, 0, 2, 1},                                          // train b
      {8, 6, 2, 0, 3, 1}, {8, 6, 2, 0, 4, 1}, {10, 8, 1, 0, 5, 2}, // infer w_t: columns; infer b and its padding
  };
  const struct rsp_piece pieces[] = {
      {.t0 = 0, .loops = 0, .loop_count = 1},
      {.t0 = 8, .loops = 0, .loop_count = 1},
      {.t0 = 0, .loops = 0, .loop_count = 1},
      {.t0 = 0, .loops = 1, .loop_count = 2},
      {.t0 = 2, .loops = 1, .loop_count = 2},
      {.t0 = 0, .loops = 0, .loop_count = 1},
      {.b0 = 8, .loops = 3, .loop_count = 1, .slot = RSP_SLOT_PAD},
  };
  const struct rsp_ploop ploops[] = {{8, 1, 1}, {4, 4, 2}, {2, 1, 1}, {2, 0, 1}};
  memcpy(t->classes, classes, sizeof classes);
  memcpy(t->entries, entries, sizeof entries);
  memcpy(t->pieces, pieces, sizeof pieces);
  memcpy(t->ploops, ploops, sizeof ploops);
  set(t, RSP_SEC_CLASSES, t->classes, 4);
  set(t, RSP_SEC_ENTRIES, t->entries, 6);
  set(t, RSP_SEC_PIECES, t->pieces, 7);
  set(t, RSP_SEC_PLOOPS, t->ploops, 4);
}

static const struct {
  const char *name;
  uint32_t side, dtype, rankmap, tensor, line;
} meaning[] = {{"w", RSP_TRAIN, RSP_F32, 0, 0, 4},
               {"b", RSP_TRAIN, RSP_BF16, 1, 1, 5},
               {"w_t", RSP_INFER, RSP_F32, 0, 0, 4},
               {"b", RSP_INFER, RSP_BF16, 1, 1, 5},
               {"b_again", RSP_INFER, RSP_BF16, 2, 1, 6}};

static void init_buffers(struct tiny *t) {
  for (uint32_t i = 0; i < 4; i++) {
    t->buffers[i] = (struct rsp_buffer){.name = global_string(t, meaning[i].name),
                                        .side = meaning[i].side,
                                        .dtype = meaning[i].dtype,
                                        .klass = i,
                                        .rankmap = meaning[i].rankmap,
                                        .slots = i,
                                        .file = meaning[i].side,
                                        .line = meaning[i].line,
                                        .col = 3};
    t->slots[i] = meaning[i].tensor;
  }
  const struct rsp_hold holds[] = {{0, 0}, {1, 1}, {0, 0}, {1, 0}};
  memcpy(t->holds, holds, sizeof holds);
  t->rankmaps[0] = (struct rsp_rankmap){0, 2};
  t->rankmaps[1] = (struct rsp_rankmap){2, 2};
  set(t, RSP_SEC_BUFFERS, t->buffers, 4);
  set(t, RSP_SEC_SLOTS, t->slots, 4);
  set(t, RSP_SEC_RANKMAPS, t->rankmaps, 2);
  set(t, RSP_SEC_HOLDS, t->holds, 4);
}

static void init_summary(struct tiny *t) {
  t->summary = (struct rsp_summary){.tensors = 2,
                                    .elements = 32,
                                    .bytes = 96,
                                    .deliveries = 32,
                                    .wanted_bytes = 96,
                                    .local_bytes = 32,
                                    .nvlink_bytes = 16,
                                    .network_bytes = 48,
                                    .network_minimum = 48,
                                    .bound_seconds = 48 / 50e9,
                                    .makespan_seconds = 11e-6,
                                    .nvlink_bandwidth = 450e9,
                                    .nvlink_latency = 2e-6,
                                    .network_bandwidth = 50e9,
                                    .network_latency = 5e-6,
                                    .memory_bandwidth = 3.3e12,
                                    .issue_seconds = 1e-6};
  set(t, RSP_SEC_SUMMARY, &t->summary, 1);
}

// ---- slices --------------------------------------------------------------------------------------------------------

static void add_buffer(struct tiny *t, uint32_t world, uint32_t gid) {
  struct tiny_slice *s = &t->slice[world];
  struct rsp_slice_tables *out = &t->slices[world];
  static const struct {
    uint32_t ndim;
    uint64_t dims[2], bytes;
  } shapes[] = {{2, {2, 4}, 32}, {1, {8}, 16}, {2, {4, 2}, 32}, {1, {10}, 20}, {1, {8}, 16}};
  s->buffers[out->buffer_count++] = (struct rsp_sbuffer){.name = add(s->names, &out->names_bytes, meaning[gid].name),
                                                         .gid = gid,
                                                         .side = meaning[gid].side,
                                                         .dtype = meaning[gid].dtype,
                                                         .ndim = shapes[gid].ndim,
                                                         .dims = out->dim_count,
                                                         .bytes = shapes[gid].bytes,
                                                         .file = meaning[gid].side,
                                                         .line = meaning[gid].line,
                                                         .col = 3,
                                                         .align = meaning[gid].dtype == RSP_BF16 ? 2 : 4};
  for (uint32_t i = 0; i < shapes[gid].ndim; i++) s->dims[out->dim_count++] = shapes[gid].dims[i];
}

// The shape of two runs of two f32, or of one run of eight bf16 (loop_step 0); descriptors that look alike share it.
static uint32_t shape_of(struct tiny *t, uint32_t world, uint32_t dtype, int64_t loop_step) {
  struct tiny_slice *s = &t->slice[world];
  struct rsp_slice_tables *out = &t->slices[world];
  for (uint32_t i = 0; i < out->shape_count; i++) {
    const struct rsp_shape *sh = &s->shapes[i];
    if (sh->buf_dtype == dtype && (sh->loop_count ? s->loops[sh->loops].off_step : 0) == loop_step) return i;
  }
  s->shapes[out->shape_count] = (struct rsp_shape){.buf_dtype = dtype,
                                                   .wire_dtype = dtype,
                                                   .run = loop_step ? 2 : 8,
                                                   .loops = out->loop_count,
                                                   .loop_count = loop_step != 0};
  if (loop_step) s->loops[out->loop_count++] = (struct rsp_loop){2, 0, loop_step};
  return (uint32_t)out->shape_count++;
}

// A body of one descriptor.
static void add_body(struct tiny *t, uint32_t world, uint32_t gid, uint64_t off, int64_t loop_step) {
  struct tiny_slice *s = &t->slice[world];
  struct rsp_slice_tables *out = &t->slices[world];
  uint32_t shape = shape_of(t, world, meaning[gid].dtype, loop_step);
  s->bodies[out->body_count++] = (struct rsp_body){out->desc_count, 1, loop_step ? 4 : 8, loop_step ? 4 : 2, 0};
  s->descs[out->desc_count++] = (struct rsp_desc){shape, gid, off};
}

static void add_stream(struct tiny *t, uint32_t world, struct rsp_stream stream, uint64_t first_body, uint64_t count) {
  struct tiny_slice *s = &t->slice[world];
  struct rsp_slice_tables *out = &t->slices[world];
  stream.parts = out->part_count;
  stream.part_count = count;
  for (uint64_t b = first_body; b < first_body + count; b++) {
    s->parts[out->part_count++] = (struct rsp_part){b, 0, s->bodies[b].elems};
    stream.bytes += s->bodies[b].elems * s->bodies[b].wire_bytes;
  }
  s->streams[out->stream_count++] = stream;
}

static struct rsp_stream staged(uint32_t dir, uint32_t peer, uint64_t stage_off) {
  return (struct rsp_stream){.peer = peer,
                             .dir = dir,
                             .relay = RSP_NO_STREAM,
                             .slots = 2,
                             .quantum = 8,
                             .step = 1,
                             .stage_off = stage_off,
                             .slot_stride = 8};
}

static struct rsp_stream unstaged(uint32_t dir, uint32_t peer, uint32_t kind, uint32_t round0) {
  return (struct rsp_stream){
      .peer = peer, .dir = dir, .kind = kind, .relay = RSP_NO_STREAM, .quantum = 16, .round0 = round0, .step = 1};
}

// All of b in one message of that kind: beside another staged stream it has tag 1, and a slot of its own.
static struct rsp_stream whole(uint32_t dir, uint32_t peer, uint32_t kind, uint32_t round0) {
  struct rsp_stream s = unstaged(dir, peer, kind, round0);
  if (kind == RSP_KIND_DIRECT) return s;
  s.tag = s.slots = 1;
  s.stage_off = round0 ? 48 : 32;
  s.slot_stride = 16;
  return s;
}

// Passes on, in round 1, what stream `in` brings in round 0.
static void add_relay(struct tiny *t, uint32_t world, uint32_t peer, uint32_t kind, uint32_t in) {
  struct rsp_stream s = unstaged(RSP_DIR_OUT, peer, kind, 1);
  s.tag = kind == RSP_KIND_STAGED;
  s.relay = in;
  s.bytes = 16;
  t->slice[world].streams[t->slices[world].stream_count++] = s;
}

static void add_padding(struct tiny *t, uint32_t world) {
  t->slice[world].zeros[t->slices[world].zero_count++] = (struct rsp_zero){.gid = 3, .off = 16, .run_bytes = 4};
}

static void init_program_0(struct tiny *t, enum tiny_form form) {
  uint32_t kind = relays(form) ? kind_of(form) : RSP_KIND_DIRECT;
  add_buffer(t, 0, 0), add_buffer(t, 0, 1);
  add_body(t, 0, 0, 0, 16), add_body(t, 0, 0, 8, 16), add_body(t, 0, 1, 0, 0);
  add_stream(t, 0, staged(RSP_DIR_OUT, 1, 0), 0, 1);
  if (goes_on(form)) add_stream(t, 0, whole(RSP_DIR_OUT, 1, kind, 0), 2, 1);
  add_stream(t, 0, staged(RSP_DIR_OUT, 2, 16), 1, 1);
  if (!goes_on(form)) add_stream(t, 0, whole(RSP_DIR_OUT, 2, kind, !relays(form)), 2, 1);
}

static void init_program_1(struct tiny *t, enum tiny_form form) {
  for (uint32_t gid = 0; gid < 4; gid++) add_buffer(t, 1, gid);
  add_body(t, 1, 0, 8, 16); // to rank 2
  add_body(t, 1, 2, 0, 8);  // from rank 0
  if (goes_on(form)) {
    add_body(t, 1, 3, 0, 0);                            // from rank 0, and on to rank 2
    add_body(t, 1, 0, 0, 16), add_body(t, 1, 2, 16, 8); // to itself, from itself
    add_stream(t, 1, staged(RSP_DIR_OUT, 2, 0), 0, 1);
    add_relay(t, 1, 2, kind_of(form), 3);
    add_stream(t, 1, staged(RSP_DIR_IN, 0, 16), 1, 1);
    add_stream(t, 1, whole(RSP_DIR_IN, 0, kind_of(form), 0), 2, 1);
    add_stream(t, 1, unstaged(RSP_DIR_SELF_SRC, 1, RSP_KIND_STAGED, 0), 3, 1);
    add_stream(t, 1, unstaged(RSP_DIR_SELF_DST, 1, RSP_KIND_STAGED, 0), 4, 1);
  } else {
    add_body(t, 1, 0, 0, 16), add_body(t, 1, 1, 0, 0); // to itself
    add_body(t, 1, 2, 16, 8), add_body(t, 1, 3, 0, 0); // from itself
    add_stream(t, 1, staged(RSP_DIR_OUT, 2, 0), 0, 1);
    add_stream(t, 1, staged(RSP_DIR_IN, 0, 16), 1, 1);
    add_stream(t, 1, unstaged(RSP_DIR_SELF_SRC, 1, RSP_KIND_STAGED, 0), 2, 2);
    add_stream(t, 1, unstaged(RSP_DIR_SELF_DST, 1, RSP_KIND_STAGED, 0), 4, 2);
  }
  add_padding(t, 1);
}

static void init_program_2(struct tiny *t, enum tiny_form form) {
  bool on = goes_on(form), again = relays(form) && !on;
  uint32_t kind = relays(form) ? kind_of(form) : RSP_KIND_DIRECT;
  add_buffer(t, 2, 2), add_buffer(t, 2, 3);
  if (again) add_buffer(t, 2, 4);
  add_body(t, 2, 2, 0, 8), add_body(t, 2, 3, 0, 0), add_body(t, 2, 2, 16, 8);
  if (again) add_body(t, 2, 4, 0, 0);
  if (again) add_relay(t, 2, 2, kind, 2);
  add_stream(t, 2, staged(RSP_DIR_IN, 0, 0), 0, 1);
  if (!on) add_stream(t, 2, whole(RSP_DIR_IN, 0, kind, !relays(form)), 1, 1);
  add_stream(t, 2, staged(RSP_DIR_IN, 1, 16), 2, 1);
  if (on) add_stream(t, 2, whole(RSP_DIR_IN, 1, kind, 1), 1, 1);
  if (again) add_stream(t, 2, whole(RSP_DIR_IN, 2, kind, 1), 3, 1);
  add_padding(t, 2);
}

static void init_slice(struct tiny *t, uint32_t world) {
  struct tiny_slice *s = &t->slice[world];
  t->slices[world] = (struct rsp_slice_tables){.world_rank = world,
                                               .train_rank = t->ranks[world].train_rank,
                                               .infer_rank = t->ranks[world].infer_rank,
                                               .rounds = t->global.rounds,
                                               .staging = 32,
                                               .names = s->names,
                                               .files = s->files,
                                               .buffers = s->buffers,
                                               .dims = s->dims,
                                               .zeros = s->zeros,
                                               .zloops = s->zloops,
                                               .bodies = s->bodies,
                                               .descs = s->descs,
                                               .shapes = s->shapes,
                                               .loops = s->loops,
                                               .streams = s->streams,
                                               .parts = s->parts};
  s->files[0] = add(s->names, &t->slices[world].names_bytes, "train.layout");
  s->files[1] = add(s->names, &t->slices[world].names_bytes, "infer.layout");
  t->slices[world].file_count = 2;
}

static void init_slices(struct tiny *t, enum tiny_form form) {
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    init_slice(t, r);
    if (relays(form) && kind_of(form) == RSP_KIND_STAGED) t->slices[r].staging = 64;
  }
  init_program_0(t, form);
  init_program_1(t, form);
  init_program_2(t, form);
}

// Inference rank 1 wants b in a buffer of its own as well, without padding.
static void init_again(struct tiny *t) {
  t->buffers[4] = t->buffers[3];
  t->buffers[4].name = global_string(t, meaning[4].name);
  t->buffers[4].klass = 1; // as training holds it
  t->buffers[4].rankmap = 2;
  t->buffers[4].slots = 4;
  t->buffers[4].line = meaning[4].line;
  t->slots[4] = meaning[4].tensor;
  t->holds[4] = (struct rsp_hold){1, 0};
  t->rankmaps[2] = (struct rsp_rankmap){4, 1};
  set(t, RSP_SEC_BUFFERS, t->buffers, 5);
  set(t, RSP_SEC_SLOTS, t->slots, 5);
  set(t, RSP_SEC_RANKMAPS, t->rankmaps, 3);
  set(t, RSP_SEC_HOLDS, t->holds, 5);
  t->summary.elements += 8, t->summary.deliveries += 8;
  t->summary.bytes += 16, t->summary.wanted_bytes += 16, t->summary.local_bytes += 16;
}

// Inference rank 2 holds what rank 1 does, in tables of its own; rank 3 nothing.
static void init_wide(struct tiny *t) {
  const struct rsp_hold holds[] = {{0, 0}, {1, 1}, {2, 1}, {0, 0}, {1, 0}, {2, 0}};
  memcpy(t->holds + 4, holds, sizeof holds);
  t->rankmaps[2] = (struct rsp_rankmap){4, 3};
  t->rankmaps[3] = (struct rsp_rankmap){7, 3};
  t->buffers[2].rankmap = 2;
  t->buffers[3].rankmap = 3;
  set(t, RSP_SEC_RANKMAPS, t->rankmaps, 4);
  set(t, RSP_SEC_HOLDS, t->holds, 10);
  struct rsp_str h1 = t->ranks[2].host;
  t->ranks[3] = (struct rsp_rank){RSP_NO_RANK, 2, 1, 1, h1, h1};
  t->ranks[4] = (struct rsp_rank){RSP_NO_RANK, 3, 1, 2, h1, h1};
  set(t, RSP_SEC_RANKS, t->ranks, TINY_WIDE_WORLD);
  t->global.world = TINY_WIDE_WORLD;
  t->global.infer_world = 4;
}

static void init_wide_slices(struct tiny *t) {
  init_slice(t, 3);
  add_buffer(t, 3, 2), add_buffer(t, 3, 3);
  add_padding(t, 3);
  t->slices[4] = (struct rsp_slice_tables){
      .world_rank = 4, .train_rank = RSP_NO_RANK, .infer_rank = 3, .rounds = t->global.rounds};
}

void tiny_init(struct tiny *t) {
  tiny_init_form(t, TINY_PLAIN);
}

void tiny_init_form(struct tiny *t, enum tiny_form form) {
  memset(t, 0, sizeof *t);
  t->global = (struct rsp_global_tables){.world = TINY_WORLD,
                                         .train_world = 2,
                                         .infer_world = 2,
                                         .rounds = 2,
                                         .max_ops = 8,
                                         .max_peers = 0,
                                         .staging_limit = 4096,
                                         .chunk = 16};
  t->global.sections[RSP_SEC_STRINGS] = t->strings;
  init_inputs(t);
  init_tensors(t);
  init_ranks(t);
  init_meaning(t);
  init_buffers(t);
  init_summary(t);
  if (relays(form)) t->global.features = RSP_FEATURE_RELAY;
  if (goes_on(form)) t->summary.local_bytes -= 16, t->summary.nvlink_bytes += 16;
  if (relays(form) && !goes_on(form)) init_again(t);
  if (form == TINY_WIDE) init_wide(t);
  init_slices(t, form);
  if (form == TINY_WIDE) init_wide_slices(t);
}

bool tiny_build(const struct tiny *t, void **bytes, size_t *size) {
  return rsp_build(&t->global, t->instead ? t->instead : t->slices, bytes, size);
}

bool tiny_plan(void **bytes, size_t *size) {
  struct tiny *t = malloc(sizeof *t);
  if (!t) return false;
  tiny_init(t);
  bool good = tiny_build(t, bytes, size);
  free(t);
  return good;
}

bool tiny_each(void (*use)(const void *bytes, size_t size)) {
  struct tiny *t = malloc(sizeof *t);
  bool good = t != NULL;
  for (int form = TINY_PLAIN; good && form <= TINY_AGAIN_DIRECT; form++) {
    void *bytes = NULL;
    size_t size;
    tiny_init_form(t, (enum tiny_form)form);
    good = tiny_build(t, &bytes, &size);
    if (good) use(bytes, size);
    free(bytes);
  }
  free(t);
  return good;
}

bool tiny_file(char *path, size_t room) {
  const char *folder = getenv("TMPDIR");
  void *bytes;
  size_t size;
  struct rsp_error error;
  if ((size_t)snprintf(path, room, "%s/reshard-tiny-XXXXXX", folder && *folder ? folder : "/tmp") >= room) return false;
  int file = mkstemp(path);
  if (file < 0 || close(file) != 0 || !tiny_plan(&bytes, &size)) return false;
  bool good = rsp_write_file(path, bytes, size, &error) == RSP_OK;
  free(bytes);
  return good;
}
