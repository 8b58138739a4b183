/* SPDX-License-Identifier: Apache-2.0
 *
 * Nests become tasks of equal units. In: nests; out: tasks of the batch's open table or launch. A unit is as wide as
 * both addresses, all steps and the run allow, and what a series cuts and moves it by.
 */
#include "kernels/batch_tables.h"
#include "kernels/element.h"
#include "kernels/isa.h"

/* ---- nests in units ---------------------------------------------------------------------------------------------- */

struct nest {
  struct rsk_task task;
  struct rsk_loop *loops; /* outermost first; at most RSK_LOOPS */
  uint32_t loop_count;
  uint64_t run;                  /* bytes, or elements of a conversion */
  uint32_t dst_unit, src_unit;   /* bytes of one of `run` */
  uint32_t dst_grain, src_grain; /* what addresses are moved by are multiples of it; 0: they stay */
};

/* In scratch, loops of one turn left out. Nothing to do: run is 0. */
static enum rsk_status take_loops(struct rsk_batch *batch, struct nest *nest, const struct rsk_loop *loops,
                                  uint32_t loop_count) {
  batch->loops.count = 0;
  if (!rsk_reserve(&batch->loops, (uint64_t)loop_count * sizeof *loops)) return RSK_NO_MEMORY;
  nest->loops = (struct rsk_loop *)(void *)batch->loops.at;
  nest->loop_count = 0;
  uint64_t total = nest->run;
  for (uint32_t i = 0; i < loop_count; i++) {
    if (loops[i].count == 0) nest->run = 0;
    if (loops[i].count > 1) nest->loops[nest->loop_count++] = loops[i];
  }
  for (uint32_t i = 0; i < nest->loop_count && nest->run > 0; i++) {
    if (__builtin_mul_overflow(total, nest->loops[i].count, &total)) return RSK_TOO_LARGE;
  }
  return nest->loop_count > RSK_LOOPS ? RSK_TOO_LARGE : RSK_OK;
}

static uint32_t lowest_bit(uint64_t x, uint32_t most) {
  uint64_t bit = (x | most) & (0 - (x | most));
  return (uint32_t)bit;
}

/* How many of `run` make one unit: a power of two that divides the run, so wide that both ends stay aligned to it and
 * neither is wider than 16 bytes. */
static uint32_t widest(struct nest *nest) {
  uint64_t dst = nest->task.dst | nest->dst_grain, src = nest->task.src | nest->src_grain;
  for (uint32_t i = 0; i < nest->loop_count; i++) {
    dst |= (uint64_t)nest->loops[i].dst_step;
    src |= (uint64_t)nest->loops[i].src_step;
  }
  uint32_t dst_bytes = lowest_bit(dst, 16), src_bytes = lowest_bit(src, 16), unit = lowest_bit(nest->run, 16);
  while (unit > 1 && (unit * nest->dst_unit > dst_bytes || unit * nest->src_unit > src_bytes)) unit /= 2;
  nest->task.loose = nest->dst_unit > dst_bytes || nest->src_unit > src_bytes;
  return unit;
}

static struct rsk_axis axis_of(uint64_t count, int64_t dst_step, int64_t src_step) {
  return (struct rsk_axis){.count = count, .dst_step = dst_step, .src_step = src_step};
}

