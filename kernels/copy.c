/* SPDX-License-Identifier: Apache-2.0
 *
 * Nests of loops around runs of bytes: put into a good order, copied, zeroed. In: addresses and loops; out: bytes
 * moved.
 */
#include <stdbool.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/rsk.h"

static uint64_t magnitude(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* count * step, as an address would wrap. */
static int64_t span(uint64_t count, int64_t step) {
  return (int64_t)(count * (uint64_t)step);
}

static bool goes_outside(const struct rsk_loop *a, const struct rsk_loop *b) {
  uint64_t da = magnitude(a->dst_step), db = magnitude(b->dst_step);
  return da != db ? da > db : magnitude(a->src_step) > magnitude(b->src_step);
}

static void sort_loops(struct rsk_loop *loops, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    struct rsk_loop loop = loops[i];
    uint32_t at = i;
    for (; at > 0 && goes_outside(&loop, &loops[at - 1]); at--) loops[at] = loops[at - 1];
    loops[at] = loop;
  }
}

int rsk_is_transpose(const struct rsk_loop *across, const struct rsk_loop *along, uint64_t run) {
  return run <= 16 && (run & (run - 1)) == 0 && along->dst_step == (int64_t)run && across->src_step == (int64_t)run &&
         along->count > 2 && across->count > 2;
}

/* Puts the loop that is dense at the source next to the innermost, which is dense at the destination. */
static void pair_dense(struct rsk_loop *loops, uint32_t count, uint64_t run) {
  for (uint32_t i = 0; i + 2 < count; i++) {
    if (!rsk_is_transpose(&loops[i], &loops[count - 1], run)) continue;
    struct rsk_loop across = loops[i];
    for (uint32_t k = i; k + 2 < count; k++) loops[k] = loops[k + 1];
    loops[count - 2] = across;
    return;
  }
}

uint32_t rsk_simplify(struct rsk_loop *loops, uint32_t loop_count, uint64_t *run, uint32_t dst_unit,
                      uint32_t src_unit) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < loop_count; i++) {
    if (loops[i].count != 1) loops[count++] = loops[i];
  }
  sort_loops(loops, count);
  while (count > 0 && loops[count - 1].dst_step == span(*run, dst_unit) &&
         loops[count - 1].src_step == span(*run, src_unit)) {
    *run *= loops[--count].count;
  }
  /* From the inside out: an outer loop that goes on where its inner one stops is the same loop. */
  uint32_t left = count;
  for (uint32_t i = count; i-- > 1;) {
    struct rsk_loop *outer = &loops[i - 1], *inner = &loops[i];
    if (outer->dst_step != span(inner->count, inner->dst_step) ||
        outer->src_step != span(inner->count, inner->src_step)) {
      continue;
    }
    outer->dst_step = inner->dst_step;
    outer->src_step = inner->src_step;
    outer->count *= inner->count;
    for (uint32_t k = i; k + 1 < left; k++) loops[k] = loops[k + 1];
    left--;
  }
  if (dst_unit == 1 && src_unit == 1) pair_dense(loops, left, *run);
  return left;
}

/* ---- transposes: small runs, dense at the destination along one loop and at the source along another ------------ */

#define TILE_ROWS 32u
#define TILE_BYTES 256u

static void fill_tile(unsigned char *tile, const unsigned char *src, uint64_t rows, uint64_t bytes, int64_t src_step) {
  if (bytes == TILE_BYTES) {
    for (uint64_t j = 0; j < rows; j++, src += src_step) memcpy(tile + j * TILE_BYTES, src, TILE_BYTES);
  } else {
    for (uint64_t j = 0; j < rows; j++, src += src_step) memcpy(tile + j * TILE_BYTES, src, bytes);
  }
}

