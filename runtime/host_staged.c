/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged mode: the rounds and the staging of the plan, as a network would run them. In phase p a rank packs round p,
 * exchanges round p-1 and unpacks round p-2; no one waits for more than the two ends of a message. With a seed the
 * three come in any order and late, so that a plan that counts on luck is found out.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host_staged.h"

#define GUARD_BYTES 64u
#define GUARD_VALUE 0xa5

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* Pieces of runs that [first, end) touches: the messages of a direct stream. */
static uint64_t runs_in(const struct rsp_program *program, const struct rsr_span *span) {
  uint64_t run = rsp_shape_of(program, span->desc)->run;
  return (span->end - 1) / run - span->first / run + 1;
}

static uint64_t most_messages(const struct rsp_program *program, const struct rsp_stream *stream) {
  if (stream->kind == RSP_KIND_STAGED) return 1;
  struct rsr_cursor cursor = rsr_cursor_at_start(rsr_described(program, stream));
  uint64_t most = 0;
  for (uint64_t turn = 0; turn < rsp_stream_rounds(stream); turn++) {
    uint64_t count = 0;
    for (uint64_t left = rsr_turn_bytes(stream, turn); left > 0;) {
      struct rsr_span span = rsr_take(program, &cursor, left);
      count += runs_in(program, &span);
      left -= span.bytes;
    }
    if (count > most) most = count;
  }
  return most;
}

static bool open_port(const struct rsp_program *program, struct rsr_port *port, const struct rsp_stream *stream) {
  port->stream = stream;
  port->active = rsp_stream_rounds(stream);
  if (stream->dir != RSP_DIR_OUT) return true;
  port->own.room = most_messages(program, stream);
  port->own.messages = calloc(port->own.room, sizeof *port->own.messages);
  port->channel = &port->own;
  return port->own.messages != NULL;
}

static bool open_staging(struct reshard_context *context, uint64_t bytes) {
  struct rsr_host *host = rsr_host_of(context);
  if (context->config.inject.kind == RESHARD_INJECT_NO_MEMORY || bytes > SIZE_MAX - 3 * 4096) return false;
  void *block = NULL;
  if (posix_memalign(&block, 4096, (size_t)bytes + 4096 + GUARD_BYTES) != 0) return false;
  host->staging_block = block;
  host->staging = host->staging_block + 4096;
  if (context->config.flags & RESHARD_GUARD) {
    memset(host->staging - GUARD_BYTES, GUARD_VALUE, GUARD_BYTES);
    memset(host->staging, RSR_POISON, bytes);
    memset(host->staging + bytes, GUARD_VALUE, GUARD_BYTES);
  }
  return true;
}

enum reshard_status rsr_staged_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  uint64_t streams = program->slice->streams.count;
  host->ports = calloc(streams + 1, sizeof *host->ports);
  if (!host->ports) return rsr_no_memory(fault, "streams", streams * sizeof *host->ports);
  host->port_count = streams;
  for (uint64_t s = 0; s < streams; s++) {
    if (!open_port(program, &host->ports[s], &program->streams[s])) {
      return rsr_no_memory(fault, "messages", host->ports[s].own.room * sizeof(struct rsr_message));
    }
  }
  for (uint64_t s = 0; s < streams; s++) {
    if (program->streams[s].relay != RSP_NO_STREAM) host->ports[program->streams[s].relay].is_read = true;
  }
  if (open_staging(context, program->slice->staging)) return RESHARD_OK;
  return rsr_no_memory(fault, "staging", program->slice->staging);
}

enum reshard_status rsr_staged_link(struct reshard_context *context, struct reshard_fault *fault) {
  (void)fault;
  struct rsr_host *host = rsr_host_of(context);
  for (uint64_t s = 0; s < host->port_count; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_IN) continue;
    const struct reshard_context *peer = host->group->stations[port->stream->peer].member;
    const struct rsp_program *program = &peer->slice.program;
    const struct rsp_stream *twin = rsr_twin(program, context->world_rank, RSP_DIR_OUT, port->stream);
    port->channel = &rsr_host_of(peer)->ports[twin - program->streams].own;
  }
  return RESHARD_OK;
}

void rsr_staged_reset(struct rsr_host *host) {
  for (uint64_t s = 0; s < host->port_count; s++) free(host->ports[s].own.messages);
  free(host->ports);
  free(host->staging_block);
  host->ports = NULL;
  host->port_count = 0;
  host->staging = host->staging_block = NULL;
}

/* ---- seeded trouble ---------------------------------------------------------------------------------------------- */

static uint64_t random_of(struct rsr_host *host) {
  host->random ^= host->random << 13;
  host->random ^= host->random >> 7;
  host->random ^= host->random << 17;
  return host->random;
}

static void dawdle(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  if (host->random != 0 && random_of(host) % 8 == 0) rsr_host_pause(context, (double)(random_of(host) % 300) * 1e-6);
}

