/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged mode: the rounds and the staging of the plan, as a network would run them. In phase p a rank packs round p,
 * exchanges round p-1 and unpacks round p-2; no one waits for more than the two ends of a message. With a seed the
 * three come in any order and late, so that a plan that counts on luck is found out.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host.h"

#define GUARD_BYTES 64u
#define GUARD_VALUE 0xa5
#define POISON 0xcb

static bool active_in(const struct rsr_port *port, uint32_t round, uint64_t *turn) {
  const struct rsp_stream *stream = port->stream;
  if (round < stream->round0 || (round - stream->round0) % stream->step != 0) return false;
  *turn = (round - stream->round0) / stream->step;
  return *turn < port->active;
}

static uint64_t turn_bytes(const struct rsp_stream *stream, uint64_t turn) {
  uint64_t left = stream->bytes - turn * stream->quantum;
  return left < stream->quantum ? left : stream->quantum;
}

static unsigned char *slot_of(const struct rsr_host *host, const struct rsp_stream *stream, uint64_t turn) {
  return host->staging + stream->stage_off + turn % stream->slots * stream->slot_stride;
}

static uint64_t time_of(const struct rsr_host *host, const struct rsp_program *program, uint32_t round) {
  return host->refit * ((uint64_t)program->slice->rounds + 1) + round + 1;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* Pieces of runs that [first, end) touches: the messages of a direct stream. */
static uint64_t runs_in(const struct rsr_span *span) {
  return (span->end - 1) / span->desc->run - span->first / span->desc->run + 1;
}

static uint64_t most_messages(const struct rsp_program *program, const struct rsp_stream *stream) {
  if (stream->kind == RSP_KIND_STAGED) return 1;
  struct rsr_cursor cursor = rsr_cursor_at_start(stream);
  uint64_t most = 0;
  for (uint64_t turn = 0; turn < rsp_stream_rounds(stream); turn++) {
    uint64_t count = 0;
    for (uint64_t left = turn_bytes(stream, turn); left > 0;) {
      struct rsr_span span = rsr_take(program, &cursor, left);
      count += runs_in(&span);
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
    memset(host->staging, POISON, bytes);
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
  for (uint64_t d = 0; d < program->slice->descs.count; d++) {
    if (program->descs[d].space == RSP_SPACE_STREAM) host->ports[program->descs[d].ref].is_read = true;
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
    const struct rsp_stream *twin = rsr_twin(program, context->world_rank, RSP_DIR_OUT, port->stream->kind);
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
  if (host->random != 0 && random_of(host) % 4 == 0) rsr_host_pause(context, (double)(random_of(host) % 300) * 1e-6);
}

static void moved(struct rsr_host *host) {
  atomic_fetch_add(&host->group->progress, 1);
}

/* ---- pack and unpack --------------------------------------------------------------------------------------------- */

/* What came in goes out again: run by run, as a run may cross the messages in which it came. */
static void pack_relay(struct reshard_context *context, const struct rsr_span *span, unsigned char *wire) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  const struct rsp_desc *desc = span->desc;
  const struct rsp_stream *in = &program->streams[desc->ref];
  uint64_t unit = rsp_dtype_bytes(desc->wire_dtype);
  for (uint64_t at = span->first; at < span->end;) {
    uint64_t in_run = desc->run - at % desc->run;
    uint64_t elems = in_run < span->end - at ? in_run : span->end - at;
    uint64_t off = rsr_locate(program, desc, at).off;
    for (uint64_t left = elems * unit; left > 0;) {
      uint64_t in_slot = in->quantum - off % in->quantum, bytes = left < in_slot ? left : in_slot;
      memcpy(wire, slot_of(host, in, off / in->quantum) + off % in->quantum, bytes);
      wire += bytes;
      off += bytes;
      left -= bytes;
    }
    at += elems;
  }
}

static bool pack_span(struct reshard_context *context, const struct rsr_span *span, unsigned char *wire) {
  const struct rsp_program *program = &context->slice.program;
  if (span->desc->space == RSP_SPACE_STREAM) {
    pack_relay(context, span, wire);
    return true;
  }
  uint32_t outer = rsr_outer_loops(program, span->desc);
  uint64_t unit = rsp_dtype_bytes(span->desc->wire_dtype);
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
  uint64_t unit = rsp_dtype_bytes(span->desc->wire_dtype);
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
  rsr_fault(fault, RESHARD_BAD_PLAN, "the plan asks for a conversion that does not exist (dtypes %u and %u, op %u)",
            desc->buf_dtype, desc->wire_dtype, desc->op);
  fault->round = round;
  if (desc->space == RSP_SPACE_BUFFER) {
    rsr_fault_at(fault, &context->slice.program, rsp_program_buffer(&context->slice.program, desc->ref));
  }
  return RESHARD_BAD_PLAN;
}

static enum reshard_status pack_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                     uint32_t round, struct reshard_fault *fault) {
  unsigned char *wire = slot_of(rsr_host_of(context), port->stream, turn);
  for (uint64_t left = turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(&context->slice.program, &port->cursor, left);
    if (!pack_span(context, &span, wire)) return no_such_conversion(context, span.desc, round, fault);
    wire += span.bytes;
    left -= span.bytes;
  }
  return RESHARD_OK;
}

static enum reshard_status unpack_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                       uint32_t round, struct reshard_fault *fault) {
  unsigned char *slot = slot_of(rsr_host_of(context), port->stream, turn), *wire = slot;
  for (uint64_t left = turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(&context->slice.program, &port->cursor, left);
    if (!unpack_span(context, &span, wire)) return no_such_conversion(context, span.desc, round, fault);
    wire += span.bytes;
    left -= span.bytes;
  }
  if ((context->config.flags & RESHARD_GUARD) && !port->is_read) memset(slot, POISON, (size_t)(wire - slot));
  return RESHARD_OK;
}

static enum reshard_status copy_port(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                     uint32_t round, struct reshard_fault *fault) {
  for (uint64_t left = turn_bytes(port->stream, turn); left > 0;) {
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
    if (!active_in(port, round, &turn)) continue;
    status = pack_port(context, port, turn, round, fault);
    moved(host);
  }
  return status;
}

static enum reshard_status unpack(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (!active_in(port, round, &turn)) continue;
    if (port->stream->dir == RSP_DIR_IN && port->stream->kind == RSP_KIND_STAGED) {
      status = unpack_port(context, port, turn, round, fault);
    } else if (port->stream->dir == RSP_DIR_SELF_DST) {
      status = copy_port(context, port, turn, round, fault);
    } else {
      continue;
    }
    moved(host);
  }
  return status;
}

