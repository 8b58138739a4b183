/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints of sets of elements. A set is a polynomial, one monomial X^place * Y^index per element, evaluated at
 * fixed points modulo 2^61 - 1; a nest of loops is a product of geometric sums, so it costs its loops, not its
 * elements. Two sets have the same fingerprint if they are the same, however they are cut into nests; if they are not,
 * with a chance of about (largest place / 2^61) squared.
 */
#ifndef RESHARD_TOOLS_PLAN_POLY_H
#define RESHARD_TOOLS_PLAN_POLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLAN_LANES = 2 };
struct plan_print {
  uint64_t lane[PLAN_LANES];
};

/* X^place * Y^index. */
struct plan_print plan_print_at(int64_t place, int64_t index);
/* 1 + r + r^2 + ... of `count` terms, r being the print of one step of a loop. */
struct plan_print plan_print_sum(struct plan_print r, uint64_t count);
struct plan_print plan_print_mul(struct plan_print a, struct plan_print b);
struct plan_print plan_print_add(struct plan_print a, struct plan_print b);
struct plan_print plan_print_sub(struct plan_print a, struct plan_print b);
bool plan_print_same(struct plan_print a, struct plan_print b);
/* A factor that stands for some bytes and a number: a name and what is done. */
struct plan_print plan_print_hash(const void *bytes, size_t size, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
