// SPDX-License-Identifier: Apache-2.0
//
// The reference conversions against what rounding to nearest even means: every f16 and bf16, every midpoint between
// neighbours and what lies just beside it; f32 against the processor.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "plans/dtype.h"
#include "plans/format.h"
#include "tests/check.h"
#include "tools/run_convert.h"

static void round_trip(uint32_t dtype) {
  for (uint64_t bits = 0; bits < 65536; bits++) {
    double x = run_decode(dtype, bits);
    uint64_t back = run_encode(dtype, x);
    if (isnan(x))
      CHECK(isnan(run_decode(dtype, back)), "%s 0x%04" PRIx64, rsp_dtype_word(dtype), bits);
    else
      CHECK(back == bits, "%s 0x%04" PRIx64 " came back as 0x%04" PRIx64, rsp_dtype_word(dtype), bits, back);
  }
}

static void midpoints(uint32_t dtype) {
  for (uint64_t bits = 0; bits < 0x7fff; bits++) {
    double a = run_decode(dtype, bits), b = run_decode(dtype, bits + 1);
    if (isinf(a) || isnan(b)) break;
    // The midpoint below infinity is where the next number would be.
    double middle = isinf(b) ? a + (a - run_decode(dtype, bits - 1)) / 2 : a + (b - a) / 2;
    uint64_t even = bits % 2 ? bits + 1 : bits;
    CHECK(run_encode(dtype, middle) == even, "%s after 0x%04" PRIx64, rsp_dtype_word(dtype), bits);
    CHECK(run_encode(dtype, nextafter(middle, 0)) == bits, "%s below the middle, 0x%04" PRIx64, rsp_dtype_word(dtype),
          bits);
    CHECK(run_encode(dtype, nextafter(middle, INFINITY)) == bits + 1, "%s above it, 0x%04" PRIx64,
          rsp_dtype_word(dtype), bits);
    CHECK(run_encode(dtype, -middle) == (even | 0x8000), "%s negative, 0x%04" PRIx64, rsp_dtype_word(dtype), bits);
  }
}

static void against_processor(void) {
  uint64_t state = 1;
  for (int i = 0; i < 2000000; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t exponent = 1023 - 160 + (state >> 33) % 300; // from f32's subnormals to past its largest
    uint64_t in = (state & UINT64_C(0x800fffffffffffff)) | exponent << 52;
    if (i % 3 == 0) in &= ~UINT64_C(0x1fffffff) | UINT64_C(0x10000000); // exact halves
    double x;
    memcpy(&x, &in, sizeof x);
    float f = (float)x;
    uint32_t want;
    memcpy(&want, &f, sizeof want);
    CHECK(run_encode(RSP_F32, x) == want, "%a", x);
    CHECK(run_decode(RSP_F32, want) == (double)f, "%a", x);
  }
}

static void eights(void) {
  CHECK(run_decode(RSP_F8E4M3, 0x7e) == 448, "largest e4m3");
  CHECK(run_decode(RSP_F8E4M3, 0x01) == ldexp(1, -9), "smallest e4m3");
  CHECK(isnan(run_decode(RSP_F8E4M3, 0xff)), "NaN of e4m3");
  CHECK(run_decode(RSP_F8E4M3, 0xb8) == -1, "-1 in e4m3");
  CHECK(run_decode(RSP_F8E5M2, 0x7b) == 57344, "largest e5m2");
  CHECK(isinf(run_decode(RSP_F8E5M2, 0x7c)), "inf of e5m2");
  CHECK(isnan(run_decode(RSP_F8E5M2, 0x7d)), "NaN of e5m2");
}

static uint64_t f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void operations(void) {
  CHECK(run_receive(RSP_F32, RSP_F32, RSP_OP_ADD, 0.5f, f32(1)) == f32(1.5f), "add");
  CHECK(run_send(RSP_F32, RSP_F32, RSP_OP_ADD, 0.5f, f32(1.5f)) == f32(1), "add, on the training side");
  CHECK(run_receive(RSP_F32, RSP_F32, RSP_OP_NEG_EXP, 0, f32(0)) == f32(-1), "neg_exp");
  uint64_t e = f32(-(float)exp(1)), bf16 = run_encode(RSP_BF16, -(double)(float)exp(1));
  CHECK(run_receive(RSP_F32, RSP_BF16, RSP_OP_NEG_EXP, 0, f32(1)) == bf16, "neg_exp to bf16");
  CHECK(run_receive_agrees(RSP_F32, RSP_F32, RSP_OP_NEG_EXP, 0, f32(1), e + 1), "one last bit is allowed");
  CHECK(!run_receive_agrees(RSP_F32, RSP_F32, RSP_OP_NEG_EXP, 0, f32(1), e + 2), "two are not");
  CHECK(!run_receive_agrees(RSP_F32, RSP_BF16, RSP_OP_COPY, 0, f32(1), 0x3f81), "a cast is exact");
  CHECK(run_receive(RSP_F32, RSP_F16, RSP_OP_COPY, 0, f32(1e6f)) == 0x7c00, "overflow is inf");
}

int main(void) {
  round_trip(RSP_F16);
  round_trip(RSP_BF16);
  midpoints(RSP_F16);
  midpoints(RSP_BF16);
  against_processor();
  eights();
  operations();
  return 0;
}
