/* SPDX-License-Identifier: Apache-2.0
 *
 * A refit as work for streams: the phases on their lanes, once into a graph or each time anew, and what becomes of it.
 * In: prepared rounds; out: a refit that has ended, or a fault and an aborted communicator. Refit allocates nothing.
 */
#include "runtime/nccl.h"

/* ---- one phase --------------------------------------------------------------------------------------------------- */

static bool has_work(const struct rsr_device *device, uint32_t rounds, enum rsr_lane lane, uint64_t phase) {
  if (phase < (uint64_t)lane || phase - (uint64_t)lane >= rounds) return false;
  const struct rsr_device_round *row = &device->rounds[phase - (uint64_t)lane];
  switch (lane) {
  case RSR_LANE_PACK:
    return row->pack.tile_count > 0 || row->sent.tile_count > 0;
  case RSR_LANE_EXCHANGE:
    return row->turns > 0;
  default:
    return row->unpack.tile_count > 0 || row->received.tile_count > 0;
  }
}

/* The lane goes on when all is done that other lanes have been given so far. */
static enum reshard_status wait_for_others(struct reshard_context *context, enum rsr_lane lane,
                                           struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  enum reshard_status status = RESHARD_OK;
  for (uint32_t e = 0; e < RSR_EVENTS && status == RESHARD_OK; e++) {
    if (e == (uint32_t)lane || device->seen[lane][e] == device->recorded[e]) continue;
    device->seen[lane][e] = device->recorded[e];
    status = RSR_CUDA(StreamWaitEvent, device->streams[lane], device->events[e], 0);
  }
  return status;
}

/* Messages of a port. */
struct posting {
  struct reshard_context *context;
  struct reshard_fault *fault;
  const struct rsp_stream *stream;
  enum reshard_status status;
};

static bool post(void *user, unsigned char *ptr, uint64_t bytes) {
  struct posting *posting = user;
  struct reshard_context *context = posting->context;
  struct reshard_fault *fault = posting->fault;
  struct rsr_device *device = rsr_device_of(context);
  uint32_t rank = posting->stream->peer;
  int peer = (int)(device->comm_ranks ? device->comm_ranks[rank] : rank);
  void *stream = device->streams[RSR_LANE_EXCHANGE];
  posting->status = posting->stream->dir == RSP_DIR_OUT
                        ? RSR_NCCL(Send, ptr, bytes, RSR_NCCL_UINT8, peer, device->comm, stream)
                        : RSR_NCCL(Recv, ptr, bytes, RSR_NCCL_UINT8, peer, device->comm, stream);
  return posting->status == RESHARD_OK;
}

static enum reshard_status add_messages(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct posting posting = {context, fault, NULL, RESHARD_OK};
  uint64_t turn;
  for (uint64_t s = 0; s < device->staged.count && posting.status == RESHARD_OK; s++) {
    struct rsr_port *port = &device->staged.ports[s];
    if (!rsr_crosses(port) || !rsr_active_in(port, round, &turn)) continue;
    posting.stream = port->stream;
    rsr_port_messages(&device->staged, port, turn, post, &posting);
  }
  return posting.status;
}

/* One group; the stream is used again only when NCCL has put it there. */
static enum reshard_status exchange(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  enum reshard_status status = RSR_NCCL(GroupStart), ended;
  if (status != RESHARD_OK) return status;
  status = add_messages(context, round, fault);
  /* A group of the thread that was begun must be ended, whatever became of it. */
  struct reshard_fault second, *first = fault;
  fault = status == RESHARD_OK ? first : &second;
  ended = RSR_NCCL(GroupEnd);
  fault = first;
  if (status == RESHARD_OK) status = ended;
  if (status == RESHARD_OK) status = rsr_comm_settle(context, "ncclGroupEnd", fault);
  /* Half a group may still be on its way to the stream. */
  if (status != RESHARD_OK) rsr_comm_abort(context);
  return status;
}

