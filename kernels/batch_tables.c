/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch's tables: tasks become tables, tables series, series and tasks launches, one after another in one image. In:
 * tasks; out: the image.
 */
#include "kernels/batch_tables.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A table that is closed. */
struct table {
  struct rsk_series series; /* without a window */
  uint32_t grain, kernel;
};

/* A series, and the row of the task that its last turn ended in. */
struct reader {
  uint64_t at; /* in the image */
  uint64_t row;
  uint64_t tile_count;
  uint32_t kernel;
};

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Tables of many megabytes come in large pages, where the system has them: touching small ones takes longer than
 * filling them. */
#define LARGE_PAGE ((uint64_t)2 << 20)

static unsigned char *resize(const struct rsk_bytes *bytes, uint64_t room) {
  void *grown = NULL;
  if (room < 2 * LARGE_PAGE) return realloc(bytes->at, room);
  if (posix_memalign(&grown, LARGE_PAGE, room) != 0) return NULL;
  madvise(grown, room, MADV_HUGEPAGE);
  if (bytes->count > 0) memcpy(grown, bytes->at, bytes->count);
  free(bytes->at);
  return grown;
}

bool rsk_reserve(struct rsk_bytes *bytes, uint64_t more) {
  if (more > UINT64_MAX / 4 - bytes->count) return false;
  if (bytes->count + more <= bytes->room) return true;
  uint64_t room = bytes->room < 512 ? 1024 : bytes->room * 2;
  while (room < bytes->count + more) room *= 2;
  unsigned char *grown = resize(bytes, room);
  if (!grown) return false;
  bytes->at = grown;
  bytes->room = room;
  return true;
}

void rsk_put(struct rsk_bytes *bytes, const void *from, uint64_t count) {
  if (count == 0) return;
  memcpy(bytes->at + bytes->count, from, count);
  bytes->count += count;
}

struct rsk_batch *rsk_batch_new(void) {
  struct rsk_batch *batch = calloc(1, sizeof *batch);
  /* The image is never NULL. */
  if (batch && rsk_reserve(&batch->image, 1)) return batch;
  free(batch);
  return NULL;
}

void rsk_batch_free(struct rsk_batch *batch) {
  if (!batch) return;
  struct rsk_bytes *all[] = {&batch->image, &batch->starts, &batch->tasks,  &batch->axes, &batch->part_starts,
                             &batch->parts, &batch->tables, &batch->series, &batch->loops};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->at);
  free(batch);
}

/* ---- the image --------------------------------------------------------------------------------------------------- */

/* There is room, and 15 bytes more; the table is empty again. */
static uint64_t append(struct rsk_bytes *image, struct rsk_bytes *table) {
  uint64_t off = image->count;
  rsk_put(image, table->at, table->count);
  while (image->count % 16 != 0) image->at[image->count++] = 0;
  table->count = 0;
  return off;
}

static void forget_tasks(struct rsk_batch *batch) {
  batch->starts.count = batch->tasks.count = batch->axes.count = 0;
  batch->task_count = batch->task_tiles = 0;
}

/* The open tasks go to the image. */
static bool append_tasks(struct rsk_batch *batch, struct rsk_series *series) {
  if (!rsk_reserve(&batch->image, batch->starts.count + batch->tasks.count + batch->axes.count + 3 * 16)) return false;
  series->task_count = batch->task_count;
  series->starts_off = append(&batch->image, &batch->starts);
  series->tasks_off = append(&batch->image, &batch->tasks);
  series->axes_off = append(&batch->image, &batch->axes);
  forget_tasks(batch);
  return true;
}

static enum rsk_status append_series(struct rsk_batch *batch, const struct rsk_series *series, uint64_t *at) {
  if (!rsk_reserve(&batch->image, sizeof *series)) return RSK_NO_MEMORY;
  *at = batch->image.count;
  if (*at / RSK_SERIES_BYTES > UINT32_MAX) return RSK_TOO_LARGE;
  rsk_put(&batch->image, series, sizeof *series);
  return RSK_OK;
}

