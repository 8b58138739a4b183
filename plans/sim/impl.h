/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the simulator and of the bound share.
 */
#ifndef RSP_SIM_IMPL_H
#define RSP_SIM_IMPL_H

#include <stddef.h>

#include "plans/sim.h"

/* calloc that aborts. */
void *rspm_alloc(size_t count, size_t size);
/* Room for one more of `size` bytes: returns the array, perhaps moved. */
void *rspm_grow(void *at, size_t count, size_t *capacity, size_t size);

/* SELF: a message that a rank passes on to itself. COPY: what it copies outside the exchange. */
enum rspm_way { RSPM_NETWORK, RSPM_NVLINK, RSPM_SELF, RSPM_COPY };

/* One stream between two ranks, or one rank's copies to itself, in the terms of the model. */
struct rspm_flow {
  uint32_t src, dst;
  uint32_t way;
  uint32_t round0, step, rounds;
  float messages;       /* per round */
  float pack, unpack;   /* bytes of memory traffic at src and dst per byte on the wire, outside the exchange */
  double quantum, last; /* bytes per round; of the last round */
};

struct rspm_flows {
  struct rspm_flow *at;
  size_t count, capacity;
};

/* Frees the streams; flows->at is malloc'd. */
void rspm_flows_of(struct rsp_sim_streams *streams, struct rspm_flows *flows);

#endif
