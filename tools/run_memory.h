/* SPDX-License-Identifier: Apache-2.0
 *
 * run_memory: the buffers of all ranks of a plan, in plain memory or in files, with guard bytes around those in memory.
 */
#ifndef RESHARD_TOOLS_RUN_MEMORY_H
#define RESHARD_TOOLS_RUN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUN_GUARD 64 /* bytes on each side of a buffer */
#define RUN_GUARD_BYTE 0xC3
#define RUN_ALIGN 256 /* of buffers in memory: what GPU allocators give */

/* A buffer on a rank. */
struct run_slot {
  uint32_t gid, side_rank;
  const struct rsp_entry *entry;
  unsigned char *data;      /* NULL until allocated or mapped; an empty buffer may stay NULL */
  unsigned char *file_data; /* where --out wants it, or NULL */
  uint64_t bytes;
  bool guarded; /* RUN_GUARD bytes before and after belong to it */
};

/* All buffers of one rank on one side: slots [first, first + count) ascending by gid. */
struct run_rank {
  uint64_t first, count;
};

struct run_side {
  struct run_slot *slots;
  uint64_t slot_count;
  uint64_t total_slots; /* of all ranks, here or not */
  struct run_rank *ranks;
  uint32_t rank_count;
  uint64_t bytes;       /* of the buffers of all ranks */
  unsigned char *arena; /* of all buffers and their guards, rank after rank; NULL if they are not in memory */
  uint64_t arena_bytes;
};

struct run_memory {
  struct run_side side[2];
};

/* Lists what each rank holds; allocates no buffer. False: out of memory, or sizes past 64 bits. */
bool run_memory_init(struct run_memory *memory, const struct rsp_plan *plan);
/* Only the buffers of this world rank are here. */
void run_memory_keep(struct run_memory *memory, const struct rsp_plan *plan, uint32_t world_rank);
/* Allocates the buffers of one side, page by page as they are written, and writes the guards. False: out of memory. */
bool run_memory_allocate(struct run_side *side);
void run_memory_free(struct run_memory *memory);
/* Writes the guards again. */
void run_memory_guard(struct run_side *side);

/* Bytes that run_memory_allocate takes. */
uint64_t run_memory_needed(const struct run_side *side);
/* Bytes that this process can still have: of the machine, its control group and its limits. */
uint64_t run_memory_available(void);

/* Calls fn(user, i) for all i below count on `threads` threads. */
void run_parallel(unsigned threads, uint64_t count, void (*fn)(void *user, uint64_t i), void *user);
/* Processors that this process may use. */
unsigned run_processors(void);

#ifdef __cplusplus
}
#endif

#endif
