/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's CUDA runtime: streams as queues, events as places in them, captured graphs as operations with their
 * needs, each launch of one as new instances. Declarations of its own, not the backend's.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/nccl/standin_cuda.h"
#include "tests/nccl/standin_impl.h"

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 101, BAD_HANDLE = 400, NOT_READY = 600, CAPTURE = 900 };
enum { UNJOINED = 904, BROKEN = 901, UNKNOWN = 999 };

#define ENTER(name)                                                                                                    \
  struct host *host = standin_self();                                                                                  \
  if (!standin_enter(name)) return UNKNOWN

static bool has(const struct list *list, const void *row) {
  for (uint64_t i = 0; i < list->count; i++) {
    if (list->rows[i] == row) return true;
  }
  return false;
}

/* What a handle stands for must be alive and of this rank, and its device the current one. */
static bool good(const struct host *host, const struct list *list, const void *handle, const char *call) {
  if (!has(list, handle)) {
    standin_violates("rank %u: %s with a handle that is not, or no more", host->rank, call);
    return false;
  }
  /* As with CUDA, questions may be asked from any device, and handles be destroyed. */
  if (host->device == (int)host->rank || strstr(call, "Query") || strstr(call, "Destroy") || strstr(call, "Unload"))
    return true;
  standin_violates("rank %u: %s while device %d is the current one", host->rank, call, host->device);
  return false;
}

static struct stream *stream_of(struct host *host, struct stream *stream, const char *call) {
  if (stream) return good(host, &host->streams, stream, call) ? stream : NULL;
  if (!host->legacy) {
    host->legacy = calloc(1, sizeof *host->legacy);
    CHECK(host->legacy, "memory");
    host->legacy->rank = host->rank;
    list_add(&host->buried, host->legacy);
  }
  return host->legacy;
}

static struct graph *new_graph(struct host *host, struct list *list) {
  struct graph *graph = calloc(1, sizeof *graph);
  CHECK(graph, "memory");
  graph->rank = host->rank;
  list_add(list, graph);
  return graph;
}

static bool captures(const struct host *host) {
  for (uint64_t i = 0; i < host->streams.count; i++) {
    if (((const struct stream *)host->streams.rows[i])->capture) return true;
  }
  return false;
}

/* A call that a thread may not make while it captures. */
static bool breaks_capture(struct host *host) {
  for (uint64_t i = 0; i < host->streams.count; i++) {
    struct stream *stream = host->streams.rows[i];
    if (stream->capture) stream->capture->broken = true;
  }
  return captures(host);
}

/* ---- the device and its memory ----------------------------------------------------------------------------------- */

int cudaRuntimeGetVersion(int *version) {
  ENTER("cudaRuntimeGetVersion");
  (void)host;
  *version = 12080;
  return OK;
}

const char *cudaGetErrorString(int error) {
  return error == NO_MEMORY ? "out of memory" : error == OK ? "no error" : "the stand-in's error";
}

int cudaGetDevice(int *device) {
  ENTER("cudaGetDevice");
  *device = host->device;
  return OK;
}

int cudaSetDevice(int device) {
  ENTER("cudaSetDevice");
  if (device < 0 || (uint32_t)device >= standin.options.world) return NO_DEVICE;
  host->device = device;
  return OK;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER("cudaDeviceGetAttribute");
  if (attribute != 16 || device != (int)host->rank) return INVALID;
  *value = 2;
  return OK;
}

int cudaMalloc(void **ptr, size_t bytes) {
  struct host *host = standin_self();
  if (!standin_enter("cudaMalloc")) return NO_MEMORY;
  if (breaks_capture(host)) return CAPTURE;
  if (host->device != (int)host->rank) standin_violates("rank %u: cudaMalloc on device %d", host->rank, host->device);
  if (host->is_exhausted) return NO_MEMORY;
  *ptr = standin_allocate(host->rank, bytes, 256, false);
  if (++host->counts.mallocs == standin.options.free_early && host->rank == standin.options.rank) host->early = *ptr;
  return *ptr ? OK : NO_MEMORY;
}

void standin_exhaust(bool empty) {
  standin_self()->is_exhausted = empty;
}

int cudaFree(void *ptr) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaFree");
  if (breaks_capture(host)) return CAPTURE;
  if (ptr && ptr != host->was_early && !standin_release(ptr))
    standin_violates("rank %u: cudaFree of what is no block", host->rank);
  return fine ? OK : UNKNOWN;
}

void standin_free_early(struct host *host) {
  if (!host->early || captures(host)) return;
  standin_release(host->early);
  host->was_early = host->early;
  host->early = NULL;
}

