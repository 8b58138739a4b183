/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's context: opened, prepared, refitted, closed. In: a plan and addresses; out: statuses. What moves
 * the bytes is the backend's.
 */
#include "runtime/context.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/plugin.h"

#define DEFAULT_TIMEOUT 30.0

void reshard_config_init(struct reshard_config *config) {
  *config = (struct reshard_config){.struct_bytes = sizeof *config,
                                    .backend = RESHARD_HOST,
                                    .mode = RESHARD_FUSED,
                                    .timeout_seconds = DEFAULT_TIMEOUT,
                                    .device = -1};
}

/* NULL with UNSUPPORTED in *fault. */
static const struct rsr_backend *backend_of(enum reshard_backend backend, struct reshard_fault *fault) {
  switch (backend) {
  case RESHARD_HOST:
    return &rsr_host;
  case RESHARD_MPI: {
    const struct rsr_mpi_plugin *plugin = rsr_mpi_load(fault);
    return plugin ? plugin->backend : NULL;
  }
  case RESHARD_NCCL:
    return &rsr_nccl;
  default:
    rsr_fault(fault, RESHARD_UNSUPPORTED, "context_open: this build has no backend %d", (int)backend);
    return NULL;
  }
}

/* A caller built against an older header gives a shorter struct. */
enum reshard_status rsr_take_config(struct reshard_config *to, const struct reshard_config *from, const char *call,
                                    struct reshard_fault *fault) {
  reshard_config_init(to);
  if (!from || from->struct_bytes < offsetof(struct reshard_config, inject) || from->struct_bytes > sizeof *to) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                     "%s: config is NULL or not from reshard_config_init of this library's version", call);
  }
  memcpy(to, from, from->struct_bytes);
  if (!(to->timeout_seconds > 0)) to->timeout_seconds = DEFAULT_TIMEOUT;
  if (to->mode != RESHARD_STAGED && to->mode != RESHARD_FUSED) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "%s: unknown mode %d", call, (int)to->mode);
  }
  if (to->flags & ~(RESHARD_GUARD | RESHARD_VERIFY | RESHARD_NO_GRAPH | RESHARD_REGISTER)) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "%s: unknown flags 0x%x", call, to->flags);
  }
  if (to->backend != RESHARD_HOST) to->mode = RESHARD_STAGED; /* the only one between processes */
  const struct rsr_backend *backend = backend_of(to->backend, fault);
  if (!backend) return fault->status;
  if (!backend->all_gather && !to->all_gather) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "%s: backend %s needs config.all_gather", call, backend->name);
  }
  return RESHARD_OK;
}

static void free_context(struct reshard_context *context) {
  rsr_slice_close(&context->slice);
  free(context->words);
  free(context);
}

enum reshard_status rsr_connect(struct reshard_context *context, struct reshard_fault *fault) {
  for (uint32_t r = 0; r < context->world; r++) {
    if (context->words[r].version > context->version) context->version = context->words[r].version;
  }
  if (!context->backend->connect) return RESHARD_OK;
  enum reshard_status status = context->backend->connect(context, fault);
  return rsr_agree(context, RSR_CALL_CONNECT, context->words[0].plan_id, status, fault);
}

/* From here on this rank takes part, so its failure is told to all, if there is a way without the backend. */
static enum reshard_status join(struct reshard_context *context, const struct reshard_plan *plan,
                                struct reshard_fault *fault) {
  const struct rsr_backend *backend = context->backend;
  const uint8_t *plan_id = plan->header.plan_id;
  enum reshard_status status = backend->open(context, fault);
  bool opened = status == RESHARD_OK;
  if (!opened && !context->config.all_gather) return status;
  if (opened) status = rsr_slice_open(&context->slice, plan, context->world_rank, fault);
  status = rsr_agree(context, RSR_CALL_CONTEXT, plan_id, status, fault);
  if (status == RESHARD_OK) status = rsr_connect(context, fault);
  if (status != RESHARD_OK && opened) backend->close(context);
  return status;
}

