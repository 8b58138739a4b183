/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused mode's copies: each element of a stream from where it lies in a training buffer, through any number of relays,
 * to where it goes. In: matched streams of prepared ranks; out: ops of this rank.
 */
#include <stdlib.h>

#include "runtime/host.h"

/* Elements of the receiver's descriptor that are being joined, and how far from its stream we are. */
struct join {
  struct reshard_context *context;
  const struct rsp_desc *dst;
  struct rsr_end to;
  bool *is_origin;
  uint32_t hops;
  struct reshard_fault *fault;
};

static const struct rsr_slice *slice_of(const struct join *join, uint32_t rank) {
  return &rsr_host_of(join->context)->group->stations[rank].member->slice;
}

static enum reshard_status bad_conversion(const struct join *join, const struct rsp_desc *src) {
  rsr_fault(join->fault, RESHARD_BAD_PLAN, "the plan asks for a conversion that does not exist (dtypes %u to %u to %u)",
            src->buf_dtype, src->wire_dtype, join->dst->buf_dtype);
  const struct rsp_program *program = &join->context->slice.program;
  rsr_fault_at(join->fault, program, rsp_program_buffer(program, join->dst->ref));
  return RESHARD_BAD_PLAN;
}

static enum reshard_status bad_relay(const struct join *join, uint32_t rank) {
  rsr_fault(
      join->fault, RESHARD_BAD_PLAN,
      "world rank %u passes on what does not begin or end at an element of the same dtype, or comes from nowhere; run "
      "`reshard verify`",
      rank);
  join->fault->peer = rank;
  return RESHARD_BAD_PLAN;
}

static enum reshard_status join_buffer(const struct join *join, uint32_t rank, const struct rsp_desc *src,
                                       uint64_t src_first, uint64_t dst_first, uint64_t elems) {
  const struct rsr_slice *from = slice_of(join, rank), *to = &join->context->slice;
  struct rsr_ops *ops = &rsr_host_of(join->context)->ops;
  struct rsr_end end = rsr_end_of(&from->program, src);
  struct rsr_nest nest;
  join->is_origin[rank] = true;
  for (uint64_t done = 0; done < elems;) {
    struct rsr_box box = rsr_common_box(&end, src_first + done, &join->to, dst_first + done, elems - done);
    if (!rsr_nest_join(&nest, from, src, src_first + done, to, join->dst, &box)) return bad_conversion(join, src);
    if (!rsr_ops_add(ops, &nest)) return rsr_no_memory(join->fault, "copies", ops->count * sizeof *ops->rows);
    done += box.elems;
  }
  return RESHARD_OK;
}

/* Elements of a relay's descriptor that lie one after the other in its incoming stream: whole turns of its inner loops.
 */
static uint64_t dense_elems(const struct rsp_program *program, const struct rsp_desc *desc) {
  uint64_t elems = desc->run, unit = rsp_dtype_bytes(desc->wire_dtype);
  for (uint32_t l = desc->loop_count; l-- > 0;) {
    const struct rsp_loop *loop = &program->loops[desc->loops + l];
    if (loop->count != 1 && loop->off_step != (int64_t)(elems * unit)) break;
    elems *= loop->count;
  }
  return elems;
}

static enum reshard_status join_elems(struct join *join, uint32_t rank, const struct rsp_desc *src, uint64_t src_first,
                                      uint64_t dst_first, uint64_t elems);

/* Bytes [byte, ...) of a rank's incoming stream, of `elems` elements: on to the sender that they came from. */
static enum reshard_status join_incoming(struct join *join, uint32_t rank, const struct rsp_desc *src, uint64_t byte,
                                         struct rsr_seek *seek, uint64_t dst_first, uint64_t elems) {
  const struct rsp_stream *in = &slice_of(join, rank)->program.streams[src->ref];
  const struct rsp_program *peer = &slice_of(join, in->peer)->program;
  const struct rsp_stream *out = rsr_twin(peer, rank, RSP_DIR_OUT, in->kind);
  struct rsr_cursor cursor;
  if (!out || !rsr_seek(peer, out, byte, seek, &cursor)) return bad_relay(join, rank);
  uint64_t unit = rsp_dtype_bytes(src->wire_dtype);
  for (uint64_t left = elems; left > 0;) {
    struct rsr_span span = rsr_take(peer, &cursor, left * unit);
    uint64_t count = span.end - span.first;
    if (count == 0 || span.desc->wire_dtype != src->wire_dtype) return bad_relay(join, rank);
    enum reshard_status status = join_elems(join, in->peer, span.desc, span.first, dst_first, count);
    if (status != RESHARD_OK) return status;
    dst_first += count;
    left -= count;
  }
  return RESHARD_OK;
}

/* Recursion ends: a chain of more relays than ranks goes in a circle. */
static enum reshard_status join_elems(struct join *join, uint32_t rank, const struct rsp_desc *src, uint64_t src_first,
                                      uint64_t dst_first, uint64_t elems) {
  if (src->space == RSP_SPACE_BUFFER) return join_buffer(join, rank, src, src_first, dst_first, elems);
  if (join->hops == join->context->world) return bad_relay(join, rank);
  const struct rsp_program *program = &slice_of(join, rank)->program;
  uint64_t dense = dense_elems(program, src);
  struct rsr_seek seek = {0};
  join->hops++;
  for (uint64_t done = 0; done < elems;) {
    uint64_t count = dense - (src_first + done) % dense;
    if (count > elems - done) count = elems - done;
    uint64_t byte = rsr_locate(program, src, src_first + done).off;
    enum reshard_status status = join_incoming(join, rank, src, byte, &seek, dst_first + done, count);
    if (status != RESHARD_OK) return status;
    done += count;
  }
  join->hops--;
  return RESHARD_OK;
}

/* The two ends have one shape, so their spans come in step. */
enum reshard_status rsr_join_stream(struct reshard_context *context, const struct rsp_stream *stream, bool *is_origin,
                                    struct reshard_fault *fault) {
  struct join join = {.context = context, .is_origin = is_origin, .fault = fault};
  const struct rsp_program *to = &context->slice.program, *from = &slice_of(&join, stream->peer)->program;
  uint32_t dir = stream->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC;
  struct rsr_cursor dst = rsr_cursor_at_start(stream);
  struct rsr_cursor src = rsr_cursor_at_start(rsr_twin(from, context->world_rank, dir, stream->kind));
  enum reshard_status status = RESHARD_OK;
  for (uint64_t left = stream->bytes; left > 0 && status == RESHARD_OK;) {
    struct rsr_span a = rsr_take(from, &src, left), b = rsr_take(to, &dst, left);
    join.dst = b.desc;
    join.to = rsr_end_of(to, b.desc);
    status = join_elems(&join, stream->peer, a.desc, a.first, b.first, b.end - b.first);
    left -= b.bytes;
  }
  return status;
}
