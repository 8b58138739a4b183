/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions against slow.c: every pattern of the narrow forms, edges and random patterns of the wide ones, to every
 * form and with every op, in every instruction set that this processor has, dense, strided and in small runs.
 */
#include <string.h>

#include "kernels/isa.h"
#include "kernels/rsk.h"
#include "plans/dtype.h"
#include "tests/runtime/check.h"
#include "tests/runtime/slow.h"

static const uint32_t sources[] = {RSP_F16, RSP_BF16, RSP_F32, RSP_F64, RSP_F8E4M3, RSP_F8E5M2};
static const uint32_t targets[] = {RSP_F16, RSP_BF16, RSP_F32, RSP_F64};

static uint32_t bytes_of(uint32_t dtype) {
  struct slow_form f = slow_form_of(dtype);
  return (1 + f.exponent + f.mantissa) / 8;
}

static uint64_t pattern_at(const unsigned char *at, uint32_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, at, bytes);
  return bits;
}

/* Near the edges of the narrow forms, where rounding, overflow and subnormals are: a value of one, a few units off. */
static uint64_t edge(uint64_t *seed, uint32_t dtype) {
  struct slow_form narrow = slow_form_of(targets[random_in(seed, 0, 2)]);
  uint64_t top = 1ull << (narrow.exponent + narrow.mantissa);
  uint64_t at = random_in(seed, 0, 3) == 0
                    ? (((1ull << narrow.exponent) - 1) << narrow.mantissa) - random_in(seed, 0, 2)
                    : random_in(seed, 0, top - 1);
  double a = slow_value(narrow, at);
  if (!(a < 1e300)) a = 1;
  double b = slow_value(narrow, at + 1);
  if (b < 1e300 && random_in(seed, 0, 1)) a += (b - a) / 2; /* a tie */
  uint64_t bits = slow_nearest(slow_form_of(dtype), a) + random_in(seed, 0, 2) - 1;
  return random_in(seed, 0, 1) ? bits ^ 1ull << (8 * bytes_of(dtype) - 1) : bits;
}

static uint64_t fill(uint64_t *seed, uint32_t dtype, unsigned char *from, uint64_t most) {
  uint32_t bytes = bytes_of(dtype);
  uint64_t count = bytes <= 2 ? 1ull << (8 * bytes) : most;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits = bytes <= 2 ? i : random_in(seed, 0, 2) == 0 ? random_next(seed) : edge(seed, dtype);
    memcpy(from + i * bytes, &bits, bytes);
  }
  return count;
}

static void compare(const struct rsk_conv *conv, const unsigned char *from, const unsigned char *got, uint64_t count,
                    uint32_t src_step, uint32_t dst_step, const char *how) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits = pattern_at(from + i * src_step, conv->src_bytes);
    uint64_t want = slow_convert(bits, conv->src_dtype, conv->dst_dtype, conv->op, conv->constant);
    uint64_t is = pattern_at(got + i * dst_step, conv->dst_bytes);
    CHECK(slow_same(is, want, conv->dst_dtype), "%s: %s %llx to %s op %u: %llx, not %llx", how,
          rsp_dtype_word(conv->src_dtype), (unsigned long long)bits, rsp_dtype_word(conv->dst_dtype), conv->op,
          (unsigned long long)is, (unsigned long long)want);
    uint32_t sign = 8 * conv->dst_bytes - 1;
    CHECK(conv->op != RSK_OP_COPY || is >> sign == want >> sign, "%s: %llx loses its sign", how,
          (unsigned long long)bits);
  }
}

struct room {
  unsigned char *from, *got, *want;
  uint64_t most;
};

static void one_conversion(const struct rsk_conv *conv, const struct room *room, uint64_t count) {
  rsk_convert(conv, room->got + 1, room->from, NULL, 0, count);
  compare(conv, room->from, room->got + 1, count, conv->src_bytes, conv->dst_bytes, "dense");
  /* The same in other nests must be bit for bit what the dense one is. */
  uint64_t bytes = count * conv->dst_bytes;
  memcpy(room->want, room->got + 1, bytes);
  struct rsk_loop rows = {count / 4, 4 * (int64_t)conv->dst_bytes, 4 * (int64_t)conv->src_bytes};
  memset(room->got, 0, bytes + 1);
  rsk_convert(conv, room->got, room->from, &rows, 1, 4);
  CHECK(memcmp(room->got, room->want, bytes) == 0, "runs of 4");
  struct rsk_loop single = {count, 3 * (int64_t)conv->dst_bytes, conv->src_bytes};
  rsk_convert(conv, room->got, room->from, &single, 1, 1);
  for (uint64_t i = 0; i < count; i++) {
    CHECK(memcmp(room->got + 3 * i * conv->dst_bytes, room->want + i * conv->dst_bytes, conv->dst_bytes) == 0,
          "strided");
  }
}

