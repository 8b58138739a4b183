// SPDX-License-Identifier: Apache-2.0
//
// run_replay: drives the runtime. In: a plan, its file, buffers. Out: refits, timed from the moment that all rank
// threads are let go until the last has come back. All rank threads wait at one gate between commands, so a rank that
// failed still comes to the next one and nothing hangs here; the runtime has its own timeout.

#include "tools/run_replay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"

enum command { COMMAND_OPEN, COMMAND_REFIT, COMMAND_MEMCPY, COMMAND_STOP };

struct rank_thread {
  struct run_replay *replay;
  pthread_t id;
  uint32_t world_rank;
  struct reshard_context *context;
  enum reshard_status status;
  struct reshard_fault fault;
  void **mirrors; // nccl: of the slots on the device, the training side's first
  bool fresh;     // they hold what memory does, but for padding that prepare has zeroed
  double seconds; // of its last refit, without copies
};

struct run_replay {
  const struct rsp_plan *spec;
  struct run_memory *memory;
  struct run_options options;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct rank_thread *threads;
  uint32_t world, started;
  enum command command;
  // The gate: commands are numbered, threads wait for the next number and count themselves back.
  pthread_mutex_t lock;
  pthread_cond_t go, back;
  uint64_t number;
  uint32_t returned;
};

// Its one rank is this thread.
static bool is_apart(const struct run_replay *replay) {
  return replay->options.backend != RESHARD_HOST;
}

// ---- what a rank does ----------------------------------------------------------------------------------------------

static void take_fault(struct rank_thread *self, enum reshard_status status) {
  self->status = status;
  if (self->context) reshard_last_fault(self->context, &self->fault);
  if (self->fault.status == RESHARD_OK) self->fault.status = status;
}

// Where the runtime finds the slot: itself, or its mirror on the device.
static void *place_of(const struct rank_thread *self, uint32_t which, uint64_t slot) {
  const struct run_side *sides = self->replay->memory->side;
  if (!self->mirrors) return sides[which].slots[slot].data;
  return self->mirrors[(which == RSP_INFER ? sides[RSP_TRAIN].slot_count : 0) + slot];
}

static enum reshard_status bind_side(struct rank_thread *self, uint32_t which, uint32_t side_rank) {
  const struct rsp_plan *spec = self->replay->spec;
  struct run_side *side = &self->replay->memory->side[which];
  if (side_rank == RSP_NO_RANK) return RESHARD_OK;
  const struct run_rank *rank = &side->ranks[side_rank];
  for (uint64_t i = 0; i < rank->count; i++) {
    const struct run_slot *slot = &side->slots[rank->first + i];
    struct rsp_str name = spec->buffers[slot->gid].name;
    enum reshard_status status =
        reshard_bind_n(self->context, which == RSP_TRAIN ? RESHARD_TRAIN : RESHARD_INFER, spec->strings + name.off,
                       name.len, place_of(self, which, rank->first + i), slot->bytes);
    if (status != RESHARD_OK) return status;
  }
  return RESHARD_OK;
}

// The rank's slots are all that is in memory.
static enum reshard_status make_mirrors(struct rank_thread *self) {
  struct run_replay *replay = self->replay;
  const struct run_side *sides = replay->memory->side;
  if (replay->options.backend != RESHARD_NCCL) return RESHARD_OK;
  self->mirrors = calloc(sides[RSP_TRAIN].slot_count + sides[RSP_INFER].slot_count + 1, sizeof *self->mirrors);
  if (!self->mirrors) return RESHARD_NO_MEMORY;
  for (uint32_t which = 0, at = 0; which < 2; which++) {
    for (uint64_t i = 0; i < sides[which].slot_count; i++, at++) {
      uint64_t bytes = sides[which].slots[i].bytes;
      if (bytes > 0 && !(self->mirrors[at] = run_device_memory(replay->options.device, bytes)))
        return RESHARD_NO_MEMORY;
    }
  }
  return RESHARD_OK;
}

// To the device before a refit, back after it; the training side comes back, too, to be seen unchanged.
static enum reshard_status copy_mirrors(struct rank_thread *self, bool back) {
  struct run_replay *replay = self->replay;
  if (!self->mirrors) return RESHARD_OK;
  for (uint32_t which = 0; which < 2; which++) {
    const struct run_side *side = &replay->memory->side[which];
    for (uint64_t i = 0; i < side->slot_count; i++) {
      void *there = place_of(self, which, i), *here = side->slots[i].data;
      if (side->slots[i].bytes == 0) continue;
      if (!run_device_copy(replay->options.device, back ? here : there, back ? there : here, side->slots[i].bytes))
        return RESHARD_BACKEND_FAILED;
    }
  }
  return RESHARD_OK;
}

