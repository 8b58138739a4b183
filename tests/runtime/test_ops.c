/* SPDX-License-Identifier: Apache-2.0
 *
 * Nests of fused mode as the pieces that a refit cuts: every unit once and from its place, pieces no larger than what a
 * cache takes, in order of destination also where nests lie between each other's runs or go backwards.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host.h"
#include "tests/runtime/check.h"

#define PLACES (UINT64_C(3) << 20) /* bytes of the destination */
#define LARGEST (UINT64_C(512) << 10)
#define WRITTEN UINT32_MAX
#define NOTHING (UINT32_MAX - 1)

/* By byte of the destination: the offset at the source that its unit comes from. */
static uint32_t *wanted;
/* Only their addresses count. */
static unsigned char *dst_base, *src_base;

/* Calls for each run of a nest; at most RSK_LOOPS deep. */
static void each_run(unsigned char *dst, const unsigned char *src, const struct rsk_loop *loops, uint32_t count,
                     void (*visit)(const void *user, uint64_t dst, uint64_t src), const void *user) {
  if (count == 0) {
    visit(user, (uint64_t)(dst - dst_base), (uint64_t)(src - src_base));
    return;
  }
  for (uint64_t k = 0; k < loops->count; k++) {
    each_run(dst, src, loops + 1, count - 1, visit, user);
    dst += loops->dst_step;
    src += loops->src_step;
  }
}

struct units {
  uint64_t run, dst_bytes, src_bytes;
};

static void want_run(const void *user, uint64_t dst, uint64_t src) {
  const struct units *units = user;
  for (uint64_t i = 0; i < units->run; i++) {
    CHECK(wanted[dst + i * units->dst_bytes] == NOTHING, "the test writes %llu twice", (unsigned long long)dst);
    wanted[dst + i * units->dst_bytes] = (uint32_t)(src + i * units->src_bytes);
  }
}

static void take_run(const void *user, uint64_t dst, uint64_t src) {
  const struct units *units = user;
  for (uint64_t i = 0; i < units->run; i++) {
    uint32_t *at = &wanted[dst + i * units->dst_bytes];
    CHECK(*at == src + i * units->src_bytes, "byte %llu: from %llu, not from %llu", (unsigned long long)dst,
          (unsigned long long)(src + i * units->src_bytes), (unsigned long long)*at);
    *at = WRITTEN;
  }
}

static struct units units_of(const struct rsk_conv conv[2], uint64_t run) {
  bool copies = conv[0].is_copy && conv[1].is_copy;
  return (struct units){run, copies ? 1 : conv[1].dst_bytes, copies ? 1 : conv[0].src_bytes};
}

/* `bytes` of the destination at `off`, again and again `pitch` apart: a long run, rows that change places with columns,
 * planes in another order than the source's or backwards, or a conversion. */
static void add_nest(uint64_t *seed, struct rsr_ops *ops, uint64_t off, uint64_t bytes, uint64_t pitch,
                     uint64_t turns) {
  struct rsr_nest nest = {.dst = dst_base + off, .src = src_base + off, .conv = {rsr_plain, rsr_plain}};
  uint64_t unit = UINT64_C(1) << random_in(seed, 0, 4), side = UINT64_C(1) << random_in(seed, 2, 8);
  uint32_t kind = (uint32_t)random_in(seed, 0, 4);
  nest.loops[nest.loop_count++] = (struct rsk_loop){turns, (int64_t)pitch, (int64_t)pitch};
  uint64_t rest = bytes / (side * unit);
  if (kind == 0 || rest < 3) {
    nest.run = bytes;
  } else if (kind == 1) {
    nest.loops[nest.loop_count++] = (struct rsk_loop){side, (int64_t)(rest * unit), (int64_t)unit};
    nest.loops[nest.loop_count++] = (struct rsk_loop){rest, (int64_t)unit, (int64_t)(side * unit)};
    nest.run = unit;
  } else if (kind == 2) {
    nest.loops[nest.loop_count++] = (struct rsk_loop){side, (int64_t)unit, (int64_t)(rest * unit)};
    nest.loops[nest.loop_count++] = (struct rsk_loop){rest, (int64_t)(side * unit), (int64_t)unit};
    nest.run = unit;
  } else if (kind == 3) {
    nest.dst += (side - 1) * rest * unit;
    nest.loops[nest.loop_count++] = (struct rsk_loop){side, -(int64_t)(rest * unit), (int64_t)(rest * unit)};
    nest.run = rest * unit;
  } else {
    CHECK(rsk_conversion(&nest.conv[1], RSP_BF16, RSP_F32, RSK_OP_COPY, 0) == 0, "a conversion");
    nest.conv[0].src_bytes = nest.conv[0].dst_bytes = 2;
    nest.run = bytes / 4;
  }
  struct units units = units_of(nest.conv, nest.run);
  each_run(nest.dst, nest.src, nest.loops, nest.loop_count, want_run, &units);
  CHECK(rsr_ops_add(ops, &nest), "add");
}

static void take_piece(const struct rsr_ops *ops, const struct rsr_place *place, uint64_t chunk, uint64_t *before) {
  struct rsr_piece piece;
  rsr_ops_piece(ops, &ops->rows[place->op], chunk - place->at, &piece);
  struct units units = units_of(&ops->convs[2 * piece.conv], piece.run);
  uint64_t bytes = piece.run * units.dst_bytes, at = (uint64_t)(piece.dst - dst_base);
  for (uint32_t l = 0; l < piece.loop_count; l++) bytes *= piece.loops[l].count;
  CHECK(bytes > 0 && bytes <= LARGEST, "a piece of %llu bytes", (unsigned long long)bytes);
  CHECK(at >= *before, "a piece at %llu after one at %llu", (unsigned long long)at, (unsigned long long)*before);
  *before = at;
  each_run(piece.dst, piece.src, piece.loops, piece.loop_count, take_run, &units);
}

/* One area after the other, in each some nests that lie in one another's gaps. */
static void one_case(uint64_t seed) {
  struct rsr_ops ops = {0};
  uint64_t before = 0, areas = random_in(&seed, 1, 3), area = PLACES / areas / 4096 * 4096;
  for (uint64_t i = 0; i < PLACES; i++) wanted[i] = NOTHING;
  for (uint64_t a = areas; a-- > 0;) {
    uint64_t nests = random_in(&seed, 1, 3), turns = UINT64_C(1) << random_in(&seed, 0, 5), pitch = area / turns;
    uint64_t bytes = pitch / nests / 16 * 16;
    for (uint64_t n = 0; n < nests; n++) add_nest(&seed, &ops, a * area + n * bytes, bytes, pitch, turns);
  }
  CHECK(rsr_ops_close(&ops), "close");
  const struct rsr_place *place = ops.places;
  for (uint64_t chunk = 0; chunk < ops.chunk_count; chunk++) {
    while (place->at < chunk && place[1].at <= chunk) place++;
    const struct rsr_place *of = place;
    do take_piece(&ops, of, chunk, &before);
    while ((++of)->at == chunk);
  }
  for (uint64_t i = 0; i < PLACES; i++) CHECK(wanted[i] == WRITTEN || wanted[i] == NOTHING, "a byte is left out");
  rsr_ops_free(&ops);
}

int main(void) {
  wanted = malloc(PLACES * sizeof *wanted);
  dst_base = malloc(PLACES);
  src_base = malloc(PLACES);
  CHECK(wanted && dst_base && src_base, "memory");
  for (uint64_t seed = 1; seed <= 60; seed++) one_case(seed);
  free(wanted);
  free(dst_base);
  free(src_base);
  return 0;
}
