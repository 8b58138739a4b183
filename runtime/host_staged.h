/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of a stream, shared by host_staged.c and host_exchange.c. A turn is an active round of one stream, from 0.
 */
#ifndef RSR_HOST_STAGED_H
#define RSR_HOST_STAGED_H

#include "runtime/host.h"

#define RSR_POISON 0xcb /* RESHARD_GUARD: in staging that holds nothing of use */

static inline bool rsr_active_in(const struct rsr_port *port, uint32_t round, uint64_t *turn) {
  const struct rsp_stream *stream = port->stream;
  if (round < stream->round0 || (round - stream->round0) % stream->step != 0) return false;
  *turn = (round - stream->round0) / stream->step;
  return *turn < port->active;
}

static inline uint64_t rsr_turn_bytes(const struct rsp_stream *stream, uint64_t turn) {
  uint64_t left = stream->bytes - turn * stream->quantum;
  return left < stream->quantum ? left : stream->quantum;
}

/* The stream that has the parts: a relay has those of what it passes on. */
static inline const struct rsp_stream *rsr_described(const struct rsp_program *program,
                                                     const struct rsp_stream *stream) {
  return stream->relay == RSP_NO_STREAM ? stream : &program->streams[stream->relay];
}

static inline unsigned char *rsr_stage_slot(const struct rsr_host *host, const struct rsp_stream *stream,
                                            uint64_t turn) {
  return host->staging + stream->stage_off + turn % stream->slots * stream->slot_stride;
}

static inline uint64_t rsr_time_of(const struct rsr_host *host, const struct rsp_program *program, uint32_t round) {
  return host->refit * ((uint64_t)program->slice->rounds + 1) + round + 1;
}

/* Offers this rank's messages of the round to their receivers. */
void rsr_post(struct reshard_context *context, uint32_t round);
/* Takes all messages for this rank, then waits until its own are taken. */
enum reshard_status rsr_complete(struct reshard_context *context, uint32_t round, struct reshard_fault *fault);

#endif
