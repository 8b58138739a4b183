/* SPDX-License-Identifier: Apache-2.0
 *
 * Random nests over two arenas and what they must do, said with plain loops: shares nothing with kernels/.
 */
#ifndef TESTS_KERNELS_NESTS_H
#define TESTS_KERNELS_NESTS_H

#include <stdint.h>

#include "kernels/rsk.h"

#define NEST_LOOPS 12u

struct random_nest {
  struct rsk_loop loops[NEST_LOOPS];
  uint32_t loop_count;
  uint64_t run;                                    /* bytes for copies, elements for conversions */
  uint64_t dst_off, src_off, dst_bytes, src_bytes; /* the parts of the arenas that it may touch */
};

/* Of about `size` elements or fewer; elements are dst_elem and src_elem bytes, aligned to as much if `aligned`. Writes
 * no byte twice. Offsets are from 0. */
struct random_nest nest_make(uint64_t *seed, uint64_t size, uint32_t dst_elem, uint32_t src_elem, int aligned);

/* A copy of squares, rows to columns, aligned. */
struct random_nest nest_turned(uint64_t *seed);

/* Calls `each` for every run, in an order of its own. */
void nest_each(const struct random_nest *nest, void (*each)(void *user, uint64_t dst_off, uint64_t src_off),
               void *user);

#endif