int cudaPointerGetAttributes(struct pointer_attributes *attributes, const void *ptr) {
  ENTER("cudaPointerGetAttributes");
  (void)host;
  memset(attributes, 0, sizeof *attributes);
  attributes->device = standin_owner(ptr);
  if (attributes->device < 0) return OK;
  attributes->type = 2;
  attributes->device_pointer = (void *)(uintptr_t)ptr;
  return OK;
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

int cudaStreamCreateWithFlags(struct stream **out, unsigned flags) {
  ENTER("cudaStreamCreateWithFlags");
  if (flags != 1 || host->device != (int)host->rank) standin_violates("rank %u: a stream that blocks", host->rank);
  struct stream *stream = calloc(1, sizeof *stream);
  CHECK(stream, "memory");
  stream->rank = host->rank;
  stream->lane = ++host->lanes;
  list_add(&host->streams, stream);
  *out = stream;
  return OK;
}

int cudaStreamDestroy(struct stream *stream) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaStreamDestroy");
  if (!good(host, &host->streams, stream, "cudaStreamDestroy")) return BAD_HANDLE;
  if (stream->capture || stream->launching) standin_violates("rank %u: a stream destroyed in a capture", host->rank);
  list_remove(&host->streams, stream);
  list_add(&host->buried, stream);
  return fine ? OK : UNKNOWN;
}

int cudaStreamQuery(struct stream *stream) {
  ENTER("cudaStreamQuery");
  stream = stream_of(host, stream, "cudaStreamQuery");
  if (!stream) return BAD_HANDLE;
  if (stream->capture) {
    stream->capture->broken = true;
    return CAPTURE;
  }
  return !stream->last || stream->last->state == OP_DONE ? OK : NOT_READY;
}

int cudaStreamIsCapturing(struct stream *stream, int *status) {
  ENTER("cudaStreamIsCapturing");
  stream = stream_of(host, stream, "cudaStreamIsCapturing");
  if (!stream) return BAD_HANDLE;
  *status = stream->capture ? 1 : 0;
  return OK;
}

int cudaEventCreateWithFlags(struct event **out, unsigned flags) {
  ENTER("cudaEventCreateWithFlags");
  (void)flags;
  struct event *event = calloc(1, sizeof *event);
  CHECK(event, "memory");
  event->rank = host->rank;
  list_add(&host->events, event);
  *out = event;
  return OK;
}

int cudaEventDestroy(struct event *event) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaEventDestroy");
  if (!good(host, &host->events, event, "cudaEventDestroy")) return BAD_HANDLE;
  list_remove(&host->events, event);
  free(event);
  return fine ? OK : UNKNOWN;
}

int cudaEventRecord(struct event *event, struct stream *stream) {
  ENTER("cudaEventRecord");
  stream = stream_of(host, stream, "cudaEventRecord");
  if (!stream || !good(host, &host->events, event, "cudaEventRecord")) return BAD_HANDLE;
  if (stream->launching) standin_violates("rank %u: an event is recorded while ncclGroupEnd launches", host->rank);
  event->op = stream->last;
  event->capture = stream->capture;
  return OK;
}

int cudaEventQuery(struct event *event) {
  ENTER("cudaEventQuery");
  if (!good(host, &host->events, event, "cudaEventQuery")) return BAD_HANDLE;
  if (event->capture) return CAPTURE;
  return !event->op || event->op->state == OP_DONE ? OK : NOT_READY;
}

int cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
  ENTER("cudaStreamWaitEvent");
  stream = stream_of(host, stream, "cudaStreamWaitEvent");
  if (!stream || flags != 0 || !good(host, &host->events, event, "cudaStreamWaitEvent")) return BAD_HANDLE;
  if (++host->counts.waits == standin.options.drop_wait && host->rank == standin.options.rank) return OK;
  if (event->capture && event->capture->ended) return CAPTURE;
  if (event->capture && !stream->capture) { /* the stream joins */
    stream->saved = stream->last;
    stream->last = NULL;
    stream->capture = event->capture;
  }
  if (stream->capture != event->capture) {
    if (stream->capture) stream->capture->broken = true;
    return CAPTURE;
  }
  struct op *op = standin_op(OP_MARK, host->rank);
  standin_need(op, event->op);
  standin_queue(stream, op);
  return OK;
}

/* ---- what streams do --------------------------------------------------------------------------------------------- */

int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, struct stream *stream) {
  ENTER("cudaMemcpyAsync");
  stream = stream_of(host, stream, "cudaMemcpyAsync");
  if (!stream || kind != 4) return BAD_HANDLE;
  struct op *op = standin_op(OP_COPY, host->rank);
  op->dst = dst;
  op->src = src;
  op->bytes = bytes;
  standin_queue(stream, op);
  return OK;
}

