/* SPDX-License-Identifier: Apache-2.0
 * Rounds with peers on the same host; see mpi.h. In a round both ends walk their common streams in the plan's order and
 * cut each turn at the same bytes, so a cell needs no name. The sender packs into it, the receiver unpacks from it; no
 * rank ever touches a buffer of another, so nothing is under way when a rank stops calling. A context's rings are its
 * own: what an earlier one left in its rings is of no concern. */
#include <stdatomic.h>

#include "runtime/mpi.h"

/* The cells of a ring stay in the second cache of either end, beside what flows through. */
#define CELL_BYTES 131072u
#define CELLS 8u
/* As many in one step: other work gets its turn. */
#define CELLS_AT_ONCE 64u
#define LINE_BYTES 64
#define PAGE_BYTES 4096

struct rsr_ring {
  _Alignas(LINE_BYTES) _Atomic uint64_t filled;
  _Alignas(LINE_BYTES) _Atomic uint64_t emptied;
  _Alignas(LINE_BYTES) uint64_t bytes[CELLS];
  _Alignas(PAGE_BYTES) unsigned char cells[CELLS][CELL_BYTES];
};

uint64_t rsr_ring_bytes(void) {
  return sizeof(struct rsr_ring);
}

/* From near->port on. */
static void find_turn(const struct rsr_mpi *mpi, struct rsr_near *near) {
  near->done = 0;
  while (near->port < near->end && !rsr_active_in(&mpi->staged.ports[near->port], mpi->round, &near->turn))
    near->port++;
}

void rsr_near_begin(struct rsr_mpi *mpi, uint32_t round) {
  mpi->round = round;
  for (uint64_t i = 0; i < mpi->near_count; i++) {
    mpi->nears[i].port = mpi->nears[i].first;
    find_turn(mpi, &mpi->nears[i]);
  }
}

const struct rsr_near *rsr_near_waits(const struct rsr_mpi *mpi) {
  for (uint64_t i = 0; i < mpi->near_count; i++) {
    if (mpi->nears[i].port < mpi->nears[i].end) return &mpi->nears[i];
  }
  return NULL;
}

static bool may_move(const struct rsr_near *near, bool is_out) {
  if (near->port == near->end) return false;
  if (is_out) return near->cells < atomic_load_explicit(&near->ring->emptied, memory_order_acquire) + CELLS;
  return near->cells < atomic_load_explicit(&near->ring->filled, memory_order_acquire);
}

static enum reshard_status move_cell(struct rsr_mpi *mpi, struct rsr_near *near, bool is_out,
                                     struct reshard_fault *fault) {
  struct rsr_port *port = &mpi->staged.ports[near->port];
  struct rsr_ring *ring = near->ring;
  uint64_t cell = near->cells % CELLS, left = rsr_turn_bytes(port->stream, near->turn) - near->done;
  uint64_t bytes = left < CELL_BYTES ? left : CELL_BYTES;
  if (is_out)
    ring->bytes[cell] = bytes;
  else if (ring->bytes[cell] != bytes)
    return rsr_mpi_unequal(mpi, mpi->round, port->stream->peer, fault);
  enum reshard_status status =
      rsr_plain_carry(&mpi->staged, port, near->turn, near->done, ring->cells[cell], bytes, fault);
  if (status != RESHARD_OK) return status;
  atomic_store_explicit(is_out ? &ring->filled : &ring->emptied, ++near->cells, memory_order_release);
  near->done += bytes;
  if (bytes < left) return RESHARD_OK;
  near->port++;
  find_turn(mpi, near);
  return RESHARD_OK;
}

enum reshard_status rsr_near_step(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault) {
  for (uint32_t left = CELLS_AT_ONCE, stuck = 0; left > 0 && !stuck;) {
    stuck = 1;
    for (uint64_t i = 0; i < mpi->near_count && left > 0; i++) {
      struct rsr_near *near = &mpi->nears[i];
      bool is_out = rsr_near_is_out(mpi, near);
      if (!may_move(near, is_out)) continue;
      enum reshard_status status = move_cell(mpi, near, is_out, fault);
      if (status != RESHARD_OK) return status;
      *moved = true;
      stuck = 0;
      left--;
    }
  }
  return RESHARD_OK;
}
