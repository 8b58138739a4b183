/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that are nothing but streams, for the simulator: no tensors, no buffers. They would not pass the reader.
 */
#ifndef TESTS_SIM_MADE_H
#define TESTS_SIM_MADE_H

#include "plans/sim.h"

/* One stream, both ends. Elements are one byte in the stream; `buffer` bytes each in the buffers (0: one). */
struct flow {
  uint32_t src, dst;
  uint64_t bytes, quantum;
  uint32_t round0, step;
  uint64_t run;       /* of a direct stream: bytes of a message; 0: staged */
  uint32_t relay_of;  /* 1 + index of the flow that it passes on; 0: none */
  bool copy;          /* src copies to itself, outside the exchange */
  uint32_t src_dtype; /* RSP_DTYPE_NONE: RSP_U8 */
};

struct made {
  void *bytes;
  size_t size;
  struct rsp_plan plan;
};

/* The rates of every made plan. */
#define NIC 50e9
#define NET_LATENCY 5e-6
#define NVLINK 450e9
#define NV_LATENCY 2e-6
#define MEMORY 3.3e12
#define ISSUE 1e-6

/* `domains` has one entry per rank. Flows are sorted by source, then destination, staged first. */
void make(struct made *made, uint32_t world, const uint32_t *domains, const struct flow *flows, size_t count);
void unmake(struct made *made);

#endif
