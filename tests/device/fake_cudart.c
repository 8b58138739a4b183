/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA runtime that is none: each call is done at once, in host memory, and kernels are their host twins. With it
 * test_device runs on any machine, so that what it checks is itself checked; its times mean nothing. FAKE_BREAKS=1
 * makes a byte of every launch wrong, which must show.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/batch.h"
#include "runtime/cuda_api.h"

#define FAKE __attribute__((visibility("default"))) int

/* The declarations of the table. */
#define DECLARE(name, parameters) FAKE cuda##name parameters;
RSR_CUDA_CALLS(DECLARE)
FAKE cudaEventElapsedTime(float *milliseconds, void *from, void *to);
FAKE cudaDriverGetVersion(int *version);
FAKE cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream);
__attribute__((visibility("default"))) const char *cudaGetErrorString(int error);

static int handle;
static int capturing;
static struct rsk_launch captured;
static const void *captured_image;

const char *cudaGetErrorString(int error) {
  return error == 0 ? "no error" : "an error";
}
#define NOTHING(name, parameters, unused)                                                                              \
  FAKE name parameters {                                                                                               \
    unused;                                                                                                            \
    return 0;                                                                                                          \
  }
NOTHING(cudaSetDevice, (int device), (void)device)
NOTHING(cudaGetDevice, (int *device), *device = 0)
NOTHING(cudaRuntimeGetVersion, (int *version), *version = 12080)
NOTHING(cudaDriverGetVersion, (int *version), *version = 12080)
NOTHING(cudaDeviceGetAttribute, (int *value, int attribute, int device), (void)attribute; (void)device; *value = 4)
NOTHING(cudaFree, (void *ptr), free(ptr))
NOTHING(cudaPointerGetAttributes, (struct rsr_cuda_pointer * attributes, const void *ptr), (void)attributes; (void)ptr)
NOTHING(cudaStreamCreateWithFlags, (void **stream, unsigned flags), (void)flags; *stream = &handle)
NOTHING(cudaStreamDestroy, (void *stream), (void)stream)
NOTHING(cudaStreamQuery, (void *stream), (void)stream)
NOTHING(cudaStreamWaitEvent, (void *stream, void *event, unsigned flags), (void)stream; (void)event; (void)flags)
NOTHING(cudaStreamIsCapturing, (void *stream, int *status), (void)stream; *status = capturing)
NOTHING(cudaEventDestroy, (void *event), free(event))
NOTHING(cudaEventQuery, (void *event), (void)event)
NOTHING(cudaGraphInstantiate, (void **exec, void *graph, unsigned long long flags), (void)graph; (void)flags;
        *exec = &handle)
NOTHING(cudaGraphExecDestroy, (void *exec), (void)exec)
NOTHING(cudaGraphDestroy, (void *graph), (void)graph)
NOTHING(cudaStreamBeginCapture, (void *stream, int mode), (void)stream; (void)mode; capturing = 1)
NOTHING(cudaStreamEndCapture, (void *stream, void **graph), (void)stream; *graph = &handle; capturing = 0)
NOTHING(cudaLibraryUnload, (void *library), (void)library)

FAKE cudaMalloc(void **ptr, size_t bytes) {
  *ptr = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *ptr ? 0 : RSR_CUDA_NO_MEMORY;
}

FAKE cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream) {
  (void)kind, (void)stream;
  memcpy(dst, src, bytes);
  return 0;
}

FAKE cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream) {
  (void)stream;
  memset(dst, value, bytes);
  return 0;
}

FAKE cudaEventCreateWithFlags(void **event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof(struct timespec));
  return *event ? 0 : RSR_CUDA_NO_MEMORY;
}

FAKE cudaEventRecord(void *event, void *stream) {
  (void)stream;
  return clock_gettime(CLOCK_MONOTONIC, event);
}

FAKE cudaEventElapsedTime(float *milliseconds, void *from, void *to) {
  const struct timespec *a = from, *b = to;
  *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6 + 1e-3);
  return 0;
}

FAKE cudaLibraryLoadData(void **library, const void *code, int *jit_options, void **jit_values, unsigned jit_count,
                         int *options, void **values, unsigned count) {
  (void)code, (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  *library = &handle;
  return 0;
}

/* A kernel is its name. */
FAKE cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library;
  *kernel = (void *)(uintptr_t)name;
  return 0;
}

static int run(const void *image, const struct rsk_launch *launch) {
  rsk_batch_run(image, launch);
  if (!getenv("FAKE_BREAKS") || launch->part_count == 0) return 0;
  const unsigned char *bytes = image;
  struct rsk_part part;
  struct rsk_series series;
  struct rsk_task task; /* the first of the first part */
  memcpy(&part, bytes + launch->parts_off, sizeof part);
  memcpy(&series, bytes + (uint64_t)part.series * RSK_SERIES_BYTES, sizeof series);
  memcpy(&task, bytes + series.tasks_off, sizeof task);
  *(unsigned char *)(uintptr_t)(task.dst + rsk_turn_span(&series, part.turn).dst) ^= 1;
  return 0;
}

FAKE cudaLaunchKernelExC(const struct rsr_cuda_launch *config, const void *kernel, void **arguments) {
  const struct rsk_launch *launch = arguments[1];
  const void *image = *(void **)arguments[0];
  if (config->grid[0] == 0 || config->block[0] != RSK_BLOCK_THREADS) return 9;
  if (strcmp(kernel, rsk_kernel_name(launch->kernel)) != 0) return 98;
  if (!capturing) return run(image, launch);
  captured = *launch;
  captured_image = image;
  return 0;
}

FAKE cudaGraphLaunch(void *exec, void *stream) {
  (void)exec, (void)stream;
  return run(captured_image, &captured);
}
