/* SPDX-License-Identifier: Apache-2.0
 *
 * As much CUDA C++ as kernels/batch.cu uses, on the host: the file is compiled unchanged as C++ and each block's
 * threads run as fibers, in an order drawn from a seed, until all of a warp meet. What includes this is compiled with
 * -fsanitize=alignment, since a device wants words aligned. It is a test of the source's logic, not of the compiler for
 * the device, nor of its memory or speed.
 *
 * One thread of the host at a time.
 */
#ifndef TESTS_KERNELS_CUDA_ON_HOST_H
#define TESTS_KERNELS_CUDA_ON_HOST_H
#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct cuda_dim {
  uint32_t x, y, z;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
static inline uint2 make_uint2(uint32_t x, uint32_t y) {
  return uint2{x, y};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return uint4{x, y, z, w};
}
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t bits) {
  return (uint32_t)(((uint64_t)high << 32 | low) >> (bits & 31));
}

#define __global__ [[maybe_unused]]
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

/* What cuda_on_host.cpp keeps. */
extern cuda_dim threadIdx, blockIdx, gridDim, blockDim;
void cuda_meet_warp();
uint64_t cuda_exchange(uint64_t mine, uint32_t from_lane);
uint32_t cuda_vote(bool mine);

static inline void __syncwarp() {
  cuda_meet_warp();
}
static inline uint32_t __ballot_sync(uint32_t, bool mine) {
  return cuda_vote(mine);
}
static inline uint64_t __shfl_sync(uint32_t, uint64_t mine, uint32_t from) {
  return cuda_exchange(mine, from);
}
static inline uint64_t __shfl_xor_sync(uint32_t, uint64_t mine, uint32_t mask) {
  return cuda_exchange(mine, threadIdx.x % 32 ^ mask);
}
static inline uint32_t __popc(uint32_t x) {
  return (uint32_t)__builtin_popcount(x);
}
template <typename T> static inline T __ldg(const T *at) {
  return *at;
}
template <typename T> static inline T __ldcs(const T *at) {
  return *at;
}

/* A kernel with its arguments bound. */
void cuda_launch(void (*body)(const void *arguments), const void *arguments, uint32_t blocks, uint32_t threads,
                 uint64_t seed);

#endif
#endif
