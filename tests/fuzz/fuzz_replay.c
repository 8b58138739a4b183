// SPDX-License-Identifier: Apache-2.0
//
// In: any bytes, as a plan; its seals are made right. What opens is replayed on the host by all its ranks, in both
// modes: it may be refused, and it may move nonsense, but not crash, hang or leave its buffers and staging.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "runtime/reshard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_WORLD 6
#define MAX_BYTES (1u << 18)
#define MAX_ROUNDS 512

struct rank {
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct reshard_config config;
  uint32_t world_rank;
};

// Small enough to be replayed in a moment.
static int is_small(const struct rsp_plan *plan) {
  const struct rsp_header *header = plan->header;
  if (header->world > MAX_WORLD || header->rounds > MAX_ROUNDS) return 0;
  uint64_t bytes = 0;
  for (uint32_t r = 0; r < header->world; r++) {
    struct rsp_program program;
    rsp_program_of(plan, r, &program);
    if (program.slice->staging > MAX_BYTES) return 0;
    for (uint64_t i = 0; i < program.slice->buffers.count; i++) {
      if (program.buffers[i].bytes > MAX_BYTES) return 0;
      bytes += program.buffers[i].bytes;
    }
    for (uint64_t i = 0; i < program.slice->streams.count; i++) {
      if (program.streams[i].bytes > MAX_BYTES) return 0;
      bytes += program.streams[i].bytes;
    }
  }
  return bytes <= MAX_BYTES * 4;
}

static void refit_twice(struct reshard_context *context) {
  for (int i = 0; i < 2; i++) {
    if (reshard_refit(context, NULL) != RESHARD_OK) return;
    if (reshard_wait(context) != RESHARD_OK) return;
  }
  if (reshard_version(context) != 2) abort();
}

// Buffers of exactly their size, each its own allocation, so that a sanitizer sees the first byte outside.
static void *play(void *arg) {
  struct rank *rank = arg;
  struct reshard_context *context;
  if (reshard_context_open(rank->plan, rank->world_rank, &rank->config, &context, NULL) != RESHARD_OK) return NULL;
  uint64_t count = reshard_buffer_count(context);
  void **blocks = calloc(count + 1, sizeof *blocks);
  if (!blocks) abort();
  for (uint64_t i = 0; i < count; i++) {
    struct reshard_buffer_info info;
    if (reshard_buffer_get(context, i, &info) != RESHARD_OK) abort();
    blocks[i] = malloc(info.bytes ? info.bytes : 1);
    if (!blocks[i]) abort();
    memset(blocks[i], (int)i + 1, info.bytes);
    reshard_bind_n(context, info.side, info.name, info.name_bytes, blocks[i], info.bytes);
  }
  if (reshard_prepare(context) == RESHARD_OK) refit_twice(context);
  reshard_context_close(context);
  for (uint64_t i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  return NULL;
}

static void replay(struct reshard_plan *plan, uint32_t world, enum reshard_mode mode) {
  struct reshard_host_group *group;
  struct rank ranks[MAX_WORLD];
  pthread_t threads[MAX_WORLD];
  if (reshard_host_group_new(world, &group) != RESHARD_OK) abort();
  for (uint32_t r = 0; r < world; r++) {
    ranks[r] = (struct rank){.plan = plan, .group = group, .world_rank = r};
    reshard_config_init(&ranks[r].config);
    ranks[r].config.mode = mode;
    ranks[r].config.group = group;
    ranks[r].config.timeout_seconds = 10;
    ranks[r].config.flags = RESHARD_GUARD;
    if (pthread_create(&threads[r], NULL, play, &ranks[r]) != 0) abort();
  }
  for (uint32_t r = 0; r < world; r++) pthread_join(threads[r], NULL);
  reshard_host_group_free(group);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < sizeof(struct rsp_header)) return 0;
  unsigned char *bytes = malloc(size);
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  struct rsp_header *header = (void *)bytes;
  memcpy(header->magic, RSP_MAGIC, sizeof header->magic);
  header->file_bytes = size;
  struct rsp_plan whole;
  struct rsp_error error;
  struct reshard_plan *plan;
  if (rsp_reseal(bytes, size) && rsp_open_memory(bytes, size, &whole, &error) == RSP_OK) {
    uint32_t world = whole.header->world;
    int small = is_small(&whole);
    rsp_close(&whole);
    if (small && reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK) {
      replay(plan, world, RESHARD_STAGED);
      replay(plan, world, RESHARD_FUSED);
      reshard_close(plan);
    }
  }
  free(bytes);
  return 0;
}
