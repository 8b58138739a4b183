/* SPDX-License-Identifier: Apache-2.0
 * See play.h. */
#include "tests/nccl/play.h"

#include <string.h>

#include "tests/nccl/standin_cuda.h"
#include "tests/runtime/check.h"

static uint32_t world_of(const struct play *play) {
  return play->stage.plan.header->world;
}

void play_open(struct play *play, const void *bytes, size_t size, uint64_t seed) {
  *play = (struct play){.bytes = bytes, .size = size, .refits = 1, .cycles = 1};
  stage_open(&play->stage, bytes, size);
  stage_fill(&play->stage, seed);
  CHECK(reshard_open_memory(bytes, size, &play->plan, NULL) == RESHARD_OK, "open");
  reshard_config_init(&play->config);
  play->config.backend = RESHARD_NCCL;
  play->config.mode = RESHARD_STAGED;
  play->config.timeout_seconds = 0.5;
  play->config.all_gather = standin_all_gather;
  play->config.cuda_library = play->config.nccl_library = STANDIN_LIBRARY;
  uint32_t world = world_of(play);
  play->actors = calloc(world, sizeof *play->actors);
  play->seats = calloc(world, sizeof *play->seats);
  play->memory = calloc(world, sizeof *play->memory);
  play->second_seats = calloc(world, sizeof *play->second_seats);
  CHECK(play->actors && play->seats && play->second_seats && play->memory, "memory");
  for (uint32_t r = 0; r < world; r++) {
    struct rsp_program p;
    rsp_program_of(&play->stage.plan, r, &p);
    play->memory[r] = calloc(p.slice->buffers.count + 1, sizeof **play->memory);
    CHECK(play->memory[r], "memory");
  }
}

