/* SPDX-License-Identifier: Apache-2.0
 *
 * Series: random sequences of nests in random pieces, through the builder and the twins (with DEVICE_SOURCE the
 * kernels' own source), against plain loops over all at once; slots and origins at any multiple of the grain, one table
 * under several windows, turns beside tasks of the launch's own; places past 2^32; what must be refused.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/batch.h"
#include "plans/dtype.h"
#include "tests/kernels/nests.h"
#include "tests/kernels/run_copy.h"
#include "tests/runtime/check.h"

#define POISON 0xa5
#define ROOM (1u << 19)
#define MOST 12
#define WINDOWS 2

static const struct rsk_conv bits[2] = {{.src_bytes = 1, .dst_bytes = 1, .is_copy = 1},
                                        {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1}};

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* Nests one behind another in `stream`; at the other end in `rows`. */
struct sequence {
  struct random_nest nests[MOST];
  struct rsk_conv conv[MOST][2];
  bool converts[MOST];
  uint64_t before[MOST], place[MOST]; /* in the stream, in the rows */
  uint32_t count;
  uint64_t bytes, row_bytes;
  bool packs; /* the stream is the destination */
};

struct arenas {
  unsigned char *rows, *stream, *slots, *want;
};

/* The nest's dense end, in the order of its loops. */
static uint64_t make_dense(struct random_nest *nest, uint32_t elem, bool at_dst) {
  uint64_t bytes = nest->run * elem;
  for (uint32_t i = nest->loop_count; i-- > 0; bytes *= nest->loops[i].count)
    *(at_dst ? &nest->loops[i].dst_step : &nest->loops[i].src_step) = (int64_t)bytes;
  *(at_dst ? &nest->dst_off : &nest->src_off) = 0;
  return bytes;
}

/* f32 and bf16, either way, or a copy: then `wide` bytes are moved at once, so that wide units come up. */
static bool add_nest(uint64_t *seed, struct sequence *to, uint32_t wide) {
  uint32_t k = to->count;
  bool converts = to->converts[k] = random_in(seed, 0, 3) == 0, narrows = random_in(seed, 0, 1);
  uint32_t dst = converts ? (narrows ? 2 : 4) : 1, src = converts ? (narrows ? 4 : 2) : 1;
  struct random_nest nest = nest_make(seed, 1u << random_in(seed, 2, 13), dst, src, 1);
  memcpy(to->conv[k], bits, sizeof bits);
  /* Long runs of odd lengths never fit, others seldom do not. */
  if (!converts && wide == 1 && nest.run >= 128 && random_in(seed, 0, 15)) nest.run = 1 + nest.run % 127;
  if (converts) {
    uint32_t from = narrows ? RSP_F32 : RSP_BF16, into = narrows ? RSP_BF16 : RSP_F32;
    CHECK(rsk_conversion(&to->conv[k][0], from, into, 0, 0) == 0, "form");
    to->conv[k][1] = (struct rsk_conv){.src_bytes = dst, .dst_bytes = dst, .is_copy = 1};
  } else if (wide > 1) {
    nest.run *= wide;
    nest.src_off *= wide, nest.src_bytes *= wide, nest.dst_off *= wide, nest.dst_bytes *= wide;
    for (uint32_t i = 0; i < nest.loop_count; i++) nest.loops[i].src_step *= wide, nest.loops[i].dst_step *= wide;
  }
  uint64_t bytes = make_dense(&nest, to->packs ? dst : src, to->packs);
  uint64_t rows = to->packs ? nest.src_bytes : nest.dst_bytes;
  if (to->bytes + bytes > ROOM / 4 || to->row_bytes + rows + 16 > ROOM) return false;
  to->nests[k] = nest;
  to->before[k] = to->bytes;
  to->place[k] = to->row_bytes + (wide > 1 ? 0 : random_in(seed, 0, 3) * 4);
  to->bytes += bytes;
  to->row_bytes = (to->place[k] + rows + 15) / 16 * 16;
  to->count++;
  return true;
}

struct job {
  const struct sequence *of;
  uint32_t row;
  unsigned char *rows, *stream;
};

