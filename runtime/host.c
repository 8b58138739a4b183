/* SPDX-License-Identifier: Apache-2.0
 *
 * The host backend: a worker thread per context, which runs refits in staged or fused mode.
 */
#include "runtime/host.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

static enum reshard_status run_refit(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  rsr_fault_clear(fault);
  if (!rsr_host_enter(host)) {
    if (atomic_load(&host->group->aborted)) return rsr_host_aborted(host->group, fault);
    return rsr_fault(fault, RESHARD_PEER_FAILED,
                     "a rank has closed or prepared its context again since this one was prepared; "
                     "prepare on every rank");
  }
  enum reshard_status status =
      context->config.mode == RESHARD_STAGED ? rsr_staged_refit(context, fault) : rsr_fused_refit(context, fault);
  if (fault->rank == RESHARD_NO_RANK && status != RESHARD_OK) fault->rank = context->world_rank;
  if (status != RESHARD_OK && !host->died) rsr_host_abort(host->group, fault);
  rsr_host_leave(host->group);
  return status;
}

/* With the lock held, a refit wanted and not taken: whoever comes first runs it, the worker or the thread that waits
 * for it, which spares two changes of threads. Conversions count on nearest even and kept denormals, whatever the
 * caller has set. */
static void take_refit(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  struct reshard_fault fault;
  fenv_t own;
  host->taken = true;
  pthread_mutex_unlock(&host->lock);
  fegetenv(&own);
  fesetenv(FE_DFL_ENV);
  enum reshard_status status = run_refit(context, &fault);
  fesetenv(&own);
  pthread_mutex_lock(&host->lock);
  host->status = status;
  host->fault = fault;
  host->wanted = host->taken = false;
  pthread_cond_broadcast(&host->changed);
}

static void *work(void *arg) {
  struct rsr_host *host = arg; /* while its context moves to another group, it is not the context's own */
  pthread_mutex_lock(&host->lock);
  while (!host->quit || (host->wanted && !host->taken)) {
    if (host->wanted && !host->taken)
      take_refit(host->context);
    else
      pthread_cond_wait(&host->changed, &host->lock);
  }
  pthread_mutex_unlock(&host->lock);
  return NULL;
}

static enum reshard_status host_refit(struct reshard_context *context, void *stream, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  if (stream) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "refit: the host backend has no streams; give NULL");
  host->refit++;
  pthread_mutex_lock(&host->lock);
  host->wanted = true;
  pthread_cond_broadcast(&host->changed);
  pthread_mutex_unlock(&host->lock);
  return RESHARD_OK;
}

static enum reshard_status take_result(struct reshard_context *context, bool block, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  pthread_mutex_lock(&host->lock);
  while (block && host->wanted) {
    if (!host->taken)
      take_refit(context);
    else
      pthread_cond_wait(&host->changed, &host->lock);
  }
  enum reshard_status status = host->wanted ? RESHARD_PENDING : host->status;
  if (status != RESHARD_OK && status != RESHARD_PENDING) *fault = host->fault;
  pthread_mutex_unlock(&host->lock);
  return status;
}

static enum reshard_status host_query(struct reshard_context *context, struct reshard_fault *fault) {
  return take_result(context, false, fault);
}

static enum reshard_status host_wait(struct reshard_context *context, struct reshard_fault *fault) {
  return take_result(context, true, fault);
}

static void host_quiesce(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  if (!host->died) rsr_host_abort(host->group, &context->fault);
  rsr_host_settle(host->group);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static enum reshard_status take_seat(struct reshard_context *context, struct reshard_fault *fault) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  struct rsr_station *station = rsr_host_of(context)->station;
  enum reshard_status status = RESHARD_OK;
  pthread_mutex_lock(&group->lock);
  if (atomic_load(&group->aborted)) {
    status =
        rsr_fault(fault, RESHARD_WRONG_STATE, "%s: this group has failed before; make a new one", rsr_meeting(context));
  } else if (station->member) {
    status = rsr_fault(fault, RESHARD_WRONG_STATE,
                       "%s: world rank %u has a context in this group already; close it, or make a new group",
                       rsr_meeting(context), context->world_rank);
  } else {
    station->member = context;
    atomic_store(&station->begun, 0);
    atomic_store(&station->opened, 0);
    atomic_store(&station->awaits, 0);
  }
  pthread_mutex_unlock(&group->lock);
  return status;
}

