/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend is: one table of functions over a context. The order of calls is the contract:
 *
 *   open -> (all ranks agree) -> connect -> (all ranks agree)
 *        -> { prepare -> (all ranks agree) -> link -> (all ranks agree) -> { refit -> wait }* -> reset }* -> close
 *
 * In another world (regroup) a backend that stays begins again at connect, after a reset, others at open.
 *
 * Each returns a status and, on failure, has filled *fault. prepare looks at this rank only; link may look at peers,
 * which are all prepared then and stay so until the second agreement.
 */
#ifndef RSR_BACKEND_H
#define RSR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/reshard.h"

/* Where a rank was before it met the others: what of an old communicator can be used again is for all to see. */
struct rsr_kin {
  uint64_t id; /* the same on all ranks of it and on no others; 0: this rank comes from nowhere */
  uint32_t rank, size;
};

struct rsr_backend {
  const char *name;
  /* What a context has of the backend goes with it into another world, and connect makes the new connection from the
   * old one; false: it is opened again there, and the old one closed. */
  bool stays;
  enum reshard_status (*open)(struct reshard_context *context, struct reshard_fault *fault);
  /* With the other ranks, which have opened the same plan; NULL: nothing to do. */
  enum reshard_status (*connect)(struct reshard_context *context, struct reshard_fault *fault);
  /* What this rank says of itself when ranks meet, with `can` bits of the backend's own; NULL: nothing. */
  void (*kin)(struct reshard_context *context, struct rsr_kin *kin, uint32_t *can);
  /* The control channel of the backend itself, used where the caller gives none; NULL: it has none. */
  enum reshard_status (*all_gather)(struct reshard_context *context, const void *mine, size_t bytes, void *all,
                                    const char *call, struct reshard_fault *fault);
  /* Whether a buffer may lie there; NULL: anywhere. */
  enum reshard_status (*check)(struct reshard_context *context, const void *ptr, struct reshard_fault *fault);
  /* Padding of the inference buffers becomes zero, before prepare; NULL: it is plain memory, and the caller does it. */
  enum reshard_status (*zero)(struct reshard_context *context, struct reshard_fault *fault);
  enum reshard_status (*prepare)(struct reshard_context *context, struct reshard_fault *fault);
  enum reshard_status (*link)(struct reshard_context *context, struct reshard_fault *fault);
  enum reshard_status (*refit)(struct reshard_context *context, void *stream, struct reshard_fault *fault);
  /* PENDING while it runs. */
  enum reshard_status (*query)(struct reshard_context *context, struct reshard_fault *fault);
  /* Until the refit has ended on this rank. */
  enum reshard_status (*wait)(struct reshard_context *context, struct reshard_fault *fault);
  /* After a failure: returns when no rank touches this rank's memory any more. */
  void (*quiesce)(struct reshard_context *context);
  /* Undoes prepare and link. */
  void (*reset)(struct reshard_context *context);
  void (*close)(struct reshard_context *context);
};

extern const struct rsr_backend rsr_host, rsr_nccl;

#endif