static enum reshard_status launch_both(struct reshard_context *context, const struct rsk_launch *first,
                                       const struct rsk_launch *second, void *stream, struct reshard_fault *fault) {
  const void *image = rsr_device_of(context)->image;
  enum reshard_status status = RESHARD_OK;
  if (first->tile_count > 0) status = rsr_device_launch(context, image, first, stream, fault);
  if (status == RESHARD_OK && second->tile_count > 0) status = rsr_device_launch(context, image, second, stream, fault);
  return status;
}

static enum reshard_status issue(struct reshard_context *context, enum rsr_lane lane, uint32_t round,
                                 struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  const struct rsr_device_round *row = &device->rounds[round];
  device->round = round;
  switch (lane) {
  case RSR_LANE_PACK:
    return launch_both(context, &row->pack, &row->sent, device->streams[lane], fault);
  case RSR_LANE_EXCHANGE:
    return exchange(context, round, fault);
  default:
    return launch_both(context, &row->received, &row->unpack, device->streams[lane], fault);
  }
}

/* ---- injected ---------------------------------------------------------------------------------------------------- */

static bool injects(const struct reshard_context *context) {
  enum reshard_inject_kind kind = context->config.inject.kind;
  return kind == RESHARD_INJECT_DIE || kind == RESHARD_INJECT_FAIL || kind == RESHARD_INJECT_STALL;
}

/* A stall holds up the call, as nothing of ours runs beside it. */
static enum reshard_status stall(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  double seconds = context->config.inject.seconds, most = context->config.timeout_seconds;
  struct rsr_patience patience = rsr_patience(seconds < most ? seconds : most);
  while (rsr_patient(&patience)) continue;
  if (seconds < most) return RESHARD_OK;
  rsr_fault(fault, RESHARD_TIMEOUT, "world rank %u was made to stall before round %u, for longer than the timeout",
            context->world_rank, round);
  fault->rank = context->world_rank;
  fault->round = round;
  return RESHARD_TIMEOUT;
}

/* What a test wants this rank to do wrong before the exchange of the round. */
static enum reshard_status inject(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  const struct reshard_inject *wanted = &context->config.inject;
  if (!injects(context) || device->is_captured || wanted->round != round) return RESHARD_OK;
  if (wanted->kind == RESHARD_INJECT_STALL) return stall(context, round, fault);
  device->died = wanted->kind == RESHARD_INJECT_DIE;
  rsr_fault(fault, RESHARD_BACKEND_FAILED, "world rank %u was made to fail before round %u", context->world_rank,
            round);
  fault->rank = context->world_rank;
  fault->round = round;
  return RESHARD_BACKEND_FAILED;
}

/* All waits come before all records: a lane never waits for its own phase. */
static enum reshard_status enqueue_phase(struct reshard_context *context, uint64_t phase, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint32_t rounds = context->slice.program.slice->rounds;
  enum reshard_status status = RESHARD_OK;
  bool works[RSR_LANES];
  if (phase >= 1 && phase <= rounds) status = inject(context, (uint32_t)(phase - 1), fault);
  for (enum rsr_lane lane = 0; lane < RSR_LANES && status == RESHARD_OK; lane++) {
    works[lane] = has_work(device, rounds, lane, phase);
    if (works[lane]) status = wait_for_others(context, lane, fault);
  }
  for (enum rsr_lane lane = 0; lane < RSR_LANES && status == RESHARD_OK; lane++) {
    if (works[lane]) status = issue(context, lane, (uint32_t)(phase - (uint64_t)lane), fault);
  }
  for (enum rsr_lane lane = 0; lane < RSR_LANES && status == RESHARD_OK; lane++) {
    if (!works[lane]) continue;
    status = RSR_CUDA(EventRecord, device->events[lane], device->streams[lane]);
    device->recorded[lane] = phase + 1;
  }
  return status;
}

/* ---- a whole refit ----------------------------------------------------------------------------------------------- */

