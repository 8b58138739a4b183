/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator of a world: made from nothing by an id, or of the old one when ranks have left or joined. In: what
 * every rank said when they met (its place in an old communicator, what its NCCL can do); out: one communicator, and
 * which of its ranks each world rank is; or a fault.
 *
 * All ranks draw the same course from the same words, so they make the same calls: first those that stay leave out
 * those that are gone (ncclCommShrink), then all together take in those that join (ncclCommGrow). Where a function is
 * missing, or the old communicator is not whole on every rank that stays, they begin from nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl.h"

/* rsr_word.can. SOUND: the communicator is there and without an error; IDLE: nothing can be under way in it. */
enum { CAN_SHRINK = 1, CAN_GROW = 2, IS_SOUND = 4, IS_IDLE = 8 };

struct course {
  bool is_new, aborts; /* aborts: something may be under way in the old communicator */
  uint32_t leave, join;
  uint32_t root;   /* the world rank that makes the id */
  uint32_t *ranks; /* of the communicator, by world rank */
  int *excluded;   /* `leave` ranks of the old one */
};

/* What ranks tell each other before they go into NCCL together. */
struct hello {
  uint32_t status, reserved;
  struct rsr_nccl_id id; /* of the root */
};

void rsr_comm_kin(struct reshard_context *context, struct rsr_kin *kin, uint32_t *can) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault ignored, *fault = &ignored;
  if (!device) return; /* it could not be opened */
  int state = RSR_NCCL_OK;
  *kin = device->kin;
  if (device->nccl.CommShrink) *can |= CAN_SHRINK;
  if (device->nccl.CommGetUniqueId && device->nccl.CommGrow) *can |= CAN_GROW;
  if (context->state != RSR_BROKEN) *can |= IS_IDLE;
  if (device->comm && RSR_NCCL(CommGetAsyncError, device->comm, &state) == RESHARD_OK && state == RSR_NCCL_OK)
    *can |= IS_SOUND;
}

/* ---- the course -------------------------------------------------------------------------------------------------- */

/* Of all ranks, and of those that come from the old communicator, whose first is *kin; false: there are several. */
static bool survey(const struct reshard_context *context, struct rsr_kin *kin, uint32_t *all_can, uint32_t *kin_can,
                   uint32_t *stay) {
  bool alike = true;
  *kin = (struct rsr_kin){0};
  *all_can = *kin_can = UINT32_MAX;
  *stay = 0;
  for (uint32_t r = 0; r < context->world; r++) {
    const struct rsr_word *word = &context->words[r];
    *all_can &= word->can;
    if (word->kin.id == 0) continue;
    if ((*stay)++ == 0) *kin = word->kin;
    *kin_can &= word->can;
    alike = alike && word->kin.id == kin->id && word->kin.size == kin->size && word->kin.rank < kin->size;
  }
  return alike;
}

/* Who stays keeps the order, as shrinking does, and who joins comes after. seats: room for each rank of the old one. */
static void seat_all(const struct reshard_context *context, struct course *course, uint32_t size) {
  uint32_t next = 0, left = 0;
  int *seats = course->excluded;
  for (uint32_t s = 0; s < size; s++) seats[s] = -1;
  for (uint32_t r = 0; r < context->world; r++) {
    const struct rsr_kin *kin = &context->words[r].kin;
    if (kin->id == 0) continue;
    if (seats[kin->rank] >= 0) course->is_new = true; /* one rank twice: no course of ours */
    seats[kin->rank] = (int)r;
  }
  for (uint32_t s = 0; s < size; s++) {
    if (seats[s] < 0) {
      course->excluded[left++] = (int)s;
      continue;
    }
    if (next == 0) course->root = (uint32_t)seats[s];
    course->ranks[seats[s]] = next++;
  }
  for (uint32_t r = 0; r < context->world; r++) {
    if (context->words[r].kin.id == 0) course->ranks[r] = next++;
  }
}

