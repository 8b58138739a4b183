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
  free(host->origins);
  host->senders = host->receivers = host->origins = NULL;
  host->sender_count = host->receiver_count = host->origin_count = 0;
}

static bool list_origins(struct rsr_host *host, const bool *is_origin, uint32_t self) {
  uint32_t world = host->group->world;
  host->origins = malloc(world * sizeof *host->origins);
  for (uint32_t r = 0; r < world && host->origins; r++) {
    if (is_origin[r] && r != self) host->origins[host->origin_count++] = r;
  }
  return host->origins != NULL;
}

/* Wire bytes of all ranks: they share the cache. */
static uint64_t moved_by_all(const struct reshard_host_group *group) {
  uint64_t bytes = 0;
  for (uint32_t r = 0; r < group->world; r++) {
    if (!group->stations[r].member) continue;
    const struct rsp_program *program = &group->stations[r].member->slice.program;
    for (uint64_t s = 0; s < program->slice->streams.count; s++) {
      const struct rsp_stream *stream = &program->streams[s];
      if (stream->dir == RSP_DIR_IN || stream->dir == RSP_DIR_SELF_DST) bytes += stream->bytes;
    }
  }
  return bytes;
}

enum reshard_status rsr_fused_link(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  const struct rsp_program *program = &context->slice.program;
  bool *is_origin = calloc(context->world, sizeof *is_origin);
  if (!is_origin) return rsr_no_memory(fault, "peers", context->world);
  enum reshard_status status = RESHARD_OK;
  for (uint64_t s = 0; s < program->slice->streams.count && status == RESHARD_OK; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    if (stream->dir != RSP_DIR_IN && stream->dir != RSP_DIR_SELF_DST) continue;
    status = rsr_join_stream(context, stream, is_origin, fault);
  }
  if (status == RESHARD_OK && !list_origins(host, is_origin, context->world_rank)) {
    status = rsr_no_memory(fault, "peers", context->world);
  }
  free(is_origin);
  if (status != RESHARD_OK) return status;
  if (!rsr_ops_close(&host->ops)) return rsr_no_memory(fault, "copies", host->ops.count * sizeof(uint64_t));
  host->ops.flags = 2 * moved_by_all(host->group) > cache_bytes() ? RSK_STREAM : 0;
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
    }
    atomic_fetch_add_explicit(&group->progress, 1, memory_order_relaxed);
  }
}

/* This rank's own copies, once all whose buffers they read have begun. */
static enum reshard_status receive_all(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  for (uint64_t p = 0; p < host->origin_count; p++) {
    struct rsr_station *peer = &host->group->stations[host->origins[p]];
    enum reshard_status status =
        rsr_host_await(context, &peer->begun, host->refit, host->origins[p], RESHARD_NO_ROUND, "to begin", fault);
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

/* With relays, ranks that this one does not know read its buffers. */
static void tell_begun(struct reshard_context *context) {
  struct rsr_host *host = rsr_host_of(context);
  if (context->slice.plan->header.features & RSP_FEATURE_RELAY) {
    for (uint32_t r = 0; r < context->world; r++) rsr_host_ring(host->group, r);
  } else {
    for (uint64_t p = 0; p < host->receiver_count; p++) rsr_host_ring(host->group, host->receivers[p]);
  }
}

enum reshard_status rsr_fused_refit(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_host *host = rsr_host_of(context);
  enum reshard_status status = rsr_inject(context, context->config.inject.round, fault);
  if (status != RESHARD_OK) return status;
  atomic_store(&host->station->begun, host->refit);
  tell_begun(context);
  status = receive_all(context, fault);
  return status == RESHARD_OK ? help(context, fault) : status;
}
