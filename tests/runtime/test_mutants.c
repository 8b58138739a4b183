/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of random plans, sealed again: fields of slices take small or each other's values. What the reader lets
 * through is replayed in both modes: it may be refused and it may move nonsense, but not crash, hang, or write outside
 * its buffers and staging.
 */
#include <string.h>

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

#define MAX_BYTES (1u << 20)
#define MAX_ROUNDS 4096

static uint64_t opened, whole, refused;

/* One field of a slice's tables, of 4 or 8 bytes. */
static void mutate(uint64_t *seed, unsigned char *bytes) {
  const struct rsp_header *header = (const void *)bytes;
  const struct rsp_dirent *dir = (const void *)(bytes + header->sections[RSP_SEC_DIRECTORY].off);
  const struct rsp_dirent *entry = &dir[random_in(seed, 0, header->world - 1)];
  const struct rsp_slice *slice = (const void *)(bytes + entry->off);
  const struct rsp_table *tables[] = {&slice->bodies,  &slice->descs, &slice->loops,
                                      &slice->streams, &slice->parts, &slice->zeros};
  const size_t sizes[] = {sizeof(struct rsp_body),   sizeof(struct rsp_desc), sizeof(struct rsp_loop),
                          sizeof(struct rsp_stream), sizeof(struct rsp_part), sizeof(struct rsp_zero)};
  uint32_t t = (uint32_t)random_in(seed, 0, 5), width = random_in(seed, 0, 1) ? 4 : 8;
  if (tables[t]->count == 0) return;
  unsigned char *table = bytes + entry->off + tables[t]->off;
  uint64_t words = tables[t]->count * sizes[t] / width;
  unsigned char *at = table + random_in(seed, 0, words - 1) * width;
  uint64_t value = 0, other = 0;
  memcpy(&value, at, width);
  memcpy(&other, table + random_in(seed, 0, words - 1) * width, width);
  const uint64_t values[] = {value + 1, value - 1, value * 2, value / 2, other, 0, 1, value + 8, value - 8, 0 - value};
  value = values[random_in(seed, 0, sizeof values / sizeof *values - 1)];
  memcpy(at, &value, width);
}

static int is_small(const struct rsp_plan *plan) {
  uint64_t bytes = 0;
  if (plan->header->rounds > MAX_ROUNDS) return 0;
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rsp_program p;
    rsp_program_of(plan, w, &p);
    if (p.slice->staging > MAX_BYTES) return 0;
    for (uint64_t s = 0; s < p.slice->streams.count; s++) {
      if (p.streams[s].bytes > MAX_BYTES) return 0;
      bytes += p.streams[s].bytes;
    }
  }
  return bytes < MAX_BYTES;
}

static void play_mutant(const void *bytes, size_t size, enum reshard_mode mode, uint64_t seed) {
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  stage_open(&stage, bytes, size);
  uint32_t world = stage.plan.header->world, good = 0;
  struct player *players = calloc(world, sizeof *players);
  CHECK(players, "memory");
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  CHECK(reshard_host_group_new(world, &group) == RESHARD_OK, "group");
  players_init(players, &stage, plan, group, mode);
  for (uint32_t r = 0; r < world; r++) players[r].config.flags = RESHARD_GUARD;
  play(players, world);
  for (uint32_t r = 0; r < world; r++) {
    const struct player *p = &players[r];
    CHECK(p->fault.status != RESHARD_TIMEOUT, "seed %llu hangs: %s", (unsigned long long)seed, p->fault.what);
    CHECK(!strstr(p->fault.what, "outside its staging"), "seed %llu: %s", (unsigned long long)seed, p->fault.what);
    good += p->version == 1;
  }
  CHECK(good == 0 || good == world, "seed %llu: %u of %u ranks have the version", (unsigned long long)seed, good,
        world);
  CHECK(stage_guards(&stage), "seed %llu writes outside a buffer", (unsigned long long)seed);
  if (good)
    whole++;
  else
    refused++;
  free(players);
  reshard_host_group_free(group);
  reshard_close(plan);
  stage_close(&stage);
}

static void one(const void *plan, size_t size, uint64_t seed) {
  uint64_t state = seed;
  unsigned char *bytes = malloc(size);
  CHECK(bytes, "memory");
  memcpy(bytes, plan, size);
  for (uint64_t n = random_in(&state, 1, 2); n > 0; n--) mutate(&state, bytes);
  struct rsp_plan mutant;
  struct rsp_error error;
  if (rsp_reseal(bytes, size) && rsp_open_memory(bytes, size, &mutant, &error) == RSP_OK) {
    int small = is_small(&mutant);
    rsp_close(&mutant);
    opened++;
    if (small) play_mutant(bytes, size, RESHARD_STAGED, seed);
    if (small) play_mutant(bytes, size, RESHARD_FUSED, seed);
  }
  free(bytes);
}

int main(int argc, char **argv) {
  uint64_t plans = argc > 1 ? strtoull(argv[1], NULL, 10) : 20, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + plans; seed++) {
    struct made_options options = {.seed = seed,
                                   .train = (uint32_t)(1 + seed % 2),
                                   .infer = (uint32_t)(1 + seed % 3),
                                   .shared = seed % 4 == 0,
                                   .groups = 2,
                                   .buffers = 2,
                                   .rows = 5,
                                   .columns = 8,
                                   .relays = seed % 2};
    size_t size;
    void *bytes = made_plan(&options, &size);
    for (uint64_t n = 0; n < 300; n++) one(bytes, size, seed * 1000 + n);
    free(bytes);
  }
  printf("%llu mutants opened; replays: %llu whole, %llu refused\n", (unsigned long long)opened,
         (unsigned long long)whole, (unsigned long long)refused);
  CHECK(plans < 10 || (whole > 0 && refused > 0), "all alike");
  return 0;
}