/* Also without memory it is known whether an id is to be heard: the others are told then. */
static enum reshard_status set_course(const struct reshard_context *context, struct course *course,
                                      struct reshard_fault *fault) {
  struct rsr_kin kin;
  uint32_t all_can, kin_can, stay;
  bool alike = survey(context, &kin, &all_can, &kin_can, &stay);
  course->join = context->world - stay;
  course->leave = kin.size > stay ? kin.size - stay : 0;
  course->aborts = !(kin_can & IS_IDLE);
  course->is_new = stay == 0 || !alike || !(kin_can & IS_SOUND) || (course->leave > 0 && !(kin_can & CAN_SHRINK)) ||
                   (course->join > 0 && !(all_can & CAN_GROW)) || (course->leave == 0 && course->aborts);
  course->ranks = malloc(context->world * sizeof *course->ranks);
  course->excluded = malloc(((size_t)kin.size + 1) * sizeof *course->excluded);
  if (!course->ranks || !course->excluded) return rsr_no_memory(fault, "the ranks of a communicator", kin.size);
  if (!course->is_new) seat_all(context, course, kin.size);
  if (!course->is_new) return RESHARD_OK;
  course->root = 0;
  for (uint32_t r = 0; r < context->world; r++) course->ranks[r] = r;
  return RESHARD_OK;
}

/* ---- an id ------------------------------------------------------------------------------------------------------- */

/* Every rank hears from the root the id, and from all whether they come: no rank waits in NCCL for one that never
 * does. */
static enum reshard_status hear_id(struct reshard_context *context, const struct course *course,
                                   enum reshard_status status, struct rsr_nccl_id *id, struct reshard_fault *fault) {
  const struct reshard_config *config = &context->config;
  struct rsr_device *device = rsr_device_of(context);
  struct hello mine = {.status = RESHARD_OK}, *all = malloc(context->world * sizeof *all);
  /* Without memory this rank stays away, and the others see that it does. */
  if (!all) return rsr_no_memory(fault, "greetings", context->world * sizeof *all);
  if (status == RESHARD_OK && context->world_rank == course->root)
    status = course->is_new ? RSR_NCCL(GetUniqueId, &mine.id) : RSR_NCCL(CommGetUniqueId, device->comm, &mine.id);
  mine.status = status;
  int rc = config->all_gather(config->all_gather_user, &mine, sizeof mine, all, config->timeout_seconds);
  if (rc != 0 && status == RESHARD_OK)
    status = rsr_fault(fault, RESHARD_TIMEOUT,
                       "%s: the caller's all-gather failed with %d: a rank is dead, late or not reached",
                       rsr_meeting(context), rc);
  for (uint32_t r = 0; r < context->world && status == RESHARD_OK; r++) {
    if (all[r].status != RESHARD_OK)
      status = rsr_fault(fault, RESHARD_PEER_FAILED, "world rank %u could not make the communicator", r);
  }
  if (status == RESHARD_OK) *id = all[course->root].id;
  free(all);
  return status;
}

/* FNV-1a, mixed: names communicators, nothing more. */
static uint64_t mix(uint64_t hash, const void *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)from)[i]) * 0x100000001b3ull;
  return (hash ^ (hash >> 29)) | 1;
}

/* ---- from one to the next ---------------------------------------------------------------------------------------- */

enum reshard_status rsr_comm_end(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  if (!device->comm) return RESHARD_OK;
  enum reshard_status status = RSR_NCCL(CommFinalize, device->comm);
  if (status == RESHARD_OK) status = rsr_comm_settle(context, "ncclCommFinalize", fault);
  if (status != RESHARD_OK) return status;
  status = RSR_NCCL(CommDestroy, device->comm);
  device->comm = NULL;
  return status;
}

/* The old one ends: by force if it may still work, which ends nothing that the new one has. */
static enum reshard_status replace(struct reshard_context *context, bool aborts, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  void *next = device->next;
  enum reshard_status status = RESHARD_OK;
  if (aborts) {
    device->next = NULL;
    rsr_comm_abort(context);
  } else {
    status = rsr_comm_end(context, fault);
  }
  if (status != RESHARD_OK) return status;
  device->comm = next;
  device->next = NULL;
  return RESHARD_OK;
}

static enum reshard_status shrink(struct reshard_context *context, const struct course *course,
                                  struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_nccl_config config = rsr_nccl_config();
  int flags = course->aborts ? RSR_NCCL_SHRINK_ABORT : RSR_NCCL_SHRINK_DEFAULT;
  if (!device->comm) return RESHARD_OK; /* it joins */
  enum reshard_status status =
      RSR_NCCL(CommShrink, device->comm, course->excluded, (int)course->leave, &device->next, &config, flags);
  if (status == RESHARD_OK) status = rsr_comm_settle(context, "ncclCommShrink", fault);
  if (status == RESHARD_OK && !device->next)
    status = rsr_fault(fault, RESHARD_BACKEND_FAILED, "ncclCommShrink has given no communicator");
  return status == RESHARD_OK ? replace(context, course->aborts, fault) : status;
}

