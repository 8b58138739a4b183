/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of a float form to another, without branches, so that a loop over them becomes vector code. They assume
 * the default floating-point environment (nearest even, denormals kept). Private to the kernels.
 */
#ifndef RSK_BITS_H
#define RSK_BITS_H

#include <stdint.h>
#include <string.h>

#include "kernels/device.h"

enum rsk_form { RSK_FORM_F16, RSK_FORM_BF16, RSK_FORM_F32, RSK_FORM_F64, RSK_FORM_F8E4M3, RSK_FORM_F8E5M2 };

RSK_HD uint32_t rsk_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

RSK_HD float rsk_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

RSK_HD float rsk_from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  uint32_t quiet = (u & 0x7fffffffu) > 0x7f800000u ? 0x400000u : 0;
  return rsk_float(u | quiet);
}

RSK_HD float rsk_from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t m = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t normal = m + (112u << 23);
  /* A subnormal is 2^-14 * (1 + m) less 2^-14: exact, and no subnormal float is touched. */
  uint32_t tiny = rsk_bits(rsk_float((113u << 23) | m) - rsk_float(113u << 23));
  uint32_t huge = m + (224u << 23);
  uint32_t nan = huge | 0x400000u;
  uint32_t u = m < (1u << 23) ? tiny : normal;
  u = m >= (31u << 23) ? huge : u;
  u = m > (31u << 23) ? nan : u;
  return rsk_float(u | sign);
}

RSK_HD float rsk_from_f8e5m2(uint8_t h) {
  return rsk_from_f16((uint16_t)((uint32_t)h << 8));
}

RSK_HD float rsk_from_f8e4m3(uint8_t h) {
  uint32_t sign = (uint32_t)(h & 0x80u) << 24;
  uint32_t m = (uint32_t)(h & 0x7fu) << 20;
  uint32_t tiny = rsk_bits(rsk_float((121u << 23) | m) - rsk_float(121u << 23));
  uint32_t u = m < (1u << 23) ? tiny : m + (120u << 23);
  u = m == (0x7fu << 20) ? 0x7fc00000u : u; /* the one NaN; there is no infinity */
  return rsk_float(u | sign);
}

RSK_HD uint16_t rsk_to_bf16(float x) {
  uint32_t u = rsk_bits(x);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

RSK_HD uint16_t rsk_to_f16(float x) {
  uint32_t u = rsk_bits(x);
  uint32_t sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  /* Adding 0.5 leaves the bits of a subnormal half, rounded to nearest even by the adder. */
  uint32_t tiny = rsk_bits(rsk_float(u) + 0.5f) - rsk_bits(0.5f);
  uint32_t normal = (u - (112u << 23) + 0xfffu + ((u >> 13) & 1u)) >> 13;
  uint32_t nan = 0x7e00u | (u >> 13 & 0x3ffu);
  uint32_t h = u < (113u << 23) ? tiny : normal;
  h = u >= (143u << 23) ? 0x7c00u : h;
  h = u > 0x7f800000u ? nan : h;
  return (uint16_t)(h | sign);
}

/* (float)x. Written out for what is no number, of which a device keeps neither sign nor bits. */
RSK_HD float rsk_from_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  uint32_t nan = (uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(u >> 29 & 0x3fffffu);
  return x != x ? rsk_float(nan) : (float)x;
}

/* (double)x, likewise. */
RSK_HD double rsk_to_f64(float x) {
  uint64_t u = rsk_bits(x), nan = (u & 0x80000000u) << 32 | UINT64_C(0x7ff8) << 48 | (u & 0x3fffffu) << 29;
  double y = (double)x;
  if (x != x) memcpy(&y, &nan, 8);
  return y;
}

/* To float, an inexact result made odd: rounding that once more to 16 bits is the same as rounding the double once. */
RSK_HD float rsk_odd_from_f64(double x) {
  float f = rsk_from_f64(x);
  uint32_t u = rsk_bits(f);
  uint64_t back, from;
  double y = (double)f;
  memcpy(&back, &y, 8);
  memcpy(&from, &x, 8);
  back &= INT64_MAX;
  from &= INT64_MAX;
  uint32_t down = back > from ? u - 1 : u; /* rounded away from zero: back to the float below */
  uint32_t odd = back != from ? down | 1u : u;
  return rsk_float(x != x ? u : odd);
}

#endif
