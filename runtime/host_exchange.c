/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchange of a round in staged mode: messages are posted by the sender and taken by the receiver, matched by their
 * channel, round and place in order; no one else takes part.
 */
#include <string.h>

#include "runtime/host_staged.h"

static bool add_message(void *arg, unsigned char *address, uint64_t bytes) {
  struct rsr_channel *channel = arg;
  if (channel->count == channel->room) return false;
  channel->messages[channel->count++] = (struct rsr_message){address, bytes};
  return true;
}

void rsr_post(struct reshard_context *context, uint32_t round) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t turn;
  for (uint64_t s = 0; s < host->staged.count; s++) {
    struct rsr_port *port = &host->staged.ports[s];
    struct rsr_channel *own = &host->links[s].own;
    if (port->stream->dir != RSP_DIR_OUT || !rsr_active_in(port, round, &turn)) continue;
    own->count = 0;
    rsr_port_messages(&host->staged, port, turn, add_message, own);
    atomic_store(&own->posted, rsr_time_of(host, &context->slice.program, round));
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

static enum reshard_status receive(struct reshard_context *context, uint64_t s, uint64_t turn, uint32_t round,
                                   struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  struct rsr_port *port = &host->staged.ports[s];
  struct rsr_channel *channel = host->links[s].channel;
  uint64_t time = rsr_time_of(host, &context->slice.program, round);
  enum reshard_status status =
      rsr_host_await(context, &channel->posted, time, port->stream->peer, round, "receiving", fault);
  if (status != RESHARD_OK) {
    rsr_name_next(&host->staged, port, fault);
    return status;
  }
  struct receipt receipt = {channel, 0, 0};
  bool good = rsr_port_messages(&host->staged, port, turn, take_message, &receipt);
  if (!good || receipt.index != channel->count) return unequal(context, port, round, &receipt, fault);
  rsr_host_moved(host->group);
  atomic_store(&channel->taken, time);
  rsr_host_ring(host->group, port->stream->peer);
  return RESHARD_OK;
}

enum reshard_status rsr_complete(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  struct rsr_staged *staged = &host->staged;
  uint64_t turn;
  enum reshard_status status = RESHARD_OK;
  for (uint64_t s = 0; s < staged->count && status == RESHARD_OK; s++) {
    if (staged->ports[s].stream->dir != RSP_DIR_IN || !rsr_active_in(&staged->ports[s], round, &turn)) continue;
    status = receive(context, s, turn, round, fault);
  }
  for (uint64_t s = 0; s < staged->count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (port->stream->dir != RSP_DIR_OUT || !rsr_active_in(port, round, &turn)) continue;
    status = rsr_host_await(context, &host->links[s].own.taken, rsr_time_of(host, &context->slice.program, round),
                            port->stream->peer, round, "sending", fault);
    if (status == RESHARD_OK)
      rsr_plain_sent(staged, port, turn);
    else
      rsr_name_next(staged, port, fault);
  }
  return status;
}
