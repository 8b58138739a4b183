/* SPDX-License-Identifier: Apache-2.0
 *
 * run_pattern: fills the training buffers of all ranks with a pattern, poisons the inference buffers, and afterwards
 * checks every byte of both against the plan's specification.
 */
#ifndef RESHARD_TOOLS_RUN_PATTERN_H
#define RESHARD_TOOLS_RUN_PATTERN_H

#include <pthread.h>
#include <stdio.h>

#include "tools/run_memory.h"
#include "tools/run_values.h"

#ifdef __cplusplus
extern "C" {
#endif

enum run_wrong {
  RUN_RIGHT = 0,
  RUN_WRONG_ELEMENT, /* another value than the tensor's */
  RUN_WRONG_PADDING, /* padding of an inference buffer is not zero */
  RUN_WRONG_GAP,     /* a gap was written */
  RUN_WRONG_EXCUSED, /* an element that nobody supplies (`skip`) was written */
  RUN_WRONG_GUARD,   /* bytes beside a buffer were written */
  RUN_WRONG_SOURCE   /* a training buffer was written */
};

/* The first byte that is not as it must be: lowest side, rank, buffer and place in it. */
struct run_mismatch {
  enum run_wrong wrong;
  const struct run_slot *slot;
  const struct rsp_piece *piece; /* ELEMENT, EXCUSED, SOURCE */
  uint64_t b, t;                 /* flat indices; GUARD: b is the byte's distance from the buffer's start */
  uint64_t expected, got;
  bool untouched; /* it still holds the poison */
};

struct run_pattern {
  const struct rsp_plan *plan;
  const struct run_values *values;
  struct run_memory *memory;
  unsigned threads;
  /* of the replay at hand */
  uint64_t key;
  uint32_t replay; /* from 0: from 2 on, tensors that need no more replays are left alone */
  unsigned char poison;
  /* what the checks found */
  pthread_mutex_t lock;
  struct run_mismatch first;
  uint64_t wrong_parts;
};

void run_pattern_init(struct run_pattern *pattern, const struct rsp_plan *plan, const struct run_values *values,
                      struct run_memory *memory, uint64_t seed);
void run_pattern_free(struct run_pattern *pattern);

/* Starts replay number `replay`: its key, its poison. */
void run_pattern_begin(struct run_pattern *pattern, uint32_t replay);
/* Padding and gaps of training buffers hold garbage (all ones, a NaN). */
void run_pattern_fill(struct run_pattern *pattern);
/* All of every inference buffer, and its guards anew; with `zero_padding`, padding becomes zero as prepare leaves it.
 */
void run_pattern_poison(struct run_pattern *pattern, bool zero_padding);
/* Checks both sides. True if all is right; `first` says what is not. */
bool run_pattern_check(struct run_pattern *pattern);

/* Copies what the specification delivers, and nothing else, from one copy of the buffer to another. */
void run_pattern_extract(struct run_pattern *pattern, const struct run_slot *slot, unsigned char *to);

/* Writes a sentence or two about a mismatch: what, where, which line of which layout. */
void run_mismatch_print(const struct rsp_plan *plan, const struct run_mismatch *m, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
