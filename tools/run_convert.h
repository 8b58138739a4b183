/* SPDX-License-Identifier: Apache-2.0
 *
 * run_convert: what a conversion must give, written down once more, slowly and plainly. `reshard run` compares the
 * runtime with this, so it shares no code with kernels/.
 */
#ifndef RESHARD_TOOLS_RUN_CONVERT_H
#define RESHARD_TOOLS_RUN_CONVERT_H

#include <stdint.h>

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

/* Bits of an element of `bytes` bytes, from and to memory of any alignment. */
uint64_t run_load(const unsigned char *at, unsigned bytes);
void run_store(unsigned char *at, unsigned bytes, uint64_t bits);

#ifdef __cplusplus
}
#endif

#endif