static void do_run(void *user, uint64_t dst_off, uint64_t src_off) {
  const struct job *job = user;
  const struct sequence *of = job->of;
  unsigned char *rows = job->rows + of->place[job->row], *stream = job->stream + of->before[job->row];
  unsigned char *dst = (of->packs ? stream : rows) + dst_off;
  const unsigned char *src = (of->packs ? rows : stream) + src_off;
  uint64_t run = of->nests[job->row].run;
  if (of->converts[job->row])
    rsk_convert_twice(&of->conv[job->row][0], &of->conv[job->row][1], dst, src, NULL, 0, run);
  else
    for (uint64_t i = 0; i < run; i++) dst[i] = src[i];
}

static void do_plainly(const struct sequence *of, unsigned char *rows, unsigned char *stream) {
  for (uint32_t k = 0; k < of->count; k++) {
    struct job job = {of, k, rows, stream};
    nest_each(&of->nests[k], do_run, &job);
  }
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* What the sequences came to. */
static uint64_t fits, unfits, taken, widths[17], narrow_grains, beside;

static bool add_table(struct rsk_batch *batch, const struct sequence *of, unsigned char *rows, uint64_t origin,
                      uint32_t grain, uint64_t *table) {
  CHECK(rsk_batch_open_table(batch, of->packs ? RSK_END_DST : RSK_END_SRC, origin, grain) == RSK_OK, "open");
  for (uint32_t k = 0; k < of->count; k++) {
    const struct random_nest *nest = &of->nests[k];
    uint64_t at = (uint64_t)(uintptr_t)rows + of->place[k], dense = origin + of->before[k];
    uint64_t dst = (of->packs ? dense : at) + nest->dst_off, src = (of->packs ? at : dense) + nest->src_off;
    enum rsk_status status = rsk_batch_add(batch, dst, src, nest->loops, nest->loop_count, nest->run, of->conv[k]);
    if (status == RSK_OK) continue;
    CHECK(status == RSK_UNFIT, "status %d", (int)status);
    rsk_batch_drop_table(batch);
    unfits++;
    return false;
  }
  CHECK(rsk_batch_close_table(batch, table) == RSK_OK, "close");
  fits++;
  return true;
}

static void count_widths(const struct rsk_batch *batch, const struct rsk_launch *launch) {
  uint64_t bytes;
  const unsigned char *image = rsk_batch_image(batch, &bytes);
  struct rsk_part part;
  struct rsk_series series;
  struct rsk_task task;
  memcpy(&part, image + launch->parts_off, sizeof part);
  memcpy(&series, image + (uint64_t)part.series * RSK_SERIES_BYTES, sizeof series);
  for (uint64_t i = 0; i < series.task_count; i++) {
    memcpy(&task, image + series.tasks_off + i * sizeof task, sizeof task);
    widths[1u << task.unit_bits]++;
  }
}

struct pieces {
  struct rsk_window window;
  uint64_t series, turns;
  unsigned char *slots; /* of this window alone, as they are and as they must be */
  uint64_t slot_bytes;
};

static uint64_t turn_bytes(const struct sequence *of, const struct pieces *pieces, uint64_t turn) {
  uint64_t left = of->bytes - turn * pieces->window.quantum;
  return left < pieces->window.quantum ? left : pieces->window.quantum;
}

static struct pieces cut(uint64_t *seed, const struct sequence *of, uint32_t grain, unsigned char *slots) {
  struct pieces p = {.slots = slots};
  uint64_t most = of->bytes / grain + 1, least = of->bytes / 60 / grain + 1;
  p.window.quantum = random_in(seed, least, random_in(seed, 0, 1) ? most : least + 20) * grain;
  p.window.slots = (uint32_t)random_in(seed, 1, 3);
  p.window.slot = (uint64_t)(uintptr_t)slots + random_in(seed, 0, 5) * grain;
  p.window.slot_step = p.window.quantum + random_in(seed, 0, 5) * grain;
  p.slot_bytes = 6 * grain + p.window.slots * p.window.slot_step;
  p.turns = (of->bytes + p.window.quantum - 1) / p.window.quantum;
  return p;
}

static unsigned char *slot_of(const struct pieces *p, uint64_t turn) {
  return (unsigned char *)(uintptr_t)(p->window.slot + turn % p->window.slots * p->window.slot_step);
}

/* One turn of every window, and sometimes a task beside them. */
static void take_turn(uint64_t *seed, struct rsk_batch *batch, const struct sequence *of, struct pieces *windows,
                      uint32_t count, uint64_t turn, const struct arenas *arenas) {
  static unsigned char zeros[64];
  struct rsk_launch launch;
  bool has_task = random_in(seed, 0, 3) == 0;
  memset(zeros, POISON, sizeof zeros);
  if (has_task) CHECK(rsk_batch_add_zero(batch, (uintptr_t)zeros + 3, NULL, 0, 50) == RSK_OK, "add");
  for (uint32_t w = 0; w < count; w++) {
    CHECK(rsk_batch_take(batch, windows[w].series, (uint32_t)turn) == RSK_OK, "take");
    memset(windows[w].slots, POISON, windows[w].slot_bytes);
    if (turn < windows[w].turns && !of->packs)
      memcpy(slot_of(&windows[w], turn), arenas->stream + turn * windows[w].window.quantum,
             turn_bytes(of, &windows[w], turn));
  }
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK, "close");
  if (turn == 0 && !has_task) count_widths(batch, &launch);
  run_copy(batch, &launch, *seed);
  for (uint32_t i = 0; i < sizeof zeros && has_task; i++)
    CHECK(zeros[i] == (i >= 3 && i < 53 ? 0 : POISON), "zeros beside a turn");
  beside += has_task;
  taken += launch.part_count;
}

