/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `reshard explain`: which bytes of which tensors a stream moves, and by which way they go on.
 */
#ifndef RESHARD_TOOLS_EXPLAIN_H
#define RESHARD_TOOLS_EXPLAIN_H

#include <jansson.h>

#include "plans/sim.h"
#include "tools/plan_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements [lo, hi) of a local buffer are of the tensor in `slot`. */
struct explain_span {
  uint64_t lo, hi;
  uint32_t slot;
};

struct explain_rank {
  struct rsp_program program;
  uint32_t *other; /* per stream out or in: its index at the peer, or RSP_NO_STREAM */
};

struct explain {
  const char *program;
  const struct rsp_plan *plan;
  struct explain_rank *ranks;
  struct explain_span **spans; /* per entry: sorted by lo; made when first asked for */
  size_t *span_count;
  uint8_t *useful; /* per buffer: it has something of what `only` of the last explain_stream asked for */
  const bool *useful_for;
  struct rsp_sim_cluster cluster;
  struct rsp_sim_result sim;
  struct rsp_bound bound;
};

void explain_open(struct explain *e, const char *program, const struct rsp_plan *plan);
void explain_close(struct explain *e);

/* Told of bytes on the wire: of which tensor, from which buffer; the same tensor may come again. */
typedef void (*explain_fn)(void *user, uint32_t tensor, uint32_t gid, uint64_t bytes);
/* What a stream of `rank` that has parts of its own moves (out, or a source of its own copies). With `only` (per
 * tensor) nothing else is told, and buffers without any of these cost nothing. */
void explain_stream(struct explain *e, uint32_t rank, const struct rsp_stream *stream, const bool *only, explain_fn fn,
                    void *user);
/* The stream that first sent what `stream` of *rank passes on: itself, if it has parts. Changes *rank to its rank. */
const struct rsp_stream *explain_root(const struct explain *e, uint32_t *rank, const struct rsp_stream *stream);

/* "train 3", "infer 8"; a process with both is named by the side that it acts for. Returns buffer. */
const char *explain_rank_text(const struct rsp_plan *plan, uint32_t rank, uint32_t side, char buffer[32]);

/* The answers; text or JSON on stdout. Return the exit status. */
int explain_tensors(struct explain *e, const char *glob, bool json);
/* CLI_NO, silently, if the words are no link at all. */
int explain_link(struct explain *e, const char *words, bool json, bool *is_link);

#ifdef __cplusplus
}
#endif

#endif
