// SPDX-License-Identifier: Apache-2.0
//
// run_memory: where the buffers of a replay live. In: a plan's specification. Out: slots with addresses.

#include "tools/run_memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Slots of `side`, sorted by (rank, gid): counted, then placed.
static bool list_side(struct run_side *side, const struct rsp_plan *plan, uint32_t which) {
  for (uint64_t i = 0; i < plan->buffer_count; i++) {
    const struct rsp_buffer *buffer = &plan->buffers[i];
    const struct rsp_rankmap *map = &plan->rankmaps[buffer->rankmap];
    if (buffer->side != which) continue;
    for (uint64_t h = 0; h < map->count; h++) side->ranks[plan->holds[map->holds + h].rank].count++;
    side->slot_count += map->count;
  }
  side->total_slots = side->slot_count;
  side->slots = calloc(side->slot_count ? side->slot_count : 1, sizeof *side->slots);
  if (!side->slots) return false;
  uint64_t first = 0;
  for (uint32_t r = 0; r < side->rank_count; r++) {
    side->ranks[r].first = first;
    first += side->ranks[r].count;
    side->ranks[r].count = 0;
  }
  for (uint64_t i = 0; i < plan->buffer_count; i++) {
    const struct rsp_buffer *buffer = &plan->buffers[i];
    const struct rsp_rankmap *map = &plan->rankmaps[buffer->rankmap];
    if (buffer->side != which) continue;
    for (uint64_t h = 0; h < map->count; h++) {
      const struct rsp_hold *hold = &plan->holds[map->holds + h];
      struct run_rank *rank = &side->ranks[hold->rank];
      struct run_slot *slot = &side->slots[rank->first + rank->count++];
      slot->gid = (uint32_t)i;
      slot->side_rank = hold->rank;
      slot->entry = &plan->entries[plan->classes[buffer->klass].entries + hold->entry];
      if (__builtin_mul_overflow(slot->entry->elems, rsp_dtype_bytes(buffer->dtype), &slot->bytes)) return false;
      if (__builtin_add_overflow(side->bytes, slot->bytes, &side->bytes)) return false;
    }
  }
  return true;
}

// Slots of other ranks go: those of the rank move to the front.
static void keep_rank(struct run_side *side, uint32_t side_rank) {
  struct run_rank kept = {0};
  if (side_rank < side->rank_count) kept = side->ranks[side_rank];
  memmove(side->slots, side->slots + kept.first, kept.count * sizeof *side->slots);
  memset(side->ranks, 0, side->rank_count * sizeof *side->ranks);
  side->slot_count = kept.count;
  if (side_rank < side->rank_count) side->ranks[side_rank].count = kept.count;
}

void run_memory_keep(struct run_memory *memory, const struct rsp_plan *plan, uint32_t world_rank) {
  keep_rank(&memory->side[RSP_TRAIN], plan->ranks[world_rank].train_rank);
  keep_rank(&memory->side[RSP_INFER], plan->ranks[world_rank].infer_rank);
}

static uint64_t round_up(uint64_t bytes) {
  return (bytes + RUN_ALIGN - 1) / RUN_ALIGN * RUN_ALIGN;
}

// A buffer's place: its guard in front fills the end of the unit before.
static uint64_t slot_span(const struct run_slot *slot) {
  return RUN_ALIGN + round_up(slot->bytes + RUN_GUARD);
}

bool run_memory_init(struct run_memory *memory, const struct rsp_plan *plan) {
  *memory = (struct run_memory){0};
  uint32_t counts[2] = {plan->header->train_world, plan->header->infer_world};
  for (uint32_t s = 0; s < 2; s++) {
    struct run_side *side = &memory->side[s];
    side->rank_count = counts[s];
    side->ranks = calloc(counts[s] ? counts[s] : 1, sizeof *side->ranks);
    if (!side->ranks || !list_side(side, plan, s)) return false;
    for (uint64_t i = 0; i < side->slot_count; i++)
      if (side->slots[i].bytes > UINT64_MAX / 4 / (side->slot_count + 1)) return false;
  }
  return true;
}

