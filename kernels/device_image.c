/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels for devices as they came from nvcc, or none. In: RSK_DEVICE_IMAGE, the path of a fat binary.
 */
#include "kernels/batch.h"

#ifdef RSK_DEVICE_IMAGE
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden rsk_device_image_start\n"
        ".globl rsk_device_image_start\n"
        "rsk_device_image_start:\n"
        ".incbin \"" RSK_DEVICE_IMAGE "\"\n"
        ".hidden rsk_device_image_end\n"
        ".globl rsk_device_image_end\n"
        "rsk_device_image_end:\n"
        ".byte 0\n"
        ".popsection\n");

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