enum rsk_status rsk_put_task(struct rsk_batch *batch, struct rsk_task *task, const struct rsk_axis *axes) {
  uint64_t axis_bytes = task->axis_count * sizeof *axes;
  if (!rsk_reserve(&batch->starts, 8) || !rsk_reserve(&batch->tasks, sizeof *task) ||
      !rsk_reserve(&batch->axes, axis_bytes))
    return RSK_NO_MEMORY;
  task->axes = batch->axes.count / sizeof *axes;
  rsk_put(&batch->starts, &batch->task_tiles, 8);
  rsk_put(&batch->tasks, task, sizeof *task);
  rsk_put(&batch->axes, axes, axis_bytes);
  batch->task_count++;
  batch->task_tiles += (task->units - 1) / task->tile_units + 1;
  if (task->kind == RSK_TASK_CONVERT) batch->kernel = RSK_KERNEL_CONVERT;
  if (task->kind == RSK_TASK_HASH) batch->kernel = RSK_KERNEL_HASH;
  return RSK_OK;
}

/* ---- series ------------------------------------------------------------------------------------------------------ */

enum rsk_status rsk_batch_open_table(struct rsk_batch *batch, uint32_t dense, uint64_t origin, uint32_t grain) {
  if (batch->in_table || batch->task_count > 0 || batch->parts.count > 0) return RSK_MIXED;
  batch->in_table = true;
  batch->dense = dense;
  batch->grain = grain;
  batch->origin = origin;
  batch->table_bytes = 0;
  return RSK_OK;
}

void rsk_batch_drop_table(struct rsk_batch *batch) {
  forget_tasks(batch);
  batch->in_table = false;
  batch->kernel = RSK_KERNEL_COPY;
}

enum rsk_status rsk_batch_close_table(struct rsk_batch *batch, uint64_t *table) {
  struct table closed = {
      .series = {.bytes = batch->table_bytes, .dense = batch->dense}, .grain = batch->grain, .kernel = batch->kernel};
  if (!rsk_reserve(&batch->tables, sizeof closed) || !append_tasks(batch, &closed.series)) return RSK_NO_MEMORY;
  *table = batch->tables.count / sizeof closed;
  rsk_put(&batch->tables, &closed, sizeof closed);
  rsk_batch_drop_table(batch);
  return RSK_OK;
}

enum rsk_status rsk_batch_add_series(struct rsk_batch *batch, uint64_t table, const struct rsk_window *window,
                                     uint64_t *series) {
  const struct table *of = (const struct table *)(const void *)batch->tables.at + table;
  struct rsk_series made = of->series;
  made.quantum = window->quantum < made.bytes ? window->quantum : made.bytes;
  made.slot = window->slot;
  made.slot_step = window->slot_step;
  made.slots = window->slots;
  uint64_t cut = made.quantum < made.bytes ? made.quantum : 0, moved = made.slots > 1 ? made.slot_step : 0;
  if ((cut | made.slot | moved) % of->grain != 0) return RSK_MISALIGNED;
  struct reader reader = {.kernel = of->kernel};
  if (!rsk_reserve(&batch->series, sizeof reader)) return RSK_NO_MEMORY;
  enum rsk_status status = append_series(batch, &made, &reader.at);
  if (status != RSK_OK) return status;
  *series = batch->series.count / sizeof reader;
  rsk_put(&batch->series, &reader, sizeof reader);
  return RSK_OK;
}

static uint64_t tiles_of(const struct rsk_task *task, struct rsk_units units) {
  return (units.end - units.first + task->tile_units - 1) / task->tile_units;
}

/* The tiles of the turn, `first` being how its first one is numbered: tiles of the task that it begins in are counted
 * back from where the next task starts. */
static uint64_t tiles_of_turn(const unsigned char *image, const struct rsk_series *series, struct reader *reader,
                              const struct rsk_span *span, uint64_t *first) {
  const uint64_t *starts = (const uint64_t *)(const void *)(image + series->starts_off);
  const struct rsk_task *tasks = (const struct rsk_task *)(const void *)(image + series->tasks_off);
  uint64_t row = reader->row, last = series->task_count - 1;
  if (tasks[row].before > span->begin) row = 0;
  while (row < last && tasks[row + 1].before <= span->begin) row++;
  uint64_t tiles = tiles_of(&tasks[row], rsk_units_in(&tasks[row], span)), end = row;
  while (end < last && tasks[end + 1].before < span->end) end++;
  reader->row = end;
  *first = starts[row];
  if (end == row) return tiles;
  *first = starts[row + 1] - tiles;
  return starts[end] - *first + tiles_of(&tasks[end], rsk_units_in(&tasks[end], span));
}

