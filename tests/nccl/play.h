/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan on the stand-in: all ranks' lives, from opening to closing, with the caller's buffers in device memory, and
 * what became of them.
 */
#ifndef TESTS_NCCL_PLAY_H
#define TESTS_NCCL_PLAY_H

#include "tests/nccl/standin.h"
#include "tests/runtime/replay.h"

/* What a rank does and how it went. */
struct actor {
  enum reshard_status opened, prepared, refitted;
  uint64_t version;
  struct reshard_fault fault;
  struct reshard_context *context;
};

struct play {
  const void *bytes; /* the plan */
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_config config; /* of all ranks */
  uint32_t refits, cycles;      /* cycles: of open, refits, close */
  /* In a rank's thread; NULL: nothing. False: the rank does no more. */
  bool (*before_open)(struct play *play, uint32_t rank);
  bool (*before_refit)(struct play *play, uint32_t rank, uint32_t refit);
  bool (*after_refit)(struct play *play, uint32_t rank, uint32_t refit);
  void *user;
  struct actor *actors;
  struct standin_seat *seats;
  unsigned char ***memory; /* of devices: by rank and row */
  char wrong[400];         /* what is not as it must be, after play_run; "" */
};

/* The stage is filled with `seed`. The play's plan is of these bytes, which must outlive it. */
void play_open(struct play *play, const void *bytes, size_t size, uint64_t seed);
void play_close(struct play *play);
/* One run of the stand-in, from buffers that are poisoned to what they hold in the end. */
void play_run(struct play *play, const struct standin_options *options);
/* NULL, or in words: a status, a violation, a leak, a wrong byte. */
const char *play_wrong(const struct play *play);

#endif
