/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/batch.cu as the host runs it: the same calls as those of the twin.
 */
#include "tests/kernels/device_source.h"

#include "tests/kernels/cuda_on_host.h"

#include "kernels/batch.cu"

namespace {
struct arguments {
  const void *image;
  struct rsk_launch launch;
};

void run(const void *with) {
  const struct arguments *a = (const struct arguments *)with;
  const unsigned char *image = (const unsigned char *)a->image;
  if (a->launch.kernel == RSK_KERNEL_COPY)
    rsk_batch_kernel(image, a->launch);
  else if (a->launch.kernel == RSK_KERNEL_HASH)
    rsk_batch_hash_kernel(image, a->launch);
  else
    rsk_batch_convert_kernel(image, a->launch);
}
} // namespace

void device_source_run(const void *image, const struct rsk_launch *launch, uint32_t blocks, uint64_t seed) {
  struct arguments with = {image, *launch};
  cuda_launch(run, &with, blocks, RSK_BLOCK_THREADS, seed);
}
