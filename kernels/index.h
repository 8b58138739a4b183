/* SPDX-License-Identifier: Apache-2.0
 *
 * From a launch's tile and lane to bytes: the one index arithmetic of the device kernels and their host twins. Plain C,
 * C++ and CUDA. In: tables that batch.c made; out: offsets. Follows no address but those of the tables.
 *
 * A *task* is a nest cut into equal *units*, numbered from 0 with the innermost axis first; unit n lies at
 * sum of its mixed-radix digits times the axes' steps. A *tile* is up to task->tile_units units in a row. A tile's
 * first unit is found with divisions of 64 bits, once; its other units from there with one product of 32 bits for each
 * axis that carries. An axis's steps are kept less what the axis before it comes back by when it wraps: so the offset
 * is the sum of carries times steps.
 *
 * A *series* is a table of tasks with a dense end, one behind another, that is taken in *turns* of equal bytes: the
 * table is there once, whatever the number of turns. A launch has *parts*, each a turn of a series, whose tiles are
 * numbered through. A tile's part is found in the launch, then its task in the series; the turn says which of the
 * task's units are meant and what its addresses are moved by. Tasks that stand alone are a series with one turn.
 */
#ifndef RSK_INDEX_H
#define RSK_INDEX_H

#include <stdint.h>

#include "kernels/device.h"

/* Bytes of a tile at its wider end; its units are at most as many. */
#define RSK_TILE_BYTES 4096u
#define RSK_MAX_TILE_UNITS RSK_TILE_BYTES

/* SHIFT: a copy in whole words of 16 bytes at the destination, from a source that lies across them. */
enum rsk_task_kind { RSK_TASK_COPY, RSK_TASK_TURN, RSK_TASK_ZERO, RSK_TASK_CONVERT, RSK_TASK_HASH, RSK_TASK_SHIFT };

struct rsk_axis {
  uint64_t count;             /* at least 2 */
  int64_t dst_step, src_step; /* less the span of the axis before */
  uint32_t magic;             /* 2^32 / count, rounded up, if count is less than the task's tile_units; otherwise 0 */
  uint32_t reserved;
};

struct rsk_task {
  uint64_t dst, src; /* that of a dense end is the byte of the series */
  uint64_t before;   /* bytes of the series before this task, at its dense end */
  uint64_t units;
  uint64_t axes;       /* row of the table's axes, innermost first */
  uint32_t tile_units; /* a power of two */
  uint16_t axis_count;
  uint8_t unit_bits; /* a unit is 2^unit_bits bytes at the dense end */
  uint8_t kind;      /* enum rsk_task_kind */
  uint8_t unit;      /* bytes, a power of two up to 16; conversions: elements */
  /* conversions: from -> op 0 -> between -> op 1 -> to; between is RSK_NO_FORM where there is one step only */
  uint8_t from, between, to;
  uint8_t op[2];
  uint8_t loose; /* conversions: addresses are not multiples of the elements' bytes */
  uint8_t reserved;
  float constant[2];
  /* turns: a unit is a square of elements of `unit` bytes; along: the axis dense at the destination, across: at the
   * source */
  uint64_t along_count, across_count; /* hashes: bytes of a run, and of a piece, which is the unit */
  int64_t along_src_step, across_dst_step;
};

enum rsk_end { RSK_END_NONE, RSK_END_DST, RSK_END_SRC };

struct rsk_series {
  uint64_t starts_off, tasks_off, axes_off; /* its table: bytes from the start of the image */
  uint64_t task_count;
  uint64_t bytes, quantum;  /* of all; of a turn */
  uint64_t slot, slot_step; /* the dense end of turn t begins at slot + t % slots * slot_step */
  uint32_t slots, dense;    /* enum rsk_end */
  uint64_t reserved;
};

/* RSK_SERIES_BYTES: series lie at multiples of so many bytes of the image. */
#define RSK_SERIES_BYTES 16u

struct rsk_part {
  uint64_t first;  /* number in the series of the turn's first tile: its tiles end where those of their tasks do */
  uint32_t series; /* where it lies, in RSK_SERIES_BYTES */
  uint32_t turn;
};

/* The state of an axis at a tile's first unit: the digit if the axis has a magic, or units left before it wraps, as far
 * as 32 bits go. */
typedef uint32_t rsk_digit;

RSK_HD uint32_t rsk_high32(uint32_t a, uint32_t b) {
  return (uint32_t)(((uint64_t)a * b) >> 32);
}

/* The last part or task that starts at or before the tile: starts are ascending, starts[0] is 0, each has a tile. */
RSK_HD uint64_t rsk_find_start(const uint64_t *starts, uint64_t count, uint64_t tile) {
  uint64_t lo = 0;
  while (count > 1) {
    uint64_t half = count / 2;
    if (starts[lo + half] <= tile) lo += half;
    count -= half;
  }
  return lo;
}

