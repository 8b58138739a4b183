/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of the stand-in that go from one world to the next: each world is a plan and who is which of its ranks.
 */
#ifndef TESTS_NCCL_WORLDS_H
#define TESTS_NCCL_WORLDS_H

#include "tests/nccl/standin.h"
#include "tests/runtime/replay.h"

enum { PROCESSES = 6 };

struct world {
  const char *name;
  void *bytes;
  size_t size;
  struct reshard_plan *plan;
  struct stage stage;
  uint32_t ranks, process[PROCESSES]; /* by world rank */
  unsigned char **memory[PROCESSES];  /* by world rank and row */
  bool *kept[PROCESSES];              /* it was bound to the same in the world before */
  struct standin_seat seats[PROCESSES];
};

struct process {
  struct reshard_context *context;
  const struct world *at;
  uint32_t rank;
  bool is_dead;
  enum reshard_status status; /* of the last call */
  struct reshard_fault fault;
  double seconds; /* of the last call */
};
extern struct process processes[PROCESSES];
extern double worlds_timeout;
extern uint32_t worlds_flags;
/* This process brings another plan to each meeting; NULL: none does. */
extern struct reshard_plan *worlds_odd_plan;
extern uint32_t worlds_odd_process;

/* A plan made at random with so many ranks of each side, or a tiny one (tests/plan/tiny.h); `places`: a digit for the
 * process of each rank. */
void world_made(struct world *world, const char *name, uint64_t seed, uint32_t train, uint32_t infer,
                const char *places);
void world_tiny(struct world *world, const char *name, int form, const char *places);
void world_free(struct world *world);

/* A run of the stand-in begins and ends; contexts that are left are closed, those of the dead kept. */
void worlds_begin(uint64_t seed);
void worlds_end(void);

/* Each of these is one run of all threads. Everyone of the world opens or regroups, but not those that stay away
 * (NULL: none); live processes with a context elsewhere close it if `others_close`. */
void world_meet(struct world *world, const char *away, bool others_close);
/* Binds what is not bound, with what was carried looked at; prepares, refits, waits: statuses in processes. */
void world_refit(struct world *world);
/* Those processes are killed, at once, or so many seconds into a refit that all of the world begin and wait for. */
void world_kill(const char *victims);
void world_kill_in_refit(struct world *world, const char *victims, double later);

/* All that live and are in the world have this status; bytes are right if it is OK. */
void world_check(const struct world *world, enum reshard_status status, uint64_t version, const char *what);
struct standin_counts world_counts(const struct world *world); /* the sum of its ranks' */

#endif
