/* SPDX-License-Identifier: Apache-2.0
 *
 * What is called of the CUDA runtime, in declarations of our own: the library is opened at run time, so that one build
 * serves machines with and without it. In: a path, or the usual names; out: a table of functions, all there.
 *
 * Handles are opaque pointers. Every function returns a cudaError_t, an int; each call is checked (nccl.h).
 */
#ifndef RSR_CUDA_API_H
#define RSR_CUDA_API_H

#include <stddef.h>

#include "runtime/context.h"

/* Values of CUDA's enums that are looked at or handed over. */
enum {
  RSR_CUDA_OK = 0,
  RSR_CUDA_NO_MEMORY = 2,
  RSR_CUDA_OLD_DRIVER = 35,
  RSR_CUDA_NO_DEVICE = 100,
  RSR_CUDA_NOT_READY = 600
};
enum { RSR_CUDA_PROCESSORS = 16 };         /* cudaDevAttrMultiProcessorCount */
enum { RSR_CUDA_COPY_DEFAULT = 4 };        /* cudaMemcpyKind: from the addresses */
enum { RSR_CUDA_STREAM_NON_BLOCKING = 1 }; /* does not wait for the legacy default stream */
enum { RSR_CUDA_EVENT_DISABLE_TIMING = 2 };
enum { RSR_CUDA_CAPTURE_THREAD_LOCAL = 1 };                       /* cudaStreamCaptureMode */
enum { RSR_CUDA_CAPTURE_NONE = 0 };                               /* cudaStreamCaptureStatus */
enum { RSR_CUDA_MEMORY_DEVICE = 2, RSR_CUDA_MEMORY_MANAGED = 3 }; /* cudaMemoryType */

/* cudaPointerAttributes of CUDA 12 and 13; the tail is room of theirs. */
struct rsr_cuda_pointer {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

/* cudaLaunchConfig_t */
struct rsr_cuda_launch {
  unsigned grid[3], block[3];
  size_t shared_bytes;
  void *stream, *attributes;
  unsigned attribute_count;
};

/* X(name without "cuda", parameters). A stream NULL is the legacy default stream. */
#define RSR_CUDA_CALLS(X)                                                                                              \
  X(RuntimeGetVersion, (int *version))                                                                                 \
  X(GetDevice, (int *device))                                                                                          \
  X(SetDevice, (int device))                                                                                           \
  X(DeviceGetAttribute, (int *value, int attribute, int device))                                                       \
  X(Malloc, (void **ptr, size_t bytes))                                                                                \
  X(Free, (void *ptr))                                                                                                 \
  X(PointerGetAttributes, (struct rsr_cuda_pointer * attributes, const void *ptr))                                     \
  X(MemcpyAsync, (void *dst, const void *src, size_t bytes, int kind, void *stream))                                   \
  X(MemsetAsync, (void *dst, int value, size_t bytes, void *stream))                                                   \
  X(StreamCreateWithFlags, (void **stream, unsigned flags))                                                            \
  X(StreamDestroy, (void *stream))                                                                                     \
  X(StreamQuery, (void *stream))                                                                                       \
  X(StreamWaitEvent, (void *stream, void *event, unsigned flags))                                                      \
  X(StreamBeginCapture, (void *stream, int mode))                                                                      \
  X(StreamEndCapture, (void *stream, void **graph))                                                                    \
  X(StreamIsCapturing, (void *stream, int *status))                                                                    \
  X(EventCreateWithFlags, (void **event, unsigned flags))                                                              \
  X(EventDestroy, (void *event))                                                                                       \
  X(EventRecord, (void *event, void *stream))                                                                          \
  X(EventQuery, (void *event))                                                                                         \
  X(GraphInstantiate, (void **exec, void *graph, unsigned long long flags))                                            \
  X(GraphLaunch, (void *exec, void *stream))                                                                           \
  X(GraphExecDestroy, (void *exec))                                                                                    \
  X(GraphDestroy, (void *graph))                                                                                       \
  X(LibraryLoadData, (void **library, const void *code, int *jit_options, void **jit_values, unsigned jit_count,       \
                      int *options, void **values, unsigned count))                                                    \
  X(LibraryGetKernel, (void **kernel, void *library, const char *name))                                                \
  X(LibraryUnload, (void *library))                                                                                    \
  X(LaunchKernelExC, (const struct rsr_cuda_launch *config, const void *kernel, void **arguments))

struct rsr_cuda {
  void *library;
  int version; /* 12080 is 12.8 */
#define RSR_CUDA_MEMBER(name, parameters) int(*name) parameters;
  RSR_CUDA_CALLS(RSR_CUDA_MEMBER)
#undef RSR_CUDA_MEMBER
  const char *(*GetErrorString)(int error);
};

/* UNSUPPORTED with one line if the library is not there, too old or lacks a function. Close it also after a failure. */
enum reshard_status rsr_cuda_open(struct rsr_cuda *cuda, const char *path, struct reshard_fault *fault);
void rsr_cuda_close(struct rsr_cuda *cuda);

/* Opens the first of `names` that there is (path: only that), those that the process has already before others: a
 * framework's own is the right one. NULL and UNSUPPORTED in *fault if there is none. */
void *rsr_library_open(const char *what, const char *path, const char *const *names, struct reshard_fault *fault);
/* Closes it, unless NULL. */
void rsr_library_close(void *library);

#endif
