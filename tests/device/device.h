/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of a machine with a GPU, shared by the files here. The CUDA runtime is opened at run time, as the nccl
 * backend opens it; every call must succeed.
 */
#ifndef TESTS_DEVICE_DEVICE_H
#define TESTS_DEVICE_DEVICE_H

#include <stdint.h>

#include "kernels/batch.h"
#include "runtime/cuda_api.h"
#include "tests/check.h"

struct device {
  struct rsr_cuda cuda;
  /* What only these checks call. */
  int (*EventElapsedTime)(float *milliseconds, void *from, void *to);
  int (*DriverGetVersion)(int *version);
  int (*MemsetAsync)(void *dst, int value, size_t bytes, void *stream);
  void *library, *kernels[RSK_KERNEL_COUNT];
  void *stream;
  uint32_t processors;
  uint64_t rounds;  /* of random launches */
  uint64_t payload; /* bytes that a figure is taken over: a power of two, at least 1 MiB */
};

#define CALL(name, ...)                                                                                                \
  do {                                                                                                                 \
    int rc_ = device->cuda.name(__VA_ARGS__);                                                                          \
    CHECK(rc_ == RSR_CUDA_OK, "cuda%s: %s (%d)", #name, device->cuda.GetErrorString(rc_), rc_);                        \
  } while (0)

/* False, and one line that says why on stdout, if there is no GPU or nothing to run on it. `library`: a path of the
 * CUDA runtime, or NULL. */
int device_open(struct device *device, const char *library);
void device_close(struct device *device);
void *device_memory(struct device *device, uint64_t bytes);
/* Frees the batch. */
void *device_load(struct device *device, struct rsk_batch *batch);
/* Queues the launch's kernel, on at most `most` blocks. */
void device_launch(struct device *device, const void *image, const struct rsk_launch *launch, uint32_t most);
void device_copy(struct device *device, void *dst, const void *src, uint64_t bytes);
void device_fill(struct device *device, void *dst, int value, uint64_t bytes);
/* Until the stream is empty. */
void device_wait(struct device *device);
/* Blocks that fill the card. */
uint32_t device_blocks(const struct device *device);

/* Each prints its rows of the table. */
void device_kernels(struct device *device);
void device_bandwidth(struct device *device);
void device_graphs(struct device *device);

#endif
