/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks agree: each says what it does and how it went, over the control channel, and all draw the same conclusion.
 * In: this rank's status; out: the world's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

static const char *call_text(const struct reshard_context *context, uint32_t call) {
  switch (call) {
  case RSR_CALL_CONTEXT:
  case RSR_CALL_CONNECT:
    return rsr_meeting(context);
  case RSR_CALL_PREPARE:
  case RSR_CALL_LINK:
    return "prepare";
  case RSR_CALL_WAIT:
    return "wait";
  case RSR_CALL_SWAP:
    return "swap";
  default:
    return "an unknown call";
  }
}

static enum reshard_status all_gather(struct reshard_context *context, const void *mine, size_t bytes, void *all,
                                      uint32_t call, double patience, struct reshard_fault *fault) {
  const struct reshard_config *config = &context->config;
  if (!config->all_gather)
    return context->backend->all_gather(context, mine, bytes, all, call_text(context, call), fault);
  double timeout = config->timeout_seconds * patience;
  int rc = config->all_gather(config->all_gather_user, mine, bytes, all, timeout);
  if (rc == 0) return RESHARD_OK;
  return rsr_fault(fault, RESHARD_TIMEOUT,
                   "%s: the caller's all-gather failed with %d: a rank is dead, late or not reached",
                   call_text(context, call), rc);
}

static enum reshard_status differ(const struct reshard_context *context, uint32_t rank, struct reshard_fault *fault) {
  char here[33], there[33];
  rsp_id_text(context->words[0].plan_id, here);
  rsp_id_text(context->words[rank].plan_id, there);
  rsr_fault(fault, RESHARD_PLAN_DIFFERS,
            "the ranks do not have the same plan: world rank 0 has %s, world rank %u has %s; give all the same file",
            here, rank, there);
  fault->rank = rank;
  return RESHARD_PLAN_DIFFERS;
}

#define VERIFIED 0x100u /* in rsr_word.mode */

static const char *mode_text(uint32_t mode) {
  static const char *const words[] = {"staged", "fused", "staged with verify", "fused with verify"};
  return words[(mode & 1) + (mode & VERIFIED ? 2 : 0)];
}

static enum reshard_status unlike(const struct reshard_context *context, uint32_t rank, struct reshard_fault *fault) {
  const struct rsr_word *first = &context->words[0], *word = &context->words[rank];
  return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                   "the ranks differ: world rank 0 has mode %s and version %llu, world rank %u mode %s and version "
                   "%llu; give all ranks the same config",
                   mode_text(first->mode), (unsigned long long)first->version, rank, mode_text(word->mode),
                   (unsigned long long)word->version);
}

/* The same on every rank, as all compare with rank 0. */
static enum reshard_status compare(const struct reshard_context *context, struct reshard_fault *fault) {
  const struct rsr_word *first = &context->words[0];
  for (uint32_t rank = 1; rank < context->world; rank++) {
    if (memcmp(first->plan_id, context->words[rank].plan_id, 16) != 0) return differ(context, rank, fault);
  }
  for (uint32_t rank = 1; rank < context->world; rank++) {
    const struct rsr_word *word = &context->words[rank];
    if (word->call != first->call || word->calls != first->calls) {
      return rsr_fault(
          fault, RESHARD_WRONG_STATE,
          "the ranks are out of step: world rank 0 is in %s (collective call %llu), world rank %u in %s (%llu)",
          call_text(context, first->call), (unsigned long long)first->calls, rank, call_text(context, word->call),
          (unsigned long long)word->calls);
    }
    bool meets = word->call == RSR_CALL_CONTEXT;
    if (word->mode != first->mode || (word->version != first->version && !meets)) return unlike(context, rank, fault);
  }
  return RESHARD_OK;
}

/* What a rank says that has only seen that something is wrong elsewhere. */
static bool is_echo(uint32_t status) {
  return status == RESHARD_TIMEOUT || status == RESHARD_PEER_FAILED;
}