/* ---- pack and unpack --------------------------------------------------------------------------------------------- */

static bool pack_span(struct reshard_context *context, const struct rsr_span *span, unsigned char *wire) {
  const struct rsp_program *program = &context->slice.program;
  uint32_t outer = rsr_outer_loops(program, span->desc);
  uint64_t unit = rsp_dtype_bytes(rsp_shape_of(program, span->desc)->wire_dtype);
  struct rsr_nest nest;
  for (uint64_t at = span->first; at < span->end;) {
    struct rsr_box box = rsr_next_box(program, span->desc, outer, at, span->end);
    if (!rsr_nest_pack(&nest, &context->slice, span->desc, &box, wire)) return false;
    rsr_nest_run(&nest);
    wire += box.elems * unit;
    at += box.elems;
  }
  return true;
}

static bool unpack_span(struct reshard_context *context, const struct rsr_span *span, const unsigned char *wire) {
  const struct rsp_program *program = &context->slice.program;
  uint32_t outer = rsr_outer_loops(program, span->desc);
  uint64_t unit = rsp_dtype_bytes(rsp_shape_of(program, span->desc)->wire_dtype);
  struct rsr_nest nest;
  for (uint64_t at = span->first; at < span->end;) {
    struct rsr_box box = rsr_next_box(program, span->desc, outer, at, span->end);
    if (!rsr_nest_unpack(&nest, &context->slice, span->desc, &box, wire)) return false;
    rsr_nest_run(&nest);
    wire += box.elems * unit;
    at += box.elems;
  }
  return true;
}

/* Spans of the two ends of a self stream come in step: they have one shape. */
static bool copy_span(struct reshard_context *context, const struct rsr_span *from, const struct rsr_span *to) {
  const struct rsp_program *program = &context->slice.program;
  uint32_t outer = rsr_outer_loops(program, from->desc), outer_to = rsr_outer_loops(program, to->desc);
  if (outer_to > outer) outer = outer_to;
  struct rsr_nest nest;
  for (uint64_t at = to->first; at < to->end;) {
    struct rsr_box box = rsr_next_box(program, to->desc, outer, at, to->end);
    if (!rsr_nest_join(&nest, &context->slice, from->desc, &context->slice, to->desc, &box)) return false;
    rsr_nest_run(&nest);
    at += box.elems;
  }
  return true;
}

static enum reshard_status no_such_conversion(struct reshard_context *context, const struct rsp_desc *desc,
                                              uint32_t round, struct reshard_fault *fault) {
  const struct rsp_shape *shape = rsp_shape_of(&context->slice.program, desc);
  rsr_fault(fault, RESHARD_BAD_PLAN, "the plan asks for a conversion that does not exist (dtypes %u and %u, op %u)",
            shape->buf_dtype, shape->wire_dtype, shape->op);
  fault->round = round;
  rsr_fault_at(fault, &context->slice.program, rsp_program_buffer(&context->slice.program, desc->ref));
  return RESHARD_BAD_PLAN;
}

static enum reshard_status pack_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                     uint32_t round, struct reshard_fault *fault) {
  unsigned char *wire = rsr_stage_slot(rsr_host_of(context), port->stream, turn);
  for (uint64_t left = rsr_turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(&context->slice.program, &port->cursor, left);
    if (!pack_span(context, &span, wire)) return no_such_conversion(context, span.desc, round, fault);
    wire += span.bytes;
    left -= span.bytes;
  }
  return RESHARD_OK;
}

static enum reshard_status unpack_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                       uint32_t round, struct reshard_fault *fault) {
  unsigned char *slot = rsr_stage_slot(rsr_host_of(context), port->stream, turn), *wire = slot;
  for (uint64_t left = rsr_turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(&context->slice.program, &port->cursor, left);
    if (!unpack_span(context, &span, wire)) return no_such_conversion(context, span.desc, round, fault);
    wire += span.bytes;
    left -= span.bytes;
  }
  if ((context->config.flags & RESHARD_GUARD) && !port->is_read) memset(slot, RSR_POISON, (size_t)(wire - slot));
  return RESHARD_OK;
}

static enum reshard_status copy_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                     uint32_t round, struct reshard_fault *fault) {
  for (uint64_t left = rsr_turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span from = rsr_take(&context->slice.program, &port->twin, left);
    struct rsr_span to = rsr_take(&context->slice.program, &port->cursor, left);
    if (!copy_span(context, &from, &to)) return no_such_conversion(context, to.desc, round, fault);
    left -= to.bytes;
  }
  return RESHARD_OK;
}

static enum reshard_status pack(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || port->stream->kind != RSP_KIND_STAGED) continue;
    if (port->stream->relay != RSP_NO_STREAM || !rsr_active_in(port, round, &turn)) continue;
    status = pack_port(context, port, turn, round, fault);
    rsr_host_moved(host->group);
  }
  return status;
}

