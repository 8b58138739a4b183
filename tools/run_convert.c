// SPDX-License-Identifier: Apache-2.0
//
// run_convert: reference conversions. In: bits and dtypes. Out: bits. Integers only, so that no rounding mode and no
// vector unit has a say; the two operations are the C library's.

#include "tools/run_convert.h"

#include <math.h>
#include <string.h>

#include "plans/dtype.h"
#include "plans/format.h"

struct run_float run_float_of(uint32_t dtype) {
  switch (dtype) {
  case RSP_F16:
    return (struct run_float){10, -14, 15};
  case RSP_BF16:
    return (struct run_float){7, -126, 127};
  case RSP_F32:
    return (struct run_float){23, -126, 127};
  case RSP_F64:
    return (struct run_float){52, -1022, 1023};
  case RSP_F8E4M3:
    return (struct run_float){3, -6, 7}; // 8 as well, but for the mantissa that is NaN
  case RSP_F8E5M2:
    return (struct run_float){2, -14, 15};
  default:
    return (struct run_float){0, 0, 0};
  }
}

static unsigned bits_of(uint32_t dtype) {
  return (unsigned)rsp_dtype_bytes(dtype) * 8;
}

static double f64_from(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

double run_decode(uint32_t dtype, uint64_t bits) {
  if (dtype == RSP_F64) return f64_from(bits);
  struct run_float f = run_float_of(dtype);
  unsigned width = bits_of(dtype);
  uint64_t sign = bits >> (width - 1) & 1, mant = bits & ((UINT64_C(1) << f.mant) - 1);
  unsigned exponent_bits = width - 1 - (unsigned)f.mant;
  uint64_t top = (UINT64_C(1) << exponent_bits) - 1, exponent = bits >> f.mant & top;
  double x;
  if (dtype == RSP_F8E4M3 && (bits & 0x7f) == 0x7f)
    x = NAN;
  else if (dtype != RSP_F8E4M3 && exponent == top)
    x = mant ? NAN : INFINITY;
  else if (exponent == 0)
    x = ldexp((double)mant, f.emin - f.mant);
  else
    x = f64_from((uint64_t)(f.emin - 1 + (int)exponent + 1023) << 52 | mant << (52 - f.mant));
  return sign ? -x : x;
}

// q = sig / 2^shift to nearest, ties to even; sig is below 2^53.
static uint64_t shift_round(uint64_t sig, unsigned shift) {
  if (shift == 0) return sig;
  if (shift > 54) return 0;
  uint64_t q = sig >> shift, rest = sig & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
  return q + (rest > half || (rest == half && (q & 1)));
}

uint64_t run_encode(uint32_t dtype, double x) {
  uint64_t in = f64_bits(x);
  if (dtype == RSP_F64) return in;
  struct run_float f = run_float_of(dtype);
  unsigned width = bits_of(dtype), exponent_bits = width - 1 - (unsigned)f.mant;
  uint64_t sign = (in >> 63) << (width - 1), inf = ((UINT64_C(1) << exponent_bits) - 1) << f.mant;
  int exponent = (int)(in >> 52 & 0x7ff);
  uint64_t sig = in & ((UINT64_C(1) << 52) - 1);
  if (exponent == 0x7ff) return sign | inf | (sig ? UINT64_C(1) << (f.mant - 1) : 0);
  if (exponent == 0) return sign; // what f64 holds as subnormal is zero in all the others
  sig |= UINT64_C(1) << 52;
  exponent -= 1023;
  if (exponent > f.emax) return sign | inf;
  unsigned shift = 52 - (unsigned)f.mant;
  if (exponent < f.emin) return sign | shift_round(sig, shift + (unsigned)(f.emin - exponent));
  // A carry out of the mantissa goes into the exponent, and from the largest number to inf.
  uint64_t rounded = shift_round(sig, shift) - (UINT64_C(1) << f.mant);
  return sign | (((uint64_t)(exponent - f.emin + 1) << f.mant) + rounded);
}

static float f32_of(uint32_t dtype, uint64_t bits) {
  return (float)run_decode(dtype, bits);
}

static uint64_t encode_f32(uint32_t dtype, float x) {
  return run_encode(dtype, (double)x);
}

uint64_t run_receive(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits) {
  if (op == RSP_OP_ADD) return encode_f32(to, f32_of(from, bits) + constant);
  if (op == RSP_OP_NEG_EXP) return encode_f32(to, -(float)exp(run_decode(from, bits)));
  return from == to ? bits : run_encode(to, run_decode(from, bits));
}

uint64_t run_send(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits) {
  if (op == RSP_OP_ADD) return encode_f32(to, f32_of(from, bits) - constant);
  return from == to ? bits : run_encode(to, run_decode(from, bits));
}

int run_receive_agrees(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits, uint64_t got) {
  uint64_t want = run_receive(from, to, op, constant, bits);
  if (got == want) return 1;
  if (from == to && op == RSP_OP_COPY) return 0;
  if (!run_float_of(to).mant) return 0;
  double wanted = run_decode(to, want), given = run_decode(to, got);
  if (isnan(wanted)) return isnan(given);
  if (op != RSP_OP_NEG_EXP) return 0;
  float e = (float)exp(run_decode(from, bits));
  double low = run_decode(to, encode_f32(to, -nextafterf(e, INFINITY)));
  double high = run_decode(to, encode_f32(to, -nextafterf(e, -INFINITY)));
  return given >= low && given <= high;
}
