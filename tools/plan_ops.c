// SPDX-License-Identifier: Apache-2.0
//
// In: a rank's program. Out: what it does in each round, spelled out.
#include <stdlib.h>

#include "tools/plan_show.h"

struct list {
  const struct rsp_program *program;
  struct plan_op *ops;
  size_t count, capacity;
  size_t self; /* the next copy that waits for its destination */
  bool failed;
};

static struct plan_op *push(struct list *list, const struct rsp_stream *stream, uint64_t turn, enum plan_op_kind kind) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 64;
    struct plan_op *ops = list->failed ? NULL : realloc(list->ops, capacity * sizeof *ops);
    if (!ops) {
      list->failed = true;
      return NULL;
    }
    list->ops = ops;
    list->capacity = capacity;
  }
  struct plan_op *op = &list->ops[list->count++];
  *op = (struct plan_op){.round = plan_round_of(stream, turn), .kind = kind, .stream = stream};
  const struct rsp_stream *from = plan_stream_from(list->program, stream);
  if (from->slots) op->staging = from->stage_off + turn % from->slots * from->slot_stride;
  return op;
}

static void add_copy(struct list *list, const struct plan_fragment *f, enum plan_op_kind kind) {
  struct plan_op *op = push(list, f->stream, f->turn, kind);
  if (!op) return;
  op->bytes = f->bytes;
  op->desc = f->desc;
  op->lo = f->lo;
  op->hi = f->hi;
  op->staging += f->at % f->stream->quantum;
}

// A direct stream: one message per run.
static void add_runs(struct list *list, const struct plan_fragment *f, enum plan_op_kind kind) {
  uint64_t wire = f->bytes / (f->hi - f->lo);
  for (uint64_t lo = f->lo; lo < f->hi;) {
    uint64_t run = rsp_shape_of(list->program, f->desc)->run, hi = (lo / run + 1) * run;
    if (hi > f->hi) hi = f->hi;
    struct plan_op *op = push(list, f->stream, f->turn, kind);
    if (!op) return;
    op->bytes = (hi - lo) * wire;
    op->desc = f->desc;
    op->lo = lo;
    op->hi = hi;
    lo = hi;
  }
}

static void add_fragment(void *user, const struct plan_fragment *f) {
  struct list *list = user;
  bool direct = f->stream->kind == RSP_KIND_DIRECT;
  switch (f->stream->dir) {
  case RSP_DIR_OUT:
    if (direct)
      add_runs(list, f, PLAN_OP_SEND);
    else
      add_copy(list, f, PLAN_OP_PACK);
    return;
  case RSP_DIR_IN:
    if (direct)
      add_runs(list, f, PLAN_OP_RECEIVE);
    else
      add_copy(list, f, PLAN_OP_UNPACK);
    return;
  case RSP_DIR_SELF_SRC:
    add_copy(list, f, PLAN_OP_COPY);
    return;
  default:
    // Both ends have one shape, so fragments come in the same order.
    if (list->failed || list->self >= list->count) return;
    list->ops[list->self].to = f->desc;
    list->ops[list->self].to_lo = f->lo;
    list->self++;
  }
}

static void add_stream(struct list *list, const struct rsp_stream *s) {
  if (s->dir == RSP_DIR_SELF_SRC) list->self = list->count;
  bool packs = s->kind == RSP_KIND_DIRECT || s->relay == RSP_NO_STREAM; // what is passed on lies packed already
  if (packs) plan_fragments(list->program, s, add_fragment, list);
  if (s->kind == RSP_KIND_DIRECT || s->dir > RSP_DIR_IN) return;
  for (uint64_t turn = 0; turn < rsp_stream_rounds(s); turn++) {
    struct plan_op *op = push(list, s, turn, s->dir == RSP_DIR_OUT ? PLAN_OP_SEND : PLAN_OP_RECEIVE);
    if (op) op->bytes = plan_turn_bytes(s, turn);
  }
}

static int compare(const void *a, const void *b) {
  const struct plan_op *x = a, *y = b;
  if (x->round != y->round) return x->round < y->round ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
  if (x->staging != y->staging) return x->staging < y->staging ? -1 : 1;
  if (x->desc != y->desc) return x->desc < y->desc ? -1 : 1; // both point into one table
  return x->lo < y->lo ? -1 : x->lo > y->lo;
}

bool plan_ops_of(const struct rsp_program *program, struct plan_op **ops, size_t *count) {
  struct list list = {.program = program};
  for (uint64_t i = 0; i < program->slice->streams.count; i++) add_stream(&list, &program->streams[i]);
  if (list.failed) {
    free(list.ops);
    return false;
  }
  if (list.count) qsort(list.ops, list.count, sizeof *list.ops, compare);
  *ops = list.ops;
  *count = list.count;
  return true;
}
