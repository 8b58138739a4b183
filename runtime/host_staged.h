/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged mode of the host: shared by host_staged.c and host_exchange.c.
 */
#ifndef RSR_HOST_STAGED_H
#define RSR_HOST_STAGED_H

#include "runtime/host.h"

static inline uint64_t rsr_time_of(const struct rsr_host *host, const struct rsp_program *program, uint32_t round) {
  return host->refit * ((uint64_t)program->slice->rounds + 1) + round + 1;
}

/* Offers this rank's messages of the round to their receivers. */
void rsr_post(struct reshard_context *context, uint32_t round);
/* Takes all messages for this rank, then waits until its own are taken. */
enum reshard_status rsr_complete(struct reshard_context *context, uint32_t round, struct reshard_fault *fault);

#endif
