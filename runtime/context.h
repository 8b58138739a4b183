/* SPDX-License-Identifier: Apache-2.0
 *
 * Private forms of the runtime: a plan, a rank's slice of it, a context.
 */
#ifndef RSR_CONTEXT_H
#define RSR_CONTEXT_H

#include <stdarg.h>
#include <stdbool.h>

#include "plans/plan.h"
#include "runtime/backend.h"
#include "runtime/reshard.h"

struct reshard_plan {
  struct rsp_header header; /* a copy */
  char *path;               /* NULL: in memory, `whole` is open */
  struct rsp_plan whole;
};

/* A rank's program with the addresses bound to it. Pointers by row of program.buffers. */
struct rsr_slice {
  const struct reshard_plan *plan;
  struct rsp_rank_view view; /* unused for a plan in memory */
  struct rsp_program program;
  unsigned char **bound;
  bool *is_bound;
  uint64_t *names; /* hash table of row + 1 by (side, name); 0 is empty */
  uint64_t name_mask;
};

enum rsr_state { RSR_OPEN, RSR_READY, RSR_RUNNING, RSR_BROKEN };

struct reshard_context {
  struct reshard_config config;
  struct rsr_slice slice;
  uint32_t world, world_rank;
  enum rsr_state state;
  uint64_t version;
  bool regroups;          /* is in that call, for words */
  bool captured;          /* the last refit is part of a graph of the caller's, which may be launched again */
  uint64_t calls;         /* collective calls so far: ranks that are out of step are told so */
  struct rsr_word *words; /* of all ranks, for agreements */
  struct reshard_fault fault;
  const struct rsr_backend *backend;
  void *own; /* the backend's */
};

/* ---- faults: each fills *fault and returns its status ----------------------------------------------------------- */

enum reshard_status rsr_fault(struct reshard_fault *fault, enum reshard_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the buffer's name and place. */
void rsr_fault_at(struct reshard_fault *fault, const struct rsp_program *program, const struct rsp_sbuffer *buffer);
/* Goes on with its words, as far as there is room. */
void rsr_fault_add(struct reshard_fault *fault, const char *text);
void rsr_fault_clear(struct reshard_fault *fault);
enum reshard_status rsr_no_memory(struct reshard_fault *fault, const char *what, uint64_t bytes);

/* ---- slices ------------------------------------------------------------------------------------------------------ */

enum reshard_status rsr_slice_open(struct rsr_slice *slice, const struct reshard_plan *plan, uint32_t world_rank,
                                   struct reshard_fault *fault);
void rsr_slice_close(struct rsr_slice *slice);
/* Row of the buffer, or UINT64_MAX. */
uint64_t rsr_slice_find(const struct rsr_slice *slice, uint32_t side, const char *name, size_t name_bytes);
/* What a gid is bound to. The gid is in the slice. */
static inline unsigned char *rsr_address(const struct rsr_slice *slice, uint32_t gid) {
  return slice->bound[rsp_program_buffer(&slice->program, gid) - slice->program.buffers];
}
/* Bound wholly, without forbidden overlaps. */
enum reshard_status rsr_slice_ready(const struct rsr_slice *slice, uint32_t world_rank, struct reshard_fault *fault);
void rsr_slice_zero(const struct rsr_slice *slice);

/* The call that ranks meet by, for words. */
static inline const char *rsr_meeting(const struct reshard_context *context) {
  return context->regroups ? "regroup" : "context_open";
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* RSR_CALL_CONTEXT: ranks meet, those that open and those that regroup; their versions may differ. */
enum rsr_call { RSR_CALL_CONTEXT = 1, RSR_CALL_CONNECT, RSR_CALL_PREPARE, RSR_CALL_LINK, RSR_CALL_WAIT, RSR_CALL_SWAP };

/* What every rank says to all in a collective call; the last two when they meet. */
struct rsr_word {
  uint32_t call, status, mode, can;
  uint64_t calls;
  uint8_t plan_id[16];
  uint64_t version;
  struct rsr_kin kin;
};

/* Every rank gives its status; OK if all are OK in the same call with the same plan. A rank that failed keeps its own
 * *fault; the others get that of the first one that failed, as do those that only waited for it. */
enum reshard_status rsr_agree(struct reshard_context *context, enum rsr_call call, const uint8_t plan_id[16],
                              enum reshard_status status, struct reshard_fault *fault);

/* ---- context.c, for regroup.c ------------------------------------------------------------------------------------ */

/* Checks and completes a caller's config; `call` is for words. */
enum reshard_status rsr_take_config(struct reshard_config *to, const struct reshard_config *from, const char *call,
                                    struct reshard_fault *fault);
/* What ranks do once they have met: one version for all, the largest; then the backend's own connection. */
enum reshard_status rsr_connect(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_not_now(struct reshard_context *context, const char *call);

#endif