/* Slots hold the turn, and nothing else. */
static void check_slots(uint64_t start, const struct sequence *of, const struct pieces *p, uint64_t turn,
                        const struct arenas *arenas) {
  memset(arenas->want, POISON, p->slot_bytes);
  if (turn < p->turns)
    memcpy(arenas->want + (slot_of(p, turn) - p->slots), arenas->stream + turn * p->window.quantum,
           turn_bytes(of, p, turn));
  for (uint64_t i = 0; i < p->slot_bytes; i++)
    CHECK(p->slots[i] == arenas->want[i], "seed %llu turn %llu byte %llu: %02x, not %02x", (unsigned long long)start,
          (unsigned long long)turn, (unsigned long long)i, p->slots[i], arenas->want[i]);
}

static void run_pieces(uint64_t *seed, struct rsk_batch *batch, const struct sequence *of, uint32_t grain,
                       uint64_t table, const struct arenas *arenas) {
  uint64_t start = *seed, turns = 0;
  struct pieces windows[WINDOWS];
  uint32_t count = of->packs ? (uint32_t)random_in(seed, 1, WINDOWS) : 1; /* two would write the rows twice */
  for (uint32_t w = 0; w < count; w++) {
    windows[w] = cut(seed, of, grain, arenas->slots + w * (ROOM + grain % 16));
    CHECK(windows[w].slot_bytes <= ROOM, "slots");
    CHECK(rsk_batch_add_series(batch, table, &windows[w].window, &windows[w].series) == RSK_OK, "series");
    if (windows[w].turns > turns) turns = windows[w].turns;
  }
  bool back = random_in(seed, 0, 4) == 0; /* last turns first */
  for (uint64_t i = 0; i < turns; i++) {
    uint64_t turn = back ? turns - 1 - i : i;
    take_turn(seed, batch, of, windows, count, turn, arenas);
    for (uint32_t w = 0; w < count && of->packs; w++) check_slots(start, of, &windows[w], turn, arenas);
  }
}

static void random_series(uint64_t seed, const struct arenas *arenas) {
  static const uint32_t grains[] = {16, 16, 16, 8, 4};
  uint64_t start = seed, table, origin = random_next(&seed);
  struct sequence of = {.packs = random_in(&seed, 0, 1)};
  uint32_t grain = grains[random_in(&seed, 0, 4)], wide = grain == 16 && random_in(&seed, 0, 1) ? 16 : 1;
  for (uint64_t i = random_in(&seed, 1, MOST); i > 0; i--) add_nest(&seed, &of, wide);
  struct rsk_batch *batch = rsk_batch_new();
  CHECK(batch, "no memory");
  if (of.packs) {
    do_plainly(&of, arenas->rows, arenas->stream);
    if (of.count > 0 && add_table(batch, &of, arenas->rows, origin, grain, &table))
      run_pieces(&seed, batch, &of, grain, table, arenas);
  } else if (of.count > 0) {
    unsigned char *got = arenas->rows + ROOM, *want = arenas->rows + 2 * ROOM;
    memset(got, POISON, ROOM);
    memset(want, POISON, ROOM);
    do_plainly(&of, want, arenas->stream);
    bool is_fit = add_table(batch, &of, got, origin, grain, &table);
    if (is_fit) run_pieces(&seed, batch, &of, grain, table, arenas);
    CHECK(!is_fit || memcmp(got, want, ROOM) == 0, "seed %llu: rows", (unsigned long long)start);
  }
  narrow_grains += grain < 16;
  rsk_batch_free(batch);
}

