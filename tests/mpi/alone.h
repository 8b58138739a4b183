/* SPDX-License-Identifier: Apache-2.0
 *
 * An MPI of one process in which all other ranks agree at once and do nothing: for what a rank costs on its own.
 */
#ifndef TESTS_MPI_ALONE_H
#define TESTS_MPI_ALONE_H

#include <stdint.h>

/* The process is this rank of the plan's world from now on. */
void alone_mpi_is(const char *plan, uint32_t rank);

#endif
