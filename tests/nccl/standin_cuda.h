/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's CUDA functions, under their own names, as CUDA 12 and 13 declare them for a caller in C: for tests
 * that play the part of a trainer with streams and graphs of its own.
 */
#ifndef TESTS_NCCL_STANDIN_CUDA_H
#define TESTS_NCCL_STANDIN_CUDA_H

#include <stddef.h>

struct stream;
struct event;
struct graph;
struct library;

struct pointer_attributes {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

struct launch_config {
  unsigned grid[3], block[3];
  size_t shared_bytes;
  struct stream *stream;
  void *attributes;
  unsigned attribute_count;
};

int cudaRuntimeGetVersion(int *version);
const char *cudaGetErrorString(int error);
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaMalloc(void **ptr, size_t bytes);
int cudaFree(void *ptr);
int cudaPointerGetAttributes(struct pointer_attributes *attributes, const void *ptr);
int cudaStreamCreateWithFlags(struct stream **out, unsigned flags);
int cudaStreamDestroy(struct stream *stream);
int cudaStreamQuery(struct stream *stream);
int cudaStreamIsCapturing(struct stream *stream, int *status);
int cudaEventCreateWithFlags(struct event **out, unsigned flags);
int cudaEventDestroy(struct event *event);
int cudaEventRecord(struct event *event, struct stream *stream);
int cudaEventQuery(struct event *event);
int cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags);
int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, struct stream *stream);
int cudaMemsetAsync(void *dst, int value, size_t bytes, struct stream *stream);
int cudaLibraryLoadData(struct library **out, const void *code, int *jit, void **jit_values, unsigned jit_count,
                        int *options, void **values, unsigned count);
int cudaLibraryGetKernel(char **kernel, struct library *library, const char *name);
int cudaLibraryUnload(struct library *library);
int cudaLaunchKernelExC(const struct launch_config *config, const char *kernel, void **arguments);
int cudaStreamBeginCapture(struct stream *stream, int mode);
int cudaStreamEndCapture(struct stream *stream, struct graph **out);
int cudaGraphInstantiate(struct graph **out, struct graph *graph, unsigned long long flags);
int cudaGraphLaunch(struct graph *exec, struct stream *stream);
int cudaGraphExecDestroy(struct graph *exec);
int cudaGraphDestroy(struct graph *graph);

#endif
