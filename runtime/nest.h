/* SPDX-License-Identifier: Apache-2.0
 *
 * Nests: a box of a descriptor, or of both ends of one, as addresses and loops for the kernels. In: checked
 * descriptors, bound buffers; out: nests. Allocates nothing; touches no byte of a buffer but in rsr_nest_run_loops.
 */
#ifndef RSR_NEST_H
#define RSR_NEST_H

#include "kernels/rsk.h"
#include "runtime/context.h"
#include "runtime/walk.h"

/* From a buffer to the wire, from the wire to a buffer, or from buffer to buffer. */
struct rsr_nest {
  unsigned char *dst;
  const unsigned char *src;
  struct rsk_loop loops[RSK_LOOPS];
  uint32_t loop_count;
  uint64_t run; /* elements; bytes if both conversions are copies */
  struct rsk_conv conv[2];
};

/* The box of a sender's descriptor to `wire`, of a receiver's from `wire`, of both ends at once. False: the plan asks
 * for a conversion that does not exist. */
bool rsr_nest_pack(struct rsr_nest *nest, const struct rsr_slice *slice, const struct rsp_desc *desc,
                   const struct rsr_box *box, unsigned char *wire);
bool rsr_nest_unpack(struct rsr_nest *nest, const struct rsr_slice *slice, const struct rsp_desc *desc,
                     const struct rsr_box *box, const unsigned char *wire);
bool rsr_nest_join(struct rsr_nest *nest, const struct rsr_slice *from, const struct rsp_desc *src,
                   const struct rsr_slice *to, const struct rsp_desc *dst, const struct rsr_box *box);

/* Both conversions keep the bits. */
static inline bool rsr_nest_is_copy(const struct rsr_nest *nest) {
  return nest->conv[0].is_copy && nest->conv[1].is_copy;
}

/* Makes the copies, in plain memory; with `flags` of rsk_copy. */
void rsr_nest_run_loops(unsigned char *dst, const unsigned char *src, const struct rsk_loop *loops, uint32_t loop_count,
                        uint64_t run, const struct rsk_conv conv[2], unsigned flags);

/* A conversion that keeps the bits of bytes. */
extern const struct rsk_conv rsr_plain;

#endif
