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

static const void *row_at(const unsigned char *image, uint64_t off) {
  return image + off;
}

/* The part's tile that is numbered `number` in its series. */
static void run_tile(const unsigned char *image, const struct rsk_part *part, uint64_t number) {
  const struct rsk_series *series = row_at(image, (uint64_t)part->series * RSK_SERIES_BYTES);
  const uint64_t *starts = row_at(image, series->starts_off);
  uint64_t row = rsk_find_start(starts, series->task_count, number);
  const struct rsk_task *task = (const struct rsk_task *)row_at(image, series->tasks_off) + row;
  const struct rsk_axis *axes = (const struct rsk_axis *)row_at(image, series->axes_off) + task->axes;
  struct rsk_span span = rsk_turn_span(series, part->turn);
  struct rsk_units units = rsk_tile_units(task, rsk_units_in(task, &span), part->first, starts[row], number);
  rsk_digit digits[RSK_LOOPS + 1];
  struct rsk_place start = rsk_tile_place(task, axes, units.first, digits);
  start.dst += span.dst;
  start.src += span.src;
  if (task->kind == RSK_TASK_TURN) {
    turn(task, start, rsk_turn_square(task, axes, units.first));
    return;
  }
  if (task->kind == RSK_TASK_HASH) {
    uint64_t hash = rsk_hash(at(start.src), rsk_piece_bytes(task, axes, units.first));
    memcpy(at(start.dst), &hash, 8);
    return;
  }
  for (uint32_t lane = 0; lane < units.end - units.first; lane++) {
    run_unit(task, rsk_unit_place(start, axes, task->axis_count, digits, lane));
  }
}

void rsk_batch_run(const void *image, const struct rsk_launch *launch) {
  const uint64_t *starts = row_at(image, launch->starts_off);
  const struct rsk_part *parts = row_at(image, launch->parts_off);
  for (uint64_t tile = 0; tile < launch->tile_count; tile++) {
    uint64_t row = rsk_find_start(starts, launch->part_count, tile);
    run_tile(image, &parts[row], parts[row].first + (tile - starts[row]));
  }
}
