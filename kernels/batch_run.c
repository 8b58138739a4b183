/* SPDX-License-Identifier: Apache-2.0
 *
 * The host twin of the kernels in batch.cu: tile by tile, unit by unit, over host memory. In: an image and a launch of
 * it; out: bytes moved. For tests and stand-ins: it is right, not fast.
 */
#include <string.h>

#include "kernels/batch.h"
#include "kernels/element.h"
#include "kernels/hash.h"

static const double roots[] = RSK_ROOTS;

static unsigned char *at(uint64_t address) {
  return (unsigned char *)(uintptr_t)address;
}

static void turn(const struct rsk_task *task, struct rsk_place place, struct rsk_square square) {
  for (uint32_t j = 0; j < square.across; j++) {
    for (uint32_t i = 0; i < square.along; i++) {
      unsigned char *dst = at(place.dst + j * (uint64_t)task->across_dst_step + (uint64_t)i * task->unit);
      memcpy(dst, at(place.src + i * (uint64_t)task->along_src_step + (uint64_t)j * task->unit), task->unit);
    }
  }
}

static void convert(const struct rsk_task *task, struct rsk_place place) {
  uint32_t src_bytes = rsk_form_bytes(task->from), dst_bytes = rsk_form_bytes(task->to);
  for (uint32_t i = 0; i < task->unit; i++) {
    uint64_t bits = 0;
    memcpy(&bits, at(place.src + i * src_bytes), src_bytes); /* little end first, as everywhere here */
    bits = rsk_element(task, bits, roots);
    memcpy(at(place.dst + i * dst_bytes), &bits, dst_bytes);
  }
}

static void run_unit(const struct rsk_task *task, struct rsk_place place) {
  switch (task->kind) {
  case RSK_TASK_COPY:
  case RSK_TASK_SHIFT:
    memcpy(at(place.dst), at(place.src), task->unit);
    break;
  case RSK_TASK_ZERO:
    memset(at(place.dst), 0, task->unit);
    break;
  default:
    convert(task, place);
    break;
  }
}

static void run_tile(const struct rsk_task *task, const struct rsk_axis *axes, uint64_t tile) {
  rsk_digit digits[RSK_LOOPS + 1];
  uint64_t first = tile * task->tile_units, left = task->units - first;
  struct rsk_place start = rsk_tile_place(task, axes, first, digits);
  if (task->kind == RSK_TASK_TURN) {
    turn(task, start, rsk_turn_square(task, axes, first));
    return;
  }
  if (task->kind == RSK_TASK_HASH) {
    uint64_t hash = rsk_hash(at(start.src), rsk_piece_bytes(task, axes, first));
    memcpy(at(start.dst), &hash, 8);
    return;
  }
  uint32_t units = left < task->tile_units ? (uint32_t)left : task->tile_units;
  for (uint32_t lane = 0; lane < units; lane++) {
    run_unit(task, rsk_unit_place(start, axes, task->axis_count, digits, lane));
  }
}

void rsk_batch_run(const void *image, const struct rsk_launch *launch) {
  const unsigned char *bytes = image;
  const uint64_t *starts = (const uint64_t *)(const void *)(bytes + launch->starts_off);
  const struct rsk_task *tasks = (const struct rsk_task *)(const void *)(bytes + launch->tasks_off);
  const struct rsk_axis *axes = (const struct rsk_axis *)(const void *)(bytes + launch->axes_off);
  for (uint64_t tile = 0; tile < launch->tile_count; tile++) {
    uint64_t row = rsk_find_task(starts, launch->task_count, tile);
    run_tile(&tasks[row], axes + tasks[row].axes, tile - starts[row]);
  }
}
