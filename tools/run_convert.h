/* SPDX-License-Identifier: Apache-2.0
 *
 * run_convert: what a conversion must give, written down once more, slowly and plainly. `reshard run` compares the
 * runtime with this, so it shares no code with kernels/.
 */
#ifndef RESHARD_TOOLS_RUN_CONVERT_H
#define RESHARD_TOOLS_RUN_CONVERT_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a float dtype is built: mantissa bits stored, exponents of its normal numbers. For a dtype that is no float all
 * are 0. */
struct run_float {
  int mant, emin, emax;
};
struct run_float run_float_of(uint32_t dtype);

/* The exact value of a float's bits. */
double run_decode(uint32_t dtype, uint64_t bits);
/* The bits of x, rounded once to nearest even: overflow is inf, NaN a quiet NaN. `dtype` is f16, bf16, f32 or f64. */
uint64_t run_encode(uint32_t dtype, double x);

/* The bits in `to` of what a cast, and then the op of an inference-side piece (enum rsp_op), make of `bits`. */
uint64_t run_receive(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits);
/* The tensor's bits that a training-side piece's buffer stands for. */
uint64_t run_send(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits);
/* True if `got` is what run_receive may give: exact, but for NEG_EXP, where the exponential may be off by one last
 * bit of f32 before it is rounded. Any NaN stands for any NaN. */
int run_receive_agrees(uint32_t from, uint32_t to, uint32_t op, float constant, uint64_t bits, uint64_t got);

/* Bits of an element of `bytes` bytes (1, 2, 4 or 8), from and to memory of any alignment, little-endian as the plan.
 */
static inline uint64_t run_load(const unsigned char *at, unsigned bytes) {
  uint64_t x8;
  uint32_t x4;
  uint16_t x2;
  switch (bytes) {
  case 1:
    return *at;
  case 2:
    memcpy(&x2, at, 2);
    return x2;
  case 4:
    memcpy(&x4, at, 4);
    return x4;
  default:
    memcpy(&x8, at, 8);
    return x8;
  }
}
static inline void run_store(unsigned char *at, unsigned bytes, uint64_t bits) {
  uint32_t x4 = (uint32_t)bits;
  uint16_t x2 = (uint16_t)bits;
  switch (bytes) {
  case 1:
    *at = (unsigned char)bits;
    break;
  case 2:
    memcpy(at, &x2, 2);
    break;
  case 4:
    memcpy(at, &x4, 4);
    break;
  default:
    memcpy(at, &bits, 8);
    break;
  }
}

#ifdef __cplusplus
}
#endif

#endif