void run_memory_guard(struct run_side *side) {
  for (uint64_t i = 0; i < side->slot_count; i++) {
    struct run_slot *slot = &side->slots[i];
    if (!slot->guarded) continue;
    memset(slot->data - RUN_GUARD, RUN_GUARD_BYTE, RUN_GUARD);
    memset(slot->data + slot->bytes, RUN_GUARD_BYTE, RUN_GUARD);
  }
}

bool run_memory_allocate(struct run_side *side) {
  side->arena_bytes = run_memory_needed(side);
  if (!side->arena_bytes) return true;
  void *arena =
      mmap(NULL, side->arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) return false;
  madvise(arena, side->arena_bytes, MADV_HUGEPAGE);
  side->arena = arena;
  unsigned char *at = arena;
  for (uint64_t i = 0; i < side->slot_count; i++) {
    side->slots[i].data = at + RUN_ALIGN;
    side->slots[i].guarded = true;
    at += slot_span(&side->slots[i]);
  }
  run_memory_guard(side);
  return true;
}

void run_memory_free(struct run_memory *memory) {
  for (uint32_t s = 0; s < 2; s++) {
    struct run_side *side = &memory->side[s];
    if (side->arena) munmap(side->arena, side->arena_bytes);
    free(side->slots);
    free(side->ranks);
  }
  *memory = (struct run_memory){0};
}

uint64_t run_memory_needed(const struct run_side *side) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < side->slot_count; i++) bytes += slot_span(&side->slots[i]);
  return bytes;
}

// A number in a file that holds one, at `key` if given; UINT64_MAX if there is none ("max").
static uint64_t number_in(const char *path, const char *key) {
  FILE *file = fopen(path, "r");
  char line[256];
  uint64_t value = UINT64_MAX;
  size_t skip = key ? strlen(key) : 0;
  while (file && fgets(line, sizeof line, file)) {
    if (key && strncmp(line, key, skip) != 0) continue;
    char *end;
    unsigned long long number = strtoull(line + skip, &end, 10);
    if (end != line + skip) value = number;
    break;
  }
  if (file) fclose(file);
  return value;
}

uint64_t run_memory_available(void) {
  uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
  uint64_t bytes = kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
  uint64_t max = number_in("/sys/fs/cgroup/memory.max", NULL), now = number_in("/sys/fs/cgroup/memory.current", NULL);
  if (max != UINT64_MAX && now != UINT64_MAX) {
    // What the group's page cache holds can be had back.
    uint64_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
    uint64_t used = cache < now ? now - cache : 0, left = used < max ? max - used : 0;
    if (cache == UINT64_MAX) left = now < max ? max - now : 0;
    if (left < bytes) bytes = left;
  }
  struct rlimit limit;
  if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    bytes = limit.rlim_cur;
  return bytes;
}

unsigned run_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  return (unsigned)CPU_COUNT(&set);
}

struct crew {
  void (*fn)(void *user, uint64_t i);
  void *user;
  uint64_t count;
  atomic_uint_fast64_t next;
};

static void *crew_main(void *at) {
  struct crew *crew = at;
  for (;;) {
    uint64_t i = atomic_fetch_add(&crew->next, 1);
    if (i >= crew->count) return NULL;
    crew->fn(crew->user, i);
  }
}

void run_parallel(unsigned threads, uint64_t count, void (*fn)(void *user, uint64_t i), void *user) {
  struct crew crew = {.fn = fn, .user = user, .count = count};
  pthread_t *ids = calloc(threads ? threads : 1, sizeof *ids);
  unsigned started = 0;
  while (ids && started + 1 < threads && started + 1 < count && !pthread_create(&ids[started], NULL, crew_main, &crew))
    started++;
  crew_main(&crew);
  for (unsigned i = 0; i < started; i++) pthread_join(ids[i], NULL);
  free(ids);
}
