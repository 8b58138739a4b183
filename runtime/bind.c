/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of buffers: taken, checked, zeroed where there is padding. In: names and pointers of the caller.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/rsk.h"
#include "runtime/context.h"

static const char *const side_words[] = {"training", "inference"};

static enum reshard_status unknown(const struct reshard_context *context, uint32_t side, const char *name,
                                   size_t name_bytes, struct reshard_fault *fault) {
  const struct rsp_program *program = &context->slice.program;
  int shown = name_bytes < 200 ? (int)name_bytes : 200;
  if (rsr_slice_find(&context->slice, 1 - side, name, name_bytes) != UINT64_MAX) {
    return rsr_fault(fault, RESHARD_UNKNOWN_BUFFER,
                     "world rank %u holds no %s buffer '%.*s', but %s %s one of that name: give the other side",
                     context->world_rank, side_words[side], shown, name, side == RESHARD_TRAIN ? "an" : "a",
                     side_words[1 - side]);
  }
  for (uint64_t row = 0; row < program->slice->buffers.count; row++) {
    const struct rsp_sbuffer *buffer = &program->buffers[row];
    if (buffer->side != side) continue;
    return rsr_fault(fault, RESHARD_UNKNOWN_BUFFER,
                     "world rank %u holds no %s buffer '%.*s'; the first that it holds is '%.*s'", context->world_rank,
                     side_words[side], shown, name, buffer->name.len < 200 ? (int)buffer->name.len : 200,
                     program->names + buffer->name.off);
  }
  return rsr_fault(fault, RESHARD_UNKNOWN_BUFFER, "world rank %u holds no %s buffer '%.*s', nor any other of that side",
                   context->world_rank, side_words[side], shown, name);
}

static enum reshard_status check_pointer(struct reshard_context *context, uint64_t row, const void *ptr, uint64_t bytes,
                                         struct reshard_fault *fault) {
  const struct rsp_program *program = &context->slice.program;
  const struct rsp_sbuffer *buffer = &program->buffers[row];
  int shown = buffer->name.len < 200 ? (int)buffer->name.len : 200;
  const char *name = program->names + buffer->name.off;
  enum reshard_status status = RESHARD_OK;
  if (bytes != buffer->bytes) {
    status =
        rsr_fault(fault, RESHARD_WRONG_SIZE, "%s buffer '%.*s' of world rank %u has %llu bytes in the plan, not %llu",
                  side_words[buffer->side], shown, name, context->world_rank, (unsigned long long)buffer->bytes,
                  (unsigned long long)bytes);
  } else if (bytes > 0 && !ptr) {
    status =
        rsr_fault(fault, RESHARD_WRONG_ALIGNMENT, "%s buffer '%.*s' of world rank %u is not empty, the pointer is NULL",
                  side_words[buffer->side], shown, name, context->world_rank);
  } else if ((uintptr_t)ptr % buffer->align != 0) {
    status = rsr_fault(fault, RESHARD_WRONG_ALIGNMENT,
                       "%s buffer '%.*s' of world rank %u must be aligned to %u bytes, its element; %p is not",
                       side_words[buffer->side], shown, name, context->world_rank, buffer->align, ptr);
  } else if ((uintptr_t)ptr + bytes < (uintptr_t)ptr) {
    status = rsr_fault(fault, RESHARD_WRONG_SIZE, "%s buffer '%.*s' of world rank %u would go past the last address",
                       side_words[buffer->side], shown, name, context->world_rank);
  } else if (bytes > 0 && context->backend->check) {
    status = context->backend->check(context, ptr, fault);
  }
  if (status != RESHARD_OK) rsr_fault_at(fault, program, buffer);
  return status;
}

static enum reshard_status bind_row(struct reshard_context *context, uint32_t side, const char *name, size_t name_bytes,
                                    void *ptr, uint64_t bytes, bool again) {
  struct rsr_slice *slice = &context->slice;
  struct reshard_fault *fault = &context->fault;
  if (side > RESHARD_INFER || !name) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                     "bind: side is neither RESHARD_TRAIN nor RESHARD_INFER, or name is NULL");
  }
  if (context->state == RSR_RUNNING || context->state == RSR_BROKEN) {
    return rsr_fault(fault, RESHARD_WRONG_STATE,
                     context->state == RSR_RUNNING ? "bind: a refit runs; call wait first"
                                                   : "bind: the context has failed; close it");
  }
  uint64_t row = rsr_slice_find(slice, side, name, name_bytes);
  if (row == UINT64_MAX) return unknown(context, side, name, name_bytes, fault);
  if (again && !slice->is_bound[row]) {
    rsr_fault(fault, RESHARD_WRONG_STATE, "rebind: the buffer was never bound; bind it");
    rsr_fault_at(fault, &slice->program, &slice->program.buffers[row]);
    return RESHARD_WRONG_STATE;
  }
  enum reshard_status status = check_pointer(context, row, ptr, bytes, fault);
  if (status != RESHARD_OK) return status;
  slice->bound[row] = ptr;
  slice->is_bound[row] = true;
  context->state = RSR_OPEN;
  return RESHARD_OK;
}

enum reshard_status reshard_bind_n(struct reshard_context *context, enum reshard_side side, const char *name,
                                   size_t name_bytes, void *ptr, uint64_t bytes) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  return bind_row(context, (uint32_t)side, name, name_bytes, ptr, bytes, false);
}

