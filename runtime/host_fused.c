/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused mode: prepare joins each gather, message and scatter into direct copies from the sender's buffer to the
 * receiver's, which the receiver's worker makes. A refit waits for its senders to begin, copies, and waits until its
 * own buffers are read.
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

static bool find_peers(const struct rsp_program *program, uint32_t dir, uint32_t **peers, uint64_t *count) {
  uint64_t streams = program->slice->streams.count;
  *peers = malloc((streams + 1) * sizeof **peers);
  if (!*peers) return false;
  for (uint64_t s = 0; s < streams; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    /* Streams ascend by peer within a direction: both kinds of one peer stand together. */
    if (stream->dir != dir || (*count > 0 && (*peers)[*count - 1] == stream->peer)) continue;
    (*peers)[(*count)++] = stream->peer;
  }
  return true;
}

enum reshard_status rsr_fused_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  if (context->slice.plan->header.features & RSP_FEATURE_RELAY) {
    return rsr_fault(fault, RESHARD_UNSUPPORTED,
                     "prepare: this plan has relays, which fused mode cannot join; use staged mode");
  }
  uint64_t bytes = program->slice->streams.count * sizeof(uint32_t);
  if (!find_peers(program, RSP_DIR_IN, &host->senders, &host->sender_count) ||
      !find_peers(program, RSP_DIR_OUT, &host->receivers, &host->receiver_count) ||
      context->config.inject.kind == RESHARD_INJECT_NO_MEMORY) {
    return rsr_no_memory(fault, "peers", bytes);
  }
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
                src->desc->buf_dtype, src->desc->wire_dtype, dst->desc->buf_dtype);
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
  const struct rsr_slice *from = &host->group->stations[stream->peer].member->slice;
  uint32_t dir = stream->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC;
  struct rsr_cursor dst = rsr_cursor_at_start(stream);
  struct rsr_cursor src = rsr_cursor_at_start(rsr_twin(&from->program, context->world_rank, dir, stream->kind));
  enum reshard_status status = RESHARD_OK;
  for (uint64_t left = stream->bytes; left > 0 && status == RESHARD_OK;) {
    struct rsr_span a = rsr_take(&from->program, &src, left), b = rsr_take(&to->program, &dst, left);
    status = join_span(host, from, &a, to, &b, fault);
    left -= b.bytes;
  }
  return status;
}

enum reshard_status rsr_fused_link(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  for (uint64_t s = 0; s < program->slice->streams.count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir != RSP_DIR_IN && stream->dir != RSP_DIR_SELF_DST) continue;
    enum reshard_status status = join_stream(context, stream, fault);
    if (status != RESHARD_OK) return status;
  }
  if (!rsr_ops_close(&host->ops)) return rsr_no_memory(fault, "copies", host->ops.count * sizeof(uint64_t));
  host->ops.flags = host->ops.bytes > cache_bytes() / 4 ? RSK_STREAM : 0;
  return RESHARD_OK;
}

/* ---- a refit ----------------------------------------------------------------------------------------------------- */

/* Takes chunks of a rank's copies until none is left. */
static enum reshard_status run_chunks(struct reshard_host_group *group, struct rsr_ops *ops,
                                      struct reshard_fault *fault) {
  for (;;) {
    uint64_t chunk = atomic_fetch_add(&ops->next, 1);
    if (chunk >= ops->chunk_count) return RESHARD_OK;
    for (uint64_t i = ops->chunks[chunk]; i < ops->chunks[chunk + 1]; i++) {
      if (atomic_load_explicit(&group->aborted, memory_order_relaxed)) return rsr_host_aborted(group, fault);
      rsr_ops_run(ops, &ops->rows[i]);
      atomic_fetch_add_explicit(&group->progress, 1, memory_order_relaxed);
    }
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
  return run_chunks(host->group, &host->ops, fault);
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
    if (status == RESHARD_OK) status = run_chunks(group, &rsr_host_of(peer->member)->ops, fault);
  }
  for (uint32_t r = 1; r < group->world && status == RESHARD_OK; r++) {
    struct rsr_station *peer = &group->stations[(context->world_rank + r) % group->world];
    if (atomic_load(&peer->opened) != host->refit) continue;
    status = run_chunks(group, &rsr_host_of(peer->member)->ops, fault);
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
