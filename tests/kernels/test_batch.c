/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on the host: random nests of every kind through the builder and the twins, against plain loops and against
 * rsk_convert_twice, and with DEVICE_SOURCE the kernels' own source instead of the twins; index arithmetic past 2^32
 * with addresses of no memory; images that were changed must show.
 */
#include <stdbool.h>
#include <string.h>

#include "kernels/batch.h"
#include "kernels/element.h"
#include "plans/dtype.h"
#include "tests/kernels/nests.h"
#include "tests/kernels/run_copy.h"
#include "tests/runtime/check.h"

#define POISON 0xa5
#define ROOM (1u << 20)

struct arenas {
  unsigned char *src, *got, *want;
  uint64_t used; /* of got and want */
};

static const struct rsk_conv bits_of_1[2] = {{.src_bytes = 1, .dst_bytes = 1, .is_copy = 1},
                                             {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1}};

struct job {
  unsigned char *dst;
  const unsigned char *src;
  uint64_t run;
  const struct rsk_conv *conv;
  bool zero;
};

static void do_run(void *user, uint64_t dst_off, uint64_t src_off) {
  const struct job *job = user;
  unsigned char *dst = job->dst + dst_off;
  const unsigned char *src = job->src + src_off;
  if (job->conv) {
    rsk_convert_twice(&job->conv[0], &job->conv[1], dst, src, NULL, 0, job->run);
    return;
  }
  for (uint64_t i = 0; i < job->run; i++) dst[i] = job->zero ? 0 : src[i];
}

/* A pair of conversions that exists, or NULL for a copy. */
static const struct rsk_conv *random_pair(uint64_t *seed, struct rsk_conv pair[2]) {
  static const uint32_t dtypes[] = {RSP_F16, RSP_BF16, RSP_F32, RSP_F64, RSP_F8E4M3, RSP_F8E5M2};
  if (random_in(seed, 0, 1)) return NULL;
  for (;;) {
    uint32_t a = dtypes[random_in(seed, 0, 5)], b = dtypes[random_in(seed, 0, 5)], c = dtypes[random_in(seed, 0, 5)];
    uint32_t op = (uint32_t)random_in(seed, 0, 3), first_op = random_in(seed, 0, 1) ? 0 : RSK_OP_SUB;
    if (rsk_conversion(&pair[0], a, b, first_op, 0.3125f) != 0 || rsk_conversion(&pair[1], b, c, op, -1.7f) != 0)
      continue;
    if (!pair[0].is_copy || !pair[1].is_copy) return pair;
  }
}

/* Adds one nest at got + used; does it plainly at want + used. False: the arenas are full. */
static bool add_one(uint64_t *seed, struct rsk_batch *batch, struct arenas *arenas) {
  struct rsk_conv pair[2];
  const struct rsk_conv *conv = random_pair(seed, pair);
  uint32_t dst_elem = conv ? pair[1].dst_bytes : 1, src_elem = conv ? pair[0].src_bytes : 1;
  struct random_nest nest =
      nest_make(seed, 1u << random_in(seed, 2, 15), dst_elem, src_elem, random_in(seed, 0, 7) != 0);
  if (!conv && random_in(seed, 0, 5) == 0) nest = nest_turned(seed);
  bool zero = !conv && random_in(seed, 0, 7) == 0;
  if (arenas->used + nest.dst_bytes + 64 > ROOM || nest.src_bytes > ROOM) return false;
  unsigned char *got = arenas->got + arenas->used;
  struct job job = {arenas->want + arenas->used, arenas->src, nest.run, conv, zero};
  nest_each(&nest, do_run, &job);
  uint64_t dst = (uint64_t)(uintptr_t)got + nest.dst_off, src = (uint64_t)(uintptr_t)arenas->src + nest.src_off;
  enum rsk_status status =
      zero ? rsk_batch_add_zero(batch, dst, nest.loops, nest.loop_count, nest.run)
           : rsk_batch_add(batch, dst, src, nest.loops, nest.loop_count, nest.run, conv ? conv : bits_of_1);
  CHECK(status == RSK_OK, "status %d", (int)status);
  arenas->used += (nest.dst_bytes + random_in(seed, 0, 15) + 15) / 16 * 16;
  return true;
}

