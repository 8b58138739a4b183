/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused mode: prepare joins each gather, message and scatter into direct copies from the sender's buffer to the
 * receiver's, which the receiver's worker makes: what is passed on comes from where it was at first. A refit waits for
 * those senders to begin and copies; wait, in which all ranks agree, returns when all buffers are read.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host.h"

/* Past the caches pays where what is read and written does not stay in the last one. */
#define CACHE_BYTES (32ull << 20)

static uint64_t cache_bytes(void) {
  long bytes = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? (uint64_t)bytes : CACHE_BYTES;
}

static bool add_peer(uint32_t **peers, uint64_t *count, uint64_t *room, uint32_t peer) {
  if (*count == *room) {
    uint64_t more = *room ? *room * 2 : 16;
    uint32_t *grown = realloc(*peers, more * sizeof *grown);
    if (!grown) return false;
    *peers = grown;
    *room = more;
  }
  (*peers)[(*count)++] = peer;
  return true;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Each peer once, without this rank. */
static uint64_t distinct(uint32_t *peers, uint64_t count, uint32_t self) {
  uint64_t kept = 0;
  if (count > 1) qsort(peers, count, sizeof *peers, by_number);
  for (uint64_t i = 0; i < count; i++) {
    if (peers[i] != self && (kept == 0 || peers[kept - 1] != peers[i])) peers[kept++] = peers[i];
  }
  return kept;
}

/* Where the streams that come in begin: whose buffers this rank reads. */
static bool find_senders(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  uint64_t room = 0;
  for (uint64_t s = 0; s < program->slice->streams.count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir != RSP_DIR_IN) continue;
    uint32_t rank = stream->peer;
    const struct rsp_program *peer = &host->group->stations[rank].member->slice.program;
    rsr_origin(host->group, &rank, rsr_twin(peer, context->world_rank, RSP_DIR_OUT, stream));
    if (!add_peer(&host->senders, &host->sender_count, &room, rank)) return false;
  }
  host->sender_count = distinct(host->senders, host->sender_count, context->world_rank);
  return true;
}

/* Everybody whom a stream of this rank reaches, directly or passed on: who reads its buffers. `todo` is a list of
 * incoming streams, as (rank, index). */
static bool find_receivers(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  uint32_t *todo = NULL;
  uint64_t room = 0, todo_count = 0, todo_room = 0;
  bool good = true, relays = context->slice.plan->header.features & RSP_FEATURE_RELAY;
  const struct rsp_program *program = &context->slice.program;
  uint32_t rank = context->world_rank, relay = RSP_NO_STREAM;
  for (;;) {
    for (uint64_t s = 0; s < program->slice->streams.count && good; s++) {
      const struct rsp_stream *stream = &program->streams[s];
      if (stream->dir != RSP_DIR_OUT) break;
      if (stream->relay != relay) continue;
      const struct rsp_program *peer = &host->group->stations[stream->peer].member->slice.program;
      const struct rsp_stream *in = rsr_twin(peer, rank, RSP_DIR_IN, stream);
      good = add_peer(&host->receivers, &host->receiver_count, &room, stream->peer);
      if (!good || !relays || !in) continue; /* without its other end it is no stream of ours: that rank reports it */
      good = add_peer(&todo, &todo_count, &todo_room, stream->peer) &&
             add_peer(&todo, &todo_count, &todo_room, (uint32_t)(in - peer->streams));
    }
    if (!todo_count || !good) break;
    relay = todo[--todo_count];
    rank = todo[--todo_count];
    program = &host->group->stations[rank].member->slice.program;
  }
  free(todo);
  host->receiver_count = distinct(host->receivers, host->receiver_count, context->world_rank);
  return good;
}

/* Wire bytes that come to this rank. */
static uint64_t moved_by(const struct rsp_program *program) {
  uint64_t bytes = 0;
  for (uint64_t s = 0; s < program->slice->streams.count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir == RSP_DIR_IN || stream->dir == RSP_DIR_SELF_DST) bytes += stream->bytes;
  }
  return bytes;
}

enum reshard_status rsr_fused_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  if (context->config.inject.kind == RESHARD_INJECT_NO_MEMORY) return rsr_no_memory(fault, "copies", 0);
  rsr_host_of(context)->moves = moved_by(&context->slice.program);
  return RESHARD_OK;
}

void rsr_fused_reset(struct rsr_host *host) {
  rsr_ops_free(&host->ops);
  free(host->senders);
  free(host->receivers);
  host->senders = host->receivers = NULL;
  host->sender_count = host->receiver_count = 0;
}

