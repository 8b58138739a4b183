/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as the runtime sees them: a checked header, and the way to the slices. In: a path or bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

static enum reshard_status bad_plan(struct reshard_fault *fault, enum rsp_status status, const char *path,
                                    const struct rsp_error *error) {
  if (status == RSP_TROUBLE) return rsr_fault(fault, RESHARD_CANNOT_READ, "%s", error->text);
  return rsr_fault(fault, RESHARD_BAD_PLAN, "%.200s: %s", path, error->text);
}

static struct reshard_plan *new_plan(const char *path) {
  struct reshard_plan *plan = calloc(1, sizeof *plan);
  if (!plan || !path) return plan;
  plan->path = strdup(path);
  if (plan->path) return plan;
  free(plan);
  return NULL;
}

static enum reshard_status open_path(const char *path, struct reshard_plan **out, struct reshard_fault *fault) {
  struct rsp_rank_view view;
  struct rsp_error error;
  enum rsp_status status = rsp_rank_open(path, 0, &view, &error);
  if (status != RSP_OK) return bad_plan(fault, status, path, &error);
  struct reshard_plan *plan = new_plan(path);
  if (plan) plan->header = view.header;
  rsp_rank_close(&view);
  if (!plan) return rsr_no_memory(fault, "the plan", sizeof *plan);
  *out = plan;
  return RESHARD_OK;
}

enum reshard_status reshard_open(const char *path, struct reshard_plan **plan, struct reshard_fault *fault) {
  struct reshard_fault own;
  if (!fault) fault = &own;
  rsr_fault_clear(fault);
  if (!plan) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "reshard_open: plan is NULL");
  *plan = NULL;
  if (!path) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "reshard_open: path is NULL");
  return open_path(path, plan, fault);
}

enum reshard_status reshard_open_memory(const void *data, size_t bytes, struct reshard_plan **plan,
                                        struct reshard_fault *fault) {
  struct reshard_fault own;
  if (!fault) fault = &own;
  rsr_fault_clear(fault);
  if (!plan) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "reshard_open_memory: plan is NULL");
  *plan = NULL;
  if (!data) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "reshard_open_memory: data is NULL");
  struct reshard_plan *made = new_plan(NULL);
  if (!made) return rsr_no_memory(fault, "the plan", sizeof *made);
  struct rsp_error error;
  enum rsp_status status = rsp_open_memory(data, bytes, &made->whole, &error);
  if (status != RSP_OK) {
    free(made);
    return bad_plan(fault, status, "memory", &error);
  }
  made->header = *made->whole.header;
  *plan = made;
  return RESHARD_OK;
}

void reshard_close(struct reshard_plan *plan) {
  if (!plan) return;
  if (!plan->path) rsp_close(&plan->whole);
  free(plan->path);
  free(plan);
}

void reshard_plan_get(const struct reshard_plan *plan, struct reshard_plan_info *info) {
  *info = (struct reshard_plan_info){.world = plan->header.world,
                                     .train_world = plan->header.train_world,
                                     .infer_world = plan->header.infer_world,
                                     .rounds = plan->header.rounds,
                                     .staging_limit = plan->header.staging_limit};
  memcpy(info->plan_id, plan->header.plan_id, sizeof info->plan_id);
}

/* ---- a rank's slice ---------------------------------------------------------------------------------------------- */

static enum reshard_status map_slice(struct rsr_slice *slice, uint32_t world_rank, struct reshard_fault *fault) {
  const struct reshard_plan *plan = slice->plan;
  if (!plan->path) {
    rsp_program_of(&plan->whole, world_rank, &slice->program);
    return RESHARD_OK;
  }
  struct rsp_error error;
  enum rsp_status status = rsp_rank_open(plan->path, world_rank, &slice->view, &error);
  if (status != RSP_OK) return bad_plan(fault, status, plan->path, &error);
  if (memcmp(slice->view.header.plan_id, plan->header.plan_id, 16) != 0) {
    char was[33], is[33];
    rsp_id_text(plan->header.plan_id, was);
    rsp_id_text(slice->view.header.plan_id, is);
    rsp_rank_close(&slice->view);
    return rsr_fault(fault, RESHARD_BAD_PLAN,
                     "%.200s has changed since it was opened: it was plan %s and is %s; open it again", plan->path, was,
                     is);
  }
  slice->program = slice->view.program;
  return RESHARD_OK;
}

static uint64_t hash_name(uint32_t side, const char *name, size_t bytes) {
  uint64_t h = 0xcbf29ce484222325ull + side; /* FNV-1a, then mixed: the mask keeps low bits only */
  for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
  return h ^ (h >> 29);
}

static bool same_name(const struct rsr_slice *slice, uint64_t row, uint32_t side, const char *name, size_t bytes) {
  const struct rsp_sbuffer *buffer = &slice->program.buffers[row];
  return buffer->side == side && buffer->name.len == bytes &&
         memcmp(slice->program.names + buffer->name.off, name, bytes) == 0;
}

/* The slot of the name, or the empty one where it would be. */
static uint64_t slot_of(const struct rsr_slice *slice, uint32_t side, const char *name, size_t bytes) {
  uint64_t at = hash_name(side, name, bytes) & slice->name_mask;
  while (slice->names[at] != 0 && !same_name(slice, slice->names[at] - 1, side, name, bytes)) {
    at = (at + 1) & slice->name_mask;
  }
  return at;
}

uint64_t rsr_slice_find(const struct rsr_slice *slice, uint32_t side, const char *name, size_t name_bytes) {
  return slice->names[slot_of(slice, side, name, name_bytes)] - 1;
}

static bool index_names(struct rsr_slice *slice) {
  uint64_t count = slice->program.slice->buffers.count, room = 4;
  while (room < 2 * count) room *= 2;
  slice->bound = calloc(count + 1, sizeof *slice->bound);
  slice->is_bound = calloc(count + 1, sizeof *slice->is_bound);
  slice->names = calloc(room, sizeof *slice->names);
  slice->name_mask = room - 1;
  if (!slice->bound || !slice->is_bound || !slice->names) return false;
  for (uint64_t row = 0; row < count; row++) {
    const struct rsp_sbuffer *buffer = &slice->program.buffers[row];
    uint64_t at = slot_of(slice, buffer->side, slice->program.names + buffer->name.off, buffer->name.len);
    if (slice->names[at] == 0) slice->names[at] = row + 1;
  }
  return true;
}

enum reshard_status rsr_slice_open(struct rsr_slice *slice, const struct reshard_plan *plan, uint32_t world_rank,
                                   struct reshard_fault *fault) {
  *slice = (struct rsr_slice){.plan = plan};
  enum reshard_status status = map_slice(slice, world_rank, fault);
  if (status != RESHARD_OK) {
    slice->plan = NULL;
    return status;
  }
  if (index_names(slice)) return RESHARD_OK;
  uint64_t count = slice->program.slice->buffers.count;
  rsr_slice_close(slice);
  return rsr_no_memory(fault, "the buffers' names", count * 32);
}

void rsr_slice_close(struct rsr_slice *slice) {
  if (slice->plan && slice->plan->path) rsp_rank_close(&slice->view);
  free(slice->bound);
  free(slice->is_bound);
  free(slice->names);
  *slice = (struct rsr_slice){0};
}