/* Which forms of work the random nests came to. */
static uint64_t seen[RSK_TASK_SHIFT + 1][17];

/* Of a launch without turns of other series. */
static struct rsk_series own_tasks(const unsigned char *image, const struct rsk_launch *launch) {
  struct rsk_part part;
  struct rsk_series series = {0};
  CHECK(launch->part_count <= 1, "%llu parts", (unsigned long long)launch->part_count);
  if (launch->part_count == 0) return series;
  memcpy(&part, image + launch->parts_off, sizeof part);
  memcpy(&series, image + (uint64_t)part.series * RSK_SERIES_BYTES, sizeof series);
  return series;
}

static void tally(const struct rsk_batch *batch, const struct rsk_launch *launch) {
  uint64_t bytes;
  const unsigned char *image = rsk_batch_image(batch, &bytes);
  struct rsk_series own = own_tasks(image, launch);
  for (uint64_t i = 0; i < own.task_count; i++) {
    struct rsk_task task;
    memcpy(&task, image + own.tasks_off + i * sizeof task, sizeof task);
    CHECK(task.kind <= RSK_TASK_SHIFT && task.unit <= 16, "kind %u unit %u", task.kind, task.unit);
    seen[task.kind][task.loose ? 0 : task.unit]++;
  }
}

static void check_tally(void) {
  for (uint32_t unit = 1; unit <= 16; unit *= 2) {
    CHECK(seen[RSK_TASK_COPY][unit] > 20 && seen[RSK_TASK_TURN][unit] > 20, "unit %u is rare", unit);
    CHECK(seen[RSK_TASK_ZERO][unit] > 5, "zeros of %u bytes are rare", unit);
    CHECK(seen[RSK_TASK_CONVERT][unit] > 20 || unit == 16, "conversions of %u elements are rare", unit);
  }
  CHECK(seen[RSK_TASK_SHIFT][16] > 20, "copies across words are rare");
  CHECK(seen[RSK_TASK_CONVERT][0] > 20, "misaligned conversions are rare");
}

static void random_launches(uint64_t seed, struct arenas *arenas) {
  uint64_t start = seed;
  struct rsk_batch *batch = rsk_batch_new();
  CHECK(batch, "no memory");
  for (int launches = 0; launches < 3; launches++) {
    memset(arenas->got, POISON, ROOM);
    memset(arenas->want, POISON, ROOM);
    arenas->used = 0;
    struct rsk_launch launch;
    for (uint64_t i = random_in(&seed, 0, 40); i > 0; i--) add_one(&seed, batch, arenas);
    CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK, "no memory");
    tally(batch, &launch);
    run_copy(batch, &launch, start);
    for (uint64_t i = 0; i < ROOM; i++) {
      CHECK(arenas->got[i] == arenas->want[i], "seed %llu launch %d byte %llu: %02x, not %02x",
            (unsigned long long)start, launches, (unsigned long long)i, arenas->got[i], arenas->want[i]);
    }
  }
  rsk_batch_free(batch);
}

