/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `reshard show`.
 */
#ifndef RESHARD_TOOLS_PLAN_SHOW_H
#define RESHARD_TOOLS_PLAN_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/plan_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct plan_show {
  const char *program;
  const struct rsp_plan *plan;
  int64_t rank;     /* -1: all */
  const char *glob; /* NULL: no tensors are listed */
  bool ops;
};
/* Both write the whole answer to stdout and return the exit status. */
int plan_show_text(const struct plan_show *show);
int plan_show_json(const struct plan_show *show);
/* The program of one rank, round by round. */
void plan_show_ops_text(const struct rsp_program *program);

/* ---- operations -------------------------------------------------------------------------------------------------- */

enum plan_op_kind { PLAN_OP_PACK, PLAN_OP_COPY, PLAN_OP_SEND, PLAN_OP_RECEIVE, PLAN_OP_UNPACK };
struct plan_op {
  uint32_t round;
  enum plan_op_kind kind;
  const struct rsp_stream *stream;
  uint64_t bytes;              /* on the wire */
  const struct rsp_desc *desc; /* what is packed, unpacked, copied from; of a direct message, its buffer's; or NULL */
  uint64_t lo, hi;             /* elements of desc */
  const struct rsp_desc *to;   /* of a copy: where to, the same elements of the descriptor */
  uint64_t to_lo;
  uint64_t staging; /* of pack, unpack and staged messages: byte of staging */
};
/* All operations of a rank by round, within one by kind; malloc'd. False without memory. */
bool plan_ops_of(const struct rsp_program *program, struct plan_op **ops, size_t *count);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A buffer that holds elements of a tensor, on ranks whose entries hold equally many. */
struct plan_home {
  uint32_t tensor;
  const struct rsp_buffer *buffer;
  uint64_t elems;  /* of the tensor, on each of the ranks */
  uint32_t *ranks; /* of the buffer's side, ascending */
  uint64_t rank_count;
};
/* The homes of all tensors whose names match, ordered by tensor, then gid, then first rank. Frees with plan_homes_free.
 */
bool plan_homes_of(const struct rsp_plan *plan, const char *glob, struct plan_home **homes, size_t *count);
void plan_homes_free(struct plan_home *homes, size_t count);
/* Does the name of a tensor match? `*` any characters, `?` one, `[abc]` a set; the whole name. */
bool plan_name_matches(const char *glob, const char *table, struct rsp_str name);

#ifdef __cplusplus
}
#endif

#endif
