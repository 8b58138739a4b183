/* SPDX-License-Identifier: Apache-2.0
 *
 * check: what the test programs of this directory say when they fail; their random numbers.
 */
#ifndef TESTS_RUNTIME_CHECK_H
#define TESTS_RUNTIME_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                  \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fputc('\n', stderr);                                                                                             \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

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
