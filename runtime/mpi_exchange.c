/* SPDX-License-Identifier: Apache-2.0
 * A rank's rounds over MPI; see mpi.h. In phase p round p-1 is posted, round p packed, round p-2 unpacked, then round
 * p-1 awaited: the phases and the staging are the host backend's. All is done in the caller's thread, a phase or a look
 * at a time; packing gives the library a turn now and then. */
#include <stdlib.h>
#include <string.h>

#include "runtime/mpi.h"

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static bool is_crossing(const struct rsp_stream *stream) {
  return stream->dir == RSP_DIR_OUT || stream->dir == RSP_DIR_IN;
}

/* Packing is going on: the library may have work, and another rank may have failed. */
static void poke(void *user) {
  struct rsr_mpi *mpi = user;
  rsr_mpi_test(mpi);
  rsr_line_moved(mpi->line, mpi->context->config.timeout_seconds);
}

/* Past the caches pays where what a rank reads and writes does not stay in its share of the last one. */
#define CACHE_BYTES (UINT64_C(64) << 20)

static unsigned past_cache(const struct rsr_staged *staged) {
  uint64_t written = 0;
  for (uint64_t s = 0; s < staged->count; s++) {
    const struct rsp_stream *stream = staged->ports[s].stream;
    if (stream->dir == RSP_DIR_IN || stream->dir == RSP_DIR_SELF_DST) written += stream->bytes;
  }
  return 2 * written > CACHE_BYTES ? RSK_STREAM : 0;
}

static bool open_flights(struct rsr_mpi *mpi) {
  mpi->flights = calloc(mpi->room + 1, sizeof *mpi->flights);
  mpi->requests = calloc(mpi->room + 1, sizeof(MPI_Request));
  mpi->statuses = calloc(mpi->room + 1, sizeof(MPI_Status));
  mpi->indices = calloc(mpi->room + 1, sizeof *mpi->indices);
  mpi->to_self = calloc(mpi->to_self_room + 1, sizeof *mpi->to_self);
  mpi->from_self = calloc(mpi->from_self_room + 1, sizeof *mpi->from_self);
  return mpi->flights && mpi->requests && mpi->statuses && mpi->indices && mpi->to_self && mpi->from_self;
}

enum reshard_status rsr_mpi_open_rounds(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  const struct reshard_context *context = mpi->context;
  struct rsr_staged *staged = &mpi->staged;
  enum reshard_status status = rsr_staged_open(staged, &context->slice, context->config.flags, fault);
  if (status != RESHARD_OK) return status;
  staged->moved = poke;
  staged->past_cache = past_cache(staged);
  staged->user = mpi;
  if (context->config.inject.kind == RESHARD_INJECT_FLIP) staged->flip_round = context->config.inject.round;
  for (uint64_t s = 0; s < staged->count; s++) {
    const struct rsp_stream *stream = staged->ports[s].stream;
    if (!is_crossing(stream)) continue;
    uint64_t most = rsr_port_most_messages(staged, &staged->ports[s]);
    if (stream->peer != context->world_rank)
      mpi->room += most;
    else if (stream->dir == RSP_DIR_OUT)
      mpi->to_self_room += most;
    else
      mpi->from_self_room += most;
  }
  if (!open_flights(mpi)) return rsr_no_memory(fault, "messages", mpi->room * sizeof *mpi->statuses);
  if (context->config.inject.kind == RESHARD_INJECT_NO_MEMORY)
    return rsr_no_memory(fault, "staging", context->slice.program.slice->staging);
  return rsr_plain_open(staged, fault);
}

