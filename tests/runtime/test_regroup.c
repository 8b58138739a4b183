/* SPDX-License-Identifier: Apache-2.0
 *
 * From one world to the next with ranks as threads: some leave, some join, some change numbers, one dies in a refit,
 * one never comes. After each step every byte, and the version of all.
 */
#include <pthread.h>
#include <string.h>

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/replay.h"

enum { SOULS = 6, STEPS = 7 };

struct step {
  uint32_t train, infer;
  const char *places; /* by world rank, the thread as a digit */
  char dies, away;    /* in its refit; not at all. 0: none */
  uint64_t version;   /* after it */
};

static const struct step steps[STEPS] = {
    {1, 2, "012", 0, 0, 1},    {2, 3, "30124", 0, 0, 2},  /* two join, numbers change */
    {1, 2, "204", 0, 0, 3},    {2, 2, "0254", 0, '5', 4}, /* not all come: the old world goes on */
    {2, 2, "0254", '2', 0, 4},                            /* one dies, and the others are told */
    {1, 2, "405", 0, 0, 5},    {1, 2, "054", 0, 0, 6},
};

static struct stage stages[STEPS];
static struct reshard_plan *plans[STEPS];
static void *bytes[STEPS];
static struct reshard_host_group *groups[STEPS];
static enum reshard_mode mode;
static pthread_barrier_t turn;
static struct reshard_context *contexts[SOULS];
static bool dead[SOULS];

static uint32_t rank_of(uint32_t step, uint32_t soul) {
  const char *at = strchr(steps[step].places, (int)('0' + soul));
  return at ? (uint32_t)(at - steps[step].places) : RESHARD_NO_RANK;
}

/* The group that it is in is of no use: it is told so, and all is as it was. */
static void keeps_out(uint32_t step, uint32_t soul, struct reshard_config config) {
  struct reshard_fault fault;
  config.group = groups[step - 1];
  enum reshard_status status = reshard_regroup(contexts[soul], plans[step], rank_of(step, soul), &config);
  reshard_last_fault(contexts[soul], &fault);
  CHECK(status == RESHARD_INVALID_ARGUMENT && !strcmp(fault.what, "regroup: the group is for 3 ranks, the plan's world "
                                                                  "has 5"),
        "thread %u: %d %s", soul, (int)status, fault.what);
}

static enum reshard_status come(uint32_t step, uint32_t soul, struct reshard_fault *fault) {
  struct reshard_config config;
  reshard_config_init(&config);
  config.mode = mode;
  config.group = groups[step];
  config.timeout_seconds = steps[step].away || steps[step].dies ? 1 : 60;
  if (steps[step].dies == (char)('0' + soul)) config.inject.kind = RESHARD_INJECT_DIE;
  if (!contexts[soul]) return reshard_context_open(plans[step], rank_of(step, soul), &config, &contexts[soul], fault);
  if (step == 1) keeps_out(step, soul, config);
  enum reshard_status status = reshard_regroup(contexts[soul], plans[step], rank_of(step, soul), &config);
  reshard_last_fault(contexts[soul], fault);
  return status;
}

/* In the world of `place`, which is the one before if not all have come. */
static void refit(uint32_t step, uint32_t place, uint32_t soul) {
  struct reshard_context *c = contexts[soul];
  struct reshard_fault fault;
  enum reshard_status status = RESHARD_OK;
  if (place == step) { /* else it is prepared */
    CHECK(bind_all(c, &stages[place], rank_of(place, soul)) == RESHARD_OK, "bind");
    status = reshard_prepare(c);
  }
  if (status == RESHARD_OK) status = reshard_refit(c, NULL);
  if (status == RESHARD_OK) status = reshard_wait(c);
  reshard_last_fault(c, &fault);
  bool dies = steps[step].dies == (char)('0' + soul);
  if (dies) dead[soul] = true;
  CHECK((status == RESHARD_OK) == !steps[step].dies, "step %u, thread %u: %d %s", step, soul, (int)status, fault.what);
  CHECK(reshard_version(c) == steps[step].version || dies, "step %u, thread %u: version %llu", step, soul,
        (unsigned long long)reshard_version(c));
}

static void play_step(uint32_t step, uint32_t soul) {
  struct reshard_fault fault;
  bool comes = rank_of(step, soul) != RESHARD_NO_RANK && steps[step].away != (char)('0' + soul);
  if (!comes && !steps[step].away && contexts[soul]) {
    reshard_context_close(contexts[soul]);
    contexts[soul] = NULL;
  }
  enum reshard_status status = comes ? come(step, soul, &fault) : RESHARD_OK;
  uint32_t place = steps[step].away ? step - 1 : step;
  if (comes)
    CHECK(status == (steps[step].away ? RESHARD_TIMEOUT : RESHARD_OK), "step %u, thread %u: %d %s", step, soul,
          (int)status, fault.what);
  if (comes && steps[step].away) CHECK(strstr(fault.what, "regroup: world rank(s)"), "%s", fault.what);
  if (rank_of(place, soul) != RESHARD_NO_RANK) refit(step, place, soul);
}

static void *live(void *arg) {
  uint32_t soul = *(uint32_t *)arg;
  for (uint32_t step = 0; step < STEPS; step++) {
    if (!dead[soul]) play_step(step, soul);
    pthread_barrier_wait(&turn);
    uint32_t place = steps[step].away ? step - 1 : step;
    if (soul == 0 && !steps[step].dies)
      CHECK(!stage_check(&stages[place]), "step %u: %s", step, stage_check(&stages[place]));
    pthread_barrier_wait(&turn);
  }
  reshard_context_close(contexts[soul]);
  contexts[soul] = NULL;
  return NULL;
}

static void all_steps(uint64_t seed) {
  pthread_t threads[SOULS];
  uint32_t souls[SOULS];
  memset(dead, 0, sizeof dead);
  pthread_barrier_init(&turn, NULL, SOULS);
  for (uint32_t i = 0; i < STEPS; i++) {
    struct made_options options = {.seed = seed + i,
                                   .train = steps[i].train,
                                   .infer = steps[i].infer,
                                   .relays = (seed + i) % 2 == 0,
                                   .groups = 4,
                                   .buffers = 3,
                                   .rows = 20,
                                   .columns = 30};
    size_t size;
    bytes[i] = made_plan(&options, &size);
    CHECK(reshard_open_memory(bytes[i], size, &plans[i], NULL) == RESHARD_OK, "open");
    stage_open(&stages[i], bytes[i], size);
    stage_fill(&stages[i], seed + i);
    CHECK(reshard_host_group_new(steps[i].train + steps[i].infer, &groups[i]) == RESHARD_OK, "group");
  }
  for (uint32_t i = 0; i < SOULS; i++) {
    souls[i] = i;
    CHECK(!pthread_create(&threads[i], NULL, live, &souls[i]), "thread");
  }
  for (uint32_t i = 0; i < SOULS; i++) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < STEPS; i++) {
    reshard_host_group_free(groups[i]);
    stage_close(&stages[i]);
    reshard_close(plans[i]);
    free(bytes[i]);
  }
  pthread_barrier_destroy(&turn);
}

int main(void) {
  for (uint64_t seed = 1; seed < 4; seed++) {
    for (int m = RESHARD_STAGED; m <= RESHARD_FUSED; m++) {
      mode = (enum reshard_mode)m;
      all_steps(seed * 10);
    }
  }
  return 0;
}
