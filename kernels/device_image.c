/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels for devices as they came from nvcc, or none.
 */
#include "kernels/batch.h"

#ifdef RSK_DEVICE_IMAGE
/* device_image.S includes the file. */
extern const unsigned char rsk_device_image_start[], rsk_device_image_end[];

const void *rsk_device_image(size_t *bytes) {
  *bytes = (size_t)(rsk_device_image_end - rsk_device_image_start);
  return rsk_device_image_start;
}
#else
const void *rsk_device_image(size_t *bytes) {
  *bytes = 0;
  return NULL;
}
#endif
