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
  uint64_t calls, all_calls;  /* of the stand-in: before it closes; in its first life */
  double seconds;             /* until it has its last status, of the stand-in's time */
  enum reshard_status second; /* `again`: of the second life as a whole */
};

struct play {
  const void *bytes; /* the plan */
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_config config; /* of all ranks */
  uint32_t refits, cycles;      /* cycles: of open, refits, close */
  struct reshard_inject inject; /* of one rank, in its first life */
  uint32_t inject_rank;
  bool impatient;  /* who sees a refit fail at once closes its context, and does not wait */
  bool again;      /* after a failure each rank opens a new context, and all must be well */
  bool stays_open; /* contexts are for play_close_contexts to close, before standin_end */
  /* In a rank's thread; NULL: nothing. False: the rank does no more. */
  bool (*before_open)(struct play *play, uint32_t rank);
  bool (*before_refit)(struct play *play, uint32_t rank, uint32_t refit);
  bool (*after_refit)(struct play *play, uint32_t rank, uint32_t refit);
  void *user;
  struct actor *actors;
  struct standin_seat *seats, *second_seats;
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

void play_close_contexts(struct play *play);

/* The same in parts, for tests with lives of their own: begin, memory, channels; run `body`, with `play` as arg; look
 * and standin_end. */
void play_begin(struct play *play, const struct standin_options *options);
/* Of a second play in the same run, whose ranks are the same processes: instead of play_begin. */
void play_join(struct play *play);
/* Opens a context for the rank on the play's channel. */
enum reshard_status play_open_context(struct play *play, uint32_t rank, struct reshard_plan *plan);
enum reshard_status play_bind(struct play *play, uint32_t rank);
/* NULL, or the first byte of the caller's buffers that is not as it must be after a refit. */
const char *play_compare(const struct play *play);
/* Every byte of the rank's inference buffers becomes `value`. In the rank's thread. */
void play_poison(struct play *play, uint32_t rank, int value);

#endif
