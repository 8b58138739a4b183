/* SPDX-License-Identifier: Apache-2.0
 *
 * The NCCL backend: ranks are GPUs, rounds are groups of sends and receives on one communicator, packing and unpacking
 * are kernels. Private forms shared by nccl_*.c.
 *
 * Three lanes, each a stream: pack, exchange, unpack. Phase p packs round p, exchanges round p-1 and unpacks round p-2;
 * every lane waits for what the other two did in earlier phases, as the plan's proof of its staging assumes, and for
 * nothing else. All is enqueued by refit; the host looks at the end only.
 *
 * Every call of CUDA and NCCL goes through RSR_CUDA and RSR_NCCL below: the one place where a result becomes a fault.
 */
#ifndef RSR_NCCL_H
#define RSR_NCCL_H

#include "kernels/batch.h"
#include "runtime/context.h"
#include "runtime/cuda_api.h"
#include "runtime/nccl_api.h"
#include "runtime/staged.h"

enum rsr_lane { RSR_LANE_PACK, RSR_LANE_EXCHANGE, RSR_LANE_UNPACK, RSR_LANES };
/* A place in each lane, and where the lanes begin. */
enum { RSR_EVENT_FORK = RSR_LANES, RSR_EVENTS };

struct rsr_device_round {
  struct rsk_launch pack, unpack;
  struct rsk_launch sent, received; /* RESHARD_VERIFY: hashes of what is packed or sent; of what has come */
  uint64_t turns;                   /* of ports that send or receive */
};

/* RESHARD_VERIFY: turns that are received, and their pieces' hashes, in the order of rounds. */
struct rsr_checked {
  uint64_t port, turn, first, count; /* pieces [first, first + count) */
};
struct rsr_checks {
  struct rsr_checked *turns;
  uint64_t turn_count, turn_room;
  uint64_t *found;            /* on the device: `room` that were found, then as many that senders said */
  uint64_t *host;             /* the same, at the end */
  uint64_t piece_count, room; /* room 0: nothing is checked */
};

struct rsr_device {
  struct rsr_cuda cuda;
  struct rsr_nccl_api nccl;
  bool is_loaded;  /* both of them, with all their functions */
  int device, was; /* of this rank; of the caller's thread */
  uint32_t blocks; /* of a launch, at most */
  void *comm;
  void *next;           /* the communicator that is being made of it */
  uint32_t *comm_ranks; /* by world rank; NULL: the same */
  struct rsr_kin kin;   /* of comm, also when it has been aborted */
  void *library, *kernels[RSK_KERNEL_COUNT];
  void *streams[RSR_LANES], *origin; /* origin: where captures begin */
  void *events[RSR_EVENTS], *done;
  bool is_prepared;            /* there is something to reset */
  struct reshard_fault untidy; /* what went wrong in a reset */
  /* prepared */
  struct rsr_staged staged;
  void *image;
  struct rsr_device_round *rounds;
  void **registered;
  uint64_t registered_count;
  struct rsr_checks checks;
  void *exec; /* the graph, unless there is none */
  /* a refit */
  uint64_t recorded[RSR_EVENTS];        /* phase + 1 of what the event marks; 0: nothing */
  uint64_t seen[RSR_LANES][RSR_EVENTS]; /* what the lane has waited for */
  void *stream;                         /* the caller's */
  bool running, is_captured, is_marked; /* captured: into the caller's graph; marked: `done` is after it */
  bool died;                            /* injected */
  bool stuck;                           /* the device still works after an abort */
  uint32_t round;                       /* being worked on, for faults */
  enum reshard_status status;           /* of the refit, once it has failed */
  struct reshard_fault fault;
};

static inline struct rsr_device *rsr_device_of(const struct reshard_context *context) {
  return (struct rsr_device *)context->own;
}

/* ---- nccl_check.c ------------------------------------------------------------------------------------------------ */

/* A fault that names the function, the error, the rank and the round; OK if it is none. */
enum reshard_status rsr_cuda_said(const struct reshard_context *context, int rc, const char *function,
                                  struct reshard_fault *fault);
/* Also OK if NCCL goes on with it. */
enum reshard_status rsr_nccl_said(const struct reshard_context *context, int rc, const char *function,
                                  struct reshard_fault *fault);
