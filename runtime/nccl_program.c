/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank does in each round, made ready for the device: launches over one image of descriptors, lists of sends and
 * receives. In: a slice with its buffers bound to device memory; out: rounds. Works on the caller's memory and the
 * device's only in so far as padding is zeroed.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl.h"

static enum reshard_status batch_said(enum rsk_status said, struct reshard_fault *fault) {
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
    status = batch_said(rsk_batch_add_zero(batch, at, loops, zero->loop_count, zero->run_bytes), fault);
  }
  return status;
}

static enum reshard_status zero_batch(struct reshard_context *context, struct rsk_batch *batch, void **image,
                                      struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsk_launch launch;
  enum reshard_status status = add_zeros(&context->slice, batch, fault);
  if (status == RESHARD_OK) status = batch_said(rsk_batch_close_launch(batch, &launch), fault);
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

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

struct adding {
  struct rsk_batch *batch;
  struct reshard_fault *fault;
};

static enum reshard_status add_nest(void *user, const struct rsr_nest *nest) {
  struct adding *adding = user;
  return batch_said(rsk_batch_add(adding->batch, (uint64_t)(uintptr_t)nest->dst, (uint64_t)(uintptr_t)nest->src,
                                  nest->loops, nest->loop_count, nest->run, nest->conv),
                    adding->fault);
}

/* The nests of all ports that pack, or unpack, in the round. */
static enum reshard_status add_nests(struct rsr_device *device, struct rsk_batch *batch, uint32_t round,
                                     bool (*takes_part)(const struct rsr_port *), struct reshard_fault *fault) {
  struct adding adding = {batch, fault};
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < device->staged.count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &device->staged.ports[s];
    if (takes_part(port) && rsr_active_in(port, round, &turn))
      status = rsr_port_nests(&device->staged, port, turn, add_nest, &adding, fault);
  }
  return status;
}

/* What was added becomes one launch. */
static enum reshard_status close_launch(struct rsk_batch *batch, enum reshard_status status, enum rsk_status added,
                                        struct rsk_launch *launch, struct reshard_fault *fault) {
  if (status == RESHARD_OK) status = batch_said(added, fault);
  return status == RESHARD_OK ? batch_said(rsk_batch_close_launch(batch, launch), fault) : status;
}

static enum reshard_status add_launches(struct rsr_device *device, struct rsk_batch *batch, uint32_t round,
                                        struct reshard_fault *fault) {
  struct rsr_device_round *row = &device->rounds[round];
  uint64_t turns = device->checks.turn_count;
  enum reshard_status status = add_nests(device, batch, round, rsr_is_packed, fault);
  status = close_launch(batch, status, RSK_OK, &row->pack, fault);
  enum rsk_status added = status == RESHARD_OK ? rsr_verify_sent(device, batch, round) : RSK_OK;
  status = close_launch(batch, status, added, &row->sent, fault);
  added = status == RESHARD_OK ? rsr_verify_received(device, batch, round) : RSK_OK;
  status = close_launch(batch, status, added, &row->received, fault);
  if (status == RESHARD_OK) status = add_nests(device, batch, round, rsr_is_unpacked, fault);
  added = status == RESHARD_OK ? rsr_verify_keep(device, batch, turns) : RSK_OK;
  return close_launch(batch, status, added, &row->unpack, fault);
}

struct listing {
  struct rsr_device *device;
  const struct rsr_port *port;
};

static bool add_transfer(void *user, unsigned char *ptr, uint64_t bytes) {
  struct listing *listing = user;
  struct rsr_device *device = listing->device;
  if (device->transfer_count == device->transfer_room) {
    uint64_t room = device->transfer_room ? 2 * device->transfer_room : 256;
    void *grown = realloc(device->transfers, room * sizeof *device->transfers);
    if (!grown) return false;
    device->transfers = grown;
    device->transfer_room = room;
  }
  const struct rsp_stream *stream = listing->port->stream;
  device->transfers[device->transfer_count++] =
      (struct rsr_transfer){ptr, bytes, stream->peer, stream->dir == RSP_DIR_OUT};
  return true;
}

static enum reshard_status add_transfers(struct rsr_device *device, uint32_t round, struct reshard_fault *fault) {
  struct rsr_device_round *row = &device->rounds[round];
  uint64_t turn;
  row->transfers = device->transfer_count;
  for (uint64_t s = 0; s < device->staged.count; s++) {
    struct rsr_port *port = &device->staged.ports[s];
    if (port->stream->dir != RSP_DIR_OUT && port->stream->dir != RSP_DIR_IN) continue;
    if (!rsr_active_in(port, round, &turn)) continue;
    struct listing listing = {device, port};
    if (!rsr_port_messages(&device->staged, port, turn, add_transfer, &listing))
      return rsr_no_memory(fault, "messages", device->transfer_room * sizeof *device->transfers);
  }
  row->transfer_count = device->transfer_count - row->transfers;
  return RESHARD_OK;
}

static enum reshard_status add_rounds(struct reshard_context *context, struct rsk_batch *batch,
                                      struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint32_t rounds = context->slice.program.slice->rounds;
  device->rounds = calloc((size_t)rounds + 1, sizeof *device->rounds);
  if (!device->rounds) return rsr_no_memory(fault, "rounds", rounds * sizeof *device->rounds);
  enum reshard_status status = RESHARD_OK;
  for (uint32_t round = 0; round < rounds && status == RESHARD_OK; round++) {
    status = add_launches(device, batch, round, fault);
    if (status == RESHARD_OK) status = add_transfers(device, round, fault);
    if (status != RESHARD_OK && fault->round == RESHARD_NO_ROUND) fault->round = round;
  }
  return status;
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
  for (uint64_t i = 0; i < device->transfer_count; i++) {
    struct place *place = place_of(places, count, device->transfers[i].ptr);
    if (place) place->wanted = true;
  }
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
  if (status == RESHARD_OK) status = add_rounds(context, batch, fault);
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
  free(device->transfers);
  free(device->registered);
  free(device->checks.turns);
  free(device->checks.host);
  device->checks = (struct rsr_checks){0};
  device->exec = device->image = NULL;
  device->rounds = NULL;
  device->transfers = NULL;
  device->registered = NULL;
  device->transfer_count = device->transfer_room = device->registered_count = 0;
  device->is_prepared = false;
}
