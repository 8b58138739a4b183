/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the rank threads of a process meet: the control channel, bells, the abort flag, epochs. In: calls of rank
 * threads and workers; out: statuses, within the timeout.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/host.h"

static bool init_lock(pthread_mutex_t *lock, pthread_cond_t *cond) {
  pthread_condattr_t attr;
  if (pthread_condattr_init(&attr) != 0) return false;
  bool good = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 && pthread_mutex_init(lock, NULL) == 0;
  if (good && pthread_cond_init(cond, &attr) != 0) {
    pthread_mutex_destroy(lock);
    good = false;
  }
  pthread_condattr_destroy(&attr);
  return good;
}

static void free_group(struct reshard_host_group *group, uint32_t stations) {
  for (uint32_t r = 0; r < stations; r++) {
    pthread_mutex_destroy(&group->stations[r].lock);
    pthread_cond_destroy(&group->stations[r].bell);
  }
  free(group->stations);
  free(group->here);
  free(group->words);
  free(group);
}

static bool fill_group(struct reshard_host_group *group, uint32_t world) {
  group->world = world;
  group->stations = calloc(world, sizeof *group->stations);
  group->here = calloc(world, sizeof *group->here);
  group->words_room = (size_t)world * sizeof(struct rsr_word);
  group->words = malloc(group->words_room);
  return group->stations && group->here && group->words && init_lock(&group->lock, &group->changed);
}

enum reshard_status reshard_host_group_new(uint32_t world, struct reshard_host_group **out) {
  if (!out || world == 0) return RESHARD_INVALID_ARGUMENT;
  *out = NULL;
  struct reshard_host_group *group = calloc(1, sizeof *group);
  if (!group) return RESHARD_NO_MEMORY;
  if (!fill_group(group, world)) {
    free_group(group, 0);
    return RESHARD_NO_MEMORY;
  }
  for (uint32_t r = 0; r < world; r++) {
    if (init_lock(&group->stations[r].lock, &group->stations[r].bell)) continue;
    free_group(group, r);
    return RESHARD_NO_MEMORY;
  }
  *out = group;
  return RESHARD_OK;
}

void reshard_host_group_free(struct reshard_host_group *group) {
  if (!group) return;
  pthread_mutex_destroy(&group->lock);
  pthread_cond_destroy(&group->changed);
  free_group(group, group->world);
}

/* ---- bells and the end ------------------------------------------------------------------------------------------- */

void rsr_host_moved(struct reshard_host_group *group) {
  atomic_fetch_add(&group->progress, 1);
}

void rsr_host_ring(struct reshard_host_group *group, uint32_t rank) {
  struct rsr_station *station = &group->stations[rank];
  pthread_mutex_lock(&station->lock);
  pthread_cond_signal(&station->bell);
  pthread_mutex_unlock(&station->lock);
}

static void ring_all(struct reshard_host_group *group) {
  for (uint32_t r = 0; r < group->world; r++) rsr_host_ring(group, r);
}

/* With the group's lock held. */
static void abort_locked(struct reshard_host_group *group, const struct reshard_fault *fault) {
  if (!group->aborted) group->fault = *fault;
  group->aborted = true;
  pthread_cond_broadcast(&group->changed);
}

void rsr_host_abort(struct reshard_host_group *group, const struct reshard_fault *fault) {
  pthread_mutex_lock(&group->lock);
  abort_locked(group, fault);
  pthread_mutex_unlock(&group->lock);
  ring_all(group);
}

void reshard_host_group_abort(struct reshard_host_group *group, uint32_t world_rank, const char *text) {
  if (!group) return;
  struct reshard_fault fault;
  rsr_fault(&fault, RESHARD_PEER_FAILED, "world rank %u gave up: %s", world_rank, text ? text : "no reason given");
  fault.rank = world_rank;
  rsr_host_abort(group, &fault);
}

/* With the group's lock held. A timeout is one on every rank; any other failure is the peer's. */
static enum reshard_status aborted_locked(struct reshard_host_group *group, struct reshard_fault *fault) {
  *fault = group->fault;
  if (fault->status != RESHARD_TIMEOUT) fault->status = RESHARD_PEER_FAILED;
  return fault->status;
}

enum reshard_status rsr_host_aborted(struct reshard_host_group *group, struct reshard_fault *fault) {
  pthread_mutex_lock(&group->lock);
  enum reshard_status status = aborted_locked(group, fault);
  pthread_mutex_unlock(&group->lock);
  return status;
}

static struct timespec deadline_in(double seconds) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  if (seconds > 1e9) seconds = 1e9;
  at.tv_sec += (time_t)seconds;
  at.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
  if (at.tv_nsec >= 1000000000) {
    at.tv_sec++;
    at.tv_nsec -= 1000000000;
  }
  return at;
}

