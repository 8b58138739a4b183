/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions the slow way: exact values in double and a search for the nearest, with ties to even. Shares
 * nothing with the kernels, nor with the processor's own conversions but double to float where it is exact.
 */
#ifndef TESTS_RUNTIME_SLOW_H
#define TESTS_RUNTIME_SLOW_H

#include <stdint.h>

/* A form of `exponent` and `mantissa` bits below a sign. */
struct slow_form {
  unsigned exponent, mantissa;
  int finite_only; /* e4m3: no infinity, one NaN pattern per sign */
};

/* The form of a dtype; mantissa 0 if it is no float. */
struct slow_form slow_form_of(uint32_t dtype);
/* The value of a pattern; NaN for NaN. */
double slow_value(struct slow_form form, uint64_t bits);
int slow_is_nan(struct slow_form form, uint64_t bits);
/* The pattern nearest to x, not NaN. */
uint64_t slow_nearest(struct slow_form form, double x);
/* One element: src of src_dtype to dst of dst_dtype with an enum rsk_op. NaN: the pattern given back is the canonical
 * quiet one of its sign. */
uint64_t slow_convert(uint64_t bits, uint32_t src_dtype, uint32_t dst_dtype, uint32_t op, float constant);
/* Equal, or both NaN with the quiet bit set. */
int slow_same(uint64_t got, uint64_t want, uint32_t dtype);

#endif