/* Steps become what a carry adds; small counts get their magic. */
static void finish_axes(const struct rsk_task *task, struct rsk_axis *axes) {
  for (uint32_t i = task->axis_count; i-- > 1;) {
    axes[i].dst_step = (int64_t)((uint64_t)axes[i].dst_step - axes[i - 1].count * (uint64_t)axes[i - 1].dst_step);
    axes[i].src_step = (int64_t)((uint64_t)axes[i].src_step - axes[i - 1].count * (uint64_t)axes[i - 1].src_step);
  }
  for (uint32_t i = 0; i < task->axis_count; i++) {
    uint64_t count = axes[i].count;
    if (count > 1 && count < task->tile_units) axes[i].magic = (uint32_t)((((uint64_t)1 << 32) + count - 1) / count);
  }
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Hashes have a kernel of their own. */
static bool mixes(const struct rsk_batch *batch, const struct rsk_task *task) {
  bool hashes = task->kind == RSK_TASK_HASH;
  return (batch->task_count > 0 && (batch->kernel == RSK_KERNEL_HASH) != hashes) || (batch->parts.count > 0 && hashes);
}

/* The next bytes of the table's dense end, in the order of units. */
static enum rsk_status fit_table(struct rsk_batch *batch, struct nest *nest) {
  struct rsk_task *task = &nest->task;
  bool at_dst = batch->dense == RSK_END_DST;
  uint32_t unit = at_dst ? nest->dst_unit : nest->src_unit;
  uint64_t bytes = nest->run * unit;
  if ((at_dst ? task->dst : task->src) != batch->table_bytes) return RSK_UNFIT;
  if ((batch->table_bytes | batch->grain) % (task->unit * unit) != 0) return RSK_UNFIT;
  if (task->kind != RSK_TASK_COPY && task->kind != RSK_TASK_CONVERT) return RSK_UNFIT;
  for (uint32_t i = nest->loop_count; i-- > 0; bytes *= nest->loops[i].count) {
    int64_t step = at_dst ? nest->loops[i].dst_step : nest->loops[i].src_step;
    if (step != (int64_t)bytes) return RSK_UNFIT;
  }
  task->before = batch->table_bytes;
  task->unit_bits = (uint8_t)__builtin_ctz(task->unit * unit);
  batch->table_bytes += bytes;
  return RSK_OK;
}

/* Loops [0, outer) go outside the first `axis_count` axes. */
static enum rsk_status add_task(struct rsk_batch *batch, struct nest *nest, struct rsk_axis *axes, uint32_t outer) {
  struct rsk_task *task = &nest->task;
  if (mixes(batch, task)) return RSK_MIXED;
  for (uint32_t i = outer; i-- > 0;) {
    axes[task->axis_count++] = axis_of(nest->loops[i].count, nest->loops[i].dst_step, nest->loops[i].src_step);
  }
  task->units = 1;
  for (uint32_t i = 0; i < task->axis_count; i++) task->units *= axes[i].count;
  enum rsk_status status = batch->in_table ? fit_table(batch, nest) : RSK_OK;
  if (status != RSK_OK) return status;
  finish_axes(task, axes);
  return rsk_put_task(batch, task, axes);
}

/* The last two loops and the run as squares. */
static enum rsk_status add_turn(struct rsk_batch *batch, struct nest *nest) {
  struct rsk_axis axes[RSK_LOOPS + 1];
  struct rsk_task *task = &nest->task;
  const struct rsk_loop *across = &nest->loops[nest->loop_count - 2], *along = across + 1;
  uint64_t side = rsk_turn_side((uint32_t)nest->run);
  task->kind = RSK_TASK_TURN;
  task->unit = (uint8_t)nest->run;
  task->tile_units = 1;
  task->along_count = along->count;
  task->across_count = across->count;
  task->along_src_step = along->src_step;
  task->across_dst_step = across->dst_step;
  axes[0] = axis_of((along->count - 1) / side + 1, (int64_t)(side * nest->run), (int64_t)side * along->src_step);
  axes[1] = axis_of((across->count - 1) / side + 1, (int64_t)side * across->dst_step, (int64_t)(side * nest->run));
  task->axis_count = 2;
  return add_task(batch, nest, axes, nest->loop_count - 2);
}

/* Shorter runs are not worth three tasks. */
#define SKEW_BYTES 128u

/* A long run that does not begin or end on words of 16 bytes, in rows that all lie alike to these. */
static bool is_skew(const struct nest *nest) {
  uint64_t steps = 0;
  for (uint32_t i = 0; i < nest->loop_count; i++) {
    steps |= (uint64_t)nest->loops[i].dst_step | (uint64_t)nest->loops[i].src_step;
  }
  uint64_t places = nest->task.dst | nest->dst_grain | nest->task.src | nest->src_grain;
  return nest->run >= SKEW_BYTES && steps % 16 == 0 && (places | nest->run) % 16 != 0;
}

/* The run is the innermost axis. */
static enum rsk_status add_units(struct rsk_batch *batch, struct nest *nest) {
  struct rsk_axis axes[RSK_LOOPS + 1];
  struct rsk_task *task = &nest->task;
  uint32_t unit = task->kind == RSK_TASK_SHIFT ? 16 : widest(nest),
           wide = nest->dst_unit > nest->src_unit ? nest->dst_unit : nest->src_unit;
  task->unit = (uint8_t)unit;
  task->tile_units = RSK_TILE_BYTES / (unit * wide);
  if (nest->run > unit) {
    axes[task->axis_count++] = axis_of(nest->run / unit, unit * nest->dst_unit, unit * nest->src_unit);
  }
  return add_task(batch, nest, axes, nest->loop_count);
}

static enum rsk_status add_part(struct rsk_batch *batch, const struct nest *nest, uint64_t off, uint64_t bytes) {
  struct nest part = *nest;
  if (bytes == 0) return RSK_OK;
  part.task.dst += off;
  part.task.src += off;
  part.run = bytes;
  part.task.kind = bytes >= 16 && part.task.src % 16 != 0 ? RSK_TASK_SHIFT : RSK_TASK_COPY;
  return add_units(batch, &part);
}

/* The destination's words of 16 bytes, and what is before and after them. */
static enum rsk_status add_skew(struct rsk_batch *batch, const struct nest *nest) {
  uint64_t head = -nest->task.dst % 16, tail = (nest->run - head) % 16, body = nest->run - head - tail;
  enum rsk_status status = add_part(batch, nest, 0, head);
  if (status == RSK_OK) status = add_part(batch, nest, head, body);
  if (status == RSK_OK) status = add_part(batch, nest, head + body, tail);
  return status;
}

/* ---- what callers add -------------------------------------------------------------------------------------------- */

static enum rsk_status add_copy(struct rsk_batch *batch, struct nest *nest) {
  nest->dst_unit = nest->src_unit = 1;
  nest->loop_count = rsk_simplify(nest->loops, nest->loop_count, &nest->run, 1, 1);
  uint32_t count = nest->loop_count;
  /* Elements of a square are moved whole: they must be aligned like it. */
  if (count >= 2 && rsk_is_transpose(&nest->loops[count - 2], &nest->loops[count - 1], nest->run) &&
      widest(nest) == nest->run) {
    return add_turn(batch, nest);
  }
  if (is_skew(nest)) return batch->in_table ? RSK_UNFIT : add_skew(batch, nest);
  nest->task.kind = RSK_TASK_COPY;
  return add_units(batch, nest);
}

static bool set_forms(struct rsk_task *task, const struct rsk_conv *first, const struct rsk_conv *second) {
  int from = rsk_form_of(first->src_dtype), to = rsk_form_of(second->dst_dtype), between = (int)RSK_NO_FORM;
  if (first != second) between = rsk_form_of(first->dst_dtype);
  if (from < 0 || between < 0 || to < 0 || to > RSK_FORM_F64) return false;
  if (first->op > RSK_OP_SUB || second->op > RSK_OP_SUB) return false;
  task->kind = RSK_TASK_CONVERT;
  task->from = (uint8_t)from;
  task->between = (uint8_t)between;
  task->to = (uint8_t)to;
  task->op[0] = (uint8_t)first->op;
  task->op[1] = (uint8_t)second->op;
  task->constant[0] = first->constant;
  task->constant[1] = second->constant;
  return true;
}

static enum rsk_status add_conversion(struct rsk_batch *batch, struct nest *nest, const struct rsk_conv conv[2]) {
  const struct rsk_conv *first = conv[0].is_copy ? &conv[1] : &conv[0];
  const struct rsk_conv *second = conv[1].is_copy ? &conv[0] : &conv[1];
  if (!set_forms(&nest->task, first, second)) return RSK_NO_CONVERSION;
  nest->src_unit = first->src_bytes;
  nest->dst_unit = second->dst_bytes;
  nest->loop_count = rsk_simplify(nest->loops, nest->loop_count, &nest->run, nest->dst_unit, nest->src_unit);
  return add_units(batch, nest);
}

/* What was added since; the tables may have moved. */
static void forget(struct rsk_batch *batch, const struct rsk_batch *before) {
  batch->starts.count = before->starts.count;
  batch->tasks.count = before->tasks.count;
  batch->axes.count = before->axes.count;
  batch->task_count = before->task_count;
  batch->task_tiles = before->task_tiles;
  batch->table_bytes = before->table_bytes;
  batch->kernel = before->kernel;
}

/* From an address of the dense end to the byte of the table. */
static void take_origin(const struct rsk_batch *batch, struct nest *nest) {
  bool at_dst = batch->dense == RSK_END_DST;
  *(at_dst ? &nest->task.dst : &nest->task.src) -= batch->origin;
  *(at_dst ? &nest->dst_grain : &nest->src_grain) = batch->grain;
}

enum rsk_status rsk_batch_add(struct rsk_batch *batch, uint64_t dst, uint64_t src, const struct rsk_loop *loops,
                              uint32_t loop_count, uint64_t run, const struct rsk_conv conv[2]) {
  struct nest nest = {.task = {.dst = dst, .src = src}, .run = run};
  enum rsk_status status = take_loops(batch, &nest, loops, loop_count);
  if (status != RSK_OK || nest.run == 0) return status;
  if (batch->in_table) take_origin(batch, &nest);
  struct rsk_batch before = *batch;
  status = conv[0].is_copy && conv[1].is_copy ? add_copy(batch, &nest) : add_conversion(batch, &nest, conv);
  if (status != RSK_OK) forget(batch, &before);
  return status;
}

enum rsk_status rsk_batch_add_zero(struct rsk_batch *batch, uint64_t dst, const struct rsk_loop *loops,
                                   uint32_t loop_count, uint64_t run_bytes) {
  struct nest nest = {
      .task = {.dst = dst, .src = dst, .kind = RSK_TASK_ZERO}, .run = run_bytes, .dst_unit = 1, .src_unit = 1};
  enum rsk_status status = take_loops(batch, &nest, loops, loop_count);
  if (status != RSK_OK || nest.run == 0) return status;
  for (uint32_t i = 0; i < nest.loop_count; i++) nest.loops[i].src_step = nest.loops[i].dst_step;
  nest.loop_count = rsk_simplify(nest.loops, nest.loop_count, &nest.run, 1, 1);
  return add_units(batch, &nest);
}

enum rsk_status rsk_batch_add_hash(struct rsk_batch *batch, uint64_t dst, uint64_t src, const struct rsk_loop *loops,
                                   uint32_t loop_count, uint64_t run_bytes, uint64_t piece_bytes) {
  struct nest nest = {.task = {.dst = dst, .src = src, .kind = RSK_TASK_HASH, .tile_units = 1}, .run = run_bytes};
  struct rsk_axis axes[RSK_LOOPS + 1];
  enum rsk_status status = take_loops(batch, &nest, loops, loop_count);
  if (status != RSK_OK || nest.run == 0) return status;
  uint64_t places = dst, reads = src | piece_bytes;
  for (uint32_t i = 0; i < nest.loop_count; i++) {
    places |= (uint64_t)nest.loops[i].dst_step;
    reads |= (uint64_t)nest.loops[i].src_step;
  }
  if (places % 8 != 0) return RSK_MISALIGNED;
  nest.task.unit = (uint8_t)lowest_bit(reads, 8);
  nest.task.along_count = run_bytes;
  nest.task.across_count = piece_bytes;
  nest.task.axis_count = 1;
  axes[0] = axis_of((run_bytes - 1) / piece_bytes + 1, 8, (int64_t)piece_bytes);
  return add_task(batch, &nest, axes, nest.loop_count);
}