/* With `context` and `fault` in sight. */
#define RSR_CUDA(name, ...) rsr_cuda_said(context, rsr_device_of(context)->cuda.name(__VA_ARGS__), "cuda" #name, fault)
#define RSR_NCCL(name, ...) rsr_nccl_said(context, rsr_device_of(context)->nccl.name(__VA_ARGS__), "nccl" #name, fault)

/* The rank's device becomes the thread's; and back. */
enum reshard_status rsr_device_enter(struct reshard_context *context, struct reshard_fault *fault);
/* Returns `status`; a failure to go back only if that is OK. */
enum reshard_status rsr_device_leave(struct reshard_context *context, enum reshard_status status,
                                     struct reshard_fault *fault);

/* A wait: polls that come further and further apart, until the timeout. */
struct rsr_patience {
  double until;
  uint32_t polls;
};
struct rsr_patience rsr_patience(double seconds);
/* False: it has come to its end. Sleeps otherwise. */
bool rsr_patient(struct rsr_patience *patience);

/* Until the communicator has done what it was told. */
enum reshard_status rsr_comm_settle(struct reshard_context *context, const char *what, struct reshard_fault *fault);
enum reshard_status rsr_comm_settle_on(struct reshard_context *context, void *comm, const char *what,
                                       struct reshard_fault *fault);
/* Until the stream is empty: of work that needs no other rank. */
enum reshard_status rsr_stream_settle(struct reshard_context *context, void *stream, const char *what,
                                      struct reshard_fault *fault);
/* Ends the communicator, one that is being made of it, and all their operations, here and, in time, at the others. */
void rsr_comm_abort(struct reshard_context *context);

/* ---- nccl_comm.c: the communicator's life ------------------------------------------------------------------------ */

/* What of it the others can count on. */
void rsr_comm_kin(struct reshard_context *context, struct rsr_kin *kin, uint32_t *can);
/* All ranks of the world have met: one communicator for them, from the old one where that can be. */
enum reshard_status rsr_comm_connect(struct reshard_context *context, struct reshard_fault *fault);
/* In peace: all operations have ended. On failure it is to be aborted. */
enum reshard_status rsr_comm_end(struct reshard_context *context, struct reshard_fault *fault);

/* ---- nccl_rounds.c ----------------------------------------------------------------------------------------------- */

/* Makes device->rounds; their launches are of the batch's image. */
enum reshard_status rsr_device_rounds(struct reshard_context *context, struct rsk_batch *batch,
                                      struct reshard_fault *fault);

/* ---- nccl_program.c ---------------------------------------------------------------------------------------------- */

enum reshard_status rsr_batch_said(enum rsk_status said, struct reshard_fault *fault);
enum reshard_status rsr_device_zero(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_device_prepare(struct reshard_context *context, struct reshard_fault *fault);
void rsr_device_reset(struct reshard_context *context);
enum reshard_status rsr_device_launch(struct reshard_context *context, const void *image,
                                      const struct rsk_launch *launch, void *stream, struct reshard_fault *fault);

/* ---- nccl_verify.c: RESHARD_VERIFY ------------------------------------------------------------------------------- */

/* Memory for hashes, if they are wanted; after rsr_staged_open. */
enum reshard_status rsr_verify_open(struct reshard_context *context, struct reshard_fault *fault);
/* Add hashes of what the round sends; of what it has received, each turn noted; copies of what senders said of the
 * turns that were noted from `first_turn` on. */
enum rsk_status rsr_verify_sent(struct rsr_device *device, struct rsk_batch *batch, uint32_t round);
enum rsk_status rsr_verify_received(struct rsr_device *device, struct rsk_batch *batch, uint32_t round);
enum rsk_status rsr_verify_keep(struct rsr_device *device, struct rsk_batch *batch, uint64_t first_turn);
/* After a refit: CORRUPT if a piece is not what was sent. */
enum reshard_status rsr_verify_end(struct reshard_context *context, struct reshard_fault *fault);

/* ---- nccl_flow.c ------------------------------------------------------------------------------------------------- */

/* Makes the graph. */
enum reshard_status rsr_device_link(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_device_refit(struct reshard_context *context, void *stream, struct reshard_fault *fault);
/* PENDING, OK, or the failure, after which the communicator is aborted. */
enum reshard_status rsr_device_query(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_device_wait(struct reshard_context *context, struct reshard_fault *fault);
void rsr_device_quiesce(struct reshard_context *context);

#endif
