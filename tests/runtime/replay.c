/* SPDX-License-Identifier: Apache-2.0
 * See replay.h. */
#include "tests/runtime/replay.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/slow.h"

#define GUARD 64u
#define GUARD_VALUE 0x77
#define POISON 0xaa

static unsigned char *new_buffer(uint64_t bytes) {
  unsigned char *block = malloc(bytes + 2 * GUARD);
  CHECK(block, "memory");
  memset(block, GUARD_VALUE, bytes + 2 * GUARD);
  return block + GUARD;
}

void stage_open(struct stage *stage, const void *bytes, size_t size) {
  struct rsp_error error;
  CHECK(rsp_open_memory(bytes, size, &stage->plan, &error) == RSP_OK, "%s", error.text);
  uint32_t world = stage->plan.header->world;
  stage->memory = calloc(world, sizeof *stage->memory);
  stage->want = calloc(world, sizeof *stage->want);
  CHECK(stage->memory && stage->want, "memory");
  for (uint32_t w = 0; w < world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    stage->memory[w] = calloc(p.slice->buffers.count + 1, sizeof **stage->memory);
    stage->want[w] = calloc(p.slice->buffers.count + 1, sizeof **stage->want);
    CHECK(stage->memory[w] && stage->want[w], "memory");
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      stage->memory[w][b] = new_buffer(p.buffers[b].bytes);
      stage->want[w][b] = new_buffer(p.buffers[b].bytes);
    }
  }
}

void stage_tie(struct stage *stage, uint32_t world_rank, uint64_t row, uint64_t same) {
  free(stage->memory[world_rank][row] - GUARD);
  stage->memory[world_rank][row] = stage->memory[world_rank][same];
}

/* Does another buffer before it lie there, too? */
static bool is_tied(const struct stage *stage, uint32_t w, uint64_t row) {
  uint64_t same = 0;
  while (stage->memory[w][same] != stage->memory[w][row]) same++;
  return same != row;
}

void stage_close(struct stage *stage) {
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = p.slice->buffers.count; b-- > 0;) {
      if (!is_tied(stage, w, b)) free(stage->memory[w][b] - GUARD);
      free(stage->want[w][b] - GUARD);
    }
    free(stage->memory[w]);
    free(stage->want[w]);
  }
  free(stage->memory);
  free(stage->want);
  rsp_close(&stage->plan);
}

/* Any bits but NaN, so that results can be compared bit for bit. */
static void fill_elements(uint64_t *seed, unsigned char *at, uint32_t dtype, uint64_t count) {
  struct slow_form form = slow_form_of(dtype);
  size_t unit = rsp_dtype_bytes(dtype);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits;
    do {
      bits = random_next(seed) >> (64 - 8 * unit);
      /* Some of ordinary size: most patterns are far from it. */
      if (form.mantissa && i % 2) bits = slow_nearest(form, (double)(int64_t)(bits % 4096) / 256 - 8);
    } while (form.mantissa && slow_is_nan(form, bits));
    memcpy(at + i * unit, &bits, unit);
  }
}

static void zero_padding(const struct rsp_program *p, unsigned char **fill) {
  for (uint64_t i = 0; i < p->slice->zeros.count; i++) {
    const struct rsp_zero *zero = &p->zeros[i];
    unsigned char *at = fill[rsp_program_buffer(p, zero->gid) - p->buffers] + zero->off;
    CHECK(zero->loop_count == 0, "zeros of test plans have no loops");
    memset(at, 0, zero->run_bytes);
  }
}

void stage_fill(struct stage *stage, uint64_t seed) {
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      const struct rsp_sbuffer *buffer = &p.buffers[b];
      if (buffer->side == RSP_INFER)
        memset(stage->memory[w][b], POISON, buffer->bytes);
      else
        fill_elements(&seed, stage->memory[w][b], buffer->dtype, buffer->bytes / buffer->align);
      memcpy(stage->want[w][b], stage->memory[w][b], buffer->bytes);
    }
    zero_padding(&p, stage->want[w]);
  }
  made_walk(&stage->plan, stage->want);
}

int stage_guards(const struct stage *stage) {
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      const unsigned char *before = stage->memory[w][b] - GUARD, *after = stage->memory[w][b] + p.buffers[b].bytes;
      for (uint32_t i = 0; i < GUARD; i++) {
        if (before[i] != GUARD_VALUE || after[i] != GUARD_VALUE) return 0;
      }
    }
  }
  return 1;
}

const char *stage_check(const struct stage *stage) {
  static char text[200];
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      const unsigned char *is = stage->memory[w][b] - GUARD, *want = stage->want[w][b] - GUARD;
      for (uint64_t i = 0; i < p.buffers[b].bytes + 2 * GUARD; i++) {
        if (is[i] == want[i]) continue;
        snprintf(text, sizeof text, "world rank %u, gid %u, byte %lld of %llu: %02x, not %02x", w, p.buffers[b].gid,
                 (long long)i - GUARD, (unsigned long long)p.buffers[b].bytes, is[i], want[i]);
        return text;
      }
    }
  }
  return NULL;
}

void players_init(struct player *players, struct stage *stage, struct reshard_plan *plan,
                  struct reshard_host_group *group, enum reshard_mode mode) {
  for (uint32_t r = 0; r < stage->plan.header->world; r++) {
    players[r] = (struct player){.plan = plan, .stage = stage, .rank = r, .refits = 1};
    reshard_config_init(&players[r].config);
    players[r].config.group = group;
    players[r].config.mode = mode;
    players[r].config.timeout_seconds = 20;
  }
}