static enum reshard_status unpack(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (!rsr_active_in(port, round, &turn)) continue;
    if (port->stream->dir == RSP_DIR_IN && port->stream->kind == RSP_KIND_STAGED) {
      status = unpack_port(context, port, turn, round, fault);
    } else if (port->stream->dir == RSP_DIR_SELF_DST) {
      status = copy_port(context, port, turn, round, fault);
    } else {
      continue;
    }
    rsr_host_moved(host->group);
  }
  return status;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

enum action { PACK, UNPACK, COMPLETE };

static void choose_order(struct rsr_host *host, enum action order[3], bool *post_first) {
  order[0] = PACK, order[1] = UNPACK, order[2] = COMPLETE;
  *post_first = true;
  if (host->random == 0) return;
  for (uint32_t i = 2; i > 0; i--) {
    uint32_t j = (uint32_t)(random_of(host) % (i + 1));
    enum action swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  *post_first = random_of(host) % 2 == 0;
}

static enum reshard_status act(struct reshard_context *context, enum action action, uint64_t phase, bool post_first,
                               struct reshard_fault *fault) {
  uint64_t rounds = context->slice.program.slice->rounds;
  dawdle(context);
  switch (action) {
  case PACK:
    return phase < rounds ? pack(context, (uint32_t)phase, fault) : RESHARD_OK;
  case UNPACK:
    return phase >= 2 ? unpack(context, (uint32_t)(phase - 2), fault) : RESHARD_OK;
  default:
    break;
  }
  if (phase < 1 || phase > rounds) return RESHARD_OK;
  if (!post_first) rsr_post(context, (uint32_t)(phase - 1));
  return rsr_complete(context, (uint32_t)(phase - 1), fault);
}

/* What was unpacked and passed on in this phase is of no more use. */
static void poison_relayed(struct rsr_host *host, uint64_t phase) {
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count && phase >= 2; s++) {
    const struct rsr_port *port = &host->ports[s];
    if (!port->is_read || port->stream->kind != RSP_KIND_STAGED || !rsr_active_in(port, (uint32_t)(phase - 2), &turn))
      continue;
    memset(rsr_stage_slot(host, port->stream, turn), RSR_POISON, rsr_turn_bytes(port->stream, turn));
  }
}

static enum reshard_status run_phase(struct reshard_context *context, uint64_t phase, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum action order[3];
  bool post_first;
  choose_order(host, order, &post_first);
  enum reshard_status status = RESHARD_OK;
  if (phase >= 1 && phase <= context->slice.program.slice->rounds) {
    status = rsr_inject(context, (uint32_t)(phase - 1), fault);
    if (status == RESHARD_OK && post_first) rsr_post(context, (uint32_t)(phase - 1));
  }
  for (uint32_t i = 0; i < 3 && status == RESHARD_OK; i++) status = act(context, order[i], phase, post_first, fault);
  if (status == RESHARD_OK && (context->config.flags & RESHARD_GUARD)) poison_relayed(host, phase);
  if (status == RESHARD_OK && atomic_load(&host->group->aborted)) status = rsr_host_aborted(host->group, fault);
  return status;
}

static enum reshard_status check_guards(struct reshard_context *context, struct reshard_fault *fault) {
  const struct rsr_host *host = rsr_host_of(context);
  uint64_t bytes = context->slice.program.slice->staging;
  for (uint32_t i = 0; i < GUARD_BYTES; i++) {
    if (host->staging[(int64_t)i - GUARD_BYTES] == GUARD_VALUE && host->staging[bytes + i] == GUARD_VALUE) continue;
    return rsr_fault(fault, RESHARD_BAD_PLAN, "world rank %u wrote outside its staging of %llu bytes",
                     context->world_rank, (unsigned long long)bytes);
  }
  return RESHARD_OK;
}

static void rewind_ports(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  for (uint64_t s = 0; s < host->port_count; s++) {
    struct rsr_port *port = &host->ports[s];
    port->cursor = rsr_cursor_at_start(rsr_described(program, port->stream));
    if (port->stream->dir != RSP_DIR_SELF_DST) continue;
    port->twin = rsr_cursor_at_start(rsr_twin(program, context->world_rank, RSP_DIR_SELF_SRC, port->stream));
  }
}

enum reshard_status rsr_staged_refit(struct reshard_context *context, struct reshard_fault *fault) {
  rewind_ports(context);
  enum reshard_status status = RESHARD_OK;
  uint64_t phases = (uint64_t)context->slice.program.slice->rounds + 2;
  for (uint64_t phase = 0; phase < phases && status == RESHARD_OK; phase++) status = run_phase(context, phase, fault);
  if (status == RESHARD_OK && (context->config.flags & RESHARD_GUARD)) status = check_guards(context, fault);
  return status;
}