/* Long runs at every place within words of 16 bytes, at both ends, of every length of a word more. */
static void skews(uint64_t dst_off, const struct arenas *arenas) {
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  memset(arenas->got, POISON, ROOM);
  memset(arenas->want, POISON, ROOM);
  uint64_t used = dst_off;
  for (uint64_t src_off = 0; src_off < 16; src_off++) {
    for (uint64_t run = 120; run < 150; run++, used += 512) {
      struct rsk_loop loop = {3, 160, 176};
      CHECK(batch && rsk_batch_add(batch, (uintptr_t)arenas->got + used, (uintptr_t)arenas->src + src_off, &loop, 1,
                                   run, bits_of_1) == RSK_OK,
            "add");
      for (uint64_t k = 0; k < 3; k++) {
        for (uint64_t i = 0; i < run; i++) arenas->want[used + 160 * k + i] = arenas->src[src_off + 176 * k + i];
      }
    }
  }
  CHECK(used <= ROOM && rsk_batch_close_launch(batch, &launch) == RSK_OK, "close");
  run_copy(batch, &launch, dst_off);
  CHECK(memcmp(arenas->got, arenas->want, ROOM) == 0, "runs at %llu", (unsigned long long)dst_off);
  rsk_batch_free(batch);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

/* A sum over words of 8 bytes, said once more. */
static uint64_t slow_hash(const unsigned char *at, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t i = 0; 8 * i < bytes; i++) {
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t b = 0; b < 8 && 8 * i + b < bytes; b++) x += (uint64_t)at[8 * i + b] << (8 * b);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 29)) * UINT64_C(0xd6e8feb86659fd93);
    sum += x ^ (x >> 32);
  }
  return sum;
}

/* Rows of `run` bytes; every one of `got` must be a hash or untouched. */
static void one_hash(uint64_t seed, const struct arenas *arenas) {
  static uint64_t got[4096];
  uint64_t start = seed, rows = random_in(&seed, 1, 20), run = random_in(&seed, 1, 1u << random_in(&seed, 0, 14));
  uint64_t piece = random_in(&seed, 0, 1) ? 4096 : random_in(&seed, 200, 5000), per_run = (run + piece - 1) / piece;
  uint64_t off = random_in(&seed, 0, 9), row = run + random_in(&seed, 0, 9), gap = random_in(&seed, 0, 2);
  if (random_in(&seed, 0, 1)) off = row = (run + 7) / 8 * 8;
  struct rsk_loop loop = {rows, (int64_t)(8 * (per_run + gap)), (int64_t)row};
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  memset(got, POISON, sizeof got);
  CHECK(batch && rows * (per_run + gap) < 4096, "the case is too large");
  CHECK(rsk_batch_add_hash(batch, (uintptr_t)got, (uintptr_t)arenas->src + off, &loop, 1, run, piece) == RSK_OK, "add");
  CHECK(rsk_batch_add_zero(batch, (uintptr_t)got, NULL, 0, 8) == RSK_MIXED, "zeros among hashes");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK && launch.kernel == RSK_KERNEL_HASH, "close");
  run_copy(batch, &launch, start);
  for (uint64_t i = 0; i < 4096; i++) {
    uint64_t want = UINT64_C(0xa5a5a5a5a5a5a5a5), in_row = i % (per_run + gap) * piece;
    if (i / (per_run + gap) < rows && in_row < run)
      want = slow_hash(arenas->src + off + i / (per_run + gap) * row + in_row,
                       run - in_row < piece ? run - in_row : piece);
    CHECK(got[i] == want, "seed %llu: hash %llu", (unsigned long long)start, (unsigned long long)i);
  }
  rsk_batch_free(batch);
}

/* ---- sizes past 2^32 --------------------------------------------------------------------------------------------- */

