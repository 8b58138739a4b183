/* SPDX-License-Identifier: Apache-2.0
 *
 * check: what the test programs of this directory say when they fail, and their random numbers.
 */
#ifndef TESTS_RUNTIME_CHECK_H
#define TESTS_RUNTIME_CHECK_H

#include <stdint.h>

#include "tests/check.h"

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
/* In [lo, hi]. */
static inline uint64_t random_in(uint64_t *state, uint64_t lo, uint64_t hi) {
  return lo + random_next(state) % (hi - lo + 1);
}

#endif
