/* SPDX-License-Identifier: Apache-2.0
 * See ranks.h. */
#include "tests/mpi/ranks.h"

#include <malloc.h>
#include <string.h>

int ranks_self, ranks_count;

void ranks_init(int *argc, char ***argv) {
  int begun = 0;
  MPI_Initialized(&begun);
  if (!begun) MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks_self);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_count);
}

void ranks_fill(struct stage *stage, uint32_t rank, uint64_t seed) {
  stage_fill(stage, seed);
  for (uint32_t w = 0; w < stage->plan.header->world; w++) {
    struct rsp_program p;
    rsp_program_of(&stage->plan, w, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count && w != rank; b++)
      memcpy(stage->memory[w][b], stage->want[w][b], p.buffers[b].bytes);
  }
}

void ranks_player(struct player *player, struct stage *stage, struct reshard_plan *plan, uint32_t rank,
                  const MPI_Comm *comm) {
  *player = (struct player){.plan = plan, .stage = stage, .rank = rank, .refits = 1};
  reshard_config_init(&player->config);
  player->config.backend = RESHARD_MPI;
  player->config.mpi_comm = comm;
  player->config.timeout_seconds = 60; /* many ranks on few processors */
}

size_t ranks_heap(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