static void rank_open(struct rank_thread *self) {
  struct run_replay *replay = self->replay;
  struct reshard_config config;
  reshard_config_init(&config);
  config.mode = replay->options.mode == RUN_STAGED ? RESHARD_STAGED : RESHARD_FUSED;
  config.group = replay->group;
  config.timeout_seconds = replay->options.timeout_seconds;
  config.delay_seed = replay->options.delay_seed;
  config.backend = replay->options.backend;
  config.flags = (replay->options.guard_staging ? RESHARD_GUARD : 0u) | (replay->options.verify ? RESHARD_VERIFY : 0u);
  if (self->world_rank == replay->options.inject_rank) config.inject = replay->options.inject;
  config.cuda_library = replay->options.launch.cuda_library;
  config.nccl_library = replay->options.launch.nccl_library;
  if (replay->options.directory) {
    config.all_gather = reshard_directory_gather;
    config.all_gather_user = replay->options.directory;
  }
  self->status = reshard_context_open(replay->plan, self->world_rank, &config, &self->context, &self->fault);
  if (self->status != RESHARD_OK) return;
  const struct rsp_rank *rank = &replay->spec->ranks[self->world_rank];
  enum reshard_status status = make_mirrors(self);
  if (status == RESHARD_OK) status = bind_side(self, RSP_TRAIN, rank->train_rank);
  if (status == RESHARD_OK) status = bind_side(self, RSP_INFER, rank->infer_rank);
  if (status != RESHARD_OK) {
    take_fault(self, status);
    if (replay->group) reshard_host_group_abort(replay->group, self->world_rank, self->fault.what);
    return;
  }
  status = copy_mirrors(self, false);
  self->fresh = true;
  if (status == RESHARD_OK) status = reshard_prepare(self->context);
  if (status != RESHARD_OK) take_fault(self, status);
}

static void rank_refit(struct rank_thread *self) {
  enum reshard_status status = self->fresh ? RESHARD_OK : copy_mirrors(self, false);
  self->fresh = false;
  double since = cli_seconds();
  if (status == RESHARD_OK) status = reshard_refit(self->context, NULL);
  if (status == RESHARD_OK) status = reshard_wait(self->context);
  self->seconds = cli_seconds() - since;
  if (status == RESHARD_OK) status = copy_mirrors(self, true);
  if (status != RESHARD_OK) take_fault(self, status);
}

// This thread's share of the inference side's memory, from the training side's, which is gone through as often as it
// takes.
static void rank_memcpy(struct rank_thread *self) {
  const struct run_replay *replay = self->replay;
  const struct run_side *from = &replay->memory->side[RSP_TRAIN], *to = &replay->memory->side[RSP_INFER];
  uint64_t share = to->arena_bytes / replay->world / RUN_ALIGN * RUN_ALIGN, at = share * self->world_rank;
  uint64_t end = self->world_rank + 1 == replay->world ? to->arena_bytes : at + share;
  while (at < end && from->arena_bytes) {
    uint64_t from_at = at % from->arena_bytes, n = from->arena_bytes - from_at;
    if (n > end - at) n = end - at;
    memcpy(to->arena + at, from->arena + from_at, n);
    at += n;
  }
}

static void obey(struct rank_thread *self, enum command command) {
  switch (command) {
  case COMMAND_OPEN:
    rank_open(self);
    break;
  case COMMAND_REFIT:
    rank_refit(self);
    break;
  case COMMAND_MEMCPY:
    rank_memcpy(self);
    break;
  case COMMAND_STOP:
    break;
  }
}

static void *rank_main(void *at) {
  struct rank_thread *self = at;
  struct run_replay *replay = self->replay;
  for (uint64_t seen = 0;; seen++) {
    pthread_mutex_lock(&replay->lock);
    while (replay->number == seen) pthread_cond_wait(&replay->go, &replay->lock);
    enum command command = replay->command;
    pthread_mutex_unlock(&replay->lock);
    if (command == COMMAND_STOP) return NULL;
    obey(self, command);
    pthread_mutex_lock(&replay->lock);
    if (++replay->returned == replay->started) pthread_cond_signal(&replay->back);
    pthread_mutex_unlock(&replay->lock);
  }
}

// ---- what the driver does ------------------------------------------------------------------------------------------

static double command_all(struct run_replay *replay, enum command command) {
  if (is_apart(replay)) { // the one rank is this thread
    double since = cli_seconds();
    obey(&replay->threads[0], command);
    return command == COMMAND_REFIT ? replay->threads[0].seconds : cli_seconds() - since;
  }
  pthread_mutex_lock(&replay->lock);
  replay->command = command;
  replay->returned = 0;
  replay->number++;
  double start = cli_seconds();
  pthread_cond_broadcast(&replay->go);
  while (command != COMMAND_STOP && replay->returned < replay->started) pthread_cond_wait(&replay->back, &replay->lock);
  double seconds = cli_seconds() - start;
  pthread_mutex_unlock(&replay->lock);
  return seconds;
}

