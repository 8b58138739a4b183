/* SPDX-License-Identifier: Apache-2.0
 *
 * One process per rank: what the tests of the MPI backend share. They are linked with MPI themselves, to meet outside
 * of what they test and to bring communicators of their own.
 */
#ifndef TESTS_MPI_RANKS_H
#define TESTS_MPI_RANKS_H

#include <mpi.h>

#include "tests/runtime/check.h"
#include "tests/runtime/replay.h"

/* MPI, and this process in MPI_COMM_WORLD. */
extern int ranks_self, ranks_count;
void ranks_init(int *argc, char ***argv);

/* This process's part of a plan: buffers of all ranks are filled, and of all but `rank` the inference buffers are put
 * right, so that stage_check judges this rank. */
void ranks_fill(struct stage *stage, uint32_t rank, uint64_t seed);
/* A player of this rank, on the communicator. */
void ranks_player(struct player *player, struct stage *stage, struct reshard_plan *plan, uint32_t rank,
                  const MPI_Comm *comm);
/* Bytes that malloc has given out. */
size_t ranks_heap(void);

#endif