static enum reshard_status join_span(struct rsr_host *host, const struct rsr_slice *from, const struct rsr_span *src,
                                     const struct rsr_slice *to, const struct rsr_span *dst,
                                     struct reshard_fault *fault) {
  uint32_t outer = rsr_outer_loops(&from->program, src->desc), outer_to = rsr_outer_loops(&to->program, dst->desc);
  if (outer_to > outer) outer = outer_to;
  struct rsr_nest nest;
  for (uint64_t at = dst->first; at < dst->end;) {
    struct rsr_box box = rsr_next_box(&to->program, dst->desc, outer, at, dst->end);
    if (!rsr_nest_join(&nest, from, src->desc, to, dst->desc, &box)) {
      rsr_fault(fault, RESHARD_BAD_PLAN, "the plan asks for a conversion that does not exist (dtypes %u to %u to %u)",
                rsp_shape_of(&from->program, src->desc)->buf_dtype, rsp_shape_of(&from->program, src->desc)->wire_dtype,
                rsp_shape_of(&to->program, dst->desc)->buf_dtype);
      rsr_fault_at(fault, &to->program, rsp_program_buffer(&to->program, dst->desc->ref));
      return RESHARD_BAD_PLAN;
    }
    if (!rsr_ops_add(&host->ops, &nest)) return rsr_no_memory(fault, "copies", host->ops.count * sizeof(struct rsr_op));
    at += box.elems;
  }
  return RESHARD_OK;
}

/* The two ends have one shape, so their spans come in step. */
static enum reshard_status join_stream(struct reshard_context *context, const struct rsp_stream *stream,
                                       struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsr_slice *to = &context->slice;
  uint32_t dir = stream->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC, rank = stream->peer;
  const struct rsp_program *peer = &host->group->stations[rank].member->slice.program;
  const struct rsp_stream *origin = rsr_origin(host->group, &rank, rsr_twin(peer, context->world_rank, dir, stream));
  const struct rsr_slice *from = &host->group->stations[rank].member->slice;
  struct rsr_cursor dst = rsr_cursor_at_start(stream), src = rsr_cursor_at_start(origin);
  enum reshard_status status = RESHARD_OK;
  for (uint64_t left = stream->bytes; left > 0 && status == RESHARD_OK;) {
    struct rsr_span a = rsr_take(&from->program, &src, left), b = rsr_take(&to->program, &dst, left);
    status = join_span(host, from, &a, to, &b, fault);
    left -= b.bytes;
  }
  return status;
}

/* Wire bytes of all ranks: they share the cache. */
static uint64_t moved_by_all(const struct reshard_host_group *group) {
  uint64_t bytes = 0;
  for (uint32_t r = 0; r < group->world; r++) {
    if (group->stations[r].member) bytes += rsr_host_of(group->stations[r].member)->moves;
  }
  return bytes;
}

enum reshard_status rsr_fused_link(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  if (!find_senders(context) || !find_receivers(context))
    return rsr_no_memory(fault, "peers", (host->sender_count + host->receiver_count) * sizeof(uint32_t));
  for (uint64_t s = 0; s < program->slice->streams.count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir != RSP_DIR_IN && stream->dir != RSP_DIR_SELF_DST) continue;
    enum reshard_status status = join_stream(context, stream, fault);
    if (status != RESHARD_OK) return status;
  }
  if (!rsr_ops_close(&host->ops)) return rsr_no_memory(fault, "copies", host->ops.count * sizeof(struct rsr_op));
  host->ops.flags = 2 * moved_by_all(host->group) > cache_bytes() ? RSK_STREAM : 0;
  return RESHARD_OK;
}

/* ---- a refit ----------------------------------------------------------------------------------------------------- */

static enum reshard_status corrupt(const struct reshard_context *owner, const unsigned char *dst,
                                   struct reshard_fault *fault) {
  const struct rsp_program *program = &owner->slice.program;
  rsr_fault(fault, RESHARD_CORRUPT,
            "what was copied to world rank %u is not what its source holds; the memory cannot be trusted, or a buffer "
            "was used during the refit",
            owner->world_rank);
  fault->rank = owner->world_rank;
  for (uint64_t row = 0; row < program->slice->buffers.count; row++) {
    const unsigned char *at = owner->slice.bound[row];
    if (at && dst >= at && dst < at + program->buffers[row].bytes) rsr_fault_at(fault, program, &program->buffers[row]);
  }
  return RESHARD_CORRUPT;
}

