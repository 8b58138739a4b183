/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's device memory and control channel. Memory: one range of addresses that is readable while bodies run;
 * blocks with guards at both ends, never handed out twice in a run, poisoned when they are freed and checked for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/check.h"
#include "tests/nccl/standin_impl.h"

#define RANGE ((uint64_t)256 << 20)
#define GUARD 64u
#define GUARD_VALUE 0x5c
#define POISON 0xd1 /* of what nobody has written */
#define FREED 0xee

struct block {
  unsigned char *ptr;
  uint64_t bytes;
  uint32_t rank;
  bool live, caller;
};

static unsigned char *range;
static uint64_t used, block_count, block_room;
static struct block *blocks; /* by address */
static bool is_open;

void standin_open_memory(bool open) {
  if (open == is_open) return;
  is_open = open;
  uint64_t bytes = (used + 4095) / 4096 * 4096;
  if (bytes == 0) return;
  CHECK(mprotect(range, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0, "mprotect");
}

void standin_memory_begin(void) {
  if (!range) {
    range = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(range != MAP_FAILED, "mmap");
  }
  used = block_count = 0;
  is_open = false;
  standin_open_memory(true);
}

void standin_memory_end(void) {
  standin_open_memory(true);
  free(blocks);
  blocks = NULL;
  block_count = block_room = 0;
}

void *standin_allocate(uint32_t rank, uint64_t bytes, uint32_t align, bool caller) {
  bool was = is_open;
  /* The caller's blocks are no better aligned than they must be. */
  uint64_t at = (used + GUARD + align - 1) / align * align;
  if (caller && align < 256 && at / align % 2 == 0) at += align;
  uint64_t end = at + bytes + GUARD;
  if (bytes > RANGE || end > RANGE) return NULL;
  if (block_count == block_room) {
    block_room = block_room ? 2 * block_room : 64;
    blocks = realloc(blocks, block_room * sizeof *blocks);
    CHECK(blocks, "memory");
  }
  standin_open_memory(false);
  used = end;
  standin_open_memory(true);
  memset(range + at - GUARD, GUARD_VALUE, GUARD);
  memset(range + at, POISON, bytes);
  memset(range + at + bytes, GUARD_VALUE, GUARD);
  blocks[block_count++] = (struct block){range + at, bytes, rank, true, caller};
  standin_open_memory(was);
  if (!caller) standin.hosts[rank].allocations++;
  return range + at;
}

/* The block that `ptr` is in, or NULL. */
static struct block *block_at(const void *ptr) {
  const unsigned char *at = ptr;
  uint64_t lo = 0, hi = block_count;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (blocks[mid].ptr <= at)
      lo = mid;
    else
      hi = mid;
  }
  if (block_count == 0 || at < blocks[lo].ptr || (uint64_t)(at - blocks[lo].ptr) > blocks[lo].bytes) return NULL;
  return &blocks[lo];
}

bool standin_is_device(const void *ptr) {
  const unsigned char *at = ptr;
  return range && at >= range && at < range + RANGE;
}

int standin_owner(const void *ptr) {
  const struct block *block = standin_is_device(ptr) ? block_at(ptr) : NULL;
  return block && block->live ? (int)block->rank : -1;
}

bool standin_is_live(uint32_t rank, const void *ptr, uint64_t bytes) {
  const struct block *block = block_at(ptr);
  if (!block || !block->live || block->rank != rank) return false;
  return bytes <= block->bytes - (uint64_t)((const unsigned char *)ptr - block->ptr);
}

static bool is_all(const unsigned char *at, uint64_t bytes, unsigned char value) {
  for (uint64_t i = 0; i < bytes; i++) {
    if (at[i] != value) return false;
  }
  return true;
}

static void check_block(const struct block *block) {
  if (!is_all(block->ptr - GUARD, GUARD, GUARD_VALUE) || !is_all(block->ptr + block->bytes, GUARD, GUARD_VALUE))
    standin_violates("rank %u: written outside a block of %llu bytes", block->rank, (unsigned long long)block->bytes);
  if (!block->live && !is_all(block->ptr, block->bytes, FREED))
    standin_violates("rank %u: a block of %llu bytes was written after it was freed", block->rank,
                     (unsigned long long)block->bytes);
}

