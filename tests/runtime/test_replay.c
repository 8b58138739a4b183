/* SPDX-License-Identifier: Apache-2.0
 *
 * Random plans on the host backend: fused, staged, and staged with seeded delays, orders and guards; every byte of
 * every buffer, and around it, after each of several refits with other contents. Then one plan many times.
 */
#include <string.h>

#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

/* Tied weights: with relays every inference buffer has a twin, which from here on lies at the same address. */
static void tie(struct stage *stage) {
  uint32_t train = 0, gids = (uint32_t)stage->plan.buffer_count;
  while (stage->plan.buffers[train].side == RSP_TRAIN) train++;
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      uint32_t gid = p.buffers[b].gid;
      if (gid < train + (gids - train) / 2) continue;
      const struct rsp_sbuffer *first = rsp_program_buffer(&p, gid - (gids - train) / 2);
      stage_tie(stage, w, b, (uint64_t)(first - p.buffers));
    }
  }
}

static void one_mode(const void *bytes, size_t size, enum reshard_mode mode, uint64_t delay_seed, uint64_t seed,
                     bool tied) {
  struct stage stage;
  stage_open(&stage, bytes, size);
  stage_fill(&stage, seed);
  if (tied) tie(&stage);
  replay_stage(&stage, bytes, size, mode, delay_seed, seed);
  stage_close(&stage);
}

/* Plans with: relays; staged ones, direct ones; of a relay; to the rank itself; several streams of a pair. */
enum feature { RELAYS, STAGED_RELAY, DIRECT_RELAY, CHAIN, TO_ITSELF, TAGS, FEATURES };
static uint64_t counts[FEATURES];

static bool is_relayed(const struct rsp_plan *plan, uint32_t receiver, const struct rsp_stream *in) {
  struct rsp_program peer;
  rsp_program_of(plan, in->peer, &peer);
  const struct rsp_stream *x = peer.streams;
  while (x->dir != RSP_DIR_OUT || x->peer != receiver || x->kind != in->kind || x->tag != in->tag) x++;
  return x->relay != RSP_NO_STREAM;
}

static void note(const void *bytes, size_t size) {
  struct rsp_plan plan;
  struct rsp_error error;
  bool has[FEATURES] = {false};
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK, "%s", error.text);
  for (uint32_t r = 0; r < plan.header->world; r++) {
    struct rsp_program p;
    rsp_program_of(&plan, r, &p);
    for (uint64_t i = 0; i < p.slice->streams.count; i++) {
      const struct rsp_stream *s = &p.streams[i];
      if (s->tag > 0) has[TAGS] = true;
      if (s->relay == RSP_NO_STREAM) continue;
      has[RELAYS] = has[s->kind == RSP_KIND_DIRECT ? DIRECT_RELAY : STAGED_RELAY] = true;
      if (is_relayed(&plan, r, &p.streams[s->relay])) has[CHAIN] = true;
      if (s->peer == r) has[TO_ITSELF] = true;
    }
  }
  for (int i = 0; i < FEATURES; i++) counts[i] += has[i];
  rsp_close(&plan);
}

static void one_plan(uint64_t seed) {
  uint64_t state = seed;
  struct made_options options = {.seed = seed,
                                 .train = (uint32_t)random_in(&state, 1, 3),
                                 .infer = (uint32_t)random_in(&state, 1, 4),
                                 .relays = seed % 2 == 0,
                                 .groups = seed % 3 == 0 ? 12 : 3,
                                 .buffers = 3,
                                 .rows = 14,
                                 .columns = 30};
  uint32_t least = options.train < options.infer ? options.train : options.infer;
  options.shared = random_in(&state, 0, 2) ? 0 : (uint32_t)random_in(&state, 0, least);
  size_t size;
  void *bytes = made_plan(&options, &size);
  note(bytes, size);
  one_mode(bytes, size, RESHARD_FUSED, 0, seed, false);
  one_mode(bytes, size, RESHARD_STAGED, 0, seed, false);
  one_mode(bytes, size, RESHARD_STAGED, seed + 1, seed, false);
  if (options.relays) one_mode(bytes, size, RESHARD_STAGED, seed + 1000001, seed, false);
  free(bytes);
}

static void tied_weights(uint64_t seed) {
/* Where a buffer is passed on while its twin arrives, bytes are read and written at a time, as what they are. */
#if !defined(__SANITIZE_THREAD__)
  struct made_options options = {
      .seed = seed, .train = 2, .infer = 3, .groups = 3, .buffers = 3, .rows = 14, .columns = 30, .relays = true};
  size_t size;
  void *bytes = made_plan(&options, &size);
  one_mode(bytes, size, RESHARD_FUSED, 0, seed, true);
  one_mode(bytes, size, RESHARD_STAGED, seed, seed, true);
  free(bytes);
#else
  (void)seed;
#endif
}

static void tiny_one(const void *bytes, size_t size) {
  one_mode(bytes, size, RESHARD_FUSED, 0, 5, false);
  for (uint64_t seed = 0; seed < 20; seed++) one_mode(bytes, size, RESHARD_STAGED, seed, 5, false);
}

/* Buffers of megabytes: copies are made in pieces, by any rank, past the caches. */
static void large(uint64_t seed) {
  struct made_options options = {
      .seed = seed, .train = 3, .infer = 2, .groups = 2, .buffers = 2, .rows = 800, .columns = 900};
  size_t size;
  void *bytes = made_plan(&options, &size);
  one_mode(bytes, size, RESHARD_FUSED, 0, seed, false);
  free(bytes);
}

/* One context, a thousand refits. */
static void many(enum reshard_mode mode) {
  void *bytes;
  size_t size;
  CHECK(tiny_plan(&bytes, &size), "tiny");
  struct stage stage;
  stage_open(&stage, bytes, size);
  stage_fill(&stage, 9);
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(TINY_WORLD, &group) == RESHARD_OK, "group");
  struct player players[TINY_WORLD];
  players_init(players, &stage, plan, group, mode);
  for (uint32_t r = 0; r < TINY_WORLD; r++) players[r].refits = 1000;
  play(players, TINY_WORLD);
  players_check(players, TINY_WORLD, 1000, 9);
  CHECK(!stage_check(&stage), "%s", stage_check(&stage));
  /* And a thousand contexts of one refit each, in one group. */
  for (uint32_t i = 0; i < 1000; i++) {
    players_init(players, &stage, plan, group, mode);
    play(players, TINY_WORLD);
    players_check(players, TINY_WORLD, 1, i);
  }
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(int argc, char **argv) {
  uint64_t plans = argc > 1 ? strtoull(argv[1], NULL, 10) : 100, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  CHECK(tiny_each(tiny_one), "tiny");
  for (uint64_t seed = first; seed < first + plans; seed++) one_plan(seed);
  for (uint64_t seed = first; seed < first + 5; seed++) large(seed);
  many(RESHARD_FUSED);
  many(RESHARD_STAGED);
  for (uint64_t seed = first; seed < first + plans / 8; seed++) tied_weights(seed);
  printf("%llu plans", (unsigned long long)plans);
  static const char *const names[FEATURES] = {"relays", "staged", "direct", "of relays", "to the rank itself", "tags"};
  for (int i = 0; i < FEATURES; i++) {
    printf(", %s %llu", names[i], (unsigned long long)counts[i]);
    CHECK(plans < 100 || counts[i] > 0, "no plan with %s", names[i]);
  }
  printf("\n");
  return 0;
}
