/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of a task through its conversions, shared by the device kernels and their host twins: the same operations
 * of IEEE 754 in the same order, none fused, so that both give the same bits. In: bits; out: bits.
 */
#ifndef RSK_ELEMENT_H
#define RSK_ELEMENT_H

#include "kernels/bits.h"
#include "kernels/index.h"
#include "kernels/rsk.h"

#define RSK_NO_FORM 255u

RSK_HD uint32_t rsk_form_bytes(uint32_t form) {
  return form == RSK_FORM_F64 ? 8 : form == RSK_FORM_F32 ? 4 : form <= RSK_FORM_BF16 ? 2 : 1;
}

/* `next` is the form that comes next: a double that will have 16 bits is rounded once. */
RSK_HD float rsk_value(uint32_t form, uint64_t bits, uint32_t next) {
  double wide;
  switch (form) {
  case RSK_FORM_F16:
    return rsk_from_f16((uint16_t)bits);
  case RSK_FORM_BF16:
    return rsk_from_bf16((uint16_t)bits);
  case RSK_FORM_F64:
    memcpy(&wide, &bits, 8);
    return next <= RSK_FORM_BF16 ? rsk_odd_from_f64(wide) : rsk_from_f64(wide);
  case RSK_FORM_F8E4M3:
    return rsk_from_f8e4m3((uint8_t)bits);
  case RSK_FORM_F8E5M2:
    return rsk_from_f8e5m2((uint8_t)bits);
  default:
    return rsk_float((uint32_t)bits);
  }
}

RSK_HD uint64_t rsk_pattern(uint32_t form, float x) {
  double wide;
  uint64_t bits;
  switch (form) {
  case RSK_FORM_F16:
    return rsk_to_f16(x);
  case RSK_FORM_BF16:
    return rsk_to_bf16(x);
  case RSK_FORM_F64:
    wide = rsk_to_f64(x);
    memcpy(&bits, &wide, 8);
    return bits;
  default:
    return rsk_bits(x);
  }
}

/* What is between two conversions has been stored in its form. */
RSK_HD float rsk_through(uint32_t form, float x) {
  uint32_t u = rsk_bits(x);
  switch (form) {
  case RSK_FORM_F16:
    return rsk_from_f16(rsk_to_f16(x));
  case RSK_FORM_BF16:
    return rsk_from_bf16(rsk_to_bf16(x));
  case RSK_FORM_F64:
    return x != x ? rsk_float(u | 0x400000u) : x;
  default:
    return x;
  }
}

/* x + c; what is no number keeps its bits, which a device's adder drops. */
RSK_HD float rsk_sum(float x, float c) {
  float sum = x + c;
  uint32_t nan = x != x ? rsk_bits(x) | 0x400000u : c != c ? rsk_bits(c) | 0x400000u : 0xffc00000u;
  return sum != sum ? rsk_float(nan) : sum;
}

RSK_HD float rsk_difference(float x, float c) {
  float difference = x - c;
  uint32_t nan = x != x ? rsk_bits(x) | 0x400000u : c != c ? rsk_bits(c) | 0x400000u : 0xffc00000u;
  return difference != difference ? rsk_float(nan) : difference;
}

