/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled plans between two training and two inference ranks, with several rounds of messages of over 100 KB: no MPI
 * sends these before they are wanted. Plan 0 has strided and direct streams, plan 1 relays as well.
 */
#ifndef TESTS_MPI_LONG_H
#define TESTS_MPI_LONG_H

#include <mpi.h>

#include "tests/mpi/ranks.h"

#define LONG_WORLD 4

struct long_plan {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
};

struct long_plan long_open(uint32_t which);
void long_close(struct long_plan *old);

#endif