/* From `stream` to the lanes and back: what comes before in it is done before, what comes after is done after. */
static enum reshard_status enqueue(struct reshard_context *context, void *stream, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  uint64_t phases = (uint64_t)context->slice.program.slice->rounds + 2;
  rsr_staged_rewind(&device->staged);
  for (uint32_t e = 0; e < RSR_EVENTS; e++) {
    device->recorded[e] = 0;
    for (uint32_t lane = 0; lane < RSR_LANES; lane++) device->seen[lane][e] = 0;
  }
  enum reshard_status status = RSR_CUDA(EventRecord, device->events[RSR_EVENT_FORK], stream);
  device->recorded[RSR_EVENT_FORK] = 1;
  for (uint64_t phase = 0; phase < phases && status == RESHARD_OK; phase++)
    status = enqueue_phase(context, phase, fault);
  for (enum rsr_lane lane = 0; lane < RSR_LANES && status == RESHARD_OK; lane++) {
    if (device->recorded[lane] > 0) status = RSR_CUDA(StreamWaitEvent, stream, device->events[lane], 0);
  }
  if (status == RESHARD_OK) device->round = RESHARD_NO_ROUND;
  return status;
}

/* A capture that was begun must be ended, whatever became of it. */
static enum reshard_status capture(struct reshard_context *context, void **graph, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  enum reshard_status status = RSR_CUDA(StreamBeginCapture, device->origin, RSR_CUDA_CAPTURE_THREAD_LOCAL), ended;
  if (status != RESHARD_OK) return status;
  status = enqueue(context, device->origin, fault);
  struct reshard_fault second, *first = fault;
  fault = status == RESHARD_OK ? first : &second;
  ended = RSR_CUDA(StreamEndCapture, device->origin, graph);
  return status == RESHARD_OK ? ended : status;
}

static enum reshard_status make_graph(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  void *graph = NULL;
  enum reshard_status status = capture(context, &graph, fault), destroyed;
  if (status == RESHARD_OK) status = RSR_CUDA(GraphInstantiate, &device->exec, graph, 0);
  if (!graph) return status;
  struct reshard_fault second, *first = fault;
  fault = status == RESHARD_OK ? first : &second;
  destroyed = RSR_CUDA(GraphDestroy, graph);
  return status == RESHARD_OK ? destroyed : status;
}

enum reshard_status rsr_device_link(struct reshard_context *context, struct reshard_fault *fault) {
  if ((context->config.flags & RESHARD_NO_GRAPH) || injects(context)) return RESHARD_OK;
  enum reshard_status status = rsr_device_enter(context, fault);
  if (status != RESHARD_OK) return status;
  status = make_graph(context, fault);
  /* Other ranks may wait for this one in what NCCL sets up for a group. */
  if (status != RESHARD_OK) rsr_comm_abort(context);
  return rsr_device_leave(context, status, fault);
}

static enum reshard_status start(struct reshard_context *context, void *stream, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  int capturing = RSR_CUDA_CAPTURE_NONE;
  enum reshard_status status = RSR_CUDA(StreamIsCapturing, stream, &capturing);
  if (status != RESHARD_OK) return status;
  device->is_captured = context->captured = capturing != RSR_CUDA_CAPTURE_NONE;
  device->stream = stream;
  device->is_marked = false;
  if (device->exec && !device->is_captured)
    status = RSR_CUDA(GraphLaunch, device->exec, stream);
  else
    status = enqueue(context, stream, fault);
  if (status != RESHARD_OK || device->is_captured) return status;
  status = RSR_CUDA(EventRecord, device->done, stream);
  device->is_marked = status == RESHARD_OK;
  return status;
}

/* ---- the end of it ----------------------------------------------------------------------------------------------- */

/* Its mark in the caller's stream, or all of that stream if it has none. */
static int end_of_refit(const struct rsr_device *device) {
  return device->is_marked ? device->cuda.EventQuery(device->done) : device->cuda.StreamQuery(device->stream);
}

