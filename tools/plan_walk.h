/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank's program comes to, round by round: streams cut into fragments of descriptors, and figures of a rank. For
 * show and diff. Plans are opened, so every index is sound.
 */
#ifndef RESHARD_TOOLS_PLAN_WALK_H
#define RESHARD_TOOLS_PLAN_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a plan for a tool: CLI_YES; or says why not on stderr and returns CLI_NO (no valid plan) or CLI_TROUBLE. */
int plan_open(const char *program, const char *path, struct rsp_plan *plan);

enum plan_link { PLAN_LOCAL, PLAN_NVLINK, PLAN_NETWORK };
/* The link from one world rank to another: the same rank, the same domain, or neither. */
enum plan_link plan_link_of(const struct rsp_plan *plan, uint32_t from, uint32_t to);
/* "local", "nvlink", "network". */
const char *plan_link_word(enum plan_link link);

/* Elements [lo, hi) of a descriptor: what one turn of a stream moves of it. */
struct plan_fragment {
  const struct rsp_stream *stream;
  const struct rsp_desc *desc;
  uint64_t turn; /* the stream's turn: it happens in round round0 + turn * step */
  uint64_t lo, hi;
  uint64_t at;    /* byte of the stream where the fragment starts */
  uint64_t bytes; /* on the wire */
};
typedef void (*plan_fragment_fn)(void *user, const struct plan_fragment *fragment);
/* The incoming stream that a relay passes on, or the stream itself: whose parts and staging tell what it moves. */
const struct rsp_stream *plan_stream_from(const struct rsp_program *program, const struct rsp_stream *stream);
/* All fragments of a stream, in the order of its bytes: those of a relay are what it passes on. */
void plan_fragments(const struct rsp_program *program, const struct rsp_stream *stream, plan_fragment_fn fn,
                    void *user);

static inline uint32_t plan_round_of(const struct rsp_stream *stream, uint64_t turn) {
  return (uint32_t)(stream->round0 + turn * stream->step);
}
static inline uint64_t plan_turn_bytes(const struct rsp_stream *stream, uint64_t turn) {
  uint64_t left = stream->bytes - turn * stream->quantum;
  return left < stream->quantum ? left : stream->quantum;
}
/* Elements of a descriptor. */
uint64_t plan_desc_elems(const struct rsp_program *program, const struct rsp_desc *desc);
/* Where element e of a descriptor lies: the gid and the byte in it. */
void plan_desc_at(const struct rsp_program *program, const struct rsp_desc *desc, uint64_t e, uint32_t *ref,
                  uint64_t *off);

/* One rank's part of a refit. Bytes are those of streams, in the dtype that travels. */
struct plan_facts {
  uint64_t network_out, network_in, nvlink_out, nvlink_in, local;
  uint64_t messages; /* sends and receives; a direct stream has one per run and round */
  uint64_t copies;   /* packs, unpacks and local copies: one per descriptor and round */
  uint64_t peers, staging;
  uint64_t slice_bytes, held_bytes; /* in the file; the holdings block may be other ranks' as well */
};
void plan_facts_of(const struct rsp_plan *plan, uint32_t world_rank, struct plan_facts *facts);

#ifdef __cplusplus
}
#endif

#endif
