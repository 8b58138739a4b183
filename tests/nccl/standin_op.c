/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's operations: what each waits for, and what its body does. In: needs; out: bytes moved, or a violation.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/nccl/standin_impl.h"

struct op *standin_op(enum op_kind kind, uint32_t rank) {
  struct op *op = calloc(1, sizeof *op);
  CHECK(op, "memory");
  op->kind = kind;
  op->rank = rank;
  op->number = standin.op_count++;
  list_add(&standin.ops, op);
  return op;
}

void standin_need(struct op *op, struct op *before) {
  if (!before || before->state == OP_DONE) return;
  list_add(&op->needs, before);
  list_add(&before->next, op);
  op->missing++;
}

static void check_stream(const struct stream *stream) {
  if (stream->launching)
    standin_violates("rank %u: a stream is used while ncclGroupEnd still launches on it; poll the communicator first",
                     stream->rank);
}

void standin_queue(struct stream *stream, struct op *op) {
  check_stream(stream);
  op->stream = stream;
  standin_need(op, stream->last);
  stream->last = op;
  if (stream->capture)
    list_add(&stream->capture->ops, op);
  else
    standin_submit(op);
}

static void make_ready(struct op *op) {
  op->state = OP_READY;
  if (op->kind == OP_MARK)
    standin_finish(op);
  else
    list_add(&standin.ready, op);
}

void standin_submit(struct op *op) {
  op->submitted = true;
  if (standin.hosts[op->rank].dead) {
    op->state = OP_NEVER;
    return;
  }
  standin.unfinished++;
  if (op->missing == 0) make_ready(op);
}

void standin_finish(struct op *op) {
  op->state = OP_DONE;
  standin.unfinished--;
  for (uint64_t i = 0; i < op->next.count; i++) {
    struct op *next = op->next.rows[i];
    if (--next->missing == 0 && next->submitted && next->state == OP_WAITING) make_ready(next);
  }
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void check_range(const struct op *op, const void *ptr, uint64_t bytes, const char *what) {
  if (standin_is_device(ptr) && !standin_is_live(op->rank, ptr, bytes))
    standin_violates("rank %u: %s of %llu bytes reaches memory that is freed, or no one's", op->rank, what,
                     (unsigned long long)bytes);
}

void standin_run_op(struct op *op) {
  list_remove(&standin.ready, op);
  switch (op->kind) {
  case OP_KERNEL:
    check_range(op, op->image, 8, "a kernel's image");
    if (!standin_violation()) rsk_batch_run(op->image, &op->launch);
    break;
  case OP_COPY:
    check_range(op, op->dst, op->bytes, "the destination of a copy");
    check_range(op, op->src, op->bytes, "the source of a copy");
    if (!standin_violation()) memmove(op->dst, op->src, op->bytes);
    break;
  case OP_SET:
    check_range(op, op->dst, op->bytes, "a memset");
    if (!standin_violation()) memset(op->dst, op->value, op->bytes);
    break;
  case OP_GROUP:
    op->state = OP_STARTED;
    standin_start_group(op);
    return;
  default:
    break;
  }
  standin_finish(op);
}

static void part_done(struct part *part) {
  part->done = true;
  if (--part->group->parts_left == 0) standin_finish(part->group);
}

void standin_run_pair(struct part *send) {
  struct part *receive = send->other;
  list_remove(&standin.pairs, send);
  check_range(send->group, send->ptr, send->bytes, "a send");
  check_range(receive->group, receive->ptr, receive->bytes, "a receive");
  if (!standin_violation()) memmove(receive->ptr, send->ptr, send->bytes);
  uint32_t rank = receive->group->rank;
  if (++standin.hosts[rank].counts.received == standin.options.flip_message && rank == standin.options.rank)
    receive->ptr[standin_random(receive->bytes)] ^= 4;
  part_done(send);
  part_done(receive);
}