/* Nothing of the refit may run on when the caller is told: an aborted communicator lets the streams run out. */
static void give_up(struct reshard_context *context) {
  struct rsr_device *device = rsr_device_of(context);
  struct reshard_fault ignored;
  rsr_comm_abort(context);
  for (uint32_t lane = 0; lane < RSR_LANES && !device->stuck; lane++)
    (void)rsr_stream_settle(context, device->streams[lane], "the end of an abort", &ignored);
  /* A graph runs in the caller's stream. */
  if (device->running && !device->is_captured && !device->stuck) {
    struct rsr_patience patience = rsr_patience(context->config.timeout_seconds);
    while (end_of_refit(device) == RSR_CUDA_NOT_READY && !device->stuck) device->stuck = !rsr_patient(&patience);
  }
  device->running = false;
}

static enum reshard_status fail(struct reshard_context *context, enum reshard_status status,
                                const struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  device->status = status;
  device->fault = *fault;
  if (device->died)
    device->running = false; /* without a word: what it has queued stays until wait has ended */
  else
    give_up(context);
  return status;
}

/* A failure is for wait to tell, where the others hear of it. */
enum reshard_status rsr_device_refit(struct reshard_context *context, void *stream, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  device->status = RESHARD_OK;
  device->round = RESHARD_NO_ROUND;
  device->died = false;
  enum reshard_status status = rsr_device_enter(context, fault);
  bool entered = status == RESHARD_OK;
  if (entered) status = start(context, stream, fault);
  device->running = entered;
  if (status != RESHARD_OK) fail(context, status, fault);
  if (entered) status = rsr_device_leave(context, status, fault);
  if (status != RESHARD_OK && device->status == RESHARD_OK) fail(context, status, fault);
  return RESHARD_OK;
}

static enum reshard_status look(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  if (device->is_captured && device->status == RESHARD_OK) device->running = true;
  if (device->status != RESHARD_OK || !device->running) {
    if (device->status != RESHARD_OK) *fault = device->fault;
    return device->status;
  }
  int state = RSR_NCCL_OK;
  enum reshard_status status = RSR_NCCL(CommGetAsyncError, device->comm, &state);
  if (status == RESHARD_OK) status = rsr_nccl_said(context, state, "a refit's communicator", fault);
  if (status != RESHARD_OK) return fail(context, status, fault);
  int rc = end_of_refit(device);
  if (rc == RSR_CUDA_NOT_READY) return RESHARD_PENDING;
  status = rsr_cuda_said(context, rc, device->is_marked ? "cudaEventQuery" : "cudaStreamQuery", fault);
  if (status != RESHARD_OK) return fail(context, status, fault);
  device->running = false;
  status = rsr_verify_end(context, fault);
  return status == RESHARD_OK ? status : fail(context, status, fault);
}

enum reshard_status rsr_device_query(struct reshard_context *context, struct reshard_fault *fault) {
  enum reshard_status status = rsr_device_enter(context, fault);
  if (status == RESHARD_OK) status = look(context, fault);
  return rsr_device_leave(context, status, fault);
}

enum reshard_status rsr_device_wait(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_patience patience = rsr_patience(context->config.timeout_seconds);
  enum reshard_status status = rsr_device_enter(context, fault);
  if (status != RESHARD_OK) return fail(context, status, fault);
  do {
    status = look(context, fault);
  } while (status == RESHARD_PENDING && rsr_patient(&patience));
  if (status == RESHARD_PENDING) {
    status = rsr_fault(fault, RESHARD_TIMEOUT,
                       "the refit of world rank %u did not end within %g s: a rank is dead or late, or what its stream "
                       "had to do before takes longer",
                       context->world_rank, context->config.timeout_seconds);
    fault->rank = context->world_rank;
    fail(context, status, fault);
  }
  return rsr_device_leave(context, status, fault);
}

void rsr_device_quiesce(struct reshard_context *context) {
  struct reshard_fault ignored;
  bool entered = rsr_device_enter(context, &ignored) == RESHARD_OK;
  give_up(context);
  if (entered) (void)rsr_device_leave(context, RESHARD_OK, &ignored);
}