void rsr_mpi_close_rounds(struct rsr_mpi *mpi) {
  rsr_mpi_unshare(mpi);
  rsr_staged_close(&mpi->staged);
  free(mpi->flights);
  free(mpi->requests);
  free(mpi->statuses);
  free(mpi->indices);
  free(mpi->to_self);
  free(mpi->from_self);
  free(mpi->rows);
  mpi->flights = NULL;
  mpi->requests = NULL;
  mpi->statuses = NULL;
  mpi->indices = NULL;
  mpi->to_self = mpi->from_self = NULL;
  mpi->rows = NULL;
  mpi->room = mpi->to_self_room = mpi->from_self_room = mpi->count = 0;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static MPI_Request *new_flight(struct rsr_mpi *mpi, uint64_t port, uint64_t bytes, bool is_in) {
  uint32_t peer = mpi->staged.ports[port].stream->peer;
  mpi->flights[mpi->count] = (struct rsr_flight){port, bytes, peer, is_in};
  mpi->requests[mpi->count] = MPI_REQUEST_NULL;
  mpi->under_way++;
  return &mpi->requests[mpi->count++];
}

/* The library would not begin the last one. */
static void refused(struct rsr_mpi *mpi) {
  mpi->under_way--;
  if (!mpi->mixed_up) mpi->mixed_up = mpi->count;
}

void rsr_mpi_send(struct rsr_mpi *mpi, uint64_t port, const void *ptr, uint64_t bytes) {
  struct rsr_line *line = mpi->line;
  uint32_t peer = mpi->staged.ports[port].stream->peer;
  MPI_Request *request = new_flight(mpi, port, bytes, false);
  if (MPI_Isend(ptr, (int)bytes, MPI_BYTE, (int)peer, rsr_tag_of(line->number), line->hub->data, request) ==
      MPI_SUCCESS)
    line->sent[peer]++;
  else
    refused(mpi);
}

void rsr_mpi_receive(struct rsr_mpi *mpi, uint64_t port, void *ptr, uint64_t bytes) {
  struct rsr_line *line = mpi->line;
  uint32_t peer = mpi->staged.ports[port].stream->peer;
  MPI_Request *request = new_flight(mpi, port, bytes, true);
  if (MPI_Irecv(ptr, (int)bytes, MPI_BYTE, (int)peer, rsr_tag_of(line->numbers[peer]), line->hub->data, request) !=
      MPI_SUCCESS)
    refused(mpi);
}

static void end_flight(struct rsr_mpi *mpi, uint64_t index, MPI_Status *status, int error) {
  const struct rsr_flight *flight = &mpi->flights[index];
  mpi->under_way--;
  if (!flight->is_in) return;
  int cancelled = 0, bytes = 0;
  MPI_Test_cancelled(status, &cancelled);
  if (cancelled) return;
  mpi->line->received[flight->peer]++;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  if (!mpi->mixed_up && (error != MPI_SUCCESS || (uint64_t)bytes != flight->bytes)) mpi->mixed_up = index + 1;
}

bool rsr_mpi_test(struct rsr_mpi *mpi) {
  rsr_hub_pump(mpi->line->hub);
  if (mpi->under_way == 0) return false;
  int ended = 0;
  int rc = MPI_Testsome((int)mpi->count, mpi->requests, &ended, mpi->indices, mpi->statuses);
  if (ended == MPI_UNDEFINED) return false;
  for (int i = 0; i < ended; i++) {
    int error = rc == MPI_SUCCESS ? MPI_SUCCESS : mpi->statuses[i].MPI_ERROR;
    end_flight(mpi, (uint64_t)mpi->indices[i], &mpi->statuses[i], error);
  }
  return ended > 0;
}

struct posting {
  struct rsr_mpi *mpi;
  uint64_t port;
};

static bool post_out(void *user, unsigned char *ptr, uint64_t bytes) {
  struct posting *posting = user;
  struct rsr_mpi *mpi = posting->mpi;
  if (mpi->staged.ports[posting->port].stream->peer != mpi->context->world_rank)
    rsr_mpi_send(mpi, posting->port, ptr, bytes);
  else
    mpi->to_self[mpi->to_self_count++] = (struct rsr_local){ptr, bytes};
  return true;
}

static bool post_in(void *user, unsigned char *ptr, uint64_t bytes) {
  struct posting *posting = user;
  struct rsr_mpi *mpi = posting->mpi;
  if (mpi->staged.ports[posting->port].stream->peer != mpi->context->world_rank)
    rsr_mpi_receive(mpi, posting->port, ptr, bytes);
  else
    mpi->from_self[mpi->from_self_count++] = (struct rsr_local){ptr, bytes};
  return true;
}

static void post_dir(struct rsr_mpi *mpi, uint32_t round, uint32_t dir, rsr_message_fn post) {
  uint64_t turn;
  for (uint64_t s = 0; s < mpi->staged.count; s++) {
    struct rsr_port *port = &mpi->staged.ports[s];
    if (port->stream->dir != dir || port->is_carried || !rsr_active_in(port, round, &turn)) continue;
    rsr_port_messages(&mpi->staged, port, turn, post, &(struct posting){mpi, s});
  }
}

/* Receives first: what arrives then has its place. */
static void post(struct rsr_mpi *mpi, uint32_t round) {
  mpi->count = mpi->to_self_count = mpi->from_self_count = 0;
  post_dir(mpi, round, RSP_DIR_IN, post_in);
  post_dir(mpi, round, RSP_DIR_OUT, post_out);
  rsr_near_begin(mpi, round);
}

/* ---- how a round ends -------------------------------------------------------------------------------------------- */

/* The port that is waited for; NULL: none is known. */
static const struct rsr_port *awaited(const struct rsr_mpi *mpi) {
  for (uint64_t i = 0; i < mpi->count; i++) {
    if (mpi->requests[i] != MPI_REQUEST_NULL) return &mpi->staged.ports[mpi->flights[i].port];
  }
  const struct rsr_near *near = rsr_near_waits(mpi);
  return near ? &mpi->staged.ports[near->port] : NULL;
}

enum reshard_status rsr_mpi_late(struct rsr_mpi *mpi, uint32_t round, struct reshard_fault *fault) {
  const struct rsr_port *port = awaited(mpi);
  rsr_fault(fault, RESHARD_TIMEOUT, "world rank %u waited %g s for world rank %u (%s), and no rank made progress",
            mpi->context->world_rank, mpi->context->config.timeout_seconds, port ? port->stream->peer : 0,
            port && port->stream->dir == RSP_DIR_OUT ? "sending" : "receiving");
  fault->rank = mpi->context->world_rank;
  fault->round = round;
  if (port) {
    fault->peer = port->stream->peer;
    rsr_name_next(&mpi->staged, port, fault);
  }
  rsr_line_abort(mpi->line, fault);
  return RESHARD_TIMEOUT;
}

enum reshard_status rsr_mpi_unequal(const struct rsr_mpi *mpi, uint32_t round, uint32_t peer,
                                    struct reshard_fault *fault) {
  rsr_fault(
      fault, RESHARD_BAD_PLAN,
      "round %u: a message from world rank %u to %u has not the size that the receiver wants; run `reshard verify`",
      round, peer, mpi->context->world_rank);
  fault->peer = peer;
  fault->round = round;
  return RESHARD_BAD_PLAN;
}

/* Buffers bound to one address (tied weights) may be both ends of what a rank passes on to itself: not for MPI. */
static bool exchange_with_self(struct rsr_mpi *mpi) {
  if (mpi->to_self_count != mpi->from_self_count) return false;
  for (uint64_t i = 0; i < mpi->to_self_count; i++) {
    if (mpi->to_self[i].bytes != mpi->from_self[i].bytes) return false;
    memmove(mpi->from_self[i].ptr, mpi->to_self[i].ptr, mpi->to_self[i].bytes);
  }
  return true;
}

static enum reshard_status end_round(struct rsr_mpi *mpi, uint32_t round, struct reshard_fault *fault) {
  uint64_t turn;
  if (mpi->mixed_up) return rsr_mpi_unequal(mpi, round, mpi->flights[mpi->mixed_up - 1].peer, fault);
  if (!exchange_with_self(mpi)) return rsr_mpi_unequal(mpi, round, mpi->context->world_rank, fault);
  for (uint64_t s = 0; s < mpi->staged.count; s++) {
    const struct rsr_port *port = &mpi->staged.ports[s];
    if (port->stream->dir == RSP_DIR_OUT && rsr_active_in(port, round, &turn)) rsr_plain_sent(&mpi->staged, port, turn);
  }
  return RESHARD_OK;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* What a test wants this rank to do wrong before the exchange of the round; PENDING: it sleeps. */
static enum reshard_status inject(struct rsr_mpi *mpi, uint32_t round, struct reshard_fault *fault) {
  const struct reshard_inject *wanted = &mpi->context->config.inject;
  if (wanted->kind == RESHARD_INJECT_NONE || wanted->round != round) return RESHARD_OK;
  if (wanted->kind == RESHARD_INJECT_STALL) {
    if (!mpi->stalled) mpi->stall_until = rsr_mpi_now() + wanted->seconds;
    mpi->stalled = true;
    return rsr_mpi_now() < mpi->stall_until ? RESHARD_PENDING : RESHARD_OK;
  }
  if (wanted->kind != RESHARD_INJECT_DIE && wanted->kind != RESHARD_INJECT_FAIL) return RESHARD_OK;
  mpi->died = wanted->kind == RESHARD_INJECT_DIE;
  rsr_fault(fault, RESHARD_PEER_FAILED, "world rank %u was made to fail before round %u", mpi->context->world_rank,
            round);
  fault->round = round;
  return RESHARD_PEER_FAILED;
}

void rsr_mpi_begin(struct rsr_mpi *mpi) {
  rsr_staged_rewind(&mpi->staged);
  mpi->runs = true;
  mpi->worked = mpi->stalled = false;
  mpi->phase = 0;
  mpi->line->moved_at = rsr_mpi_now();
}

static enum reshard_status work(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  uint64_t rounds = mpi->context->slice.program.slice->rounds, phase = mpi->phase;
  enum reshard_status status = RESHARD_OK;
  mpi->count = 0;
  if (phase >= 1 && phase <= rounds) {
    status = inject(mpi, (uint32_t)(phase - 1), fault);
    if (status != RESHARD_OK) return status;
    post(mpi, (uint32_t)(phase - 1));
  }
  if (phase < rounds) status = rsr_plain_pack(&mpi->staged, (uint32_t)phase, fault);
  if (phase >= 2 && status == RESHARD_OK) status = rsr_plain_unpack(&mpi->staged, (uint32_t)(phase - 2), fault);
  mpi->worked = true;
  return status;
}

/* All messages of the phase have ended. */
static enum reshard_status end_phase(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  uint64_t rounds = mpi->context->slice.program.slice->rounds, phase = mpi->phase;
  enum reshard_status status = RESHARD_OK;
  bool guarded = mpi->context->config.flags & RESHARD_GUARD;
  if (phase >= 1 && phase <= rounds) status = end_round(mpi, (uint32_t)(phase - 1), fault);
  if (guarded && phase >= 2) rsr_plain_poison_relayed(&mpi->staged, (uint32_t)(phase - 2));
  if (status != RESHARD_OK) return status;
  mpi->worked = false;
  if (++mpi->phase < rounds + 2) return RESHARD_PENDING;
  return guarded ? rsr_plain_check_guards(&mpi->staged, fault) : RESHARD_OK;
}

static enum reshard_status go_on(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault) {
  enum reshard_status status = RESHARD_OK;
  *moved = rsr_mpi_test(mpi);
  if (mpi->line->aborted) return rsr_line_aborted(mpi->line, fault);
  if (!mpi->worked) {
    status = work(mpi, fault);
    if (status != RESHARD_OK) return status;
    *moved = true;
  }
  if (rsr_near_waits(mpi)) status = rsr_near_step(mpi, moved, fault);
  if (status != RESHARD_OK) return status;
  if (mpi->under_way == 0 && !rsr_near_waits(mpi)) {
    *moved = true;
    status = end_phase(mpi, fault);
    if (status != RESHARD_PENDING) return status;
  }
  if (*moved) rsr_line_moved(mpi->line, mpi->context->config.timeout_seconds);
  if (rsr_mpi_is_late(mpi)) return rsr_mpi_late(mpi, (uint32_t)(mpi->phase - 1), fault);
  return RESHARD_PENDING;
}

enum reshard_status rsr_mpi_step(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault) {
  rsr_fault_clear(fault);
  enum reshard_status status = go_on(mpi, moved, fault);
  if (status == RESHARD_PENDING) return status;
  mpi->runs = false;
  if (status == RESHARD_OK) return status;
  if (fault->rank == RESHARD_NO_RANK) fault->rank = mpi->context->world_rank;
  if (!mpi->died) rsr_line_abort(mpi->line, fault);
  return status;
}