/* 2^(j / 32) as a double and what it lacks. */
#define RSK_ROOTS                                                                                                      \
  {                                                                                                                    \
    0x1.0000000000000p+0, 0x0.0p+0, 0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55, 0x1.0b5586cf9890fp+0,                 \
        0x1.8a62e4adc610bp-54, 0x1.11301d0125b51p+0, -0x1.6c51039449b3ap-54, 0x1.172b83c7d517bp+0,                     \
        -0x1.19041b9d78a76p-55, 0x1.1d4873168b9aap+0, 0x1.e016e00a2643cp-54, 0x1.2387a6e756238p+0,                     \
        0x1.9b07eb6c70573p-54, 0x1.29e9df51fdee1p+0, 0x1.612e8afad1255p-55, 0x1.306fe0a31b715p+0,                      \
        0x1.6f46ad23182e4p-55, 0x1.371a7373aa9cbp+0, -0x1.63aeabf42eae2p-54, 0x1.3dea64c123422p+0,                     \
        0x1.ada0911f09ebcp-55, 0x1.44e086061892dp+0, 0x1.89b7a04ef80d0p-59, 0x1.4bfdad5362a27p+0,                      \
        0x1.d4397afec42e2p-56, 0x1.5342b569d4f82p+0, -0x1.07abe1db13cadp-55, 0x1.5ab07dd485429p+0,                     \
        0x1.6324c054647adp-54, 0x1.6247eb03a5585p+0, -0x1.383c17e40b497p-54, 0x1.6a09e667f3bcdp+0,                     \
        -0x1.bdd3413b26456p-54, 0x1.71f75e8ec5f74p+0, -0x1.16e4786887a99p-55, 0x1.7a11473eb0187p+0,                    \
        -0x1.41577ee04992fp-55, 0x1.82589994cce13p+0, -0x1.d4c1dd41532d8p-54, 0x1.8ace5422aa0dbp+0,                    \
        0x1.6e9f156864b27p-54, 0x1.93737b0cdc5e5p+0, -0x1.75fc781b57ebcp-57, 0x1.9c49182a3f090p+0,                     \
        0x1.c7c46b071f2bep-56, 0x1.a5503b23e255dp+0, -0x1.d2f6edb8d41e1p-54, 0x1.ae89f995ad3adp+0,                     \
        0x1.7a1cd345dcc81p-54, 0x1.b7f76f2fb5e47p+0, -0x1.5584f7e54ac3bp-56, 0x1.c199bdd85529cp+0,                     \
        0x1.11065895048ddp-55, 0x1.cb720dcef9069p+0, 0x1.503cbd1e949dbp-56, 0x1.d5818dcfba487p+0,                      \
        0x1.2ed02d75b3707p-55, 0x1.dfc97337b9b5fp+0, -0x1.1a5cd4f184b5cp-54, 0x1.ea4afa2a490dap+0,                     \
        -0x1.e9c23179c2893p-54, 0x1.f50765b6e4540p+0, 0x1.9d3e12dd8a18bp-54,                                           \
  }

/* exp of a float in double, to within 0.53 units of its last place; x within +-800: 2^(k / 32) is two factors that fit.
 * x = (k / 32) ln 2 + r, |r| <= ln 2 / 64: exp x = 2^(k / 32) (1 + r + r^2 / 2 + ...). */
RSK_HD double rsk_exp(double x, const double *roots) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to a whole number */
  double shifted = x * 0x1.71547652b82fep+5 + magic, k = shifted - magic;
  /* The first part has few enough bits for k * part to be exact. */
  double r = x - k * 0x1.62e42fef80000p-6;
  r = r - k * 0x1.1cf79abc9e3b4p-41;
  double r2 = r * r;
  double tail = r2 * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040))))));
  int32_t turns = (int32_t)k, root = turns & 31, power = (turns - root) / 32;
  double y = roots[2 * root] + (roots[2 * root + 1] + roots[2 * root] * (r + tail));
  int32_t half = power / 2;
  uint64_t first = (uint64_t)(1023 + half) << 52, second = (uint64_t)(1023 + power - half) << 52;
  double a, b;
  memcpy(&a, &first, 8);
  memcpy(&b, &second, 8);
  return y * a * b;
}

/* (float)-exp((double)x), the same bits as with the C library's exp: tests/kernels goes through every float. */
RSK_HD float rsk_neg_exp(float x, const double *roots) {
  float near = x > 800.0f ? 800.0f : x < -800.0f ? -800.0f : x;
  float y = x != x ? 0.0f : (float)-rsk_exp((double)near, roots);
  return x != x ? rsk_float((rsk_bits(x) | 0x400000u) ^ 0x80000000u) : y;
}

RSK_HD float rsk_apply(uint32_t op, float x, float constant, const double *roots) {
  switch (op) {
  case RSK_OP_ADD:
    return rsk_sum(x, constant);
  case RSK_OP_SUB:
    return rsk_difference(x, constant);
  case RSK_OP_NEG_EXP:
    return rsk_neg_exp(x, roots);
  default:
    return x;
  }
}

RSK_HD uint64_t rsk_element(const struct rsk_task *task, uint64_t bits, const double *roots) {
  uint32_t next = task->between == RSK_NO_FORM ? task->to : task->between;
  float x = rsk_value(task->from, bits, next);
  x = rsk_apply(task->op[0], x, task->constant[0], roots);
  if (task->between != RSK_NO_FORM) {
    x = rsk_through(task->between, x);
    x = rsk_apply(task->op[1], x, task->constant[1], roots);
  }
  return rsk_pattern(task->to, x);
}

#endif