enum rsk_status rsk_batch_take(struct rsk_batch *batch, uint64_t series, uint32_t turn) {
  if (batch->in_table || batch->kernel == RSK_KERNEL_HASH) return RSK_MIXED;
  struct reader *reader = (struct reader *)(void *)batch->series.at + series;
  const struct rsk_series *of = (const struct rsk_series *)(const void *)(batch->image.at + reader->at);
  uint64_t begin;
  if (__builtin_mul_overflow(turn, of->quantum, &begin) || begin >= of->bytes) return RSK_OK;
  struct rsk_span span = rsk_turn_span(of, turn);
  struct rsk_part part = {.series = (uint32_t)(reader->at / RSK_SERIES_BYTES), .turn = turn};
  if (!rsk_reserve(&batch->part_starts, 8) || !rsk_reserve(&batch->parts, sizeof part)) return RSK_NO_MEMORY;
  rsk_put(&batch->part_starts, &batch->part_tiles, 8);
  batch->part_tiles += tiles_of_turn(batch->image.at, of, reader, &span, &part.first);
  rsk_put(&batch->parts, &part, sizeof part);
  if (reader->kernel == RSK_KERNEL_CONVERT) batch->kernel = RSK_KERNEL_CONVERT;
  return RSK_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Tasks of the launch's own are a series with one turn. */
static enum rsk_status take_tasks(struct rsk_batch *batch) {
  struct rsk_series own = {.bytes = UINT64_MAX, .quantum = UINT64_MAX, .slots = 1};
  struct rsk_part part = {0};
  uint64_t at, tiles = batch->task_tiles;
  if (batch->task_count == 0) return RSK_OK;
  if (!rsk_reserve(&batch->part_starts, 8) || !rsk_reserve(&batch->parts, sizeof part)) return RSK_NO_MEMORY;
  if (!append_tasks(batch, &own)) return RSK_NO_MEMORY;
  enum rsk_status status = append_series(batch, &own, &at);
  if (status != RSK_OK) return status;
  part.series = (uint32_t)(at / RSK_SERIES_BYTES);
  rsk_put(&batch->part_starts, &batch->part_tiles, 8);
  rsk_put(&batch->parts, &part, sizeof part);
  batch->part_tiles += tiles;
  return RSK_OK;
}

enum rsk_status rsk_batch_close_launch(struct rsk_batch *batch, struct rsk_launch *launch) {
  if (batch->in_table) return RSK_MIXED;
  enum rsk_status status = take_tasks(batch);
  if (status != RSK_OK) return status;
  if (!rsk_reserve(&batch->image, batch->part_starts.count + batch->parts.count + 2 * 16)) return RSK_NO_MEMORY;
  *launch = (struct rsk_launch){.part_count = batch->parts.count / sizeof(struct rsk_part),
                                .tile_count = batch->part_tiles,
                                .kernel = batch->kernel};
  launch->starts_off = append(&batch->image, &batch->part_starts);
  launch->parts_off = append(&batch->image, &batch->parts);
  batch->part_tiles = 0;
  batch->kernel = RSK_KERNEL_COPY;
  return RSK_OK;
}

const void *rsk_batch_image(const struct rsk_batch *batch, uint64_t *bytes) {
  *bytes = batch->image.count;
  return batch->image.at;
}

const char *rsk_kernel_name(uint32_t kernel) {
  static const char *const names[] = {"rsk_batch_kernel", "rsk_batch_convert_kernel", "rsk_batch_hash_kernel"};
  return names[kernel];
}

uint32_t rsk_launch_blocks(const struct rsk_launch *launch, uint32_t most) {
  uint64_t warps = RSK_BLOCK_THREADS / 32, blocks = launch->tile_count / warps + (launch->tile_count % warps != 0);
  if (blocks > most) blocks = most;
  return blocks == 0 ? 1 : (uint32_t)blocks;
}
