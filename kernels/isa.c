/* SPDX-License-Identifier: Apache-2.0
 * Which inner loops this processor runs: asked of the processor, not of the environment. */
#include "kernels/isa.h"

#include "kernels/rsk.h"

const struct rsk_isa *rsk_isa(void) {
#ifdef RSK_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return &rsk_isa_avx512;
  }
  if (__builtin_cpu_supports("avx2")) return &rsk_isa_avx2;
#endif
  return &rsk_isa_base;
}

const char *rsk_isa_name(void) {
  return rsk_isa()->name;
}
