/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a launch: by the host twin or, with DEVICE_SOURCE, by the kernels' own source, blocks in an order from `seed`.
 */
#ifndef TESTS_KERNELS_RUN_COPY_H
#define TESTS_KERNELS_RUN_COPY_H

#include <string.h>

#include "kernels/batch.h"
#include "tests/check.h"
#ifdef DEVICE_SOURCE
#include "tests/kernels/device_source.h"
#endif

/* The image is copied, as to a device; at another place than where it was built. */
static inline void run_copy(const struct rsk_batch *batch, const struct rsk_launch *launch, uint64_t seed) {
  uint64_t bytes;
  const void *image = rsk_batch_image(batch, &bytes);
  unsigned char *copy = (unsigned char *)malloc(bytes + 1);
  CHECK(copy, "no memory");
  memcpy(copy, image, bytes);
#ifdef DEVICE_SOURCE
  device_source_run(copy, launch, (uint32_t)(seed % 3) + 1, seed);
#else
  (void)seed;
  rsk_batch_run(copy, launch);
#endif
  free(copy);
}

#endif
