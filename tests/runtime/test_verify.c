/* SPDX-License-Identifier: Apache-2.0
 *
 * RESHARD_VERIFY: a byte that changes on its way is found, on the rank that received it, with the right names; without
 * the flag it is not, so the flag is what finds it; ranks that do not agree on the flag are told so.
 */
#include <string.h>

#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

struct victim {
  uint32_t rank, peer, round;
  const char *buffer; /* that the stream begins with; NULL: not known */
  size_t buffer_bytes;
};

/* The `nth` rank's first incoming stream, in the round of its first turn. */
static bool choose(const struct rsp_plan *plan, uint32_t rank, struct victim *victim) {
  struct rsp_program p;
  rsp_program_of(plan, rank, &p);
  for (uint64_t s = 0; s < p.slice->streams.count; s++) {
    const struct rsp_stream *in = &p.streams[s];
    if (in->dir != RSP_DIR_IN) continue;
    *victim = (struct victim){.rank = rank, .peer = in->peer, .round = in->round0};
    const struct rsp_part *part = &p.parts[in->parts];
    if (part->lo != 0) return true;
    struct rsp_str name = rsp_program_buffer(&p, p.descs[p.bodies[part->body].descs].ref)->name;
    victim->buffer = p.names + name.off;
    victim->buffer_bytes = name.len;
    return true;
  }
  return false;
}

static void check_found(const struct player *players, uint32_t world, const struct victim *victim, uint64_t seed) {
  const struct player *hit = &players[victim->rank];
  const struct reshard_fault *fault = &hit->fault;
  CHECK(hit->refitted == RESHARD_CORRUPT, "seed %llu: %d, %s", (unsigned long long)seed, (int)hit->refitted,
        fault->what);
  CHECK(fault->rank == victim->rank && fault->peer == victim->peer && fault->round == victim->round,
        "seed %llu: rank %u peer %u round %u, not %u %u %u", (unsigned long long)seed, fault->rank, fault->peer,
        fault->round, victim->rank, victim->peer, victim->round);
  CHECK(fault->buffer[0] && fault->line > 0, "seed %llu: no buffer", (unsigned long long)seed);
  CHECK(!victim->buffer || strncmp(fault->buffer, victim->buffer, victim->buffer_bytes) == 0, "seed %llu: %s, not %s",
        (unsigned long long)seed, fault->buffer, victim->buffer);
  for (uint32_t r = 0; r < world; r++) {
    /* A rank to which the byte was passed on may find it as well. */
    CHECK(players[r].refitted == RESHARD_PEER_FAILED || players[r].refitted == RESHARD_CORRUPT, "seed %llu rank %u: %d",
          (unsigned long long)seed, r, (int)players[r].refitted);
    CHECK(players[r].version == 0, "seed %llu rank %u", (unsigned long long)seed, r);
  }
}

static void flip(const void *bytes, size_t size, uint32_t rank, uint32_t flags, uint64_t seed) {
  struct stage stage;
  struct victim victim;
  stage_open(&stage, bytes, size);
  uint32_t world = stage.plan.header->world;
  if (!choose(&stage.plan, rank % world, &victim)) {
    stage_close(&stage);
    return;
  }
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(world, &group) == RESHARD_OK, "group");
  struct player *players = calloc(world, sizeof *players);
  CHECK(players, "memory");
  stage_fill(&stage, seed);
  players_init(players, &stage, plan, group, RESHARD_STAGED);
  for (uint32_t r = 0; r < world; r++) players[r].config.flags = flags;
  players[victim.rank].config.inject = (struct reshard_inject){RESHARD_INJECT_FLIP, victim.round, 0};
  play(players, world);
  if (flags & RESHARD_VERIFY) {
    check_found(players, world, &victim, seed);
  } else {
    players_check(players, world, 1, seed);
    CHECK(stage_check(&stage), "seed %llu: the byte was not changed", (unsigned long long)seed);
  }
  free(players);
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
}

static void made(uint64_t seed) {
  struct made_options options = {.seed = seed,
                                 .train = 2,
                                 .infer = 3,
                                 .relays = seed % 2 == 0,
                                 .groups = 3,
                                 .buffers = 3,
                                 .rows = 60,
                                 .columns = 120};
  size_t size;
  void *bytes = made_plan(&options, &size);
  flip(bytes, size, (uint32_t)seed, RESHARD_VERIFY, seed);
  flip(bytes, size, (uint32_t)seed + 1, RESHARD_VERIFY | RESHARD_GUARD, seed);
  free(bytes);
}

static void tiny_one(const void *bytes, size_t size) {
  for (uint32_t rank = 0; rank < TINY_WORLD; rank++) {
    flip(bytes, size, rank, RESHARD_VERIFY, 5);
    flip(bytes, size, rank, 0, 5);
  }
}

/* Fused: both ends are compared, and who found it may be any rank that helped. */
static void flip_fused(uint64_t seed) {
  struct made_options options = {
      .seed = seed, .train = 2, .infer = 2, .groups = 3, .buffers = 3, .rows = 60, .columns = 120};
  struct stage stage;
  struct victim victim;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[4];
  size_t size;
  void *bytes = made_plan(&options, &size);
  stage_open(&stage, bytes, size);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(4, &group) == RESHARD_OK, "group");
  uint32_t rank = 2 + (uint32_t)(seed % 2);
  if (choose(&stage.plan, rank, &victim)) {
    stage_fill(&stage, seed);
    players_init(players, &stage, plan, group, RESHARD_FUSED);
    for (uint32_t r = 0; r < 4; r++) players[r].config.flags = RESHARD_VERIFY;
    players[rank].config.inject.kind = RESHARD_INJECT_FLIP;
    play(players, 4);
    uint32_t found = 0;
    for (uint32_t r = 0; r < 4; r++) {
      CHECK(players[r].version == 0 && players[r].refitted != RESHARD_OK, "seed %llu", (unsigned long long)seed);
      CHECK(players[r].fault.rank == rank && players[r].fault.buffer[0], "seed %llu: %s", (unsigned long long)seed,
            players[r].fault.what);
      found += players[r].refitted == RESHARD_CORRUPT;
    }
    CHECK(found == 1, "seed %llu: %u found it", (unsigned long long)seed, found);
  }
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

static void flags_differ(void) {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[TINY_WORLD];
  CHECK(tiny_plan(&bytes, &size), "tiny");
  stage_open(&stage, bytes, size);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(TINY_WORLD, &group) == RESHARD_OK, "group");
  players_init(players, &stage, plan, group, RESHARD_STAGED);
  players[1].config.flags = RESHARD_VERIFY;
  play(players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(players[r].opened == RESHARD_INVALID_ARGUMENT, "rank %u: %d", r, (int)players[r].opened);
    CHECK(strstr(players[r].fault.what, "staged with verify"), "%s", players[r].fault.what);
  }
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(void) {
  CHECK(tiny_each(tiny_one), "tiny");
  for (uint64_t seed = 1; seed <= 60; seed++) made(seed);
  for (uint64_t seed = 1; seed <= 20; seed++) flip_fused(seed);
  flags_differ();
  return 0;
}
