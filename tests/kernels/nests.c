/* SPDX-License-Identifier: Apache-2.0
 *
 * See nests.h.
 */
#include "tests/kernels/nests.h"

#include <stdbool.h>

#include "tests/runtime/check.h"

static uint64_t random_count(uint64_t *seed, uint64_t most) {
  static const uint64_t special[] = {1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 255, 256, 257, 512, 1024, 4095, 4096, 4097};
  uint64_t count =
      random_in(seed, 0, 2) ? special[random_next(seed) % (sizeof special / sizeof *special)] : random_in(seed, 1, 200);
  return count < most ? count : most;
}

/* Loops of one end, nested in an order of its own, with gaps; returns the bytes from the lowest to the highest. */
static uint64_t lay(uint64_t *seed, struct random_nest *nest, uint32_t elem, bool at_dst, uint64_t *first) {
  uint32_t order[NEST_LOOPS];
  uint64_t extent = nest->run * elem, dense = random_in(seed, 0, 1);
  for (uint32_t i = 0; i < nest->loop_count; i++) order[i] = nest->loop_count - 1 - i;
  for (uint32_t i = nest->loop_count; i-- > 1 && random_in(seed, 0, 1);) {
    uint32_t with = (uint32_t)random_in(seed, 0, i), t = order[i];
    order[i] = order[with];
    order[with] = t;
  }
  *first = 0;
  for (uint32_t i = 0; i < nest->loop_count; i++) {
    struct rsk_loop *loop = &nest->loops[order[i]];
    uint64_t gap = dense ? 0 : random_in(seed, 0, 3) * elem * (random_in(seed, 0, 1) ? 16 : 1);
    int64_t step = (int64_t)(extent + gap);
    extent = (extent + gap) * (loop->count - 1) + extent;
    if (random_in(seed, 0, 7) == 0) {
      step = -step;
      *first += (uint64_t)-step * (loop->count - 1);
    }
    if (at_dst)
      loop->dst_step = step;
    else
      loop->src_step = step;
  }
  return extent;
}

struct random_nest nest_make(uint64_t *seed, uint64_t size, uint32_t dst_elem, uint32_t src_elem, int aligned) {
  struct random_nest nest = {.run = random_count(seed, size), .loop_count = (uint32_t)random_in(seed, 0, 4)};
  if (random_in(seed, 0, 2) == 0) nest.run = random_in(seed, 1, 16);
  if (random_in(seed, 0, 15) == 0) nest.loop_count = NEST_LOOPS;
  uint64_t total = nest.run;
  for (uint32_t i = 0; i < nest.loop_count; i++) {
    nest.loops[i].count = random_count(seed, size / total > 0 ? size / total : 1);
    total *= nest.loops[i].count;
  }
  uint64_t first;
  nest.dst_bytes = lay(seed, &nest, dst_elem, true, &first);
  nest.dst_off = random_in(seed, 0, 3) ? 0 : random_in(seed, 0, 31) * (aligned ? dst_elem : 1);
  nest.dst_bytes += nest.dst_off;
  nest.dst_off += first;
  nest.src_bytes = lay(seed, &nest, src_elem, false, &first);
  nest.src_off = random_in(seed, 0, 3) ? 0 : random_in(seed, 0, 31) * (aligned ? src_elem : 1);
  nest.src_bytes += nest.src_off;
  nest.src_off += first;
  return nest;
}

struct random_nest nest_turned(uint64_t *seed) {
  struct random_nest nest = {.run = UINT64_C(1) << random_in(seed, 0, 4), .loop_count = 3};
  uint64_t rows = random_in(seed, 3, 100), columns = random_in(seed, 3, 100), times = random_in(seed, 1, 4);
  uint64_t dst_row = (rows + random_in(seed, 0, 2)) * nest.run, src_row = (columns + random_in(seed, 0, 2)) * nest.run;
  nest.dst_bytes = times * columns * dst_row;
  nest.src_bytes = times * rows * src_row;
  nest.loops[0] = (struct rsk_loop){rows, (int64_t)nest.run, (int64_t)src_row};
  nest.loops[1] = (struct rsk_loop){times, (int64_t)(columns * dst_row), (int64_t)(rows * src_row)};
  nest.loops[2] = (struct rsk_loop){columns, (int64_t)dst_row, (int64_t)nest.run};
  return nest;
}

static void each_of(const struct random_nest *nest, uint32_t level, uint64_t dst, uint64_t src,
                    void (*each)(void *user, uint64_t dst_off, uint64_t src_off), void *user) {
  if (level == nest->loop_count) {
    each(user, dst, src);
    return;
  }
  const struct rsk_loop *loop = &nest->loops[level];
  for (uint64_t k = 0; k < loop->count; k++) {
    each_of(nest, level + 1, dst, src, each, user);
    dst += (uint64_t)loop->dst_step;
    src += (uint64_t)loop->src_step;
  }
}

void nest_each(const struct random_nest *nest, void (*each)(void *user, uint64_t dst_off, uint64_t src_off),
               void *user) {
  each_of(nest, 0, nest->dst_off, nest->src_off, each, user);
}