#define TURN_TILE(RUN)                                                                                                 \
  static void turn_tile_##RUN(unsigned char *dst, const unsigned char *tile, uint64_t rows, uint64_t columns,          \
                              int64_t dst_step) {                                                                      \
    for (uint64_t i = 0; i < columns; i++, dst += dst_step, tile += RUN) {                                             \
      for (uint64_t j = 0; j < rows; j++) memcpy(dst + j * RUN, tile + j * TILE_BYTES, RUN);                           \
    }                                                                                                                  \
  }
TURN_TILE(1)
TURN_TILE(2)
TURN_TILE(4)
TURN_TILE(8)
TURN_TILE(16)

/* Both ends are walked in whole lines: a tile is read row by row into the first cache and written from there turned. */
static void transpose(unsigned char *dst, const unsigned char *src, const struct rsk_loop *across,
                      const struct rsk_loop *along, uint64_t run) {
  unsigned char tile[TILE_ROWS * TILE_BYTES];
  uint64_t wide = TILE_BYTES / run;
  for (uint64_t i = 0; i < across->count; i += wide) {
    uint64_t columns = across->count - i < wide ? across->count - i : wide;
    for (uint64_t j = 0; j < along->count; j += TILE_ROWS) {
      uint64_t rows = along->count - j < TILE_ROWS ? along->count - j : TILE_ROWS;
      unsigned char *to = dst + span(i, across->dst_step) + span(j, along->dst_step);
      fill_tile(tile, src + span(i, across->src_step) + span(j, along->src_step), rows, columns * run, along->src_step);
      switch (run) {
      case 1:
        turn_tile_1(to, tile, rows, columns, across->dst_step);
        break;
      case 2:
        turn_tile_2(to, tile, rows, columns, across->dst_step);
        break;
      case 4:
        turn_tile_4(to, tile, rows, columns, across->dst_step);
        break;
      case 8:
        turn_tile_8(to, tile, rows, columns, across->dst_step);
        break;
      default:
        turn_tile_16(to, tile, rows, columns, across->dst_step);
        break;
      }
    }
  }
}

/* ---- the nest -------------------------------------------------------------------------------------------------- */

struct copy {
  const struct rsk_isa *isa;
  uint64_t run;
  bool stream;
};

static void copy_rows(const struct copy *copy, unsigned char *dst, const unsigned char *src,
                      const struct rsk_loop *loop) {
  (copy->stream ? copy->isa->rows_stream : copy->isa->rows)(dst, src, loop->count, loop->dst_step, loop->src_step,
                                                            copy->run);
}

/* Recursion is at most RSK_LOOPS deep. */
static void copy_nest(const struct copy *copy, unsigned char *dst, const unsigned char *src,
                      const struct rsk_loop *loops, uint32_t count) {
  if (count == 1) {
    copy_rows(copy, dst, src, loops);
    return;
  }
  if (count == 2 && rsk_is_transpose(&loops[0], &loops[1], copy->run)) {
    transpose(dst, src, &loops[0], &loops[1], copy->run);
    return;
  }
  for (uint64_t k = 0; k < loops[0].count; k++) {
    copy_nest(copy, dst, src, loops + 1, count - 1);
    dst += loops[0].dst_step;
    src += loops[0].src_step;
  }
}

void rsk_copy(void *dst, const void *src, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_bytes,
              unsigned flags) {
  struct copy copy = {rsk_isa(), run_bytes, (flags & RSK_STREAM) != 0 && run_bytes >= 64};
  if (run_bytes == 0) return;
  if (loop_count == 0) {
    if (copy.stream)
      copy.isa->stream(dst, src, run_bytes);
    else
      memcpy(dst, src, run_bytes);
  } else {
    copy_nest(&copy, dst, src, loops, loop_count);
  }
  if (copy.stream) copy.isa->fence();
}

void rsk_zero(void *dst, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_bytes) {
  if (run_bytes == 0) return;
  if (loop_count == 0) {
    memset(dst, 0, run_bytes);
    return;
  }
  unsigned char *at = dst;
  for (uint64_t k = 0; k < loops[0].count; k++, at += loops[0].dst_step) {
    rsk_zero(at, loops + 1, loop_count - 1, run_bytes);
  }
}
