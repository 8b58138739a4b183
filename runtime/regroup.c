/* SPDX-License-Identifier: Apache-2.0
 *
 * From one plan to the next: in the same world, or in another one that some ranks leave and others join. In: an open
 * context and a plan; out: the context at its new place, or as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static void carry_addresses(struct rsr_slice *to, const struct rsr_slice *from) {
  for (uint64_t row = 0; row < to->program.slice->buffers.count; row++) {
    const struct rsp_sbuffer *buffer = &to->program.buffers[row];
    uint64_t old = rsr_slice_find(from, buffer->side, to->program.names + buffer->name.off, (size_t)buffer->name.len);
    if (old == UINT64_MAX || !from->is_bound[old] || from->program.buffers[old].bytes != buffer->bytes) continue;
    if ((uintptr_t)from->bound[old] % buffer->align != 0) continue;
    to->bound[row] = from->bound[old];
    to->is_bound[row] = true;
  }
}

/* The new slice takes the place of the old one. */
static void change_slice(struct reshard_context *context, const struct rsr_slice *slice) {
  struct rsr_slice next = *slice;
  carry_addresses(&next, &context->slice);
  rsr_slice_close(&context->slice);
  context->slice = next;
  context->state = RSR_OPEN;
  context->captured = false;
}

/* ---- the same world ---------------------------------------------------------------------------------------------- */

enum reshard_status reshard_swap(struct reshard_context *context, struct reshard_plan *plan) {
  if (!context || !plan) return RESHARD_INVALID_ARGUMENT;
  if (context->state == RSR_RUNNING || context->state == RSR_BROKEN) return rsr_not_now(context, "swap");
  struct rsr_slice slice = {0};
  enum reshard_status status;
  if (plan->header.world != context->world) {
    status =
        rsr_fault(&context->fault, RESHARD_INVALID_ARGUMENT,
                  "swap: the new plan's world is %u, this one's %u; call regroup", plan->header.world, context->world);
  } else {
    status = rsr_slice_open(&slice, plan, context->world_rank, &context->fault);
  }
  status = rsr_agree(context, RSR_CALL_SWAP, plan->header.plan_id, status, &context->fault);
  if (status != RESHARD_OK) {
    rsr_slice_close(&slice);
    return status;
  }
  context->backend->reset(context);
  change_slice(context, &slice);
  return RESHARD_OK;
}

/* ---- another world ----------------------------------------------------------------------------------------------- */

/* What of a context belongs to its place in a world. */
struct place {
  struct reshard_config config;
  uint32_t world, world_rank;
  uint64_t version, calls;
  enum rsr_state state;
  struct rsr_word *words;
  void *own;
};

static struct place place_of(const struct reshard_context *context) {
  return (struct place){context->config, context->world, context->world_rank, context->version,
                        context->calls,  context->state, context->words,      context->own};
}

static void go_to(struct reshard_context *context, const struct place *place) {
  context->config = place->config;
  context->world = place->world;
  context->world_rank = place->world_rank;
  context->version = place->version;
  context->calls = place->calls;
  context->state = place->state;
  context->words = place->words;
  context->own = place->own;
}

/* What the caller may not change: where the buffers are, and by what they are moved. */
static enum reshard_status take_place(const struct reshard_context *context, const struct reshard_config *config,
                                      struct place *to, struct reshard_fault *fault) {
  enum reshard_status status = rsr_take_config(&to->config, config, "regroup", fault);
  if (status != RESHARD_OK) return status;
  if (to->config.backend != context->config.backend || to->config.mode != context->config.mode)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                     "regroup: the config has another backend or mode than the context was opened with");
  to->config.device = context->config.device;
  to->config.cuda_library = context->config.cuda_library;
  to->config.nccl_library = context->config.nccl_library;
  to->words = calloc(to->world, sizeof *to->words);
  return to->words ? RESHARD_OK : rsr_no_memory(fault, "agreements", to->world * sizeof *to->words);
}

/* At the new place: meets the others. *opened: the backend's part there is to be closed. */
static enum reshard_status meet(struct reshard_context *context, struct reshard_plan *plan, struct rsr_slice *slice,
                                bool *opened) {
  const struct rsr_backend *backend = context->backend;
  struct reshard_fault *fault = &context->fault;
  enum reshard_status status = RESHARD_OK;
  if (!backend->stays) {
    context->own = NULL;
    status = backend->open(context, fault);
    *opened = status == RESHARD_OK;
    if (!*opened && !context->config.all_gather) return status;
  }
  if (status == RESHARD_OK) status = rsr_slice_open(slice, plan, context->world_rank, fault);
  return rsr_agree(context, RSR_CALL_CONTEXT, plan->header.plan_id, status, fault);
}

/* Whatever the backend has at the old place ends, with the old slice, which its peers there may still read. */
static void leave(struct reshard_context *context, const struct place *old) {
  if (context->backend->stays) {
    context->backend->reset(context);
    return;
  }
  struct place here = place_of(context);
  go_to(context, old);
  context->backend->close(context);
  go_to(context, &here);
}

static enum reshard_status settle_in(struct reshard_context *context, struct place *old,
                                     const struct rsr_slice *slice) {
  leave(context, old);
  free(old->words);
  change_slice(context, slice);
  enum reshard_status status = rsr_connect(context, &context->fault);
  if (status == RESHARD_OK) return status;
  context->state = RSR_BROKEN;
  context->version = old->version;
  rsr_fault_add(&context->fault, "; the old connection is gone: regroup again, or close the context");
  return status;
}

enum reshard_status reshard_regroup(struct reshard_context *context, struct reshard_plan *plan, uint32_t world_rank,
                                    const struct reshard_config *config) {
  if (!context || !plan) return RESHARD_INVALID_ARGUMENT;
  if (context->state == RSR_RUNNING) return rsr_not_now(context, "regroup");
  struct reshard_fault *fault = &context->fault;
  if (world_rank >= plan->header.world)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "regroup: world rank %u is beyond the plan's world of %u",
                     world_rank, plan->header.world);
  struct place old = place_of(context), next = old;
  next.world = plan->header.world;
  next.world_rank = world_rank;
  next.calls = 0;
  enum reshard_status status = take_place(context, config, &next, fault);
  if (status != RESHARD_OK) return status;
  struct rsr_slice slice = {0};
  bool opened = false;
  go_to(context, &next);
  context->regroups = true;
  status = meet(context, plan, &slice, &opened);
  if (status == RESHARD_OK) {
    status = settle_in(context, &old, &slice);
  } else {
    if (opened) context->backend->close(context);
    rsr_slice_close(&slice);
    free(next.words);
    go_to(context, &old);
  }
  context->regroups = false;
  return status;
}