/* The rank that a rank waits for in the end, as one that it waits for may itself wait: itself if it waits for none. */
static uint32_t end_of_waits(const struct reshard_host_group *group, uint32_t rank) {
  for (uint32_t steps = 0; steps < group->world; steps++) {
    uint32_t next = atomic_load(&group->stations[rank].awaits);
    if (next == 0) break;
    rank = next - 1;
  }
  return rank;
}

static enum reshard_status late(struct reshard_context *context, uint32_t peer, uint32_t round, const char *what,
                                struct reshard_fault *fault) {
  char through[64] = "";
  uint32_t end = end_of_waits(rsr_host_of(context)->group, peer);
  if (end != peer) snprintf(through, sizeof through, ", which waits for world rank %u", end);
  rsr_fault(fault, RESHARD_TIMEOUT, "world rank %u waited %g s for world rank %u (%s)%s, and no rank made progress",
            context->world_rank, context->config.timeout_seconds, peer, what, through);
  fault->rank = context->world_rank;
  fault->peer = peer;
  fault->round = round;
  return RESHARD_TIMEOUT;
}

enum reshard_status rsr_host_await(struct reshard_context *context, _Atomic uint64_t *value, uint64_t want,
                                   uint32_t peer, uint32_t round, const char *what, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  struct reshard_host_group *group = host->group;
  if (atomic_load(value) >= want) return RESHARD_OK;
  double seconds = context->config.timeout_seconds;
  uint64_t progress = atomic_load(&group->progress);
  struct timespec deadline = deadline_in(seconds);
  enum reshard_status status = RESHARD_OK;
  atomic_store(&host->station->awaits, peer + 1);
  pthread_mutex_lock(&host->station->lock);
  while (status == RESHARD_OK && atomic_load(value) < want) {
    if (atomic_load(&group->aborted) || atomic_load(&group->epoch) != host->epoch) {
      status = RESHARD_PEER_FAILED;
    } else if (pthread_cond_timedwait(&host->station->bell, &host->station->lock, &deadline) == ETIMEDOUT) {
      if (progress == atomic_load(&group->progress)) status = RESHARD_TIMEOUT;
      progress = atomic_load(&group->progress);
      deadline = deadline_in(seconds);
    }
  }
  pthread_mutex_unlock(&host->station->lock);
  if (status == RESHARD_TIMEOUT) return late(context, peer, round, what, fault);
  /* After a failure it stays, for those that look for the cause at the same moment. */
  if (status == RESHARD_OK) atomic_store(&host->station->awaits, 0);
  if (status == RESHARD_OK) return status;
  if (atomic_load(&group->aborted)) return rsr_host_aborted(group, fault);
  rsr_fault(fault, RESHARD_PEER_FAILED,
            "a rank closed or prepared its context again while world rank %u waited for world rank %u (%s)",
            context->world_rank, peer, what);
  fault->peer = peer;
  fault->round = round;
  return status;
}

void rsr_host_pause(struct reshard_context *context, double seconds) {
  struct rsr_host *host = rsr_host_of(context);
  struct timespec deadline = deadline_in(seconds);
  pthread_mutex_lock(&host->station->lock);
  while (!atomic_load(&host->group->aborted) && atomic_load(&host->group->epoch) == host->epoch &&
         pthread_cond_timedwait(&host->station->bell, &host->station->lock, &deadline) != ETIMEDOUT) {
  }
  pthread_mutex_unlock(&host->station->lock);
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

bool rsr_host_enter(const struct rsr_host *host) {
  struct reshard_host_group *group = host->group;
  pthread_mutex_lock(&group->lock);
  bool same = atomic_load(&group->epoch) == host->epoch && group->closed == host->closed;
  if (same) group->running++;
  pthread_mutex_unlock(&group->lock);
  return same;
}

void rsr_host_leave(struct reshard_host_group *group) {
  pthread_mutex_lock(&group->lock);
  if (--group->running == 0) pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->lock);
}

/* Whoever runs ends soon: it has all it needs, or sees the abort flag or the new epoch. */
void rsr_host_settle(struct reshard_host_group *group) {
  pthread_mutex_lock(&group->lock);
  while (group->running > 0) pthread_cond_wait(&group->changed, &group->lock);
  pthread_mutex_unlock(&group->lock);
}

void rsr_host_end_epoch(struct reshard_host_group *group, bool closes) {
  pthread_mutex_lock(&group->lock);
  group->closed += closes;
  atomic_fetch_add(&group->epoch, 1);
  pthread_mutex_unlock(&group->lock);
  ring_all(group);
  rsr_host_settle(group);
}

/* ---- the all-gather ---------------------------------------------------------------------------------------------- */

static bool is_stuck(const struct reshard_host_group *group, uint32_t rank) {
  return atomic_load(&group->stations[rank].awaits) != 0;
}

/* Who is not here, and, if there is such a one, does not itself wait for another rank in its refit: a rank that is
 * missed holds up others. With the lock held. */
static bool is_missed(const struct reshard_host_group *group, uint32_t rank, bool stuck_too) {
  return !group->here[rank] && (stuck_too || !is_stuck(group, rank));
}

