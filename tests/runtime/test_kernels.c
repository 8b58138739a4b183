/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies over random nests against one byte at a time, at every alignment, with guard bytes around; zeroing the same.
 */
#include <string.h>

#include "kernels/isa.h"
#include "kernels/rsk.h"
#include "tests/runtime/check.h"

#define ARENA (1u << 18)
#define GUARD 0x5a

struct nest {
  struct rsk_loop loops[6];
  uint32_t count;
  uint64_t run, dst_bytes, src_bytes; /* of the areas touched */
};

/* Steps of one end: each loop goes over what is inside it, with a gap at times; in a random order of loops. */
static uint64_t lay_out(uint64_t *seed, struct nest *nest, int dst) {
  uint32_t order[6];
  uint64_t extent = nest->run;
  for (uint32_t i = 0; i < nest->count; i++) order[i] = i;
  for (uint32_t i = nest->count; i > 1; i--) {
    uint32_t j = (uint32_t)random_in(seed, 0, i - 1), swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
  }
  for (uint32_t i = nest->count; i-- > 0;) {
    struct rsk_loop *loop = &nest->loops[order[i]];
    uint64_t step = extent + (random_in(seed, 0, 2) == 0 ? random_in(seed, 0, 70) : 0);
    if (dst)
      loop->dst_step = (int64_t)step;
    else
      loop->src_step = (int64_t)step;
    extent = step * (loop->count - 1) + extent;
  }
  return extent;
}

static void make_nest(uint64_t *seed, struct nest *nest) {
  static const uint64_t runs[] = {1,  2,  3,  4,  6,  8,   12,  16,  17,  24,  31,  32,
                                  33, 48, 64, 65, 96, 127, 128, 129, 192, 256, 700, 4096};
  do {
    nest->run = runs[random_in(seed, 0, sizeof runs / sizeof *runs - 1)];
    nest->count = (uint32_t)random_in(seed, 0, 4);
    for (uint32_t i = 0; i < nest->count; i++) {
      nest->loops[i].count = random_in(seed, 0, 3) == 0 ? random_in(seed, 1, 40) : random_in(seed, 1, 5);
    }
    nest->dst_bytes = lay_out(seed, nest, 1);
    nest->src_bytes = lay_out(seed, nest, 0);
  } while (nest->dst_bytes > ARENA - 4096 || nest->src_bytes > ARENA - 4096);
}

static void slow_copy(unsigned char *dst, const unsigned char *src, const struct rsk_loop *loops, uint32_t count,
                      uint64_t run) {
  if (count == 0) {
    for (uint64_t i = 0; i < run; i++) dst[i] = src[i];
    return;
  }
  for (uint64_t k = 0; k < loops->count; k++) {
    slow_copy(dst + (int64_t)k * loops->dst_step, src + (int64_t)k * loops->src_step, loops + 1, count - 1, run);
  }
}

/* A loop may go backwards: its far end becomes its start. */
static void turn_round(uint64_t *seed, struct nest *nest, unsigned char **dst, const unsigned char **src) {
  for (uint32_t i = 0; i < nest->count; i++) {
    struct rsk_loop *loop = &nest->loops[i];
    if (random_in(seed, 0, 5) != 0) continue;
    *dst += (int64_t)(loop->count - 1) * loop->dst_step;
    *src += (int64_t)(loop->count - 1) * loop->src_step;
    loop->dst_step = -loop->dst_step;
    loop->src_step = -loop->src_step;
  }
}

static void one_case(uint64_t seed, unsigned char *from, unsigned char *got, unsigned char *want) {
  uint64_t start = seed;
  struct nest nest;
  make_nest(&seed, &nest);
  unsigned flags = random_in(&seed, 0, 1) ? RSK_STREAM : 0;
  uint64_t dst_off = 64 + random_in(&seed, 0, 130), src_off = 64 + random_in(&seed, 0, 130);
  if (random_in(&seed, 0, 2) == 0) dst_off = 128;
  memset(got, GUARD, ARENA);
  memset(want, GUARD, ARENA);
  unsigned char *dst = got + dst_off, *slow = want + dst_off;
  const unsigned char *src = from + src_off;
  turn_round(&seed, &nest, &dst, &src);
  slow += dst - (got + dst_off);
  slow_copy(slow, src, nest.loops, nest.count, nest.run);
  if (random_in(&seed, 0, 3) != 0) nest.count = rsk_simplify(nest.loops, nest.count, &nest.run, 1, 1);
  rsk_copy(dst, src, nest.loops, nest.count, nest.run, flags);
  CHECK(memcmp(got, want, ARENA) == 0, "copy, seed %llu", (unsigned long long)start);
  rsk_zero(dst, nest.loops, nest.count, nest.run);
  static unsigned char zeros[ARENA];
  slow_copy(slow, zeros, nest.loops, 0, 0);
  for (uint64_t i = 0; i < nest.count; i++) nest.loops[i].src_step = 0;
  slow_copy(slow, zeros, nest.loops, nest.count, nest.run);
  CHECK(memcmp(got, want, ARENA) == 0, "zero, seed %llu", (unsigned long long)start);
}