enum reshard_status reshard_bind(struct reshard_context *context, enum reshard_side side, const char *name, void *ptr,
                                 uint64_t bytes) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  return bind_row(context, (uint32_t)side, name, name ? strlen(name) : 0, ptr, bytes, false);
}

enum reshard_status reshard_rebind(struct reshard_context *context, enum reshard_side side, const char *name, void *ptr,
                                   uint64_t bytes) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  return bind_row(context, (uint32_t)side, name, name ? strlen(name) : 0, ptr, bytes, true);
}

uint64_t reshard_buffer_count(const struct reshard_context *context) {
  return context ? context->slice.program.slice->buffers.count : 0;
}

enum reshard_status reshard_buffer_get(const struct reshard_context *context, uint64_t index,
                                       struct reshard_buffer_info *info) {
  if (!context || !info || index >= reshard_buffer_count(context)) return RESHARD_INVALID_ARGUMENT;
  const struct rsp_program *program = &context->slice.program;
  const struct rsp_sbuffer *buffer = &program->buffers[index];
  *info = (struct reshard_buffer_info){.side = buffer->side == RSP_TRAIN ? RESHARD_TRAIN : RESHARD_INFER,
                                       .name = program->names + buffer->name.off,
                                       .name_bytes = (size_t)buffer->name.len,
                                       .dtype = rsp_dtype_word(buffer->dtype),
                                       .ndim = buffer->ndim,
                                       .dims = program->dims + buffer->dims,
                                       .bytes = buffer->bytes,
                                       .align = buffer->align,
                                       .bound = context->slice.bound[index]};
  return RESHARD_OK;
}

/* ---- before a refit ---------------------------------------------------------------------------------------------- */

struct range {
  uintptr_t from, to;
  const struct rsp_sbuffer *buffer;
};

static int by_address(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static bool forbidden(const struct range *a, const struct range *b) {
  bool tied = a->buffer->side == RSP_INFER && b->buffer->side == RSP_INFER && a->from == b->from && a->to == b->to;
  return (a->buffer->side == RSP_INFER || b->buffer->side == RSP_INFER) && b->from < a->to && !tied;
}

/* `last[s]` is the range of side s that reaches furthest so far. */
static enum reshard_status check_overlaps(const struct rsr_slice *slice, const struct range *ranges, uint64_t count,
                                          struct reshard_fault *fault) {
  const struct range *last[2] = {NULL, NULL};
  const struct rsp_program *program = &slice->program;
  for (uint64_t i = 0; i < count; i++) {
    for (uint32_t s = 0; s < 2; s++) {
      if (!last[s] || !forbidden(last[s], &ranges[i])) continue;
      struct rsp_str a = last[s]->buffer->name, b = ranges[i].buffer->name;
      rsr_fault(fault, RESHARD_OVERLAP,
                "%s buffer '%.*s' and %s buffer '%.*s' share bytes: a refit would overwrite what it reads",
                side_words[s], a.len < 150 ? (int)a.len : 150, program->names + a.off,
                side_words[ranges[i].buffer->side], b.len < 150 ? (int)b.len : 150, program->names + b.off);
      rsr_fault_at(fault, program, ranges[i].buffer);
      return RESHARD_OVERLAP;
    }
    const struct range **mine = &last[ranges[i].buffer->side];
    if (!*mine || ranges[i].to > (*mine)->to) *mine = &ranges[i];
  }
  return RESHARD_OK;
}

enum reshard_status rsr_slice_ready(const struct rsr_slice *slice, uint32_t world_rank, struct reshard_fault *fault) {
  const struct rsp_program *program = &slice->program;
  uint64_t rows = program->slice->buffers.count, count = 0;
  struct range *ranges = malloc((rows + 1) * sizeof *ranges);
  if (!ranges) return rsr_no_memory(fault, "a check of overlaps", rows * sizeof *ranges);
  for (uint64_t row = 0; row < rows; row++) {
    const struct rsp_sbuffer *buffer = &program->buffers[row];
    if (slice->is_bound[row]) {
      uintptr_t from = (uintptr_t)slice->bound[row];
      if (buffer->bytes > 0) ranges[count++] = (struct range){from, from + buffer->bytes, buffer};
      continue;
    }
    free(ranges);
    rsr_fault(fault, RESHARD_UNBOUND, "prepare: %s buffer '%.*s' of world rank %u is not bound",
              side_words[buffer->side], buffer->name.len < 200 ? (int)buffer->name.len : 200,
              program->names + buffer->name.off, world_rank);
    rsr_fault_at(fault, program, buffer);
    return RESHARD_UNBOUND;
  }
  qsort(ranges, count, sizeof *ranges, by_address);
  enum reshard_status status = check_overlaps(slice, ranges, count, fault);
  free(ranges);
  return status;
}

void rsr_slice_zero(const struct rsr_slice *slice) {
  const struct rsp_program *program = &slice->program;
  for (uint64_t i = 0; i < program->slice->zeros.count; i++) {
    const struct rsp_zero *zero = &program->zeros[i];
    struct rsk_loop loops[RSK_LOOPS];
    for (uint32_t l = 0; l < zero->loop_count; l++) {
      const struct rsp_zloop *loop = &program->zloops[zero->loops + l];
      loops[l] = (struct rsk_loop){loop->count, (int64_t)loop->step, (int64_t)loop->step};
    }
    uint64_t run = zero->run_bytes;
    uint32_t count = rsk_simplify(loops, zero->loop_count, &run, 1, 1);
    rsk_zero(rsr_address(slice, zero->gid) + zero->off, loops, count, run);
  }
}
