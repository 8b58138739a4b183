// SPDX-License-Identifier: Apache-2.0
//
// In: a rank's program. Out: its rounds in words.
#include <stdlib.h>

#include "tools/plan_show.h"
#include "tools/plan_text.h"

static void show_desc(const struct rsp_program *p, const struct rsp_desc *d, uint64_t lo, uint64_t hi) {
  const struct rsp_shape *shape = rsp_shape_of(p, d);
  plan_text_str(stdout, p->names, rsp_program_buffer(p, d->ref)->name);
  printf("+%llu", (unsigned long long)d->off);
  for (uint32_t i = 0; i < shape->loop_count; i++) {
    const struct rsp_loop *l = &p->loops[shape->loops + i];
    printf(" x%llu", (unsigned long long)l->count);
    if (l->ref_step) printf(" buffer%+lld", (long long)l->ref_step);
    if (l->off_step || !l->ref_step) printf(" by %lld", (long long)l->off_step);
  }
  printf(" run %llu %s", (unsigned long long)shape->run, rsp_dtype_word(shape->buf_dtype));
  if (shape->wire_dtype != shape->buf_dtype) printf(" as %s", rsp_dtype_word(shape->wire_dtype));
  if (lo || hi != plan_desc_elems(p, d))
    printf(", elements %llu to %llu", (unsigned long long)lo, (unsigned long long)hi);
}

static void show_message_place(const struct rsp_program *p, const struct plan_op *op) {
  if (!op->desc) {
    printf("staging %llu", (unsigned long long)op->staging);
    return;
  }
  uint32_t gid;
  uint64_t off;
  plan_desc_at(p, op->desc, op->lo, &gid, &off);
  plan_text_str(stdout, p->names, rsp_program_buffer(p, gid)->name);
  printf("+%llu", (unsigned long long)off);
}

static void show_message(const struct rsp_program *p, const struct plan_op *op) {
  bool send = op->kind == PLAN_OP_SEND;
  printf("%s %u, %s ", send ? "send to" : "receive from", op->stream->peer, send ? "from" : "into");
  show_message_place(p, op);
  if (op->stream->relay != RSP_NO_STREAM) printf(", relayed from %u", plan_stream_from(p, op->stream)->peer);
}

static void show_op(const struct rsp_program *p, const struct plan_op *op) {
  printf("    %9llu B  ", (unsigned long long)op->bytes);
  switch (op->kind) {
  case PLAN_OP_PACK:
    fputs("pack ", stdout);
    show_desc(p, op->desc, op->lo, op->hi);
    printf(" -> staging %llu for %u", (unsigned long long)op->staging, op->stream->peer);
    break;
  case PLAN_OP_UNPACK:
    printf("unpack staging %llu from %u -> ", (unsigned long long)op->staging, op->stream->peer);
    show_desc(p, op->desc, op->lo, op->hi);
    break;
  case PLAN_OP_COPY:
    fputs("copy ", stdout);
    show_desc(p, op->desc, op->lo, op->hi);
    fputs(" -> ", stdout);
    show_desc(p, op->to, op->to_lo, op->to_lo + (op->hi - op->lo));
    break;
  default:
    show_message(p, op);
  }
  fputc('\n', stdout);
}

void plan_show_ops_text(const struct rsp_program *program) {
  struct plan_op *ops;
  size_t count;
  printf("\n  program of rank %u\n", program->slice->world_rank);
  if (!plan_ops_of(program, &ops, &count)) {
    printf("    out of memory\n");
    return;
  }
  if (!count) printf("    nothing to do\n");
  for (size_t i = 0; i < count; i++) {
    if (!i || ops[i].round != ops[i - 1].round) printf("  round %u\n", ops[i].round);
    show_op(program, &ops[i]);
  }
  free(ops);
}