/* 2-D, both ends dense the other way round: the tiles. */
static void transposes(unsigned char *from, unsigned char *got, unsigned char *want) {
  for (uint64_t run = 1; run <= 16; run *= 2) {
    for (uint64_t m = 1; m < 150; m += 29) {
      for (uint64_t n = 1; n < 150; n += 37) {
        if (m * n * run > ARENA / 2) continue;
        struct rsk_loop loops[2] = {{m, (int64_t)(n * run), (int64_t)run}, {n, (int64_t)run, (int64_t)(m * run)}};
        memset(got, GUARD, ARENA);
        memset(want, GUARD, ARENA);
        slow_copy(want + 3, from, loops, 2, run);
        uint64_t bytes = run;
        uint32_t count = rsk_simplify(loops, 2, &bytes, 1, 1);
        rsk_copy(got + 3, from, loops, count, bytes, 0);
        CHECK(memcmp(got, want, ARENA) == 0, "run %llu, %llu x %llu", (unsigned long long)run, (unsigned long long)m,
              (unsigned long long)n);
      }
    }
  }
}

/* The inner loops of one instruction set, whichever this processor would choose. */
static void one_set(const struct rsk_isa *isa, uint64_t seed, unsigned char *from, unsigned char *got,
                    unsigned char *want) {
  for (uint32_t i = 0; i < 400; i++) {
    uint64_t run = random_in(&seed, 1, i % 3 ? 300 : 3000), count = random_in(&seed, 1, 20);
    if (random_in(&seed, 0, 1)) run = run / 64 * 64 + 64;
    uint64_t at = random_in(&seed, 0, 1) ? 64 : random_in(&seed, 64, 200);
    uint64_t gap = random_in(&seed, 0, 1) ? 64 * random_in(&seed, 0, 3) : random_in(&seed, 0, 90);
    struct rsk_loop loop = {count, (int64_t)(run + gap), (int64_t)(run + random_in(&seed, 0, 90))};
    memset(want, GUARD, ARENA);
    slow_copy(want + at, from + 1, &loop, 1, run);
    memset(got, GUARD, ARENA);
    isa->rows(got + at, from + 1, count, loop.dst_step, loop.src_step, run);
    CHECK(memcmp(got, want, ARENA) == 0, "%s rows of %llu", isa->name, (unsigned long long)run);
    memset(got, GUARD, ARENA);
    isa->rows_stream(got + at, from + 1, count, loop.dst_step, loop.src_step, run);
    isa->fence();
    CHECK(memcmp(got, want, ARENA) == 0, "%s rows_stream of %llu", isa->name, (unsigned long long)run);
    memset(got, GUARD, ARENA);
    for (uint64_t k = 0; k < count; k++) {
      isa->stream(got + at + (int64_t)k * loop.dst_step, from + 1 + (int64_t)k * loop.src_step, run);
    }
    isa->fence();
    CHECK(memcmp(got, want, ARENA) == 0, "%s stream of %llu", isa->name, (unsigned long long)run);
  }
}

static void sets(uint64_t seed, unsigned char *from, unsigned char *got, unsigned char *want) {
  one_set(&rsk_isa_base, seed, from, got, want);
#ifdef RSK_X86
  if (__builtin_cpu_supports("avx2")) one_set(&rsk_isa_avx2, seed, from, got, want);
#endif
  one_set(rsk_isa(), seed, from, got, want);
}

/* What can be joined is: a dense block of any dimension is one run. */
static void joins(void) {
  struct rsk_loop loops[4] = {{7, 60, 60}, {1, 99, 3}, {3, 20, 20}, {5, 4, 4}};
  uint64_t run = 4;
  CHECK(rsk_simplify(loops, 4, &run, 1, 1) == 0 && run == 420, "run %llu", (unsigned long long)run);
  struct rsk_loop rows[3] = {{4, 300, 600}, {3, 100, 200}, {10, 10, 10}};
  run = 10;
  CHECK(rsk_simplify(rows, 3, &run, 1, 1) == 1 && run == 100 && rows[0].count == 12 && rows[0].dst_step == 100 &&
            rows[0].src_step == 200,
        "run %llu", (unsigned long long)run);
  struct rsk_loop elems[2] = {{3, 16, 8}, {2, 8, 4}};
  run = 4;
  CHECK(rsk_simplify(elems, 2, &run, 2, 1) == 0 && run == 24, "run %llu", (unsigned long long)run);
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000, seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  unsigned char *from = malloc(ARENA), *got = malloc(ARENA), *want = malloc(ARENA);
  CHECK(from && got && want, "memory");
  for (uint32_t i = 0; i < ARENA; i++) from[i] = (unsigned char)random_next(&seed);
  joins();
  sets(random_next(&seed), from, got, want);
  transposes(from, got, want);
  for (uint64_t i = 0; i < cases; i++) one_case(random_next(&seed), from, got, want);
  printf("%llu nests, %s\n", (unsigned long long)cases, rsk_isa_name());
  free(from);
  free(got);
  free(want);
  return 0;
}