/* A turn: bytes [begin, end) of the series, and what is added to the tasks' addresses. */
struct rsk_span {
  uint64_t begin, end;
  uint64_t dst, src;
};

RSK_HD struct rsk_span rsk_turn_span(const struct rsk_series *series, uint32_t turn) {
  uint64_t begin = turn * series->quantum, left = series->bytes - begin;
  struct rsk_span span = {begin, begin + (left < series->quantum ? left : series->quantum), 0, 0};
  uint64_t moved = series->slot + turn % series->slots * series->slot_step - begin;
  if (series->dense == RSK_END_DST) span.dst = moved;
  if (series->dense == RSK_END_SRC) span.src = moved;
  return span;
}

/* Units [first, end) of the task that lie in the turn: some do. The task's bytes begin before span->end. */
struct rsk_units {
  uint64_t first, end;
};

RSK_HD struct rsk_units rsk_units_in(const struct rsk_task *task, const struct rsk_span *span) {
  uint64_t end = (span->end - task->before) >> task->unit_bits;
  struct rsk_units units = {0, end < task->units ? end : task->units};
  if (span->begin > task->before) units.first = (span->begin - task->before) >> task->unit_bits;
  return units;
}

/* Which of these a tile has: `number` is the tile's in the series, `start` the task's first tile there. */
RSK_HD struct rsk_units rsk_tile_units(const struct rsk_task *task, struct rsk_units in_turn, uint64_t first_tile,
                                       uint64_t start, uint64_t number) {
  struct rsk_units units = {in_turn.first + (number - (first_tile > start ? first_tile : start)) * task->tile_units,
                            in_turn.end};
  if (units.end - units.first > task->tile_units) units.end = units.first + task->tile_units;
  return units;
}

struct rsk_place {
  uint64_t dst, src; /* addresses, as they wrap */
};

/* The place of unit `first`, without what the turn adds, and the digits for rsk_unit_place. */
RSK_HD struct rsk_place rsk_tile_place(const struct rsk_task *task, const struct rsk_axis *axes, uint64_t first,
                                       rsk_digit *digits) {
  struct rsk_place place = {task->dst, task->src};
  for (uint32_t i = 0; i < task->axis_count; i++) {
    const struct rsk_axis *axis = &axes[i];
    place.dst += first * (uint64_t)axis->dst_step;
    place.src += first * (uint64_t)axis->src_step;
    uint64_t carry = i + 1 < task->axis_count ? first / axis->count : 0;
    uint64_t digit = first - carry * axis->count, left = axis->count - digit;
    digits[i] = axis->magic ? (uint32_t)digit : left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
    first = carry;
  }
  return place;
}

/* The place of the unit `lane` units after the tile's first, lane < tile_units and inside the task. digit + lane is
 * below twice tile_units and count below tile_units, so that the product with `magic` is exact. */
RSK_HD struct rsk_place rsk_unit_place(struct rsk_place place, const struct rsk_axis *axes, uint32_t axis_count,
                                       const rsk_digit *digits, uint32_t lane) {
  uint32_t carry = lane;
  for (uint32_t i = 0; i < axis_count && carry > 0; i++) {
    const struct rsk_axis *axis = &axes[i];
    place.dst += carry * (uint64_t)axis->dst_step;
    place.src += carry * (uint64_t)axis->src_step;
    carry = axis->magic ? rsk_high32(digits[i] + carry, axis->magic) : carry >= digits[i];
  }
  return place;
}

/* Elements along a side of the square that one unit of a turn is. */
RSK_HD uint32_t rsk_turn_side(uint32_t unit) {
  return unit <= 4 ? 32 : 16;
}

struct rsk_square {
  uint32_t along, across; /* elements */
};

/* Squares at the far edges are cut. A turn's first two axes count squares along, then across. */
RSK_HD struct rsk_square rsk_turn_square(const struct rsk_task *task, const struct rsk_axis *axes, uint64_t unit) {
  uint64_t side = rsk_turn_side(task->unit), rest = unit / axes[0].count;
  uint64_t along = task->along_count - (unit - rest * axes[0].count) * side;
  uint64_t across = task->across_count - (rest % axes[1].count) * side;
  struct rsk_square square = {(uint32_t)(along < side ? along : side), (uint32_t)(across < side ? across : side)};
  return square;
}

/* Bytes of a hash's piece; a run may end before. The first axis counts the pieces of a run. */
RSK_HD uint64_t rsk_piece_bytes(const struct rsk_task *task, const struct rsk_axis *axes, uint64_t unit) {
  uint64_t left = task->along_count - unit % axes[0].count * task->across_count;
  return left < task->across_count ? left : task->across_count;
}

#endif
