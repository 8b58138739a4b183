/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA runtime and an NCCL that do nothing, at once: what is left is libreshard's own work. For measurements.
 * With RUNS_AT_ONCE kernels and copies are done where they are called, and what was captured when the graph is
 * launched: for one rank alone, as nothing is sent.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Every handle is the same. */
static char handle;

#define DOES_NOTHING(name)                                                                                             \
  int name(void);                                                                                                      \
  int name(void) {                                                                                                     \
    return 0;                                                                                                          \
  }
/* The first argument is where the handle goes. */
#define GIVES_HANDLE(name)                                                                                             \
  int name(void **out);                                                                                                \
  int name(void **out) {                                                                                               \
    *out = &handle;                                                                                                    \
    return 0;                                                                                                          \
  }
#define GIVES_NUMBER(name, number)                                                                                     \
  int name(int *out);                                                                                                  \
  int name(int *out) {                                                                                                 \
    *out = number;                                                                                                     \
    return 0;                                                                                                          \
  }
#define GIVES_SECOND(name, type, value)                                                                                \
  int name(void *first, type *out);                                                                                    \
  int name(void *first, type *out) {                                                                                   \
    (void)first;                                                                                                       \
    *out = value;                                                                                                      \
    return 0;                                                                                                          \
  }
#define SAYS(name)                                                                                                     \
  const char *name(void);                                                                                              \
  const char *name(void) {                                                                                             \
    return "nothing is ever wrong";                                                                                    \
  }

GIVES_NUMBER(cudaRuntimeGetVersion, 12080)
GIVES_NUMBER(cudaGetDevice, 0)
GIVES_NUMBER(cudaDeviceGetAttribute, 132)
DOES_NOTHING(cudaSetDevice)
DOES_NOTHING(cudaStreamDestroy)
DOES_NOTHING(cudaStreamQuery)
DOES_NOTHING(cudaStreamWaitEvent)
DOES_NOTHING(cudaEventDestroy)
DOES_NOTHING(cudaEventRecord)
DOES_NOTHING(cudaEventQuery)
DOES_NOTHING(cudaGraphExecDestroy)
DOES_NOTHING(cudaGraphDestroy)
DOES_NOTHING(cudaLibraryUnload)
GIVES_HANDLE(cudaStreamCreateWithFlags)
GIVES_HANDLE(cudaEventCreateWithFlags)
GIVES_HANDLE(cudaGraphInstantiate)
GIVES_HANDLE(cudaLibraryLoadData)
GIVES_HANDLE(cudaLibraryGetKernel)
GIVES_SECOND(cudaStreamIsCapturing, int, 0)
SAYS(cudaGetErrorString)

#ifndef RUNS_AT_ONCE
DOES_NOTHING(cudaMemcpyAsync)
DOES_NOTHING(cudaMemsetAsync)
DOES_NOTHING(cudaStreamBeginCapture)
DOES_NOTHING(cudaGraphLaunch)
DOES_NOTHING(cudaLaunchKernelExC)
GIVES_SECOND(cudaStreamEndCapture, void *, &handle)
#else
#include "kernels/batch.h"

#define MOST 4096 /* launches of a graph */
static struct {
  const void *image;
  struct rsk_launch launch;
} captured[MOST];
static int count;
static int capturing;

int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream);
int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream) {
  (void)kind, (void)stream;
  memmove(dst, src, bytes);
  return 0;
}

int cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream);
int cudaMemsetAsync(void *dst, int value, size_t bytes, void *stream) {
  (void)stream;
  memset(dst, value, bytes);
  return 0;
}

int cudaStreamBeginCapture(void);
int cudaStreamBeginCapture(void) {
  capturing = 1;
  count = 0;
  return 0;
}

int cudaStreamEndCapture(void *stream, void **graph);
int cudaStreamEndCapture(void *stream, void **graph) {
  (void)stream;
  capturing = 0;
  *graph = &handle;
  return 0;
}

int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments);
int cudaLaunchKernelExC(const void *config, const void *kernel, void **arguments) {
  const void *image;
  struct rsk_launch launch;
  (void)config, (void)kernel;
  memcpy(&image, arguments[0], sizeof image);
  memcpy(&launch, arguments[1], sizeof launch);
  if (!capturing) {
    rsk_batch_run(image, &launch);
    return 0;
  }
  if (count == MOST) return 2;
  captured[count].image = image;
  captured[count++].launch = launch;
  return 0;
}

int cudaGraphLaunch(void);
int cudaGraphLaunch(void) {
  for (int i = 0; i < count; i++) rsk_batch_run(captured[i].image, &captured[i].launch);
  return 0;
}
#endif

struct attributes {
  int type, device;
};
int cudaPointerGetAttributes(struct attributes *attributes, const void *ptr);
int cudaPointerGetAttributes(struct attributes *attributes, const void *ptr) {
  (void)ptr;
  *attributes = (struct attributes){2, 0};
  return 0;
}

/* Addresses that nobody touches; the size is kept in a page before them. */
int cudaMalloc(void **ptr, size_t bytes);
int cudaMalloc(void **ptr, size_t bytes) {
  char *at = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 2;
  memcpy(at, &bytes, sizeof bytes);
  *ptr = at + 4096;
  return 0;
}

int cudaFree(void *ptr);
int cudaFree(void *ptr) {
  size_t bytes;
  if (!ptr) return 0;
  memcpy(&bytes, (char *)ptr - 4096, sizeof bytes);
  return munmap((char *)ptr - 4096, bytes + 4096);
}

GIVES_NUMBER(ncclGetVersion, 22800)
GIVES_HANDLE(ncclCommInitRankConfig)
GIVES_SECOND(ncclCommGetAsyncError, int, 0)
DOES_NOTHING(ncclGetUniqueId)
DOES_NOTHING(ncclCommFinalize)
DOES_NOTHING(ncclCommDestroy)
DOES_NOTHING(ncclCommAbort)
DOES_NOTHING(ncclCommRegister)
DOES_NOTHING(ncclCommDeregister)
DOES_NOTHING(ncclGroupStart)
DOES_NOTHING(ncclGroupEnd)
DOES_NOTHING(ncclSend)
DOES_NOTHING(ncclRecv)
SAYS(ncclGetErrorString)
SAYS(ncclGetLastError)
