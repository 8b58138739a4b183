/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked 64-bit arithmetic: each returns true on overflow and leaves *out unspecified, so that
 *     if (rsc_mul(a, b, &n)) return report(...);
 */
#ifndef RSC_BASE_CHECK_H
#define RSC_BASE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

static inline bool rsc_add(int64_t a, int64_t b, int64_t *out) {
  return __builtin_add_overflow(a, b, out);
}
static inline bool rsc_sub(int64_t a, int64_t b, int64_t *out) {
  return __builtin_sub_overflow(a, b, out);
}
static inline bool rsc_mul(int64_t a, int64_t b, int64_t *out) {
  return __builtin_mul_overflow(a, b, out);
}

/* Floor division and the remainder with the divisor's sign; b != 0 and not INT64_MIN / -1. */
static inline int64_t rsc_floordiv(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t rsc_floormod(int64_t a, int64_t b) {
  return a - b * rsc_floordiv(a, b);
}

/* ceil(a / b) for a >= 0, b > 0. */
static inline int64_t rsc_ceildiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

#endif