bool standin_release(void *ptr) {
  struct block *block = standin_is_device(ptr) ? block_at(ptr) : NULL;
  if (!block || !block->live || block->ptr != ptr) return false;
  bool was = is_open;
  standin_open_memory(true);
  block->live = false;
  memset(block->ptr, FREED, block->bytes);
  check_block(block);
  standin_open_memory(was);
  if (!block->caller) standin.hosts[block->rank].allocations--;
  return true;
}

void standin_memory_check(void) {
  standin_open_memory(true);
  for (uint64_t i = 0; i < block_count; i++) check_block(&blocks[i]);
}

unsigned char *standin_memory(uint32_t rank, uint64_t bytes, uint32_t align) {
  unsigned char *ptr = standin_allocate(rank, bytes, align, true);
  CHECK(ptr, "the stand-in's memory is too small");
  return ptr;
}

void standin_memory_free(unsigned char *ptr) {
  CHECK(standin_release(ptr), "not a block");
}

/* ---- the control channel ----------------------------------------------------------------------------------------- */

/* Gathers go by their number: rank r is in its seats[r]-th. */
struct gather {
  uint32_t world;
  bool is_over;
  unsigned char *words;
  size_t bytes;
  uint32_t arrived;
};

struct standin_channel {
  struct list gathers;
  uint32_t world;
  uint64_t *seats;
};

struct standin_channel *standin_channel_new(uint32_t world) {
  struct standin_channel *channel = calloc(1, sizeof *channel);
  CHECK(channel, "memory");
  channel->world = world;
  channel->seats = calloc(world, sizeof *channel->seats);
  CHECK(channel->seats, "memory");
  list_add(&standin.channels, channel);
  return channel;
}

static void free_channel(struct standin_channel *channel) {
  for (uint64_t i = 0; i < channel->gathers.count; i++) {
    struct gather *gather = channel->gathers.rows[i];
    free(gather->words);
    free(gather);
  }
  list_free(&channel->gathers);
  free(channel->seats);
  free(channel);
}

static bool is_full(void *arg) {
  const struct gather *gather = arg;
  return gather->arrived == gather->world || gather->is_over;
}

int standin_all_gather(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  struct standin_seat *seat = user;
  uint64_t number = seat->channel->seats[seat->rank]++;
  if (number == seat->channel->gathers.count) {
    struct gather *fresh = calloc(1, sizeof *fresh);
    CHECK(fresh && (fresh->words = calloc(seat->channel->world, bytes)), "memory");
    fresh->world = seat->channel->world;
    fresh->bytes = bytes;
    list_add(&seat->channel->gathers, fresh);
  }
  struct gather *gather = seat->channel->gathers.rows[number];
  if (gather->bytes != bytes) return 2;
  memcpy(gather->words + bytes * seat->rank, mine, bytes);
  gather->arrived++;
  standin_block("an all-gather", is_full, gather, standin.now + (uint64_t)(timeout_seconds * 1e9));
  /* Who waits no longer ends it for all, also for those that come late. */
  if (gather->arrived < gather->world) gather->is_over = true;
  if (gather->is_over) return 1;
  memcpy(all, gather->words, bytes * gather->world);
  return 0;
}

void standin_end(void) {
  for (uint64_t i = 0; i < standin.channels.count; i++) free_channel(standin.channels.rows[i]);
  list_free(&standin.channels);
  for (uint64_t i = 0; i < standin.ops.count; i++) {
    struct op *op = standin.ops.rows[i];
    list_free(&op->needs);
    list_free(&op->next);
    free(op->parts);
    free(op);
  }
  list_free(&standin.ops);
  list_free(&standin.ready);
  list_free(&standin.pairs);
  list_free(&standin.jobs);
  for (uint64_t i = 0; i < standin.grows.count; i++) free(standin.grows.rows[i]);
  list_free(&standin.grows);
  for (uint32_t r = 0; r < standin.options.world; r++) standin_forget(&standin.hosts[r]);
  free(standin.hosts);
  standin_memory_end();
}