enum reshard_status reshard_context_open(struct reshard_plan *plan, uint32_t world_rank,
                                         const struct reshard_config *config, struct reshard_context **out,
                                         struct reshard_fault *fault) {
  struct reshard_fault own;
  if (!fault) fault = &own;
  rsr_fault_clear(fault);
  if (!plan || !out) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "context_open: plan or context is NULL");
  *out = NULL;
  if (world_rank >= plan->header.world) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "context_open: world rank %u is beyond the plan's world of %u",
                     world_rank, plan->header.world);
  }
  struct reshard_config taken;
  enum reshard_status status = rsr_take_config(&taken, config, "context_open", fault);
  if (status != RESHARD_OK) return status;
  struct reshard_context *context = calloc(1, sizeof *context);
  if (!context) return rsr_no_memory(fault, "the context", sizeof *context);
  context->config = taken;
  context->world = plan->header.world;
  context->world_rank = world_rank;
  context->backend = backend_of(taken.backend, fault);
  rsr_fault_clear(&context->fault);
  context->words = calloc(context->world, sizeof *context->words);
  status = context->words ? join(context, plan, fault) : rsr_no_memory(fault, "agreements", sizeof *context->words);
  if (status == RESHARD_OK)
    *out = context;
  else
    free_context(context);
  return status;
}

void reshard_context_close(struct reshard_context *context) {
  if (!context) return;
  context->backend->close(context);
  free_context(context);
}

enum reshard_status rsr_not_now(struct reshard_context *context, const char *call) {
  static const char *const why[] = {"it is not prepared; call prepare on every rank", "no refit runs; call refit",
                                    "a refit runs; call wait first", "it has failed; close it, or regroup"};
  return rsr_fault(&context->fault, RESHARD_WRONG_STATE, "%s does not fit the state of the context: %s", call,
                   why[context->state]);
}

static enum reshard_status prepare_here(struct reshard_context *context) {
  context->backend->reset(context);
  enum reshard_status status = rsr_slice_ready(&context->slice, context->world_rank, &context->fault);
  if (status != RESHARD_OK) return status;
  if (context->backend->zero)
    status = context->backend->zero(context, &context->fault);
  else
    rsr_slice_zero(&context->slice);
  if (status != RESHARD_OK) return status;
  return context->backend->prepare(context, &context->fault);
}

enum reshard_status reshard_prepare(struct reshard_context *context) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  if (context->state == RSR_RUNNING || context->state == RSR_BROKEN) return rsr_not_now(context, "prepare");
  context->state = RSR_OPEN;
  context->captured = false;
  const uint8_t *plan_id = context->slice.plan->header.plan_id;
  enum reshard_status status = prepare_here(context);
  status = rsr_agree(context, RSR_CALL_PREPARE, plan_id, status, &context->fault);
  if (status == RESHARD_OK) {
    status = context->backend->link(context, &context->fault);
    status = rsr_agree(context, RSR_CALL_LINK, plan_id, status, &context->fault);
  }
  if (status == RESHARD_OK) context->state = RSR_READY;
  return status;
}

enum reshard_status reshard_refit(struct reshard_context *context, void *stream) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  if (context->state != RSR_READY) return rsr_not_now(context, "refit");
  context->captured = false;
  enum reshard_status status = context->backend->refit(context, stream, &context->fault);
  if (status == RESHARD_INVALID_ARGUMENT) return status; /* nothing has begun */
  context->state = status == RESHARD_OK ? RSR_RUNNING : RSR_BROKEN;
  return status;
}

/* A refit that the caller captured runs whenever its graph does. */
static bool is_running(struct reshard_context *context) {
  if (context->state == RSR_READY && context->captured) context->state = RSR_RUNNING;
  return context->state == RSR_RUNNING;
}

enum reshard_status reshard_query(struct reshard_context *context) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  if (!is_running(context)) return rsr_not_now(context, "query");
  return context->backend->query(context, &context->fault);
}

enum reshard_status reshard_wait(struct reshard_context *context) {
  if (!context) return RESHARD_INVALID_ARGUMENT;
  if (!is_running(context)) return rsr_not_now(context, "wait");
  enum reshard_status status = context->backend->wait(context, &context->fault);
  status = rsr_agree(context, RSR_CALL_WAIT, context->slice.plan->header.plan_id, status, &context->fault);
  if (status == RESHARD_OK) {
    context->version++;
    context->state = RSR_READY;
  } else {
    context->state = RSR_BROKEN;
    context->backend->quiesce(context);
  }
  return status;
}

void reshard_ranks(const struct reshard_context *context, uint32_t *train_rank, uint32_t *infer_rank) {
  const struct rsp_slice *slice = context ? context->slice.program.slice : NULL;
  if (train_rank) *train_rank = slice ? slice->train_rank : RESHARD_NO_RANK;
  if (infer_rank) *infer_rank = slice ? slice->infer_rank : RESHARD_NO_RANK;
}

uint64_t reshard_version(const struct reshard_context *context) {
  return context ? context->version : 0;
}

void reshard_last_fault(const struct reshard_context *context, struct reshard_fault *fault) {
  if (context)
    *fault = context->fault;
  else
    rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "last_fault: context is NULL");
}