void play_close(struct play *play) {
  for (uint32_t r = 0; r < world_of(play); r++) free(play->memory[r]);
  free(play->memory);
  free(play->actors);
  free(play->seats);
  free(play->second_seats);
  reshard_close(play->plan);
  stage_close(&play->stage);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What the caller's buffers hold goes to the devices, and where the stage has two in one place, so it is there. */
static void to_devices(struct play *play) {
  for (uint32_t r = 0; r < world_of(play); r++) {
    struct rsp_program p;
    rsp_program_of(&play->stage.plan, r, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      uint64_t same = 0;
      while (play->stage.memory[r][same] != play->stage.memory[r][b]) same++;
      play->memory[r][b] = same < b ? play->memory[r][same] : standin_memory(r, p.buffers[b].bytes, p.buffers[b].align);
      memcpy(play->memory[r][b], play->stage.memory[r][b], p.buffers[b].bytes);
    }
  }
}

const char *play_compare(const struct play *play) {
  static char text[160];
  for (uint32_t r = 0; r < world_of(play); r++) {
    struct rsp_program p;
    rsp_program_of(&play->stage.plan, r, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      const unsigned char *is = play->memory[r][b], *want = play->stage.want[r][b];
      for (uint64_t i = 0; i < p.buffers[b].bytes; i++) {
        if (is[i] == want[i]) continue;
        snprintf(text, sizeof text, "world rank %u, gid %u, byte %llu of %llu: %02x, not %02x", r, p.buffers[b].gid,
                 (unsigned long long)i, (unsigned long long)p.buffers[b].bytes, is[i], want[i]);
        return text;
      }
    }
  }
  return NULL;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

enum reshard_status play_open_context(struct play *play, uint32_t rank, struct reshard_plan *plan) {
  struct reshard_config config = play->config;
  struct actor *actor = &play->actors[rank];
  config.all_gather_user = &play->seats[rank];
  config.device = (int)rank;
  if (rank == play->inject_rank) config.inject = play->inject;
  actor->context = NULL;
  actor->opened = reshard_context_open(plan, rank, &config, &actor->context, &actor->fault);
  return actor->opened;
}

enum reshard_status play_bind(struct play *play, uint32_t rank) {
  struct reshard_context *context = play->actors[rank].context;
  for (uint64_t b = 0; b < reshard_buffer_count(context); b++) {
    struct reshard_buffer_info info;
    CHECK(reshard_buffer_get(context, b, &info) == RESHARD_OK, "buffer %llu", (unsigned long long)b);
    enum reshard_status status =
        reshard_bind_n(context, info.side, info.name, info.name_bytes, play->memory[rank][b], info.bytes);
    if (status != RESHARD_OK) return status;
  }
  return RESHARD_OK;
}

/* False: the rank does no more, and its context is left as it is. */
static bool refits(struct play *play, struct actor *actor, uint32_t rank) {
  for (uint32_t i = 0; i < play->refits; i++) {
    if (play->before_refit && !play->before_refit(play, rank, i)) return false;
    actor->refitted = reshard_refit(actor->context, NULL);
    if (actor->refitted != RESHARD_OK) return true;
    enum reshard_status at_once = play->impatient ? reshard_query(actor->context) : RESHARD_OK;
    if (at_once != RESHARD_OK && at_once != RESHARD_PENDING) {
      actor->refitted = at_once;
      return true;
    }
    if (play->after_refit && !play->after_refit(play, rank, i)) return false;
    actor->refitted = reshard_wait(actor->context);
    if (actor->refitted != RESHARD_OK) return true;
  }
  return true;
}

/* False: as above. */
static bool live(struct play *play, uint32_t rank) {
  struct actor *actor = &play->actors[rank];
  actor->version = 0;
  play_open_context(play, rank, play->plan);
  actor->seconds = standin_now();
  actor->calls = UINT64_MAX;
  if (actor->opened != RESHARD_OK) return true;
  actor->prepared = play_bind(play, rank);
  if (actor->prepared == RESHARD_OK) actor->prepared = reshard_prepare(actor->context);
  bool goes_on = actor->prepared != RESHARD_OK || refits(play, actor, rank);
  reshard_last_fault(actor->context, &actor->fault);
  actor->version = reshard_version(actor->context);
  actor->seconds = standin_now();
  if (!goes_on || play->stays_open) return false;
  actor->calls = standin_counts(rank).calls;
  reshard_context_close(actor->context);
  return true;
}

static bool is_well(const struct actor *actor) {
  return actor->opened == RESHARD_OK && actor->prepared == RESHARD_OK && actor->refitted == RESHARD_OK;
}

/* On a channel of its own; without what tests do between. */
static void live_again(struct play *play, uint32_t rank) {
  struct actor first = play->actors[rank];
  first.all_calls = standin_counts(rank).calls;
  /* Ranks see a failure at different times; together they begin anew. */
  double until = 50 * play->config.timeout_seconds;
  if (standin_now() < until) standin_sleep(until - standin_now());
  play->seats[rank] = play->second_seats[rank];
  play->actors[rank] = (struct actor){0};
  play->inject = (struct reshard_inject){0};
  live(play, rank);
  const struct actor *second = &play->actors[rank];
  first.second = second->opened     ? second->opened
                 : second->prepared ? second->prepared
                 : second->refitted ? second->refitted
                                    : RESHARD_OK;
  if (first.second != RESHARD_OK) first.fault = second->fault;
  play->actors[rank] = first;
}

static void body(uint32_t rank, void *arg) {
  struct play *play = arg;
  if (play->before_open && !play->before_open(play, rank)) return;
  for (uint32_t i = 0; i < play->cycles; i++) {
    if (!live(play, rank)) return;
    if (!is_well(&play->actors[rank])) break;
  }
  if (play->again) live_again(play, rank);
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */

static void judge(struct play *play) {
  play->wrong[0] = 0;
  const char *violation = standin_violation();
  for (uint32_t r = 0; r < world_of(play) && !play->wrong[0]; r++) {
    const struct actor *actor = &play->actors[r];
    if (is_well(actor) && actor->version == play->refits) continue;
    snprintf(play->wrong, sizeof play->wrong, "rank %u: opened %d, prepared %d, refitted %d, version %llu: %.250s", r,
             (int)actor->opened, (int)actor->prepared, (int)actor->refitted, (unsigned long long)actor->version,
             actor->fault.what);
  }
  const char *other = violation ? violation : !play->wrong[0] ? play_compare(play) : NULL;
  if (!other && !play->wrong[0] && !play->stays_open) other = standin_leak();
  if (other) snprintf(play->wrong, sizeof play->wrong, "%.390s", other);
}

const char *play_wrong(const struct play *play) {
  return play->wrong[0] ? play->wrong : NULL;
}

void play_poison(struct play *play, uint32_t rank, int value) {
  struct rsp_program p;
  rsp_program_of(&play->stage.plan, rank, &p);
  for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
    if (p.buffers[b].side == RSP_INFER && p.buffers[b].bytes > 0)
      CHECK(cudaMemsetAsync(play->memory[rank][b], value, p.buffers[b].bytes, NULL) == 0, "memset");
  }
  while (cudaStreamQuery(NULL) != 0) continue;
}

void play_begin(struct play *play, const struct standin_options *options) {
  standin_begin(options);
  play_join(play);
}

void play_join(struct play *play) {
  uint32_t world = world_of(play);
  to_devices(play);
  struct standin_channel *channel = standin_channel_new(world), *second = standin_channel_new(world);
  memset(play->actors, 0, world * sizeof *play->actors);
  for (uint32_t r = 0; r < world; r++) {
    play->seats[r] = (struct standin_seat){channel, r};
    play->second_seats[r] = (struct standin_seat){second, r};
  }
}

void play_run(struct play *play, const struct standin_options *options) {
  play_begin(play, options);
  standin_run(body, play);
  judge(play);
}

static void close_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  reshard_context_close(play->actors[rank].context);
}

void play_close_contexts(struct play *play) {
  standin_run(close_body, play);
}
