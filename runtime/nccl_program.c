/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank made ready for the device: padding zeroed, staging, the image of its rounds' descriptors, registered buffers;
 * and all that undone. In: a slice with its buffers bound to device memory; out: what refit needs.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl.h"

enum reshard_status rsr_batch_said(enum rsk_status said, struct reshard_fault *fault) {
  switch (said) {
  case RSK_OK:
    return RESHARD_OK;
  case RSK_NO_MEMORY:
    return rsr_fault(fault, RESHARD_NO_MEMORY, "prepare: not enough memory for the descriptors of the rounds");
  default:
    return rsr_fault(fault, RESHARD_BAD_PLAN, "prepare: the plan asks for a copy or a conversion that no kernel does");
  }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

enum reshard_status rsr_device_launch(struct reshard_context *context, const void *image,
                                      const struct rsk_launch *launch, void *stream, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsk_launch by_value = *launch;
  void *arguments[] = {&image, &by_value};
  struct rsr_cuda_launch config = {
      .grid = {rsk_launch_blocks(launch, device->blocks), 1, 1}, .block = {RSK_BLOCK_THREADS, 1, 1}, .stream = stream};
  return RSR_CUDA(LaunchKernelExC, &config, device->kernels[launch->kernel], arguments);
}

/* The batch's image on the device. */
static enum reshard_status upload(struct reshard_context *context, const struct rsk_batch *batch, void **image,
                                  struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint64_t bytes;
  const void *from = rsk_batch_image(batch, &bytes);
  if (bytes == 0) return RESHARD_OK;
  enum reshard_status status = RSR_CUDA(Malloc, image, bytes);
  if (status != RESHARD_OK) return status;
  status = RSR_CUDA(MemcpyAsync, *image, from, bytes, RSR_CUDA_COPY_DEFAULT, device->origin);
  if (status != RESHARD_OK) return status;
  return rsr_stream_settle(context, device->origin, "its descriptors to reach the device", fault);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

static enum reshard_status add_zeros(const struct rsr_slice *slice, struct rsk_batch *batch,
                                     struct reshard_fault *fault) {
  const struct rsp_program *program = &slice->program;
  enum reshard_status status = RESHARD_OK;
  for (uint64_t i = 0; i < program->slice->zeros.count && status == RESHARD_OK; i++) {
    const struct rsp_zero *zero = &program->zeros[i];
    struct rsk_loop loops[RSK_LOOPS];
    for (uint32_t l = 0; l < zero->loop_count; l++) {
      const struct rsp_zloop *loop = &program->zloops[zero->loops + l];
      loops[l] = (struct rsk_loop){loop->count, (int64_t)loop->step, (int64_t)loop->step};
    }
    uint64_t at = (uint64_t)(uintptr_t)(rsr_address(slice, zero->gid) + zero->off);
    status = rsr_batch_said(rsk_batch_add_zero(batch, at, loops, zero->loop_count, zero->run_bytes), fault);
  }
  return status;
}

static enum reshard_status zero_batch(struct reshard_context *context, struct rsk_batch *batch, void **image,
                                      struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsk_launch launch;
  enum reshard_status status = add_zeros(&context->slice, batch, fault);
  if (status == RESHARD_OK) status = rsr_batch_said(rsk_batch_close_launch(batch, &launch), fault);
  if (status != RESHARD_OK || launch.tile_count == 0) return status;
  status = upload(context, batch, image, fault);
  if (status == RESHARD_OK) status = rsr_device_launch(context, *image, &launch, device->origin, fault);
  if (status != RESHARD_OK) return status;
  return rsr_stream_settle(context, device->origin, "padding to be zeroed", fault);
}

enum reshard_status rsr_device_zero(struct reshard_context *context, struct reshard_fault *fault) {
  if (context->slice.program.slice->zeros.count == 0) return RESHARD_OK;
  enum reshard_status status = rsr_device_enter(context, fault), freed = RESHARD_OK;
  if (status != RESHARD_OK) return status;
  struct rsk_batch *batch = rsk_batch_new();
  void *image = NULL;
  status = batch ? zero_batch(context, batch, &image, fault) : rsr_no_memory(fault, "zeros", 0);
  rsk_batch_free(batch);
  struct reshard_fault second;
  if (image) {
    struct reshard_fault *first = fault;
    fault = status == RESHARD_OK ? first : &second;
    freed = RSR_CUDA(Free, image);
    fault = first;
  }
  return rsr_device_leave(context, status != RESHARD_OK ? status : freed, fault);
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

struct place {
  unsigned char *from, *to;
  bool wanted;
};

static int by_place(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->to < y->to ? 1 : x->to > y->to ? -1 : 0;
}

/* The last place that begins at or before `ptr`. */
static struct place *place_of(struct place *places, uint64_t count, const unsigned char *ptr) {
  uint64_t lo = 0, hi = count;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (places[mid].from <= ptr)
      lo = mid;
    else
      hi = mid;
  }
  return count > 0 && places[lo].from <= ptr && ptr < places[lo].to ? &places[lo] : NULL;
}

/* Each address once: tied buffers are one. */
static uint64_t list_places(const struct rsr_slice *slice, struct place *places) {
  uint64_t all = 0, count = 0;
  for (uint64_t row = 0; row < slice->program.slice->buffers.count; row++) {
    uint64_t bytes = slice->program.buffers[row].bytes;
    if (bytes > 0) places[all++] = (struct place){slice->bound[row], slice->bound[row] + bytes, false};
  }
  qsort(places, all, sizeof *places, by_place);
  for (uint64_t i = 0; i < all; i++) {
    if (count == 0 || places[i].from != places[count - 1].from) places[count++] = places[i];
  }
  return count;
}

struct marking {
  struct place *places;
  uint64_t count;
};

static bool mark(void *user, unsigned char *ptr, uint64_t bytes) {
  const struct marking *marking = user;
  (void)bytes;
  struct place *place = place_of(marking->places, marking->count, ptr);
  if (place) place->wanted = true;
  return true;
}

/* All turns of direct ports are walked, so these are rewound. */
static void mark_places(struct rsr_staged *staged, struct marking *marking) {
  for (uint64_t s = 0; s < staged->count; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (port->stream->kind != RSP_KIND_DIRECT || !rsr_crosses(port)) continue;
    for (uint64_t turn = 0; turn < port->active; turn++) rsr_port_messages(staged, port, turn, mark, marking);
  }
  rsr_staged_rewind(staged);
}

/* The buffers that messages come from and go to. */
static enum reshard_status register_buffers(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint64_t rows = context->slice.program.slice->buffers.count;
  struct place *places = malloc((rows + 1) * sizeof *places);
  device->registered = calloc(rows + 1, sizeof *device->registered);
  if (!places || !device->registered) {
    free(places);
    return rsr_no_memory(fault, "registrations", rows * sizeof *places);
  }
  uint64_t count = list_places(&context->slice, places);
  mark_places(&device->staged, &(struct marking){places, count});
  enum reshard_status status = RESHARD_OK;
  for (uint64_t i = 0; i < count && status == RESHARD_OK; i++) {
    if (!places[i].wanted) continue;
    void **handle = &device->registered[device->registered_count];
    status = RSR_NCCL(CommRegister, device->comm, places[i].from, (size_t)(places[i].to - places[i].from), handle);
    if (status == RESHARD_OK) device->registered_count++;
    if (status == RESHARD_OK) status = rsr_comm_settle(context, "buffers to be registered", fault);
  }
  free(places);
  return status;
}

/* ---- prepare and reset ------------------------------------------------------------------------------------------- */

static enum reshard_status open_staging(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint64_t bytes = context->slice.program.slice->staging;
  void *staging = NULL;
  if (context->config.inject.kind == RESHARD_INJECT_NO_MEMORY) return rsr_no_memory(fault, "staging", bytes);
  if (bytes == 0) return RESHARD_OK;
  enum reshard_status status = RSR_CUDA(Malloc, &staging, bytes);
  device->staged.staging = staging;
  if (status != RESHARD_OK || !(context->config.flags & RESHARD_GUARD)) return status;
  status = RSR_CUDA(MemsetAsync, staging, RSR_POISON, bytes, device->origin);
  return status == RESHARD_OK ? rsr_stream_settle(context, device->origin, "staging to be poisoned", fault) : status;
}

static enum reshard_status prepare(struct reshard_context *context, struct rsk_batch *batch,
                                   struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  enum reshard_status status = rsr_staged_open(&device->staged, &context->slice, context->config.flags, fault);
  if (status == RESHARD_OK) status = open_staging(context, fault);
  if (status == RESHARD_OK) status = rsr_verify_open(context, fault);
  if (status == RESHARD_OK) status = rsr_device_rounds(context, batch, fault);
  if (status == RESHARD_OK) status = upload(context, batch, &device->image, fault);
  if (status == RESHARD_OK && (context->config.flags & RESHARD_REGISTER)) status = register_buffers(context, fault);
  return status;
}

enum reshard_status rsr_device_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  rsr_device_of(context)->is_prepared = true;
  enum reshard_status status = rsr_device_enter(context, fault);
  if (status != RESHARD_OK) return status;
  struct rsk_batch *batch = rsk_batch_new();
  status = batch ? prepare(context, batch, fault) : rsr_no_memory(fault, "descriptors", 0);
  rsk_batch_free(batch);
  return rsr_device_leave(context, status, fault);
}

/* The first failure is kept for who prepares next; who closes has no use for it. */
static void tidy(struct rsr_device *device, enum reshard_status status, const struct reshard_fault *fault) {
  if (status != RESHARD_OK && device->untidy.status == RESHARD_OK) device->untidy = *fault;
}

static void free_device_side(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault said, *fault = &said;
  tidy(device, rsr_device_enter(context, fault), fault);
  if (device->exec) tidy(device, RSR_CUDA(GraphExecDestroy, device->exec), fault);
  for (uint64_t i = 0; i < device->registered_count && device->comm; i++)
    tidy(device, RSR_NCCL(CommDeregister, device->comm, device->registered[i]), fault);
  /* Memory that the device may still write to is better lost than given to others. */
  void *blocks[] = {device->staged.staging, device->image, device->staged.hashes, device->checks.found};
  for (uint32_t i = 0; i < sizeof blocks / sizeof *blocks && !device->stuck; i++) {
    if (blocks[i]) tidy(device, RSR_CUDA(Free, blocks[i]), fault);
  }
  tidy(device, rsr_device_leave(context, RESHARD_OK, fault), fault);
}

void rsr_device_reset(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  if (!device->is_prepared) return;
  free_device_side(context);
  rsr_staged_close(&device->staged);
  free(device->rounds);
  free(device->registered);
  free(device->checks.turns);
  free(device->checks.host);
  device->checks = (struct rsr_checks){0};
  device->exec = device->image = NULL;
  device->rounds = NULL;
  device->registered = NULL;
  device->registered_count = 0;
  device->is_prepared = false;
}
