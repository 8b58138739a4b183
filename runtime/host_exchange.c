/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchange of a round in staged mode: messages are posted by the sender and taken by the receiver, matched by their
 * channel, round and place in order; no one else takes part.
 */
#include <string.h>

#include "runtime/host_staged.h"

/* The messages of a turn of a direct stream: its runs, in order. Calls visit(arg, address, bytes) until it says no. */
static bool each_run(const struct rsr_slice *slice, struct rsr_port *port, uint64_t turn,
                     bool (*visit)(void *arg, unsigned char *address, uint64_t bytes), void *arg) {
  const struct rsp_program *program = &slice->program;
  for (uint64_t left = rsr_turn_bytes(port->stream, turn); left > 0;) {
    struct rsr_span span = rsr_take(program, &port->cursor, left);
    uint64_t unit = span.bytes / (span.end - span.first), run = rsp_shape_of(program, span.desc)->run;
    for (uint64_t at = span.first; at < span.end;) {
      uint64_t in_run = run - at % run;
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

void rsr_post(struct reshard_context *context, uint32_t round) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t turn;
  for (uint64_t s = 0; s < host->port_count; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || !rsr_active_in(port, round, &turn)) continue;
    port->own.count = 0;
    if (port->stream->kind == RSP_KIND_STAGED) {
      const struct rsp_stream *slots = rsr_described(&context->slice.program, port->stream);
      add_message(&port->own, rsr_stage_slot(host, slots, turn), rsr_turn_bytes(port->stream, turn));
    } else {
      each_run(&context->slice, port, turn, add_message, &port->own);
    }
    atomic_store(&port->own.posted, rsr_time_of(host, &context->slice.program, round));
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
  /* Buffers bound to one address (tied weights) may be both ends of what a rank passes on to itself. */
  memmove(address, channel->messages[receipt->index].ptr, bytes);
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
  const struct rsp_stream *stream = rsr_described(program, port->stream);
  if (!cursor.inside && cursor.part == stream->parts + stream->part_count) return;
  struct rsr_span span = rsr_take(program, &cursor, 8);
  rsr_fault_at(fault, program, rsp_program_buffer(program, rsr_locate(program, span.desc, span.first).ref));
}

static enum reshard_status receive(struct reshard_context *context, struct rsr_port *port, uint64_t turn,
                                   uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t time = rsr_time_of(host, &context->slice.program, round);
  enum reshard_status status =
      rsr_host_await(context, &port->channel->posted, time, port->stream->peer, round, "receiving", fault);
  if (status != RESHARD_OK) {
    name_buffer(context, port, fault);
    return status;
  }
  struct receipt receipt = {port->channel, 0, 0};
  bool good;
  if (port->stream->kind == RSP_KIND_STAGED) {
    good = take_message(&receipt, rsr_stage_slot(host, port->stream, turn), rsr_turn_bytes(port->stream, turn));
  } else {
    good = each_run(&context->slice, port, turn, take_message, &receipt);
  }
  if (!good || receipt.index != port->channel->count) return unequal(context, port, round, &receipt, fault);
  rsr_host_moved(host->group);
  atomic_store(&port->channel->taken, time);
  rsr_host_ring(host->group, port->stream->peer);
  return RESHARD_OK;
}

enum reshard_status rsr_complete(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t turn;
  enum reshard_status status = RESHARD_OK;
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_IN || !rsr_active_in(port, round, &turn)) continue;
    status = receive(context, port, turn, round, fault);
  }
  for (uint64_t s = 0; s < host->port_count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &host->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || !rsr_active_in(port, round, &turn)) continue;
    status = rsr_host_await(context, &port->own.taken, rsr_time_of(host, &context->slice.program, round),
                            port->stream->peer, round, "sending", fault);
    if (status != RESHARD_OK) {
      name_buffer(context, port, fault);
    } else if ((context->config.flags & RESHARD_GUARD) && port->stream->kind == RSP_KIND_STAGED &&
               port->stream->relay == RSP_NO_STREAM) {
      memset(rsr_stage_slot(host, port->stream, turn), RSR_POISON, rsr_turn_bytes(port->stream, turn));
    }
  }
  return status;
}