/* ---- places past 2^32 -------------------------------------------------------------------------------------------- */

static unsigned char pattern(uint64_t at) {
  return (unsigned char)((at * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* A turn of 64 KiB at byte `begin` of rows of 2048 bytes, 4096 apart: of a series of 8 GiB, of which no more is
 * touched. */
static void far_turn(uint64_t turn, unsigned char *rows, unsigned char *slot) {
  enum { QUANTUM = 65536, ROW = 2048, STEP = 4096 };
  uint64_t count = (UINT64_C(8) << 30) / ROW, begin = turn * QUANTUM, table, series;
  struct rsk_loop loop = {count, ROW, STEP};
  struct rsk_window window = {QUANTUM, (uint64_t)(uintptr_t)slot, 0, 1};
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  for (uint64_t i = 0; i < QUANTUM; i++) {
    uint64_t at = (begin + i) / ROW * STEP + (begin + i) % ROW;
    rows[at] = pattern(at);
  }
  memset(slot, POISON, QUANTUM);
  CHECK(batch && rsk_batch_open_table(batch, RSK_END_DST, 0, 16) == RSK_OK, "open");
  CHECK(rsk_batch_add(batch, 0, (uintptr_t)rows, &loop, 1, ROW, bits) == RSK_OK, "add");
  CHECK(rsk_batch_close_table(batch, &table) == RSK_OK, "close");
  CHECK(rsk_batch_add_series(batch, table, &window, &series) == RSK_OK, "series");
  CHECK(rsk_batch_take(batch, series, (uint32_t)turn) == RSK_OK, "take");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK && launch.tile_count == QUANTUM / RSK_TILE_BYTES, "close");
  run_copy(batch, &launch, turn);
  for (uint64_t i = 0; i < QUANTUM; i++)
    CHECK(slot[i] == pattern((begin + i) / ROW * STEP + (begin + i) % ROW), "turn %llu byte %llu",
          (unsigned long long)turn, (unsigned long long)i);
  rsk_batch_free(batch);
}

static void far_turns(unsigned char *slot) {
  uint64_t bytes = UINT64_C(16) << 30;
  unsigned char *rows = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(rows != MAP_FAILED, "16 GiB of addresses");
  far_turn(0, rows, slot);
  far_turn(65535, rows, slot); /* to 2^32 */
  far_turn(65536, rows, slot);
  far_turn(131071, rows, slot); /* the last */
  munmap(rows, bytes);
}

/* ---- what must be refused ---------------------------------------------------------------------------------------- */

static enum rsk_status into_table(uint64_t dst, uint64_t src, const struct rsk_loop *loops, uint32_t count,
                                  uint64_t run, uint32_t grain) {
  struct rsk_batch *batch = rsk_batch_new();
  CHECK(batch && rsk_batch_open_table(batch, RSK_END_SRC, 4096, grain) == RSK_OK, "open");
  enum rsk_status status = rsk_batch_add(batch, dst, src, loops, count, run, bits);
  rsk_batch_free(batch);
  return status;
}

static void refusals(void) {
  struct rsk_loop rows = {10, 4096, 1024}, gaps = {10, 4096, 1040};
  struct rsk_loop turned[2] = {{64, 2, 128}, {64, 128, 2}}, ordered[2] = {{3, 64, 128}, {4, 256, 32}};
  CHECK(into_table(0, 4096, &rows, 1, 1024, 16) == RSK_OK, "rows");
  CHECK(into_table(0, 4112, &rows, 1, 1024, 16) == RSK_UNFIT, "not the table's next byte");
  CHECK(into_table(0, 4096, &gaps, 1, 1024, 16) == RSK_UNFIT, "gaps at the dense end");
  CHECK(into_table(0, 4096, &rows, 1, 1024, 8) == RSK_UNFIT, "long rows across words");
  CHECK(into_table(4, 4096, &rows, 1, 1024, 16) == RSK_UNFIT, "long rows across words");
  CHECK(into_table(0, 4096, turned, 2, 2, 16) == RSK_UNFIT, "rows for columns");
  CHECK(into_table(0, 4096, ordered, 2, 32, 16) == RSK_UNFIT, "another order");
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  uint64_t table, none, series;
  struct rsk_window window = {1000, 0, 0, 1};
  CHECK(batch && rsk_batch_open_table(batch, RSK_END_DST, 0, 16) == RSK_OK, "open");
  CHECK(rsk_batch_add_zero(batch, 0, NULL, 0, 16) == RSK_UNFIT, "zeros have no end that is moved");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_MIXED && rsk_batch_take(batch, 0, 0) == RSK_MIXED, "in a table");
  CHECK(rsk_batch_close_table(batch, &none) == RSK_OK, "an empty table");
  CHECK(rsk_batch_open_table(batch, RSK_END_DST, 0, 16) == RSK_OK, "open");
  CHECK(rsk_batch_add(batch, 0, 0, NULL, 0, 4096, bits) == RSK_OK, "add");
  CHECK(rsk_batch_close_table(batch, &table) == RSK_OK, "close");
  CHECK(rsk_batch_add_series(batch, table, &window, &series) == RSK_MISALIGNED, "cuts at 1000");
  window = (struct rsk_window){1024, 8, 0, 1};
  CHECK(rsk_batch_add_series(batch, table, &window, &series) == RSK_MISALIGNED, "a slot at 8");
  window = (struct rsk_window){1024, 0, 1032, 2};
  CHECK(rsk_batch_add_series(batch, table, &window, &series) == RSK_MISALIGNED, "slots at 1032");
  window = (struct rsk_window){1024, 0, 0, 1};
  CHECK(rsk_batch_add_series(batch, none, &window, &series) == RSK_OK, "of nothing");
  CHECK(rsk_batch_take(batch, series, 0) == RSK_OK && rsk_batch_take(batch, series, UINT32_MAX) == RSK_OK, "take");
  CHECK(rsk_batch_add_series(batch, table, &window, &series) == RSK_OK, "series");
  CHECK(rsk_batch_take(batch, series, 4) == RSK_OK && rsk_batch_take(batch, series, UINT32_MAX) == RSK_OK, "take");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK && launch.tile_count == 0, "turns that are not");
  CHECK(rsk_batch_take(batch, series, 3) == RSK_OK, "take");
  CHECK(rsk_batch_open_table(batch, RSK_END_DST, 0, 16) == RSK_MIXED, "a table in a launch");
  CHECK(rsk_batch_add_hash(batch, 0, 0, NULL, 0, 8, 8) == RSK_MIXED, "a hash beside a turn");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK && launch.tile_count == 1, "one turn");
  CHECK(rsk_batch_add_hash(batch, 0, 0, NULL, 0, 8, 8) == RSK_OK, "a hash");
  CHECK(rsk_batch_take(batch, series, 3) == RSK_MIXED, "a turn beside a hash");
  rsk_batch_free(batch);
}