int cudaMemsetAsync(void *dst, int value, size_t bytes, struct stream *stream) {
  ENTER("cudaMemsetAsync");
  stream = stream_of(host, stream, "cudaMemsetAsync");
  if (!stream) return BAD_HANDLE;
  if (!standin_is_live(host->rank, dst, bytes)) standin_violates("rank %u: a memset of no memory", host->rank);
  struct op *op = standin_op(OP_SET, host->rank);
  op->dst = dst;
  op->value = value;
  op->bytes = bytes;
  standin_queue(stream, op);
  return OK;
}

struct library {
  char names[RSK_KERNEL_COUNT][40]; /* a kernel is the address of its name */
};

int cudaLibraryLoadData(struct library **out, const void *code, int *jit, void **jit_values, unsigned jit_count,
                        int *options, void **values, unsigned count) {
  ENTER("cudaLibraryLoadData");
  (void)code;
  if (jit || jit_values || jit_count || options || values || count) return INVALID;
  struct library *library = calloc(1, sizeof *library);
  CHECK(library, "memory");
  list_add(&host->libraries, library);
  *out = library;
  return OK;
}

int cudaLibraryGetKernel(char **kernel, struct library *library, const char *name) {
  ENTER("cudaLibraryGetKernel");
  if (!good(host, &host->libraries, library, "cudaLibraryGetKernel")) return BAD_HANDLE;
  for (uint32_t k = 0; k < RSK_KERNEL_COUNT; k++) {
    if (strcmp(name, rsk_kernel_name(k)) != 0) continue;
    strncpy(library->names[k], name, sizeof library->names[k] - 1);
    *kernel = library->names[k];
    return OK;
  }
  return INVALID;
}

int cudaLibraryUnload(struct library *library) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaLibraryUnload");
  if (!good(host, &host->libraries, library, "cudaLibraryUnload")) return BAD_HANDLE;
  list_remove(&host->libraries, library);
  free(library);
  return fine ? OK : UNKNOWN;
}

int cudaLaunchKernelExC(const struct launch_config *config, const char *kernel, void **arguments) {
  ENTER("cudaLaunchKernelExC");
  struct stream *stream = stream_of(host, config->stream, "cudaLaunchKernelExC");
  if (!stream) return BAD_HANDLE;
  struct op *op = standin_op(OP_KERNEL, host->rank);
  memcpy(&op->image, arguments[0], sizeof op->image);
  memcpy(&op->launch, arguments[1], sizeof op->launch);
  if (op->launch.tile_count == 0 || strcmp(kernel, rsk_kernel_name(op->launch.kernel)) != 0 || config->grid[0] == 0 ||
      config->grid[1] != 1 || config->grid[2] != 1 || config->block[0] != RSK_BLOCK_THREADS || config->block[1] != 1 ||
      config->block[2] != 1 || config->shared_bytes != 0 || config->attribute_count != 0) {
    standin_violates("rank %u: an odd launch", host->rank);
    return INVALID;
  }
  standin_queue(stream, op);
  return OK;
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

int cudaStreamBeginCapture(struct stream *stream, int mode) {
  ENTER("cudaStreamBeginCapture");
  if (!stream || mode != 1 || !good(host, &host->streams, stream, "cudaStreamBeginCapture")) return INVALID;
  if (stream->capture) return CAPTURE;
  stream->capture = new_graph(host, &host->graphs);
  stream->capture->origin = stream;
  stream->saved = stream->last;
  stream->last = NULL;
  return OK;
}

static void reach(struct op *op) {
  if (!op || op->reached) return;
  op->reached = true;
  for (uint64_t i = 0; i < op->needs.count; i++) reach(op->needs.rows[i]);
}

static bool all_joined(const struct graph *graph, struct op *last) {
  reach(last);
  for (uint64_t i = 0; i < graph->ops.count; i++) {
    const struct op *op = graph->ops.rows[i];
    if (op->kind != OP_MARK && !op->reached) return false;
  }
  return true;
}

int cudaStreamEndCapture(struct stream *stream, struct graph **out) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaStreamEndCapture");
  *out = NULL;
  if (!good(host, &host->streams, stream, "cudaStreamEndCapture") || !stream->capture) return INVALID;
  struct graph *graph = stream->capture;
  if (graph->origin != stream) return CAPTURE;
  int rc = graph->broken ? BROKEN : all_joined(graph, stream->last) ? OK : UNJOINED;
  for (uint64_t i = 0; i < host->streams.count; i++) {
    struct stream *each = host->streams.rows[i];
    if (each->capture != graph) continue;
    if (each->launching) standin_violates("rank %u: a capture ends while ncclGroupEnd launches", host->rank);
    each->capture = NULL;
    each->last = each->saved;
  }
  graph->ended = true;
  if (fine && rc == OK)
    *out = graph;
  else
    list_remove(&host->graphs, graph), list_add(&host->dead_graphs, graph);
  return fine ? rc : UNKNOWN;
}