static void leave_seat(struct reshard_context *context) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  pthread_mutex_lock(&group->lock);
  rsr_host_of(context)->station->member = NULL;
  atomic_store(&rsr_host_of(context)->station->opened, 0); /* nobody looks for the member any more */
  pthread_mutex_unlock(&group->lock);
}

static void free_host(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  pthread_mutex_destroy(&host->lock);
  pthread_cond_destroy(&host->changed);
  free(host);
  context->own = NULL;
}

static enum reshard_status host_open(struct reshard_context *context, struct reshard_fault *fault) {
  struct reshard_host_group *group = context->config.group;
  if (!group)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "%s: the host backend needs config.group, shared by all ranks",
                     rsr_meeting(context));
  if (group->world != context->world) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "%s: the group is for %u ranks, the plan's world has %u",
                     rsr_meeting(context), group->world, context->world);
  }
  struct rsr_host *host = calloc(1, sizeof *host);
  if (!host) return rsr_no_memory(fault, "the host backend", sizeof *host);
  pthread_mutex_init(&host->lock, NULL);
  pthread_cond_init(&host->changed, NULL);
  host->context = context;
  host->group = group;
  host->station = &group->stations[context->world_rank];
  context->own = host;
  enum reshard_status status = take_seat(context, fault);
  if (status == RESHARD_OK && pthread_create(&host->thread, NULL, work, host) != 0) {
    leave_seat(context);
    status = rsr_fault(fault, RESHARD_NO_MEMORY, "%s: cannot start the thread of world rank %u", rsr_meeting(context),
                       context->world_rank);
  }
  if (status != RESHARD_OK) free_host(context);
  return status;
}

static void unlink_ranks(struct reshard_context *context, bool closes) {
  struct rsr_host *host = rsr_host_of(context);
  rsr_host_end_epoch(host->group, closes);
  rsr_staged_reset(host);
  rsr_fused_reset(host);
}

static void host_reset(struct reshard_context *context) {
  unlink_ranks(context, false);
}

/* Peers that run still look here: the seat is left when they have ended. */
static void host_close(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  pthread_mutex_lock(&host->lock);
  host->quit = true;
  pthread_cond_broadcast(&host->changed);
  while (host->wanted) pthread_cond_wait(&host->changed, &host->lock);
  pthread_mutex_unlock(&host->lock);
  pthread_join(host->thread, NULL);
  unlink_ranks(context, true);
  leave_seat(context);
  free_host(context);
}

static enum reshard_status host_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  uint64_t seed = context->config.delay_seed;
  pthread_mutex_lock(&host->group->lock);
  host->closed = host->group->closed;
  pthread_mutex_unlock(&host->group->lock);
  host->random = seed == 0 ? 0 : (seed * 0x9e3779b97f4a7c15ull + context->world_rank) | 1;
  return context->config.mode == RESHARD_STAGED ? rsr_staged_prepare(context, fault)
                                                : rsr_fused_prepare(context, fault);
}

static enum reshard_status host_link(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  host->epoch = atomic_load(&host->group->epoch);
  host->refit = 0;
  atomic_store(&host->station->begun, 0);
  atomic_store(&host->station->opened, 0);
  atomic_store(&host->station->awaits, 0);
  if (!rsr_host_enter(host)) {
    if (atomic_load(&host->group->aborted)) return rsr_host_aborted(host->group, fault);
    return rsr_fault(fault, RESHARD_PEER_FAILED, "prepare: another rank has closed its context");
  }
  enum reshard_status status = rsr_check_twins(context, fault);
  if (status == RESHARD_OK) {
    status = context->config.mode == RESHARD_STAGED ? rsr_staged_link(context, fault) : rsr_fused_link(context, fault);
  }
  rsr_host_leave(host->group);
  return status;
}

const struct rsr_backend rsr_host = {
    .name = "host",
    .open = host_open,
    .all_gather = rsr_host_all_gather,
    .prepare = host_prepare,
    .link = host_link,
    .refit = host_refit,
    .query = host_query,
    .wait = host_wait,
    .quiesce = host_quiesce,
    .reset = host_reset,
    .close = host_close,
};
