/* SPDX-License-Identifier: Apache-2.0
 * Do the programs of two ranks fit together? Each tells its receivers what it will send; see mpi.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/hash.h"
#include "runtime/mpi.h"

/* A stream as both of its ends have it. */
struct row {
  uint32_t kind, tag, round0, step;
  uint64_t bytes, quantum;
  uint64_t shape; /* a digest of its parts: elements, descriptors, loops, runs, wire dtypes */
};

static uint64_t mix(uint64_t digest, uint64_t word) {
  return rsk_hash_word(word, digest);
}

static uint64_t digest_body(const struct rsp_program *program, const struct rsp_body *body) {
  uint64_t digest = mix(mix(body->elems, body->wire_bytes), body->desc_count);
  for (uint64_t d = 0; d < body->desc_count; d++) {
    const struct rsp_shape *shape = rsp_shape_of(program, &program->descs[body->descs + d]);
    digest = mix(mix(mix(digest, shape->run), shape->loop_count), shape->wire_dtype);
    for (uint32_t l = 0; l < shape->loop_count; l++) digest = mix(digest, program->loops[shape->loops + l].count);
  }
  return digest;
}

static struct row row_of(const struct rsp_program *program, const struct rsp_stream *stream) {
  const struct rsp_stream *described = rsr_described(program, stream);
  struct row row = {stream->kind, stream->tag, stream->round0, stream->step, stream->bytes, stream->quantum, 0};
  uint64_t last = UINT64_MAX, body = 0; /* many parts of one body cost one digest */
  for (uint64_t p = 0; p < described->part_count; p++) {
    const struct rsp_part *part = &program->parts[described->parts + p];
    if (part->body != last) body = digest_body(program, &program->bodies[part->body]);
    last = part->body;
    row.shape = mix(mix(mix(row.shape, part->lo), part->hi), body);
  }
  return row;
}

static enum reshard_status bad_ends(const struct rsr_mpi *mpi, uint32_t peer, struct reshard_fault *fault) {
  uint32_t self = mpi->context->world_rank;
  rsr_fault(
      fault, RESHARD_BAD_PLAN,
      "the programs of world ranks %u and %u do not fit together: a stream from %u to %u has another shape at the "
      "other end, or none; compile the plan again, and run `reshard verify` on it",
      peer, self, peer, self);
  fault->rank = self;
  fault->peer = peer;
  return RESHARD_BAD_PLAN;
}

uint64_t rsr_peer_end(const struct rsp_program *program, uint64_t s) {
  uint64_t end = s + 1;
  while (end < program->slice->streams.count && program->streams[end].dir == program->streams[s].dir &&
         program->streams[end].peer == program->streams[s].peer)
    end++;
  return end;
}

/* rows[s]: this rank's; rows[count + s]: what the sender of an incoming stream says. */
static void exchange(struct rsr_mpi *mpi, struct row *rows) {
  const struct rsp_program *program = &mpi->context->slice.program;
  uint64_t count = program->slice->streams.count;
  mpi->count = 0;
  for (uint64_t s = 0, end; s < count; s = end) {
    end = rsr_peer_end(program, s);
    uint64_t bytes = (end - s) * sizeof *rows;
    uint32_t dir = program->streams[s].dir;
    if (dir > RSP_DIR_IN) break;
    if (program->streams[s].peer == mpi->context->world_rank) continue;
    if (dir == RSP_DIR_OUT)
      rsr_mpi_send(mpi, s, rows + s, bytes);
    else
      rsr_mpi_receive(mpi, s, rows + count + s, bytes);
  }
}

enum reshard_status rsr_mpi_await(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  uint64_t idle = 0;
  mpi->line->moved_at = rsr_mpi_now();
  while (mpi->under_way > 0) {
    if (rsr_mpi_test(mpi)) rsr_line_moved(mpi->line, mpi->context->config.timeout_seconds);
    if (mpi->line->aborted) return rsr_line_aborted(mpi->line, fault);
    if (rsr_mpi_is_late(mpi)) return rsr_mpi_late(mpi, RESHARD_NO_ROUND, fault);
    rsr_mpi_unlock();
    rsr_mpi_idle(&idle);
    rsr_mpi_lock();
  }
  if (!mpi->mixed_up) return RESHARD_OK;
  enum reshard_status status = bad_ends(mpi, mpi->flights[mpi->mixed_up - 1].peer, fault);
  mpi->mixed_up = 0;
  return status;
}

static enum reshard_status compare(const struct rsr_mpi *mpi, const struct row *rows, struct reshard_fault *fault) {
  const struct rsp_program *program = &mpi->context->slice.program;
  uint64_t count = program->slice->streams.count;
  for (uint64_t s = 0; s < count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir != RSP_DIR_IN) continue;
    const struct row *said = rows + count + s;
    if (stream->peer == mpi->context->world_rank) {
      const struct rsp_stream *twin = rsr_twin(program, stream->peer, RSP_DIR_OUT, stream);
      if (!twin) return bad_ends(mpi, stream->peer, fault);
      said = rows + (twin - program->streams);
    }
    if (memcmp(said, rows + s, sizeof *rows) != 0) return bad_ends(mpi, stream->peer, fault);
  }
  return RESHARD_OK;
}

enum reshard_status rsr_mpi_link(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  const struct rsp_program *program = &mpi->context->slice.program;
  uint64_t count = program->slice->streams.count;
  struct row *rows = calloc(2 * count + 1, sizeof *rows);
  if (!rows) {
    rsr_no_memory(fault, "streams", 2 * count * sizeof *rows);
    rsr_line_abort(mpi->line, fault); /* its peers would wait for what it does not say */
    return RESHARD_NO_MEMORY;
  }
  mpi->rows = rows; /* freed with the rest: it may be under way */
  for (uint64_t s = 0; s < count; s++) rows[s] = row_of(program, &program->streams[s]);
  exchange(mpi, rows);
  enum reshard_status status = rsr_mpi_await(mpi, fault);
  if (status == RESHARD_OK) status = compare(mpi, rows, fault);
  if (mpi->line->aborted) return status;
  /* The others do not know yet what this rank has seen. */
  struct reshard_fault own;
  rsr_fault_clear(&own);
  enum reshard_status shared = rsr_mpi_share(mpi, &own);
  if (status == RESHARD_OK && shared != RESHARD_OK) *fault = own;
  return status == RESHARD_OK ? shared : status;
}