int cudaGraphInstantiate(struct graph **out, struct graph *graph, unsigned long long flags) {
  ENTER("cudaGraphInstantiate");
  if (flags != 0 || !good(host, &host->graphs, graph, "cudaGraphInstantiate")) return INVALID;
  struct graph *exec = new_graph(host, &host->execs);
  for (uint64_t i = 0; i < graph->ops.count; i++) list_add(&exec->ops, graph->ops.rows[i]);
  *out = exec;
  return OK;
}

static struct op *instance(struct op *op, struct op *start) {
  struct op *copy = standin_op(op->kind, op->rank);
  copy->stream = op->stream;
  copy->image = op->image;
  copy->launch = op->launch;
  copy->dst = op->dst;
  copy->src = op->src;
  copy->value = op->value;
  copy->bytes = op->bytes;
  copy->comm = op->comm;
  copy->part_count = op->part_count;
  if (op->part_count > 0) {
    copy->parts = calloc(op->part_count, sizeof *copy->parts);
    CHECK(copy->parts, "memory");
    memcpy(copy->parts, op->parts, op->part_count * sizeof *copy->parts);
  }
  standin_need(copy, start);
  for (uint64_t i = 0; i < op->needs.count; i++) standin_need(copy, ((struct op *)op->needs.rows[i])->copy);
  op->copy = copy;
  if (copy->comm) {
    copy->comm->last = copy;
    list_add(&copy->comm->groups, copy);
  }
  return copy;
}

int cudaGraphLaunch(struct graph *exec, struct stream *stream) {
  ENTER("cudaGraphLaunch");
  stream = stream_of(host, stream, "cudaGraphLaunch");
  if (!stream || !good(host, &host->execs, exec, "cudaGraphLaunch")) return BAD_HANDLE;
  if (stream->capture) {
    stream->capture->broken = true;
    return CAPTURE;
  }
  struct op *start = standin_op(OP_MARK, host->rank), *end = standin_op(OP_MARK, host->rank);
  standin_need(start, exec->ran);
  standin_queue(stream, start);
  for (uint64_t i = 0; i < exec->ops.count; i++) {
    struct op *copy = instance(exec->ops.rows[i], start);
    standin_need(end, copy);
    standin_submit(copy);
  }
  standin_queue(stream, end);
  exec->ran = end;
  standin_free_early(host);
  return OK;
}

int cudaGraphExecDestroy(struct graph *exec) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaGraphExecDestroy");
  if (!good(host, &host->execs, exec, "cudaGraphExecDestroy")) return BAD_HANDLE;
  if (exec->ran && exec->ran->state != OP_DONE)
    standin_violates("rank %u: a graph is destroyed as it runs", host->rank);
  list_remove(&host->execs, exec);
  list_add(&host->dead_graphs, exec);
  return fine ? OK : UNKNOWN;
}

int cudaGraphDestroy(struct graph *graph) {
  struct host *host = standin_self();
  bool fine = standin_enter("cudaGraphDestroy");
  if (!good(host, &host->graphs, graph, "cudaGraphDestroy")) return BAD_HANDLE;
  list_remove(&host->graphs, graph);
  list_add(&host->dead_graphs, graph);
  return fine ? OK : UNKNOWN;
}

bool standin_has_captured(const struct comm *comm) {
  const struct host *host = &standin.hosts[comm->host];
  const struct list *lists[] = {&host->graphs, &host->execs};
  for (int l = 0; l < 2; l++) {
    for (uint64_t g = 0; g < lists[l]->count; g++) {
      const struct graph *graph = lists[l]->rows[g];
      for (uint64_t i = 0; i < graph->ops.count; i++) {
        if (((const struct op *)graph->ops.rows[i])->comm == comm) return true;
      }
    }
  }
  return false;
}

static void free_graphs(struct list *list) {
  for (uint64_t i = 0; i < list->count; i++) {
    list_free(&((struct graph *)list->rows[i])->ops);
    free(list->rows[i]);
  }
  list_free(list);
}

static void free_rows(struct list *list) {
  for (uint64_t i = 0; i < list->count; i++) free(list->rows[i]);
  list_free(list);
}

void standin_forget(struct host *host) {
  free_rows(&host->streams);
  free_rows(&host->events);
  free_rows(&host->libraries);
  free_rows(&host->buried);
  free_rows(&host->group_parts);
  free_graphs(&host->graphs);
  free_graphs(&host->execs);
  free_graphs(&host->dead_graphs);
  for (uint64_t i = 0; i < host->comms.count; i++) standin_forget_comm(host->comms.rows[i]);
  for (uint64_t i = 0; i < host->dead_comms.count; i++) standin_forget_comm(host->dead_comms.rows[i]);
  list_free(&host->comms);
  list_free(&host->dead_comms);
}
