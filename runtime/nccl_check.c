/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUDA and NCCL say, as faults, and how long they may take to say it. In: results; out: statuses.
 */
#include <time.h>

#include "runtime/nccl.h"

static enum reshard_status failed(const struct reshard_context *context, enum reshard_status status,
                                  const char *function, const char *text, const char *more, int rc,
                                  struct reshard_fault *fault) {
  uint32_t round = rsr_device_of(context)->round;
  rsr_fault(fault, status, "%s failed on world rank %u: %s (%d)%s%s", function, context->world_rank,
            text ? text : "unknown error", rc, more && more[0] ? ": " : "", more ? more : "");
  fault->rank = context->world_rank;
  fault->round = round;
  return status;
}

enum reshard_status rsr_cuda_said(const struct reshard_context *context, int rc, const char *function,
                                  struct reshard_fault *fault) {
  if (rc == RSR_CUDA_OK) return RESHARD_OK;
  enum reshard_status status = RESHARD_BACKEND_FAILED;
  if (rc == RSR_CUDA_NO_MEMORY) status = RESHARD_NO_MEMORY;
  if (rc == RSR_CUDA_NO_DEVICE || rc == RSR_CUDA_OLD_DRIVER) status = RESHARD_UNSUPPORTED;
  return failed(context, status, function, rsr_device_of(context)->cuda.GetErrorString(rc), NULL, rc, fault);
}

enum reshard_status rsr_nccl_said(const struct reshard_context *context, int rc, const char *function,
                                  struct reshard_fault *fault) {
  const struct rsr_device *device = rsr_device_of(context);
  if (rc == RSR_NCCL_OK || rc == RSR_NCCL_IN_PROGRESS) return RESHARD_OK;
  enum reshard_status status = rc == RSR_NCCL_REMOTE_ERROR ? RESHARD_PEER_FAILED : RESHARD_BACKEND_FAILED;
  return failed(context, status, function, device->nccl.GetErrorString(rc), device->nccl.GetLastError(device->comm), rc,
                fault);
}

/* ---- the thread's device ----------------------------------------------------------------------------------------- */

enum reshard_status rsr_device_enter(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  enum reshard_status status = RSR_CUDA(GetDevice, &device->was);
  if (status == RESHARD_OK && device->was != device->device) status = RSR_CUDA(SetDevice, device->device);
  return status;
}

enum reshard_status rsr_device_leave(struct reshard_context *context, enum reshard_status status,
                                     struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  if (device->was == device->device) return status;
  struct reshard_fault other, *first = fault;
  fault = status == RESHARD_OK || status == RESHARD_PENDING ? first : &other;
  enum reshard_status back = RSR_CUDA(SetDevice, device->was);
  return back == RESHARD_OK || fault == &other ? status : back;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

struct rsr_patience rsr_patience(double seconds) {
  return (struct rsr_patience){now() + seconds, 0};
}

/* The first polls follow at once, the last a millisecond apart. */
bool rsr_patient(struct rsr_patience *patience) {
  if (now() >= patience->until) return false;
  uint32_t doublings = patience->polls++ / 8;
  if (doublings == 0) return true;
  struct timespec nap = {0, doublings < 9 ? 2000L << doublings : 1000000L};
  nanosleep(&nap, NULL);
  return true;
}

static enum reshard_status late(struct reshard_context *context, const char *what, struct reshard_fault *fault) {
  rsr_fault(fault, RESHARD_TIMEOUT, "world rank %u waited %g s for %s: a rank is dead, late or not reached",
            context->world_rank, context->config.timeout_seconds, what);
  fault->rank = context->world_rank;
  fault->round = rsr_device_of(context)->round;
  return RESHARD_TIMEOUT;
}

enum reshard_status rsr_comm_settle(struct reshard_context *context, const char *what, struct reshard_fault *fault) {
  return rsr_comm_settle_on(context, rsr_device_of(context)->comm, what, fault);
}

enum reshard_status rsr_comm_settle_on(struct reshard_context *context, void *comm, const char *what,
                                       struct reshard_fault *fault) {
  struct rsr_patience patience = rsr_patience(context->config.timeout_seconds);
  do {
    int state = RSR_NCCL_OK;
    enum reshard_status status = RSR_NCCL(CommGetAsyncError, comm, &state);
    if (status == RESHARD_OK) status = rsr_nccl_said(context, state, what, fault);
    if (status != RESHARD_OK || state == RSR_NCCL_OK) return status;
  } while (rsr_patient(&patience));
  return late(context, what, fault);
}

/* An error is told, but the stream may work on: its memory is only free when it says that it is through. */
enum reshard_status rsr_stream_settle(struct reshard_context *context, void *stream, const char *what,
                                      struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_patience patience = rsr_patience(context->config.timeout_seconds);
  enum reshard_status status = RESHARD_OK;
  do {
    int rc = device->cuda.StreamQuery(stream);
    if (rc == RSR_CUDA_NOT_READY) continue;
    if (rc == RSR_CUDA_OK) return status;
    if (status != RESHARD_OK) break;
    status = rsr_cuda_said(context, rc, "cudaStreamQuery", fault);
  } while (rsr_patient(&patience));
  device->stuck = true;
  return status == RESHARD_OK ? late(context, what, fault) : status;
}

void rsr_comm_abort(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault ignored, *fault = &ignored;
  void *comm = device->comm;
  device->comm = NULL;
  if (comm) (void)RSR_NCCL(CommAbort, comm);
  comm = device->next; /* looked at now: until its parent was aborted NCCL may have set it */
  device->next = NULL;
  if (comm) (void)RSR_NCCL(CommAbort, comm);
}
