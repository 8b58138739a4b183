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

/* What the plans have had: a suite without one of these would be blind to it. */
static uint64_t staged, direct, self, relays, padded, converted, over_buffers;

static void count_kinds(const void *bytes, size_t size) {
  struct rsp_plan plan;
  struct rsp_error error;
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK, "%s", error.text);
  for (uint32_t w = 0; w < plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&plan, w, &p);
    padded += p.slice->zeros.count;
    for (uint64_t s = 0; s < p.slice->streams.count; s++) {
      if (p.streams[s].dir == RSP_DIR_SELF_SRC)
        self++;
      else if (p.streams[s].kind == RSP_KIND_DIRECT)
        direct++;
      else
        staged++;
    }
    for (uint64_t d = 0; d < p.slice->descs.count; d++) {
      relays += p.descs[d].space == RSP_SPACE_STREAM;
      converted += p.descs[d].op != RSP_OP_COPY || p.descs[d].buf_dtype != p.descs[d].wire_dtype;
    }
    for (uint64_t l = 0; l < p.slice->loops.count; l++)
      over_buffers += p.loops[l].ref_step != 0 && p.loops[l].count > 1;
  }
  rsp_close(&plan);
}

static void one_plan(uint64_t seed) {
  uint64_t state = seed;
  struct made_options options = {.seed = seed,
                                 .train = (uint32_t)random_in(&state, 1, 3),
                                 .infer = (uint32_t)random_in(&state, 1, 3),
                                 .groups = seed % 3 == 0 ? 12 : 3,
                                 .buffers = 3,
                                 .rows = 14,
                                 .columns = 30};
  uint32_t least = options.train < options.infer ? options.train : options.infer;
  options.relays = random_in(&state, 0, 2) == 0;
  if (options.relays) options.infer = 3;
  options.shared = random_in(&state, 0, 2) ? 0 : (uint32_t)random_in(&state, 0, least);
  size_t size;
  void *bytes = made_plan(&options, &size);
  count_kinds(bytes, size);
  replay_plan(bytes, size, RESHARD_FUSED, 0, seed);
  replay_plan(bytes, size, RESHARD_STAGED, 0, seed);
  replay_plan(bytes, size, RESHARD_STAGED, seed + 1, seed);
  free(bytes);
}

static void tiny(void) {
  void *bytes;
  size_t size;
  CHECK(tiny_plan(&bytes, &size), "tiny");
  replay_plan(bytes, size, RESHARD_FUSED, 0, 5);
  for (uint64_t seed = 0; seed < 20; seed++) replay_plan(bytes, size, RESHARD_STAGED, seed, 5);
  free(bytes);
}

/* A process with both roles copies to itself what came in from another. */
static void self_relay(void) {
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init(tiny);
  tiny->global.features = RSP_FEATURE_RELAY;
  tiny->global.rounds = 3;
  for (uint32_t r = 0; r < TINY_WORLD; r++) tiny->slices[r].rounds = 3;
  struct tiny_slice *slice = &tiny->slice[1];
  for (uint64_t s = 0; s < tiny->slices[1].stream_count; s++) {
    struct rsp_stream *stream = &slice->streams[s];
    if (stream->dir < RSP_DIR_SELF_SRC) continue;
    stream->round0 = 1;
    if (stream->dir == RSP_DIR_SELF_DST) continue;
    struct rsp_desc *desc = &slice->descs[slice->bodies[slice->parts[stream->parts].body].descs];
    desc->space = RSP_SPACE_STREAM;
    desc->ref = 1; /* from rank 0 */
    desc->off = 0;
    slice->loops[desc->loops] = (struct rsp_loop){2, 0, 8};
  }
  void *bytes;
  size_t size;
  CHECK(tiny_build(tiny, &bytes, &size), "build");
  replay_plan(bytes, size, RESHARD_FUSED, 0, 6);
  for (uint64_t seed = 0; seed < 20; seed++) replay_plan(bytes, size, RESHARD_STAGED, seed, 6);
  free(bytes);
  free(tiny);
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
  tiny();
  self_relay();
  for (uint64_t seed = first; seed < first + plans; seed++) one_plan(seed);
  many(RESHARD_FUSED);
  many(RESHARD_STAGED);
  printf("%llu plans: streams: %llu staged, %llu direct, %llu self; descriptors: %llu relays, %llu converting; %llu "
         "paddings, "
         "%llu loops over buffers\n",
         (unsigned long long)plans, (unsigned long long)staged, (unsigned long long)direct, (unsigned long long)self,
         (unsigned long long)relays, (unsigned long long)converted, (unsigned long long)padded,
         (unsigned long long)over_buffers);
  CHECK(plans < 20 || (staged && direct && self && relays && converted && padded && over_buffers), "a kind is missing");
  return 0;
}