/* Dense at the destination, so unit n must lie n units after the start; digits of that offset give the source. */
static void one_huge(uint64_t seed) {
  uint64_t start = seed;
  struct rsk_loop loops[45];
  bool many = random_in(&seed, 0, 9) == 0; /* loops of two turns */
  uint32_t count = (uint32_t)(many ? random_in(&seed, 20, 45) : random_in(&seed, 1, 6));
  uint64_t run = random_in(&seed, 1, 1u << random_in(&seed, 0, 12)), dense = run;
  for (uint32_t i = count; i-- > 0;) {
    loops[i].count = random_in(&seed, 2, UINT64_C(1) << random_in(&seed, 1, count > 3 ? 8 : 13));
    if (many) loops[i].count = 2;
    if (i == 0) loops[i].count = random_in(&seed, 2, (UINT64_C(1) << 60) / dense);
    loops[i].dst_step = (int64_t)dense;
    loops[i].src_step = (int64_t)(random_next(&seed) >> random_in(&seed, 0, 40)) | 1;
    dense *= loops[i].count;
  }
  uint64_t dst = random_next(&seed), src = random_next(&seed);
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  CHECK(batch && rsk_batch_add(batch, dst, src, loops, count, run, bits_of_1) == RSK_OK, "add");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK, "close");
  uint64_t bytes;
  const unsigned char *image = rsk_batch_image(batch, &bytes);
  struct rsk_task task;
  struct rsk_series own = own_tasks(image, &launch);
  memcpy(&task, image + own.tasks_off, sizeof task);
  const struct rsk_axis *axes = (const struct rsk_axis *)(const void *)(image + own.axes_off);
  CHECK(task.kind == RSK_TASK_COPY && task.units * task.unit == dense, "seed %llu: %llu units of %u for %llu bytes",
        (unsigned long long)start, (unsigned long long)task.units, task.unit, (unsigned long long)dense);
  for (int i = 0; i < 50; i++) {
    uint64_t tile = i == 0 ? launch.tile_count - 1 : random_in(&seed, 0, launch.tile_count - 1);
    uint64_t first = tile * task.tile_units, left = task.units - first;
    uint32_t lane = (uint32_t)random_in(&seed, 0, left < task.tile_units ? left - 1 : task.tile_units - 1);
    rsk_digit digits[RSK_LOOPS + 1];
    struct rsk_place place = rsk_tile_place(&task, axes, first, digits);
    place = rsk_unit_place(place, axes, task.axis_count, digits, lane);
    uint64_t off = (first + lane) * task.unit, want = src;
    CHECK(place.dst == dst + off, "seed %llu: unit %llu", (unsigned long long)start,
          (unsigned long long)(first + lane));
    for (uint32_t l = 0; l < count; l++) {
      want += off / (uint64_t)loops[l].dst_step * (uint64_t)loops[l].src_step;
      off %= (uint64_t)loops[l].dst_step;
    }
    CHECK(place.src == want + off, "seed %llu: unit %llu", (unsigned long long)start,
          (unsigned long long)(first + lane));
  }
  rsk_batch_free(batch);
}

/* ---- what must be refused, and what must show -------------------------------------------------------------------- */

static void refusals(void) {
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_loop big[2] = {{UINT64_C(1) << 33, 1, 1}, {UINT64_C(1) << 33, 1, 1}}, none = {0, 1, 1};
  struct rsk_conv pair[2] = {bits_of_1[0], bits_of_1[0]};
  struct rsk_launch launch;
  CHECK(batch && rsk_batch_add(batch, 0, 0, big, 2, 1, bits_of_1) == RSK_TOO_LARGE, "2^66 bytes");
  CHECK(rsk_batch_add_zero(batch, 0, big, 2, 1) == RSK_TOO_LARGE, "2^66 bytes");
  pair[1].is_copy = 0;
  pair[1].src_dtype = pair[1].dst_dtype = 1000;
  CHECK(rsk_batch_add(batch, 0, 0, NULL, 0, 1, pair) == RSK_NO_CONVERSION, "dtype 1000");
  CHECK(rsk_batch_add_hash(batch, 4, 0, NULL, 0, 8, 8) == RSK_MISALIGNED, "a hash across words");
  CHECK(rsk_batch_add(batch, 0, 0, &none, 1, 1, bits_of_1) == RSK_OK, "no turn");
  CHECK(rsk_batch_add(batch, 0, 0, NULL, 0, 0, bits_of_1) == RSK_OK, "no byte");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK && launch.tile_count == 0, "nothing to do");
  uint64_t bytes;
  CHECK(rsk_batch_image(batch, &bytes) != NULL, "an image");
  CHECK(rsk_launch_blocks(&launch, 9) == 1, "blocks");
  launch.tile_count = 17;
  CHECK(rsk_launch_blocks(&launch, 9) == 3 && rsk_launch_blocks(&launch, 2) == 2, "blocks");
  rsk_batch_free(batch);
  rsk_batch_free(NULL);
}