/* ---- exchange ---------------------------------------------------------------------------------------------------- */

/* The messages of a turn of a direct stream: its runs, in order. Calls visit(arg, address, bytes) until it says no. */
static bool each_run(const struct rsr_slice *slice, struct rsr_port *port, uint64_t turn,
                     bool (*visit)(void *arg, unsigned char *address, uint64_t bytes), void *arg) {
  const struct rsp_program *program = &slice->program;
  for (uint64_t left = turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(program, &port->cursor, left);
    uint64_t unit = span.bytes / (span.end - span.first);
    for (uint64_t at = span.first; at < span.end;) {
      uint64_t in_run = span.desc->run - at % span.desc->run;
      uint64_t elems = in_run < span.end - at ? in_run : span.end - at;
      struct rsr_spot spot = rsr_locate(program, span.desc, at);
      if (!visit(arg, rsr_address(slice, spot.ref) + spot.off, elems * unit)) return false;
      at += elems;
    }
    left -= span.bytes;
  }
  return true;
}

static bool add_message(void *arg, unsigned char *address, uint64_t bytes) {
  struct rsr_channel *channel = arg;
  if (channel->count == channel->room) return false;
  channel->messages[channel->count++] = (struct rsr_message){address, bytes};
  return true;
}

static void post(struct reshard_context *context, uint32_t round) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || !active_in(port, round, &turn)) continue;
    port->own.count = 0;
    if (port->stream->kind == RSP_KIND_STAGED) {
      add_message(&port->own, slot_of(host, port->stream, turn), turn_bytes(port->stream, turn));
    } else {
      each_run(&context->slice, port, turn, add_message, &port->own);
    }
    atomic_store(&port->own.posted, time_of(host, &context->slice.program, round));
    rsr_host_ring(host->group, port->stream->peer);
  }
}

struct receipt {
  const struct rsr_channel *channel;
  uint64_t index, bytes; /* of the message that is taken; what this end wants */
};

