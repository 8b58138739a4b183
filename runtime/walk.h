/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as boxes: a range of a stream's elements is cut into few nests, each with fixed outer indices, one loop that
 * is taken in part, and all that is inside it. In: descriptors of a checked plan; out: boxes. Allocates nothing.
 */
#ifndef RSR_WALK_H
#define RSR_WALK_H

#include <stdbool.h>

#include "kernels/rsk.h"
#include "plans/plan.h"

/* Elements [first, first + elems) of a descriptor: `turns` turns of loop `level` with all loops inside it and the
 * whole run; or, with level = loop_count, `elems` elements of one run. */
struct rsr_box {
  uint64_t first, elems, turns;
  uint32_t level;
};

/* Loops up to the last one that goes over buffers are taken turn by turn: addresses of buffers are not affine. */
uint32_t rsr_outer_loops(const struct rsp_program *program, const struct rsp_desc *desc);

/* The next box of elements [first, end), first < end <= the descriptor's elements; no box spans a turn of the `outer`
 * first loops. */
struct rsr_box rsr_next_box(const struct rsp_program *program, const struct rsp_desc *desc, uint32_t outer,
                            uint64_t first, uint64_t end);

/* Where element `first` of a descriptor is: gid, byte there. */
struct rsr_spot {
  uint32_t ref;
  uint64_t off;
};
struct rsr_spot rsr_locate(const struct rsp_program *program, const struct rsp_desc *desc, uint64_t first);

/* Elements of a descriptor. */
uint64_t rsr_desc_elems(const struct rsp_program *program, const struct rsp_desc *desc);

/* A place in a stream, moved on by rsr_take. Zeroed with part = stream->parts: its start. */
struct rsr_cursor {
  uint64_t part; /* row of parts */
  uint64_t desc; /* row of descs; valid if `inside` */
  uint64_t elem; /* of the descriptor */
  uint64_t desc_elems;
  uint64_t left; /* elements left in the part */
  bool inside;
};
struct rsr_cursor rsr_cursor_at_start(const struct rsp_stream *stream);

/* What rsr_take gives: elements [first, end) of a descriptor, `bytes` of them on the wire. */
struct rsr_span {
  const struct rsp_desc *desc;
  uint64_t first, end, bytes;
};
/* The next span of at most `bytes` bytes, more than 0, which the stream must still have. */
struct rsr_span rsr_take(const struct rsp_program *program, struct rsr_cursor *cursor, uint64_t bytes);

/* The same messages in the same rounds at both ends of a stream. */
bool rsr_same_times(const struct rsp_stream *a, const struct rsp_stream *b);
/* The same shape where a stream begins and where it arrives: parts, elements, descriptors, loops, runs and wire dtypes.
 */
bool rsr_same_parts(const struct rsp_program *a, const struct rsp_stream *sa, const struct rsp_program *b,
                    const struct rsp_stream *sb);

#endif
