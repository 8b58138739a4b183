/* SPDX-License-Identifier: Apache-2.0
 *
 * What a machine with one GPU can say of the kernels: exit 0 with a table, 1 if something is wrong, 77 (skipped) and
 * one line without a GPU.
 */
#include "tests/device/device.h"

#include <dlfcn.h>
#include <stdio.h>

static int no(const char *why) {
  printf("device: skipped: %s\n", why);
  return 0;
}

static int load_kernels(struct device *device) {
  size_t bytes;
  const void *code = rsk_device_image(&bytes);
  if (!code) return no("built without nvcc 12.8+, so there are no device kernels");
  CALL(LibraryLoadData, &device->library, code, NULL, NULL, 0, NULL, NULL, 0);
  for (uint32_t k = 0; k < RSK_KERNEL_COUNT; k++)
    CALL(LibraryGetKernel, &device->kernels[k], device->library, rsk_kernel_name(k));
  return 1;
}

int device_open(struct device *device, const char *library) {
  struct reshard_fault fault = {0};
  int processors = 0, driver = 0;
  if (rsr_cuda_open(&device->cuda, library, &fault) != RESHARD_OK) return no(fault.what);
  int rc = device->cuda.SetDevice(0);
  if (rc != RSR_CUDA_OK) return no(device->cuda.GetErrorString(rc));
  *(void **)&device->EventElapsedTime = dlsym(device->cuda.library, "cudaEventElapsedTime");
  *(void **)&device->DriverGetVersion = dlsym(device->cuda.library, "cudaDriverGetVersion");
  *(void **)&device->MemsetAsync = dlsym(device->cuda.library, "cudaMemsetAsync");
  CHECK(device->EventElapsedTime && device->DriverGetVersion && device->MemsetAsync,
        "functions of the CUDA runtime are missing");
  if (!load_kernels(device)) return 0;
  CALL(DeviceGetAttribute, &processors, RSR_CUDA_PROCESSORS, 0);
  CALL(StreamCreateWithFlags, &device->stream, RSR_CUDA_STREAM_NON_BLOCKING);
  device->processors = (uint32_t)processors;
  device->DriverGetVersion(&driver);
  printf("CUDA runtime %d.%d, driver for %d.%d, %d processors\n", device->cuda.version / 1000,
         device->cuda.version % 1000 / 10, driver / 1000, driver % 1000 / 10, processors);
  return 1;
}

void device_close(struct device *device) {
  if (device->stream) device->cuda.StreamDestroy(device->stream);
  if (device->library) device->cuda.LibraryUnload(device->library);
  rsr_cuda_close(&device->cuda);
}

void *device_memory(struct device *device, uint64_t bytes) {
  void *ptr = NULL;
  CALL(Malloc, &ptr, bytes);
  return ptr;
}

void *device_load(struct device *device, struct rsk_batch *batch) {
  uint64_t bytes;
  const void *from = rsk_batch_image(batch, &bytes);
  void *image = device_memory(device, bytes + 1);
  device_copy(device, image, from, bytes);
  device_wait(device);
  rsk_batch_free(batch);
  return image;
}

void device_launch(struct device *device, const void *image, const struct rsk_launch *launch, uint32_t most) {
  struct rsk_launch by_value = *launch;
  void *arguments[] = {&image, &by_value};
  struct rsr_cuda_launch config = {
      .grid = {rsk_launch_blocks(launch, most), 1, 1}, .block = {RSK_BLOCK_THREADS, 1, 1}, .stream = device->stream};
  CALL(LaunchKernelExC, &config, device->kernels[launch->kernel], arguments);
}

void device_copy(struct device *device, void *dst, const void *src, uint64_t bytes) {
  CALL(MemcpyAsync, dst, src, bytes, RSR_CUDA_COPY_DEFAULT, device->stream);
}

void device_fill(struct device *device, void *dst, int value, uint64_t bytes) {
  CHECK(device->MemsetAsync(dst, value, bytes, device->stream) == RSR_CUDA_OK, "cudaMemsetAsync");
}

void device_wait(struct device *device) {
  int rc;
  while ((rc = device->cuda.StreamQuery(device->stream)) == RSR_CUDA_NOT_READY) {
  }
  CHECK(rc == RSR_CUDA_OK, "the device: %s (%d)", device->cuda.GetErrorString(rc), rc);
}

uint32_t device_blocks(const struct device *device) {
  return 4 * device->processors;
}

/* test_device [LIBCUDART [ROUNDS BYTES]] */
int main(int argc, char **argv) {
  struct device device = {.rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 200,
                          .payload = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_C(1) << 30};
  if (!device_open(&device, argc > 1 ? argv[1] : NULL)) {
    device_close(&device);
    return 77;
  }
  device_kernels(&device);
  device_graphs(&device);
  device_bandwidth(&device);
  device_close(&device);
  return 0;
}