/* Every instruction set gives the same bits. */
static void one_set(const struct rsk_isa *isa, const struct room *room, uint64_t count, int from, int to) {
  float block[RSK_BLOCK];
  unsigned char out[RSK_BLOCK * 8];
  uint32_t src = bytes_of(sources[from]), dst = bytes_of(targets[to]);
  for (uint64_t i = 0; i < count; i += RSK_BLOCK) {
    uint64_t n = count - i < RSK_BLOCK ? count - i : RSK_BLOCK;
    if (from == RSK_FORM_F64) {
      isa->from_f64[to](out, room->from + i * src, n, dst, src);
    } else {
      isa->load[from](block, room->from + i * src, n, src);
      isa->store[to](out, block, n, dst);
    }
    CHECK(memcmp(out, room->want + i * dst, n * dst) == 0, "%s differs, form %d to %d", isa->name, from, to);
  }
}

static void all_sets(const struct room *room, uint64_t count, int from, int to) {
  one_set(&rsk_isa_base, room, count, from, to);
#ifdef RSK_X86
  if (__builtin_cpu_supports("avx2")) one_set(&rsk_isa_avx2, room, count, from, to);
#endif
  one_set(rsk_isa(), room, count, from, to);
}

static void plain_conversions(uint64_t *seed, const struct room *room) {
  for (int s = 0; s < 6; s++) {
    uint64_t count = fill(seed, sources[s], room->from, room->most);
    for (int t = 0; t < 4; t++) {
      struct rsk_conv conv;
      if (sources[s] == targets[t]) continue;
      CHECK(rsk_conversion(&conv, sources[s], targets[t], RSK_OP_COPY, 0) == 0, "form %d to %d", s, t);
      one_conversion(&conv, room, count);
      all_sets(room, count, s, t);
    }
  }
}

static void ops(uint64_t *seed, const struct room *room) {
  static const float constants[] = {1.0f, -1.0f, 0.5f, 3e38f, 1e-40f, 0.0f};
  for (int s = 0; s < 3; s++) {
    uint64_t count = fill(seed, sources[s], room->from, room->most);
    for (int t = 0; t < 3; t++) {
      for (uint32_t op = RSK_OP_NEG_EXP; op <= RSK_OP_SUB; op++) {
        struct rsk_conv conv;
        float constant = op == RSK_OP_NEG_EXP ? 0 : constants[random_in(seed, 0, 5)];
        CHECK(rsk_conversion(&conv, sources[s], targets[t], op, constant) == 0, "form %d to %d op %u", s, t, op);
        one_conversion(&conv, room, count);
      }
    }
  }
}

/* Two in turn round twice: what one alone would give differs for some element, and that is meant. */
static void twice(uint64_t *seed, const struct room *room) {
  struct rsk_conv first, second;
  CHECK(rsk_conversion(&first, RSP_F32, RSP_BF16, RSK_OP_SUB, 1.0f) == 0, "first");
  CHECK(rsk_conversion(&second, RSP_BF16, RSP_F16, RSK_OP_ADD, 1.0f) == 0, "second");
  uint64_t count = fill(seed, RSP_F32, room->from, room->most);
  struct rsk_loop rows = {count / 8, 16, 32};
  rsk_convert_twice(&first, &second, room->got, room->from, &rows, 1, 8);
  for (uint64_t i = 0; i < count / 8 * 8; i++) {
    uint64_t between = slow_convert(pattern_at(room->from + 4 * i, 4), RSP_F32, RSP_BF16, RSK_OP_SUB, 1.0f);
    uint64_t want = slow_convert(between, RSP_BF16, RSP_F16, RSK_OP_ADD, 1.0f);
    CHECK(slow_same(pattern_at(room->got + 2 * i, 2), want, RSP_F16), "element %llu", (unsigned long long)i);
  }
}

static void refusals(void) {
  struct rsk_conv conv;
  CHECK(rsk_conversion(&conv, RSP_F32, RSP_F8E4M3, RSK_OP_COPY, 0) != 0, "to f8");
  CHECK(rsk_conversion(&conv, RSP_F32, RSP_I32, RSK_OP_COPY, 0) != 0, "to integers");
  CHECK(rsk_conversion(&conv, RSP_BOOL, RSP_F32, RSK_OP_COPY, 0) != 0, "from bool");
  CHECK(rsk_conversion(&conv, RSP_F64, RSP_F32, RSK_OP_ADD, 1) != 0, "an op from f64");
  CHECK(rsk_conversion(&conv, RSP_F32, RSP_F32, 9, 1) != 0, "an unknown op");
  CHECK(rsk_conversion(&conv, 99, 99, RSK_OP_COPY, 0) != 0, "an unknown dtype");
  CHECK(rsk_conversion(&conv, RSP_I8, RSP_I8, RSK_OP_COPY, 0) == 0 && conv.is_copy, "bits");
}

int main(int argc, char **argv) {
  uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  uint64_t bytes = (most > 65536 ? most : 65536) * 24 + 64;
  struct room room = {malloc(bytes), malloc(bytes), malloc(bytes), most};
  CHECK(room.from && room.got && room.want, "memory");
  refusals();
  plain_conversions(&seed, &room);
  ops(&seed, &room);
  twice(&seed, &room);
  free(room.from);
  free(room.got);
  free(room.want);
  return 0;
}
