/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions: a block of elements to floats, the op on them, and back; f64 to narrower forms goes straight, so that it
 * is rounded once. In: nests of elements; out: elements of another dtype.
 */
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/rsk.h"
#include "plans/dtype.h"

int rsk_form_of(uint32_t dtype) {
  switch (dtype) {
  case RSP_F16:
    return RSK_FORM_F16;
  case RSP_BF16:
    return RSK_FORM_BF16;
  case RSP_F32:
    return RSK_FORM_F32;
  case RSP_F64:
    return RSK_FORM_F64;
  case RSP_F8E4M3:
    return RSK_FORM_F8E4M3;
  case RSP_F8E5M2:
    return RSK_FORM_F8E5M2;
  default:
    return -1;
  }
}

static uint32_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
#define RSP_DTYPE(NAME, word, number, bytes, st)                                                                       \
  case number:                                                                                                         \
    return bytes;
#include "plans/dtype.def"
#undef RSP_DTYPE
  default:
    return 0;
  }
}

int rsk_conversion(struct rsk_conv *conv, uint32_t src_dtype, uint32_t dst_dtype, uint32_t op, float constant) {
  *conv = (struct rsk_conv){.src_dtype = src_dtype,
                            .dst_dtype = dst_dtype,
                            .op = op,
                            .src_bytes = dtype_bytes(src_dtype),
                            .dst_bytes = dtype_bytes(dst_dtype),
                            .constant = constant,
                            .is_copy = op == RSK_OP_COPY && src_dtype == dst_dtype};
  if (conv->src_bytes == 0 || conv->dst_bytes == 0 || op > RSK_OP_SUB) return -1;
  if (conv->is_copy) return 0;
  int from = rsk_form_of(src_dtype), to = rsk_form_of(dst_dtype);
  if (from < 0 || to < 0 || to > RSK_FORM_F64) return -1;
  if (op != RSK_OP_COPY && (from > RSK_FORM_F32 || to > RSK_FORM_F32)) return -1;
  return 0;
}

static void apply(uint32_t op, float *x, uint64_t count, float constant) {
  switch (op) {
  case RSK_OP_ADD:
    for (uint64_t i = 0; i < count; i++) x[i] += constant;
    break;
  case RSK_OP_SUB:
    for (uint64_t i = 0; i < count; i++) x[i] -= constant;
    break;
  case RSK_OP_NEG_EXP:
    for (uint64_t i = 0; i < count; i++) x[i] = (float)-exp((double)x[i]);
    break;
  default:
    break;
  }
}

/* `count` elements, `step` bytes apart. */
static void convert_line(const struct rsk_conv *conv, const struct rsk_isa *isa, unsigned char *dst,
                         const unsigned char *src, uint64_t count, int64_t dst_step, int64_t src_step) {
  int from = rsk_form_of(conv->src_dtype), to = rsk_form_of(conv->dst_dtype);
  if (from == RSK_FORM_F64) {
    isa->from_f64[to](dst, src, count, dst_step, src_step);
    return;
  }
  float block[RSK_BLOCK];
  while (count > 0) {
    uint64_t n = count < RSK_BLOCK ? count : RSK_BLOCK;
    isa->load[from](block, src, n, src_step);
    apply(conv->op, block, n, conv->constant);
    isa->store[to](dst, block, n, dst_step);
    dst += (int64_t)n * dst_step;
    src += (int64_t)n * src_step;
    count -= n;
  }
}

static void convert_nest(const struct rsk_conv *conv, const struct rsk_isa *isa, unsigned char *dst,
                         const unsigned char *src, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run) {
  if (loop_count == 0) {
    convert_line(conv, isa, dst, src, run, conv->dst_bytes, conv->src_bytes);
  } else if (loop_count == 1 && run == 1) {
    convert_line(conv, isa, dst, src, loops[0].count, loops[0].dst_step, loops[0].src_step);
  } else {
    for (uint64_t k = 0; k < loops[0].count; k++) {
      convert_nest(conv, isa, dst, src, loops + 1, loop_count - 1, run);
      dst += loops[0].dst_step;
      src += loops[0].src_step;
    }
  }
}

void rsk_convert(const struct rsk_conv *conv, void *dst, const void *src, const struct rsk_loop *loops,
                 uint32_t loop_count, uint64_t run_elems) {
  if (run_elems == 0) return;
  if (conv->is_copy)
    rsk_copy(dst, src, loops, loop_count, run_elems * conv->dst_bytes, 0);
  else
    convert_nest(conv, rsk_isa(), dst, src, loops, loop_count, run_elems);
}

static void twice_line(const struct rsk_conv *first, const struct rsk_conv *second, unsigned char *dst,
                       const unsigned char *src, uint64_t count) {
  const struct rsk_isa *isa = rsk_isa();
  unsigned char between[RSK_BLOCK * 8];
  while (count > 0) {
    uint64_t n = count < RSK_BLOCK ? count : RSK_BLOCK;
    convert_line(first, isa, between, src, n, first->dst_bytes, first->src_bytes);
    convert_line(second, isa, dst, between, n, second->dst_bytes, second->src_bytes);
    src += n * first->src_bytes;
    dst += n * second->dst_bytes;
    count -= n;
  }
}

static void twice_nest(const struct rsk_conv *first, const struct rsk_conv *second, unsigned char *dst,
                       const unsigned char *src, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run) {
  if (loop_count == 0) {
    twice_line(first, second, dst, src, run);
    return;
  }
  for (uint64_t k = 0; k < loops[0].count; k++) {
    twice_nest(first, second, dst, src, loops + 1, loop_count - 1, run);
    dst += loops[0].dst_step;
    src += loops[0].src_step;
  }
}

void rsk_convert_twice(const struct rsk_conv *first, const struct rsk_conv *second, void *dst, const void *src,
                       const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_elems) {
  if (run_elems == 0) return;
  if (first->is_copy)
    rsk_convert(second, dst, src, loops, loop_count, run_elems);
  else if (second->is_copy)
    rsk_convert(first, dst, src, loops, loop_count, run_elems);
  else
    twice_nest(first, second, dst, src, loops, loop_count, run_elems);
}