/* A strided copy whose image was changed; `got` is the whole of it. */
static bool shows(void (*change)(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch)) {
  static unsigned char src[16384], got[16384], want[16384];
  uint64_t seed = 7;
  for (size_t i = 0; i < sizeof src; i++) src[i] = (unsigned char)random_next(&seed);
  memset(got, POISON, sizeof got);
  memset(want, POISON, sizeof want);
  struct rsk_loop loops[2] = {{20, 600, 500}, {7, 64, 48}};
  struct rsk_batch *batch = rsk_batch_new();
  struct rsk_launch launch;
  CHECK(batch, "no memory");
  CHECK(rsk_batch_add(batch, (uintptr_t)got, (uintptr_t)src, loops, 2, 40, bits_of_1) == RSK_OK, "add");
  CHECK(rsk_batch_close_launch(batch, &launch) == RSK_OK, "close");
  rsk_copy(want, src, loops, 2, 40, 0);
  uint64_t bytes;
  unsigned char *image = (unsigned char *)(uintptr_t)rsk_batch_image(batch, &bytes);
  struct rsk_series own = own_tasks(image, &launch);
  change((struct rsk_task *)(void *)(image + own.tasks_off), (struct rsk_axis *)(void *)(image + own.axes_off),
         &launch);
  rsk_batch_run(image, &launch);
  rsk_batch_free(batch);
  return memcmp(got, want, sizeof got) != 0;
}

/* There is an image or none; one begins as fat binaries do. */
static void device_image(void) {
  size_t bytes;
  const unsigned char *image = rsk_device_image(&bytes);
  static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
  CHECK((image != NULL) == (bytes > 0), "%zu bytes", bytes);
  CHECK(!image || (bytes > 4096 && memcmp(image, magic, sizeof magic) == 0), "no fat binary");
}

static void no_change(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  CHECK(task->axis_count == 3 && axes[0].magic && launch->tile_count > 1, "the case is another one");
}
static void tile_lost(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)task, (void)axes;
  launch->tile_count--;
}
static void unit_lost(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)axes, (void)launch;
  task->units--;
}
static void narrow(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)axes, (void)launch;
  task->unit /= 2;
}
static void step_off(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)task, (void)launch;
  axes[1].src_step++;
}
static void magic_off(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)task, (void)launch;
  axes[0].magic--;
}
static void kind_off(struct rsk_task *task, struct rsk_axis *axes, struct rsk_launch *launch) {
  (void)axes, (void)launch;
  task->kind = RSK_TASK_ZERO;
}

int main(int argc, char **argv) {
  uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 120;
  struct arenas arenas = {aligned_alloc(64, ROOM), aligned_alloc(64, ROOM), aligned_alloc(64, ROOM), 0};
  CHECK(arenas.src && arenas.got && arenas.want, "no memory");
  uint64_t seed = 1;
  for (uint32_t i = 0; i < ROOM; i++) arenas.src[i] = (unsigned char)random_next(&seed);
  for (uint64_t i = 1; i <= rounds; i++) random_launches(i, &arenas);
  for (uint64_t i = 1; i <= 40 * rounds; i++) one_huge(i);
  for (uint64_t i = 1; i <= rounds; i++) one_hash(i, &arenas);
  for (uint64_t off = 0; off < 16; off++) skews(off, &arenas);
  check_tally();
  refusals();
  device_image();
  CHECK(!shows(no_change), "a good image is wrong");
  CHECK(shows(tile_lost) && shows(unit_lost) && shows(narrow) && shows(step_off) && shows(magic_off) && shows(kind_off),
        "a changed image does not show");
  free(arenas.src);
  free(arenas.got);
  free(arenas.want);
  return 0;
}
