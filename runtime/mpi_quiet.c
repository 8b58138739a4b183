/* SPDX-License-Identifier: Apache-2.0
 * The end of what is under way after a failure; see mpi.h. A rank cancels what it would receive, then tells each peer
 * how many messages it has sent it, and takes those that it has not received, to throw them away: sends cannot be
 * cancelled, but so each of them ends. Then no rank touches another's memory, and nothing is left in the library. */
#include <stdlib.h>

#include "runtime/mpi.h"

static void cancel_receives(struct rsr_mpi *mpi) {
  for (uint64_t i = 0; i < mpi->count; i++) {
    if (mpi->flights[i].is_in && mpi->requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&mpi->requests[i]);
  }
}

static bool receives(const struct rsr_mpi *mpi) {
  for (uint64_t i = 0; i < mpi->count && mpi->under_way > 0; i++) {
    if (mpi->flights[i].is_in && mpi->requests[i] != MPI_REQUEST_NULL) return true;
  }
  return false;
}

void rsr_mpi_say_quiet(struct rsr_mpi *mpi, enum rsr_kind kind) {
  struct rsr_line *line = mpi->line;
  struct rsr_head head = {kind, line->number};
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (r != line->hub->rank) rsr_hub_send(line->hub, r, &head, &line->sent[r], sizeof line->sent[r]);
  }
  mpi->quiet = RSR_TOLD;
}

static void take_drain(struct rsr_mpi *mpi) {
  int done = 0;
  if (mpi->drain_request == MPI_REQUEST_NULL) return;
  MPI_Test(&mpi->drain_request, &done, MPI_STATUS_IGNORE);
  if (!done) return;
  mpi->line->received[mpi->drain_from]++;
  free(mpi->drain);
  mpi->drain = NULL;
}

static void begin_drain(struct rsr_mpi *mpi, uint32_t from) {
  struct rsr_line *line = mpi->line;
  MPI_Status status;
  int found = 0, bytes = 0;
  MPI_Iprobe((int)from, rsr_tag_of(line->numbers[from]), line->hub->data, &found, &status);
  if (!found) return;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  mpi->drain = malloc((size_t)bytes + 1);
  if (!mpi->drain) return;
  mpi->drain_from = from;
  MPI_Irecv(mpi->drain, bytes, MPI_BYTE, (int)from, status.MPI_TAG, line->hub->data, &mpi->drain_request);
}

/* True: each peer has said how many, and all have come. */
static bool drain(struct rsr_mpi *mpi) {
  struct rsr_line *line = mpi->line;
  bool all = true;
  take_drain(mpi);
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (r == line->hub->rank) continue;
    bool has_all = line->quiet[r] != UINT64_MAX && line->received[r] >= line->quiet[r];
    if (!has_all && line->quiet[r] != UINT64_MAX && mpi->drain_request == MPI_REQUEST_NULL) begin_drain(mpi, r);
    all = all && has_all;
  }
  return all && mpi->drain_request == MPI_REQUEST_NULL;
}

bool rsr_mpi_quiet_step(struct rsr_mpi *mpi) {
  rsr_mpi_test(mpi);
  if (!mpi->line->is_open) mpi->quiet = RSR_QUIET; /* it never sent anything */
  if (mpi->quiet == RSR_LOUD) {
    cancel_receives(mpi);
    mpi->quiet = RSR_CANCELLED;
  }
  if (mpi->quiet == RSR_CANCELLED && !receives(mpi)) rsr_mpi_say_quiet(mpi, RSR_QUIET_AT);
  if (mpi->quiet == RSR_TOLD && drain(mpi) && mpi->under_way == 0) mpi->quiet = RSR_QUIET;
  return mpi->quiet == RSR_QUIET;
}

/* ---- those that outlive their contexts --------------------------------------------------------------------------- */

static struct rsr_mpi *retired;

/* A line that has not failed needs no one's word; its last letters are the hub's. */
static bool may_go(struct rsr_mpi *mpi) {
  bool still = mpi->line->aborted ? rsr_mpi_quiet_step(mpi) : mpi->under_way == 0;
  return still && rsr_line_is_done(mpi->line);
}

static void free_mpi(struct rsr_mpi *mpi) {
  rsr_mpi_close_rounds(mpi);
  rsr_line_close(mpi->line);
  free(mpi);
}

void rsr_mpi_retire(struct rsr_mpi *mpi) {
  mpi->context = NULL;
  mpi->next = retired;
  retired = mpi;
  rsr_mpi_retired_step();
}

bool rsr_mpi_retired_step(void) {
  for (struct rsr_mpi **at = &retired; *at;) {
    struct rsr_mpi *mpi = *at;
    rsr_hub_pump(mpi->line->hub);
    if (!may_go(mpi)) {
      at = &mpi->next;
      continue;
    }
    *at = mpi->next;
    free_mpi(mpi);
  }
  return retired == NULL;
}