static enum reshard_status grow(struct reshard_context *context, const struct course *course,
                                const struct rsr_nccl_id *id, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_nccl_config config = rsr_nccl_config();
  bool joins = !device->comm, tells = joins || context->world_rank == course->root;
  enum reshard_status status = RSR_NCCL(CommGrow, device->comm, (int)context->world, tells ? id : NULL,
                                        joins ? (int)course->ranks[context->world_rank] : -1, &device->next, &config);
  if (status == RESHARD_OK) status = rsr_comm_settle_on(context, device->next, "ncclCommGrow", fault);
  return status == RESHARD_OK ? replace(context, false, fault) : status;
}

static enum reshard_status begin(struct reshard_context *context, const struct rsr_nccl_id *id,
                                 struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_nccl_config config = rsr_nccl_config();
  enum reshard_status status =
      RSR_NCCL(CommInitRankConfig, &device->comm, (int)context->world, *id, (int)context->world_rank, &config);
  return status == RESHARD_OK ? rsr_comm_settle(context, "ncclCommInitRankConfig", fault) : status;
}

/* What is left of the old one goes before a new one is made from nothing. */
static enum reshard_status end_old(struct reshard_context *context, struct reshard_fault *fault) {
  bool sound = (context->words[context->world_rank].can & (IS_SOUND | IS_IDLE)) == (IS_SOUND | IS_IDLE);
  if (sound) return rsr_comm_end(context, fault);
  rsr_comm_abort(context);
  return RESHARD_OK;
}

static enum reshard_status end_or_shrink(struct reshard_context *context, const struct course *course,
                                         struct reshard_fault *fault) {
  if (course->is_new) return end_old(context, fault);
  return course->leave > 0 ? shrink(context, course, fault) : RESHARD_OK;
}

/* A rank that has failed before takes its part in what all hear. */
static enum reshard_status run_course(struct reshard_context *context, const struct course *course,
                                      enum reshard_status status, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_nccl_id id = {{0}};
  uint64_t name = device->kin.id;
  if (status == RESHARD_OK) status = end_or_shrink(context, course, fault);
  for (uint32_t i = 0; status == RESHARD_OK && !course->is_new && i < course->leave; i++)
    name = mix(name, &course->excluded[i], sizeof(int));
  if (course->is_new || course->join > 0) {
    status = hear_id(context, course, status, &id, fault);
    if (status == RESHARD_OK) status = course->is_new ? begin(context, &id, fault) : grow(context, course, &id, fault);
    name = mix(0xcbf29ce484222325ull, &id, sizeof id);
  }
  if (status == RESHARD_OK) device->kin = (struct rsr_kin){name, course->ranks[context->world_rank], context->world};
  return status;
}

/* Whether the ranks are those of the world: then no table is needed. */
static bool is_identity(const uint32_t *ranks, uint32_t world) {
  uint32_t r = 0;
  while (r < world && ranks[r] == r) r++;
  return r == world;
}

static enum reshard_status enter(struct reshard_context *context, struct reshard_fault *fault) {
  if (!rsr_device_of(context)->stuck) return rsr_device_enter(context, fault);
  return rsr_fault(fault, RESHARD_BACKEND_FAILED,
                   "regroup: the device of world rank %u still works on a refit that was given up; close the context",
                   context->world_rank);
}

enum reshard_status rsr_comm_connect(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct course course = {0};
  enum reshard_status entered = enter(context, fault), status = entered;
  struct reshard_fault second;
  enum reshard_status set = set_course(context, &course, entered == RESHARD_OK ? fault : &second);
  if (status == RESHARD_OK) status = set;
  status = run_course(context, &course, status, fault);
  if (status != RESHARD_OK) rsr_comm_abort(context);
  free(course.excluded);
  free(device->comm_ranks);
  device->comm_ranks = course.ranks;
  if (status != RESHARD_OK || is_identity(course.ranks, context->world)) {
    free(course.ranks);
    device->comm_ranks = NULL;
  }
  device->is_captured = false;
  return entered == RESHARD_OK ? rsr_device_leave(context, status, fault) : status;
}