enum reshard_status bind_all(struct reshard_context *context, const struct stage *stage, uint32_t rank) {
  for (uint64_t b = 0; b < reshard_buffer_count(context); b++) {
    struct reshard_buffer_info info;
    CHECK(reshard_buffer_get(context, b, &info) == RESHARD_OK, "buffer %llu", (unsigned long long)b);
    enum reshard_status status =
        reshard_bind_n(context, info.side, info.name, info.name_bytes, stage->memory[rank][b], info.bytes);
    if (status != RESHARD_OK) return status;
  }
  return RESHARD_OK;
}

struct shared {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint32_t busy; /* players that are not held */
};

struct seat {
  struct player *player;
  struct shared *shared;
};

void play_alone(struct player *p) {
  p->opened = reshard_context_open(p->plan, p->rank, &p->config, &p->context, &p->fault);
  if (p->opened != RESHARD_OK) return;
  enum reshard_status bound = bind_all(p->context, p->stage, p->rank);
  CHECK(bound == RESHARD_OK, "bind: %s", reshard_status_text(bound));
  p->prepared = reshard_prepare(p->context);
  for (uint32_t i = 0; i < p->refits && p->prepared == RESHARD_OK && p->refitted == RESHARD_OK; i++) {
    if (p->between) p->between(p);
    p->refitted = reshard_refit(p->context, NULL);
    if (p->refitted == RESHARD_OK && !p->hold) p->refitted = reshard_wait(p->context);
  }
  reshard_last_fault(p->context, &p->fault);
  p->version = reshard_version(p->context);
}

static void *thread(void *arg) {
  struct seat *seat = arg;
  struct player *p = seat->player;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  if (!p->skip) play_alone(p);
  clock_gettime(CLOCK_MONOTONIC, &to);
  p->seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
  pthread_mutex_lock(&seat->shared->lock);
  if (!p->hold) seat->shared->busy--;
  pthread_cond_broadcast(&seat->shared->changed);
  while (p->hold && seat->shared->busy > 0) pthread_cond_wait(&seat->shared->changed, &seat->shared->lock);
  pthread_mutex_unlock(&seat->shared->lock);
  reshard_context_close(p->context);
  p->context = NULL;
  return NULL;
}

void play(struct player *players, uint32_t world) {
  struct shared shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, world};
  pthread_t *threads = calloc(world, sizeof *threads);
  struct seat *seats = calloc(world, sizeof *seats);
  CHECK(threads && seats, "memory");
  for (uint32_t r = 0; r < world; r++) shared.busy -= players[r].hold != 0;
  for (uint32_t r = 0; r < world; r++) {
    seats[r] = (struct seat){&players[r], &shared};
    CHECK(pthread_create(&threads[r], NULL, thread, &seats[r]) == 0, "thread");
  }
  for (uint32_t r = 0; r < world; r++) pthread_join(threads[r], NULL);
  free(threads);
  free(seats);
}

void players_check(const struct player *players, uint32_t world, uint64_t version, uint64_t seed) {
  for (uint32_t r = 0; r < world; r++) {
    const struct player *p = &players[r];
    CHECK(p->opened == RESHARD_OK && p->prepared == RESHARD_OK && p->refitted == RESHARD_OK, "seed %llu rank %u: %s",
          (unsigned long long)seed, r, p->fault.what);
    CHECK(p->version == version, "seed %llu rank %u: version %llu", (unsigned long long)seed, r,
          (unsigned long long)p->version);
  }
}

/* Guards slow down what is delayed anyway; every other plan is verified as well. */
static uint32_t flags_of(enum reshard_mode mode, uint64_t delay_seed, uint64_t seed) {
  uint32_t verify = (mode == RESHARD_FUSED ? seed : delay_seed) % 2 ? RESHARD_VERIFY : 0;
  return verify | (delay_seed ? RESHARD_GUARD : 0);
}

void replay_stage(struct stage *stage, const void *bytes, size_t size, enum reshard_mode mode, uint64_t delay_seed,
                  uint64_t seed) {
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  uint32_t world = stage->plan.header->world;
  CHECK(reshard_host_group_new(world, &group) == RESHARD_OK, "group");
  struct player *players = calloc(world, sizeof *players);
  CHECK(players, "memory");
  for (uint32_t pass = 0; pass < 2; pass++) {
    if (pass > 0) stage_fill(stage, seed + 77);
    players_init(players, stage, plan, group, mode);
    for (uint32_t r = 0; r < world; r++) {
      players[r].config.delay_seed = delay_seed;
      players[r].config.flags = flags_of(mode, delay_seed, seed);
      players[r].refits = 1 + pass;
    }
    play(players, world);
    players_check(players, world, 1 + pass, seed);
    const char *wrong = stage_check(stage);
    CHECK(!wrong, "seed %llu, %s, pass %u: %s", (unsigned long long)seed, mode == RESHARD_FUSED ? "fused" : "staged",
          pass, wrong);
  }
  free(players);
  reshard_host_group_free(group);
  reshard_close(plan);
}

void replay_plan(const void *bytes, size_t size, enum reshard_mode mode, uint64_t delay_seed, uint64_t seed) {
  struct stage stage;
  stage_open(&stage, bytes, size);
  stage_fill(&stage, seed);
  replay_stage(&stage, bytes, size, mode, delay_seed, seed);
  stage_close(&stage);
}