/* "3, 5", and the first of them. With the lock held. */
static uint32_t missing(const struct reshard_host_group *group, char *text, size_t room) {
  size_t used = 0;
  uint32_t shown = 0, count = 0, first = RESHARD_NO_RANK;
  bool stuck_too = true;
  text[0] = 0;
  for (uint32_t r = 0; r < group->world && stuck_too; r++) stuck_too = !is_missed(group, r, false);
  for (uint32_t r = 0; r < group->world; r++) {
    if (!is_missed(group, r, stuck_too)) continue;
    if (count == 0) first = r;
    count++;
    if (shown == 8) continue;
    int n = snprintf(text + used, room - used, "%s%u", shown++ > 0 ? ", " : "", r);
    used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
  }
  if (count > shown) snprintf(text + used, room - used, " and %u more", count - shown);
  return first;
}

static void give_up(struct reshard_context *context, const char *call) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  struct reshard_fault fault;
  char who[160];
  uint32_t first = missing(group, who, sizeof who);
  rsr_fault(&fault, RESHARD_TIMEOUT, "%s: world rank(s) %s did not arrive within %g s", call, who,
            context->config.timeout_seconds);
  fault.rank = first;
  abort_locked(group, &fault);
}

static enum reshard_status wait_full(struct reshard_context *context, bool want, const char *call,
                                     struct reshard_fault *fault) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  double seconds = context->config.timeout_seconds;
  uint64_t progress = atomic_load(&group->progress);
  struct timespec deadline = deadline_in(seconds);
  while (group->full != want) {
    if (group->aborted) return aborted_locked(group, fault);
    if (pthread_cond_timedwait(&group->changed, &group->lock, &deadline) != ETIMEDOUT) continue;
    /* A rank that is missing may be busy with its refit: it is late only if nothing moves. */
    if (progress == atomic_load(&group->progress) && group->full != want) give_up(context, call);
    progress = atomic_load(&group->progress);
    deadline = deadline_in(seconds);
  }
  return RESHARD_OK;
}

static enum reshard_status put_word(struct reshard_context *context, const void *mine, size_t bytes,
                                    struct reshard_fault *fault) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  if (group->arrived > 0 && group->word_bytes != bytes) {
    rsr_fault(fault, RESHARD_WRONG_STATE, "the ranks are out of step: they say words of %zu and %zu bytes",
              group->word_bytes, bytes);
    abort_locked(group, fault);
    return RESHARD_WRONG_STATE;
  }
  if (bytes * group->world > group->words_room) {
    unsigned char *more = realloc(group->words, bytes * group->world);
    if (!more) {
      rsr_no_memory(fault, "an all-gather", bytes * group->world);
      abort_locked(group, fault);
      return RESHARD_NO_MEMORY;
    }
    group->words = more;
    group->words_room = bytes * group->world;
  }
  group->word_bytes = bytes;
  memcpy(group->words + bytes * context->world_rank, mine, bytes);
  group->here[context->world_rank] = true;
  if (++group->arrived == group->world) {
    group->full = true;
    pthread_cond_broadcast(&group->changed);
  }
  return RESHARD_OK;
}

static void take_words(struct reshard_host_group *group, size_t bytes, void *all) {
  memcpy(all, group->words, bytes * group->world);
  if (++group->departed < group->world) return;
  group->arrived = group->departed = 0;
  group->full = false;
  memset(group->here, 0, group->world * sizeof *group->here);
  pthread_cond_broadcast(&group->changed);
}

/* Injected: a dead rank says no word; its thread comes back when the others have missed it. */
static enum reshard_status lie_dead(struct reshard_context *context, struct reshard_fault *fault) {
  rsr_host_pause(context, 2 * context->config.timeout_seconds);
  if (atomic_load(&rsr_host_of(context)->group->aborted)) return rsr_host_aborted(rsr_host_of(context)->group, fault);
  return rsr_fault(fault, RESHARD_TIMEOUT, "world rank %u was made to die", context->world_rank);
}

enum reshard_status rsr_host_all_gather(struct reshard_context *context, const void *mine, size_t bytes, void *all,
                                        const char *call, struct reshard_fault *fault) {
  struct reshard_host_group *group = rsr_host_of(context)->group;
  if (rsr_host_of(context)->died) return lie_dead(context, fault);
  pthread_mutex_lock(&group->lock);
  /* The words of the gather before this one must have been read by all. */
  enum reshard_status status = wait_full(context, false, call, fault);
  if (status == RESHARD_OK && group->aborted) status = aborted_locked(group, fault);
  if (status == RESHARD_OK) status = put_word(context, mine, bytes, fault);
  if (status == RESHARD_OK) status = wait_full(context, true, call, fault);
  if (status == RESHARD_OK) take_words(group, bytes, all);
  bool ended = group->aborted;
  pthread_mutex_unlock(&group->lock);
  if (ended) ring_all(group);
  return status;
}
