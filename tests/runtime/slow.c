/* SPDX-License-Identifier: Apache-2.0
 * See slow.h. */
#include "tests/runtime/slow.h"

#include <math.h>
#include <string.h>

#include "kernels/rsk.h"
#include "plans/dtype.h"

struct slow_form slow_form_of(uint32_t dtype) {
  switch (dtype) {
  case RSP_F16:
    return (struct slow_form){5, 10, 0};
  case RSP_BF16:
    return (struct slow_form){8, 7, 0};
  case RSP_F32:
    return (struct slow_form){8, 23, 0};
  case RSP_F64:
    return (struct slow_form){11, 52, 0};
  case RSP_F8E4M3:
    return (struct slow_form){4, 3, 1};
  case RSP_F8E5M2:
    return (struct slow_form){5, 2, 0};
  default:
    return (struct slow_form){0, 0, 0};
  }
}

int slow_is_nan(struct slow_form f, uint64_t bits) {
  uint64_t mantissa = bits & ((1ull << f.mantissa) - 1);
  uint64_t exponent = bits >> f.mantissa & ((1ull << f.exponent) - 1), top = (1ull << f.exponent) - 1;
  if (f.finite_only) return exponent == top && mantissa == (1ull << f.mantissa) - 1;
  return exponent == top && mantissa != 0;
}

double slow_value(struct slow_form f, uint64_t bits) {
  uint64_t mantissa = bits & ((1ull << f.mantissa) - 1);
  uint64_t exponent = bits >> f.mantissa & ((1ull << f.exponent) - 1), top = (1ull << f.exponent) - 1;
  int bias = (1 << (f.exponent - 1)) - 1;
  double sign = bits >> (f.exponent + f.mantissa) & 1 ? -1.0 : 1.0;
  if (slow_is_nan(f, bits)) return copysign(NAN, sign);
  if (exponent == top && !f.finite_only) return sign * INFINITY;
  if (exponent == 0) return sign * ldexp((double)mantissa, 1 - bias - (int)f.mantissa);
  return sign * ldexp((double)(mantissa | 1ull << f.mantissa), (int)exponent - bias - (int)f.mantissa);
}

/* Patterns of positive values ascend with them, so the largest one that is not above x is found by halving. */
uint64_t slow_nearest(struct slow_form f, double x) {
  uint64_t sign = signbit(x) ? 1ull << (f.exponent + f.mantissa) : 0;
  double a = fabs(x);
  uint64_t infinity = ((1ull << f.exponent) - 1) << f.mantissa, lo = 0, hi = infinity;
  if (isinf(a)) return sign | infinity;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (slow_value(f, mid) <= a)
      lo = mid;
    else
      hi = mid;
  }
  double below = slow_value(f, lo);
  /* What would come after the largest finite value, were there room for its exponent. */
  double step = ldexp(1.0, -(int)f.mantissa) * ldexp(1.0, (1 << (f.exponent - 1)) - 1);
  double above = hi == infinity ? below + step : slow_value(f, hi);
  double down = a - below, up = above - a;
  if (down < up || (down == up && lo % 2 == 0)) return sign | lo;
  return sign | hi;
}

static uint64_t quiet_nan(struct slow_form f, int negative) {
  uint64_t bits = ((1ull << f.exponent) - 1) << f.mantissa | 1ull << (f.mantissa - 1);
  return bits | (negative ? 1ull << (f.exponent + f.mantissa) : 0);
}

/* To float and back to double: a float holds every value that an op may have. */
static double as_float(double x) {
  struct slow_form f32 = {8, 23, 0};
  return isinf(x) ? x : slow_value(f32, slow_nearest(f32, x));
}

uint64_t slow_convert(uint64_t bits, uint32_t src_dtype, uint32_t dst_dtype, uint32_t op, float constant) {
  struct slow_form from = slow_form_of(src_dtype), to = slow_form_of(dst_dtype);
  if (op == RSK_OP_COPY && src_dtype == dst_dtype) return bits;
  double x = slow_value(from, bits);
  if (!isnan(x)) {
    /* Sums of two floats that are far apart do not fit a double, but round to float the same way. */
    if (op == RSK_OP_ADD) x = (double)((float)x + constant);
    if (op == RSK_OP_SUB) x = (double)((float)x - constant);
    if (op == RSK_OP_NEG_EXP) x = as_float(-exp(x));
  }
  if (isnan(x)) return quiet_nan(to, signbit(x) != 0);
  if (dst_dtype == RSP_F64) {
    uint64_t out;
    memcpy(&out, &x, 8);
    return out;
  }
  return slow_nearest(to, x);
}

int slow_same(uint64_t got, uint64_t want, uint32_t dtype) {
  struct slow_form f = slow_form_of(dtype);
  if (got == want) return 1;
  if (f.mantissa == 0 || !slow_is_nan(f, got) || !slow_is_nan(f, want)) return 0;
  return (got >> (f.mantissa - 1) & 1) == 1;
}
