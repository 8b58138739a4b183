/* SPDX-License-Identifier: Apache-2.0
 *
 * The NCCL backend's life: libraries and device; and its table. In: a context; out: a device that can take part.
 */
#include "runtime/nccl.h"

#include <stdlib.h>
#include <string.h>

/* Blocks per processor: enough to keep memory busy, few enough to leave room for NCCL's own. */
#define BLOCKS_PER_PROCESSOR 4

/* ---- this rank alone --------------------------------------------------------------------------------------------- */

static enum reshard_status load_kernels(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  size_t bytes;
  const void *code = rsk_device_image(&bytes);
  enum reshard_status status = RSR_CUDA(LibraryLoadData, &device->library, code, NULL, NULL, 0, NULL, NULL, 0);
  if (status != RESHARD_OK && bytes == 0) {
    struct reshard_fault said = *fault;
    status = rsr_fault(fault, RESHARD_UNSUPPORTED,
                       "this build has no device kernels, as nvcc was not found: build it where CUDA 12.8 or newer is "
                       "(%.200s)",
                       said.what);
  }
  for (uint32_t k = 0; k < RSK_KERNEL_COUNT && status == RESHARD_OK; k++)
    status = RSR_CUDA(LibraryGetKernel, &device->kernels[k], device->library, rsk_kernel_name(k));
  return status;
}

static enum reshard_status make_streams(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  enum reshard_status status = RSR_CUDA(StreamCreateWithFlags, &device->origin, RSR_CUDA_STREAM_NON_BLOCKING);
  for (uint32_t lane = 0; lane < RSR_LANES && status == RESHARD_OK; lane++)
    status = RSR_CUDA(StreamCreateWithFlags, &device->streams[lane], RSR_CUDA_STREAM_NON_BLOCKING);
  for (uint32_t e = 0; e < RSR_EVENTS && status == RESHARD_OK; e++)
    status = RSR_CUDA(EventCreateWithFlags, &device->events[e], RSR_CUDA_EVENT_DISABLE_TIMING);
  if (status == RESHARD_OK) status = RSR_CUDA(EventCreateWithFlags, &device->done, RSR_CUDA_EVENT_DISABLE_TIMING);
  return status;
}

static enum reshard_status set_up(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  int processors = 0;
  enum reshard_status status = rsr_device_enter(context, fault);
  if (status == RESHARD_OK) status = RSR_CUDA(DeviceGetAttribute, &processors, RSR_CUDA_PROCESSORS, device->device);
  device->blocks = BLOCKS_PER_PROCESSOR * (uint32_t)(processors > 0 ? processors : 1);
  if (status == RESHARD_OK) status = load_kernels(context, fault);
  if (status == RESHARD_OK) status = make_streams(context, fault);
  return status;
}

static enum reshard_status open_here(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  const struct reshard_config *config = &context->config;
  enum reshard_status status = rsr_cuda_open(&device->cuda, config->cuda_library, fault);
  if (status == RESHARD_OK) status = rsr_nccl_api_open(&device->nccl, config->nccl_library, fault);
  if (status != RESHARD_OK) return status;
  device->is_loaded = true;
  device->device = config->device;
  if (config->device < 0) status = RSR_CUDA(GetDevice, &device->device);
  if (status != RESHARD_OK) return status;
  return rsr_device_leave(context, set_up(context, fault), fault);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void free_handles(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault ignored, *fault = &ignored;
  bool entered = rsr_device_enter(context, fault) == RESHARD_OK;
  if (device->done) (void)RSR_CUDA(EventDestroy, device->done);
  for (uint32_t e = 0; e < RSR_EVENTS; e++) {
    if (device->events[e]) (void)RSR_CUDA(EventDestroy, device->events[e]);
  }
  for (uint32_t lane = 0; lane < RSR_LANES; lane++) {
    if (device->streams[lane]) (void)RSR_CUDA(StreamDestroy, device->streams[lane]);
  }
  if (device->origin) (void)RSR_CUDA(StreamDestroy, device->origin);
  if (device->library) (void)RSR_CUDA(LibraryUnload, device->library);
  if (entered) (void)rsr_device_leave(context, RESHARD_OK, fault);
}

static void free_device(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  if (device->is_loaded) free_handles(context);
  rsr_cuda_close(&device->cuda);
  rsr_nccl_api_close(&device->nccl);
  free(device->comm_ranks);
  free(device);
  context->own = NULL;
}

static void nccl_close(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault ignored;
  if (device->running) (void)rsr_device_wait(context, &ignored);
  rsr_device_reset(context);
  bool entered = rsr_device_enter(context, &ignored) == RESHARD_OK;
  /* The others may wait for this rank in what will never be: an abort is what they can hear. */
  if (context->state == RSR_BROKEN) rsr_comm_abort(context);
  /* Ranks of one host that close together end in peace; whatever goes wrong is ended by force. */
  if (rsr_comm_end(context, &ignored) != RESHARD_OK) rsr_comm_abort(context);
  if (entered) (void)rsr_device_leave(context, RESHARD_OK, &ignored);
  free_device(context);
}

static enum reshard_status nccl_open(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = calloc(1, sizeof *device);
  context->own = device;
  if (!device) return rsr_no_memory(fault, "the device", sizeof *device);
  device->round = RESHARD_NO_ROUND;
  enum reshard_status status = open_here(context, fault);
  if (status != RESHARD_OK) free_device(context);
  return status;
}

static enum reshard_status nccl_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  if (!device->comm)
    return rsr_fault(fault, RESHARD_WRONG_STATE,
                     "prepare: the communicator was aborted after a failure; close the context, or regroup");
  if (device->untidy.status == RESHARD_OK) return rsr_device_prepare(context, fault);
  *fault = device->untidy;
  device->untidy.status = RESHARD_OK;
  return fault->status;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static enum reshard_status nccl_check(struct reshard_context *context, const void *ptr, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_cuda_pointer is;
  memset(&is, 0, sizeof is);
  enum reshard_status status = RSR_CUDA(PointerGetAttributes, &is, ptr);
  if (status != RESHARD_OK) return status;
  if (is.type == RSR_CUDA_MEMORY_MANAGED) return RESHARD_OK;
  if (is.type != RSR_CUDA_MEMORY_DEVICE)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "bind: %p is not memory of a CUDA device", ptr);
  if (is.device != device->device)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "bind: %p is memory of CUDA device %d; this context's is %d", ptr,
                     is.device, device->device);
  return RESHARD_OK;
}

const struct rsr_backend rsr_nccl = {
    .name = "nccl",
    .stays = true,
    .open = nccl_open,
    .kin = rsr_comm_kin,
    .connect = rsr_comm_connect,
    .prepare = nccl_prepare,
    .link = rsr_device_link,
    .refit = rsr_device_refit,
    .query = rsr_device_query,
    .wait = rsr_device_wait,
    .quiesce = rsr_device_quiesce,
    .reset = rsr_device_reset,
    .close = nccl_close,
    .zero = rsr_device_zero,
    .check = nccl_check,
};
