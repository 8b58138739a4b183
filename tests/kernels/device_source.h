/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's kernels from their own source, on the host (cuda_on_host.h).
 */
#ifndef TESTS_KERNELS_DEVICE_SOURCE_H
#define TESTS_KERNELS_DEVICE_SOURCE_H

#include "kernels/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The launch's kernel with so many blocks; threads run in an order from the seed. One call at a time. */
void device_source_run(const void *image, const struct rsk_launch *launch, uint32_t blocks, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