/* RESHARD_VERIFY: both ends are at hand, so they are compared; each copy as soon as it is made. */
static enum reshard_status verify_piece(const struct reshard_context *owner, const struct rsr_piece *piece, bool first,
                                        struct reshard_fault *fault) {
  if (owner->config.inject.kind == RESHARD_INJECT_FLIP && first) *piece->dst ^= 0x10;
  return rsr_ops_holds(&rsr_host_of(owner)->ops, piece) ? RESHARD_OK : corrupt(owner, piece->dst, fault);
}

/* Of the pieces of a chunk, the first is of the op at `place`. */
static enum reshard_status run_chunk(struct reshard_host_group *group, const struct reshard_context *owner,
                                     uint64_t chunk, const struct rsr_place *place, struct reshard_fault *fault) {
  const struct rsr_ops *ops = &rsr_host_of(owner)->ops;
  struct rsr_piece piece;
  do {
    if (atomic_load_explicit(&group->aborted, memory_order_relaxed)) return rsr_host_aborted(group, fault);
    rsr_ops_piece(ops, &ops->rows[place->op], chunk - place->at, &piece);
    rsr_ops_run(ops, &piece);
    if (owner->config.flags & RESHARD_VERIFY) {
      enum reshard_status status = verify_piece(owner, &piece, place == ops->places && chunk == 0, fault);
      if (status != RESHARD_OK) return status;
    }
  } while ((++place)->at == chunk);
  return RESHARD_OK;
}

/* Takes chunks of a rank's copies until none is left. */
static enum reshard_status run_chunks(struct reshard_host_group *group, const struct reshard_context *owner,
                                      struct reshard_fault *fault) {
  struct rsr_ops *ops = &rsr_host_of(owner)->ops;
  const struct rsr_place *place = ops->places;
  for (;;) {
    uint64_t chunk = atomic_fetch_add(&ops->next, 1);
    if (chunk >= ops->chunk_count) return RESHARD_OK;
    while (place->at < chunk && place[1].at <= chunk) place++;
    enum reshard_status status = run_chunk(group, owner, chunk, place, fault);
    if (status != RESHARD_OK) return status;
    atomic_fetch_add_explicit(&group->progress, 1, memory_order_relaxed);
  }
}

/* This rank's own copies, once all its senders have begun. */
static enum reshard_status receive_all(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  for (uint64_t p = 0; p < host->sender_count; p++) {
    struct rsr_station *peer = &host->group->stations[host->senders[p]];
    enum reshard_status status =
        rsr_host_await(context, &peer->begun, host->refit, host->senders[p], RESHARD_NO_ROUND, "to begin", fault);
    if (status != RESHARD_OK) return status;
  }
  atomic_store(&host->ops.next, 0);
  atomic_store(&host->station->opened, host->refit);
  for (uint64_t p = 0; p < host->sender_count; p++) rsr_host_ring(host->group, host->senders[p]);
  return run_chunks(host->group, context, fault);
}

/* A rank that is done takes from the others: from its receivers, for which it waits, as they open once all have begun;
 * then from whoever is open. */
static enum reshard_status help(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  struct reshard_host_group *group = host->group;
  enum reshard_status status = RESHARD_OK;
  for (uint64_t p = 0; p < host->receiver_count && status == RESHARD_OK; p++) {
    struct rsr_station *peer = &group->stations[host->receivers[p]];
    status =
        rsr_host_await(context, &peer->opened, host->refit, host->receivers[p], RESHARD_NO_ROUND, "to open", fault);
    if (status == RESHARD_OK) status = run_chunks(group, peer->member, fault);
  }
  for (uint32_t r = 1; r < group->world && status == RESHARD_OK; r++) {
    struct rsr_station *peer = &group->stations[(context->world_rank + r) % group->world];
    if (atomic_load(&peer->opened) != host->refit) continue;
    status = run_chunks(group, peer->member, fault);
  }
  return status;
}

enum reshard_status rsr_fused_refit(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = rsr_inject(context, context->config.inject.round, fault);
  if (status != RESHARD_OK) return status;
  atomic_store(&host->station->begun, host->refit);
  for (uint64_t p = 0; p < host->receiver_count; p++) rsr_host_ring(host->group, host->receivers[p]);
  status = receive_all(context, fault);
  return status == RESHARD_OK ? help(context, fault) : status;
}
