/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays for tests: all ranks of a plan as threads, with buffers filled, checked and guarded.
 */
#ifndef TESTS_RUNTIME_REPLAY_H
#define TESTS_RUNTIME_REPLAY_H

#include "plans/plan.h"
#include "runtime/reshard.h"

/* Buffers of every rank: memory[world][row] points behind GUARD bytes. */
struct stage {
  struct rsp_plan plan;
  unsigned char ***memory;
  unsigned char ***want; /* the same after made_walk */
};

void stage_open(struct stage *stage, const void *bytes, size_t size);
void stage_close(struct stage *stage);
/* Training buffers by the seed, inference buffers poisoned, padding too; `want` is what a replay must give. */
void stage_fill(struct stage *stage, uint64_t seed);
/* The bytes around every buffer are as they were. */
int stage_guards(const struct stage *stage);
/* Buffer `row` of the rank lies where `same` does from here on. */
void stage_tie(struct stage *stage, uint32_t world_rank, uint64_t row, uint64_t same);
/* Every byte of every buffer and around it. NULL, or what is wrong (static text). */
const char *stage_check(const struct stage *stage);

/* What a rank thread does, and how it went. */
struct player {
  /* in */
  struct reshard_plan *plan;
  struct stage *stage;
  uint32_t rank;
  struct reshard_config config;
  uint32_t refits;
  void (*between)(struct player *player); /* before each refit, NULL: nothing */
  int skip;                               /* the rank never comes */
  int hold;                               /* after a death: keeps its context until the others are done */
  double seconds;                         /* out: of the whole */
  /* out */
  enum reshard_status opened, prepared, refitted;
  uint64_t version;
  struct reshard_fault fault;
  struct reshard_context *context;
};

/* Fills players[world] with the defaults: one plan, one group. */
void players_init(struct player *players, struct stage *stage, struct reshard_plan *plan,
                  struct reshard_host_group *group, enum reshard_mode mode);
/* All at once, each in its thread; contexts are closed at the end. */
void play(struct player *players, uint32_t world);
/* What one player does, in this thread; its context stays open. */
void play_alone(struct player *player);
/* All ranks have whole refits, `version` of them. */
void players_check(const struct player *players, uint32_t world, uint64_t version, uint64_t seed);
/* An open stage of this plan, filled with `seed`, in one mode: every byte of every buffer, and around it, after each of
 * several refits with other contents. With a delay seed: with guards too. */
void replay_stage(struct stage *stage, const void *bytes, size_t size, enum reshard_mode mode, uint64_t delay_seed,
                  uint64_t seed);
/* The same with a stage of its own. */
void replay_plan(const void *bytes, size_t size, enum reshard_mode mode, uint64_t delay_seed, uint64_t seed);
/* Binds all buffers of the rank. */
enum reshard_status bind_all(struct reshard_context *context, const struct stage *stage, uint32_t rank);

#endif