// The fault of the rank that failed by itself, not of those that heard of it.
static bool collect_fault(const struct run_replay *replay, struct reshard_fault *fault) {
  const struct rank_thread *worst = NULL;
  for (uint32_t i = 0; i < replay->started; i++) {
    const struct rank_thread *thread = &replay->threads[i];
    if (thread->status == RESHARD_OK) continue;
    if (!worst || (worst->status == RESHARD_PEER_FAILED && thread->status != RESHARD_PEER_FAILED)) worst = thread;
  }
  if (!worst) return false;
  *fault = worst->fault;
  if (fault->status == RESHARD_OK) fault->status = worst->status;
  if (!fault->what[0]) snprintf(fault->what, sizeof fault->what, "%s", reshard_status_text(worst->status));
  return true;
}

static bool start_threads(struct run_replay *replay, struct reshard_fault *fault) {
  if (is_apart(replay)) {
    replay->threads[0] = (struct rank_thread){.replay = replay, .world_rank = replay->options.world_rank};
    replay->started = 1;
    return true;
  }
  for (uint32_t i = 0; i < replay->world; i++) {
    struct rank_thread *thread = &replay->threads[i];
    *thread = (struct rank_thread){.replay = replay, .world_rank = i};
    int error = pthread_create(&thread->id, NULL, rank_main, thread);
    if (error) {
      fault->status = RESHARD_NO_MEMORY;
      snprintf(fault->what, sizeof fault->what,
               "cannot start a thread for rank %u of %u: %s; raise the limit on threads "
               "(ulimit -u)",
               (unsigned)i, (unsigned)replay->world, strerror(error));
      return false;
    }
    replay->started++;
  }
  return true;
}

static enum reshard_status open_plan(struct run_replay *replay, const char *path, struct reshard_fault *fault) {
  enum reshard_status status;
  if (!strcmp(path, "-"))
    status = reshard_open_memory(replay->spec->bytes, replay->spec->size, &replay->plan, fault);
  else
    status = reshard_open(path, &replay->plan, fault);
  if (status == RESHARD_OK && !is_apart(replay)) status = reshard_host_group_new(replay->world, &replay->group);
  if (status != RESHARD_OK && !fault->what[0])
    snprintf(fault->what, sizeof fault->what, "%s", reshard_status_text(status));
  if (status != RESHARD_OK) fault->status = status;
  return status;
}

struct run_replay *run_replay_start(const struct rsp_plan *plan, const char *path, struct run_memory *memory,
                                    const struct run_options *options, struct reshard_fault *fault) {
  memset(fault, 0, sizeof *fault);
  struct run_replay *replay = calloc(1, sizeof *replay);
  struct rank_thread *threads = calloc(plan->header->world, sizeof *threads);
  if (!replay || !threads) {
    fault->status = RESHARD_NO_MEMORY;
    snprintf(fault->what, sizeof fault->what, "out of memory");
    free(replay);
    free(threads);
    return NULL;
  }
  replay->spec = plan;
  replay->memory = memory;
  replay->options = *options;
  replay->world = plan->header->world;
  replay->threads = threads;
  pthread_mutex_init(&replay->lock, NULL);
  pthread_cond_init(&replay->go, NULL);
  pthread_cond_init(&replay->back, NULL);
  bool good = open_plan(replay, path, fault) == RESHARD_OK && start_threads(replay, fault);
  if (good) {
    command_all(replay, COMMAND_OPEN);
    good = !collect_fault(replay, fault);
  }
  if (good) return replay;
  run_replay_stop(replay);
  return NULL;
}

bool run_replay_refit(struct run_replay *replay, double *seconds, struct reshard_fault *fault) {
  *seconds = 0;
  if (replay->options.mode == RUN_NONE) return true;
  *seconds = command_all(replay, COMMAND_REFIT);
  return !collect_fault(replay, fault);
}

double run_replay_memcpy(struct run_replay *replay) {
  return command_all(replay, COMMAND_MEMCPY);
}

void run_replay_stop(struct run_replay *replay) {
  if (!replay) return;
  command_all(replay, COMMAND_STOP);
  for (uint32_t i = 0; i < replay->started && !is_apart(replay); i++) pthread_join(replay->threads[i].id, NULL);
  for (uint32_t i = 0; i < replay->started; i++) {
    reshard_context_close(replay->threads[i].context);
    free(replay->threads[i].mirrors);
  }
  if (replay->group) reshard_host_group_free(replay->group);
  reshard_close(replay->plan);
  pthread_cond_destroy(&replay->go);
  pthread_cond_destroy(&replay->back);
  pthread_mutex_destroy(&replay->lock);
  free(replay->threads);
  free(replay);
}