int main(int argc, char **argv) {
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 400;
  struct arenas arenas = {aligned_alloc(64, 3 * ROOM), aligned_alloc(64, ROOM), aligned_alloc(64, 2 * ROOM + 64),
                          aligned_alloc(64, ROOM)};
  CHECK(arenas.rows && arenas.stream && arenas.slots && arenas.want, "no memory");
  uint64_t seed = 1;
  for (uint64_t i = 0; i < 3 * ROOM; i++) arenas.rows[i] = (unsigned char)random_next(&seed);
  for (uint64_t i = 0; i < ROOM; i++) arenas.stream[i] = (unsigned char)random_next(&seed);
  for (uint64_t i = 1; i <= rounds; i++) random_series(i, &arenas);
  CHECK(fits > rounds / 4 && unfits > rounds / 20, "%llu fit, %llu do not", (unsigned long long)fits,
        (unsigned long long)unfits);
  CHECK(taken > 4 * rounds && narrow_grains > rounds / 10 && beside > rounds, "pieces are rare");
  for (uint32_t width = 2; width <= 16; width *= 2)
    CHECK(widths[width] > rounds / 40, "units of %u bytes are rare: %llu", width, (unsigned long long)widths[width]);
  far_turns(arenas.slots);
  refusals();
  free(arenas.rows);
  free(arenas.stream);
  free(arenas.slots);
  free(arenas.want);
  return 0;
}