static bool take_message(void *arg, unsigned char *address, uint64_t bytes) {
  struct receipt *receipt = arg;
  const struct rsr_channel *channel = receipt->channel;
  receipt->bytes = bytes;
  if (receipt->index == channel->count || channel->messages[receipt->index].bytes != bytes) return false;
  memcpy(address, channel->messages[receipt->index].ptr, bytes);
  receipt->index++;
  return true;
}

static enum reshard_status unequal(struct reshard_context *context, const struct rsr_port *port, uint32_t round,
                                   const struct receipt *receipt, struct reshard_fault *fault) {
  uint64_t sent = receipt->index < receipt->channel->count ? receipt->channel->messages[receipt->index].bytes : 0;
  rsr_fault(
      fault, RESHARD_BAD_PLAN,
      "round %u: message %llu from world rank %u to %u has %llu bytes, the receiver wants %llu; run `reshard verify`",
      round, (unsigned long long)receipt->index, port->stream->peer, context->world_rank, (unsigned long long)sent,
      (unsigned long long)receipt->bytes);
  fault->peer = port->stream->peer;
  fault->round = round;
  return RESHARD_BAD_PLAN;
}

/* The buffer that the turn begins with, for faults. */
static void name_buffer(const struct reshard_context *context, const struct rsr_port *port,
                        struct reshard_fault *fault) {
  const struct rsp_program *program = &context->slice.program;
  struct rsr_cursor cursor = port->cursor;
  if (!cursor.inside && cursor.part == port->stream->parts + port->stream->part_count) return;
  struct rsr_span span = rsr_take(program, &cursor, 8);
  if (span.desc->space != RSP_SPACE_BUFFER) return;
  rsr_fault_at(fault, program, rsp_program_buffer(program, rsr_locate(program, span.desc, span.first).ref));
}

static enum reshard_status receive(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                   uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t time = time_of(host, &context->slice.program, round);
  enum reshard_status status =
      rsr_host_await(context, &port->channel->posted, time, port->stream->peer, round, "receiving", fault);
  if (status != RESHARD_OK) {
    name_buffer(context, port, fault);
    return status;
  }
  struct receipt receipt = {port->channel, 0, 0};
  bool good;
  if (port->stream->kind == RSP_KIND_STAGED) {
    good = take_message(&receipt, slot_of(host, port->stream, turn), turn_bytes(port->stream, turn));
  } else {
    good = each_run(&context->slice, port, turn, take_message, &receipt);
  }
  if (!good || receipt.index != port->channel->count) return unequal(context, port, round, &receipt, fault);
  moved(host);
  atomic_store(&port->channel->taken, time);
  rsr_host_ring(host->group, port->stream->peer);
  return RESHARD_OK;
}

/* All receives, then until all sends are taken. */
static enum reshard_status complete(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t turn;
  enum reshard_status status = RESHARD_OK;
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_IN || !active_in(port, round, &turn)) continue;
    status = receive(context, port, turn, round, fault);
  }
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || !active_in(port, round, &turn)) continue;
    status = rsr_host_await(context, &port->own.taken, time_of(host, &context->slice.program, round),
                            port->stream->peer, round, "sending", fault);
    if (status != RESHARD_OK) {
      name_buffer(context, port, fault);
    } else if ((context->config.flags & RESHARD_GUARD) && port->stream->kind == RSP_KIND_STAGED) {
      memset(slot_of(host, port->stream, turn), POISON, turn_bytes(port->stream, turn));
    }
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
  if (!post_first) post(context, (uint32_t)(phase - 1));
  return complete(context, (uint32_t)(phase - 1), fault);
}

static enum reshard_status run_phase(struct reshard_context *context, uint64_t phase, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum action order[3];
  bool post_first;
  choose_order(host, order, &post_first);
  enum reshard_status status = RESHARD_OK;
  if (phase >= 1 && phase <= context->slice.program.slice->rounds) {
    status = rsr_inject(context, (uint32_t)(phase - 1), fault);
    if (status == RESHARD_OK && post_first) post(context, (uint32_t)(phase - 1));
  }
  for (uint32_t i = 0; i < 3 && status == RESHARD_OK; i++) status = act(context, order[i], phase, post_first, fault);
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
    port->cursor = rsr_cursor_at_start(port->stream);
    if (port->stream->dir != RSP_DIR_SELF_DST) continue;
    port->twin = rsr_cursor_at_start(rsr_twin(program, context->world_rank, RSP_DIR_SELF_SRC, port->stream->kind));
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
