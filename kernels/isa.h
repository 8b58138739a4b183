/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops, built once per instruction set from isa.inc.h; private to the kernels.
 */
#ifndef RSK_ISA_H
#define RSK_ISA_H

#include <stdint.h>

#include "kernels/bits.h"

/* Elements of a block of a conversion: small enough for the first cache beside both ends. */
#define RSK_BLOCK 512u

struct rsk_isa {
  const char *name;
  /* One run past the caches. The caller fences. */
  void (*stream)(unsigned char *dst, const unsigned char *src, uint64_t bytes);
  /* `count` runs, ordinary stores. */
  void (*rows)(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step,
               uint64_t run);
  /* `count` runs past the caches. */
  void (*rows_stream)(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step,
                      uint64_t run);
  /* Conversions of up to RSK_BLOCK elements to and from floats; `step` bytes between elements in memory. Indexed by
   * enum rsk_form; stores to f8 are NULL. from_f64 reads doubles and rounds once. */
  void (*load[6])(float *out, const unsigned char *src, uint64_t count, int64_t step);
  void (*store[4])(unsigned char *dst, const float *in, uint64_t count, int64_t step);
  void (*from_f64[4])(unsigned char *dst, const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step);
  void (*fence)(void);
};

extern const struct rsk_isa rsk_isa_base;
#ifdef RSK_X86
extern const struct rsk_isa rsk_isa_avx2, rsk_isa_avx512;
#endif

/* enum rsk_form, or -1. */
int rsk_form_of(uint32_t dtype);

/* The best one here. Thread-safe. */
const struct rsk_isa *rsk_isa(void);

#endif