/* Some rank has failed: all hear what it says, those too that knew no more than that they waited. */
static enum reshard_status hear(struct reshard_context *context, uint32_t failed, uint32_t call,
                                enum reshard_status status, struct reshard_fault *fault) {
  struct reshard_fault *all = malloc(context->world * sizeof *all);
  /* Without memory this rank says nothing more; the others end on their own words. */
  if (!all) return status != RESHARD_OK ? status : rsr_no_memory(fault, "a fault of another rank", sizeof *all);
  bool hears = status == RESHARD_OK || (is_echo(status) && !is_echo(context->words[failed].status));
  struct reshard_fault mine = *fault, lost;
  if (mine.rank == RESHARD_NO_RANK) mine.rank = context->world_rank;
  if (all_gather(context, &mine, sizeof mine, all, call, 1, &lost) == RESHARD_OK && hears) {
    *fault = all[failed];
    fault->what[sizeof fault->what - 1] = 0;
    char what[sizeof fault->what];
    memcpy(what, fault->what, sizeof what);
    struct reshard_fault said;
    rsr_fault(&said, RESHARD_PEER_FAILED, "world rank %u failed: %s", failed, what);
    memcpy(fault->what, said.what, sizeof fault->what);
    fault->status = status = RESHARD_PEER_FAILED;
  } else if (status == RESHARD_OK) {
    status = rsr_fault(fault, RESHARD_PEER_FAILED, "world rank %u failed: %s", failed,
                       reshard_status_text((enum reshard_status)context->words[failed].status));
    fault->rank = failed;
  }
  free(all);
  return status;
}

/* A cause before what other ranks have seen of it; RESHARD_NO_RANK if all is well. */
static uint32_t first_failed(const struct reshard_context *context) {
  uint32_t echo = RESHARD_NO_RANK;
  for (uint32_t rank = 0; rank < context->world; rank++) {
    uint32_t status = context->words[rank].status;
    if (status == RESHARD_OK) continue;
    if (!is_echo(status)) return rank;
    if (echo == RESHARD_NO_RANK) echo = rank;
  }
  return echo;
}

/* In timeouts. A rank whose part of a refit has ended soon, well or not, waits for those that give theirs up at their
 * timeout; these need not wait for long. */
static double patience_of(uint32_t call, enum reshard_status status) {
  if (call != RSR_CALL_WAIT) return 1;
  return status == RESHARD_TIMEOUT ? 0.25 : 1.25;
}

enum reshard_status rsr_agree(struct reshard_context *context, enum rsr_call call, const uint8_t plan_id[16],
                              enum reshard_status status, struct reshard_fault *fault) {
  const struct reshard_config *config = &context->config;
  struct rsr_word mine = {.call = call,
                          .status = status,
                          .mode = config->mode | (config->flags & RESHARD_VERIFY ? VERIFIED : 0),
                          .calls = ++context->calls,
                          .version = context->version};
  memcpy(mine.plan_id, plan_id, sizeof mine.plan_id);
  if (call == RSR_CALL_CONTEXT && context->backend->kin) context->backend->kin(context, &mine.kin, &mine.can);
  struct reshard_fault lost;
  enum reshard_status heard =
      all_gather(context, &mine, sizeof mine, context->words, call, patience_of(call, status), &lost);
  if (heard != RESHARD_OK) {
    context->state = RSR_BROKEN;
    if (status == RESHARD_OK) *fault = lost;
    return status == RESHARD_OK ? heard : status;
  }
  struct reshard_fault same;
  heard = compare(context, &same);
  if (heard != RESHARD_OK) {
    context->state = RSR_BROKEN;
    *fault = same;
    return heard;
  }
  uint32_t failed = first_failed(context);
  return failed == RESHARD_NO_RANK ? RESHARD_OK : hear(context, failed, call, status, fault);
}
