/* SPDX-License-Identifier: Apache-2.0
 *
 * RSK_HD: a function of a header that C, C++ and CUDA, host and device, all compile.
 */
#ifndef RSK_DEVICE_H
#define RSK_DEVICE_H

#ifdef __CUDACC__
#define RSK_HD static __host__ __device__ __forceinline__
#else
#define RSK_HD static inline
#endif

#endif
