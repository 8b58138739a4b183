/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels: strided copies, conversions and zeroing over loop nests. This is the interface; the host twins of the
 * device kernels are beside it. In: addresses and nests; out: bytes moved. Nothing is allocated, no state is kept, so
 * all is thread-safe. Addresses need no alignment. Source and destination do not overlap.
 *
 * A *nest* is `loop_count` loops, outermost first, around a contiguous run: for 0 <= k_i < count_i the run at
 * dst + sum k_i * dst_step_i comes from src + sum k_i * src_step_i. Steps are bytes. The elements of one nest may be
 * written in any order.
 */
#ifndef RSK_H
#define RSK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 64 loops of two or more turns would be more than 2^64 runs: a simplified nest always fits. */
#define RSK_LOOPS 64u

struct rsk_loop {
  uint64_t count; /* at least 1 */
  int64_t dst_step, src_step;
};

/* Write past the caches: pays when the whole transfer is larger than the last cache. */
#define RSK_STREAM 1u

enum rsk_op {
  RSK_OP_COPY,    /* convert only */
  RSK_OP_NEG_EXP, /* (float)-exp((double)x) */
  RSK_OP_ADD,     /* (float)x + constant */
  RSK_OP_SUB      /* (float)x - constant */
};

/* What happens to an element between two dtypes. Filled by rsk_conversion. */
struct rsk_conv {
  uint32_t src_dtype, dst_dtype, op;
  uint32_t src_bytes, dst_bytes; /* per element */
  float constant;
  int is_copy; /* the bits as they are: rsk_copy does it */
};

/* 0, or -1 if there is no such conversion. Equal dtypes without an op are a copy of bits. Otherwise: from f16, bf16,
 * f32, f64, f8e4m3, f8e5m2 to f16, bf16, f32, f64, rounded once to nearest even, overflow to infinity, a NaN to a quiet
 * NaN of its sign; ops between f16, bf16, f32 only, computed in f32, whose result is rounded once to the destination.
 */
int rsk_conversion(struct rsk_conv *conv, uint32_t src_dtype, uint32_t dst_dtype, uint32_t op, float constant);

/* Drops loops of one turn, puts the loops in the order that is good for the destination, joins loops and runs that
 * touch. `run` is in units of dst_unit bytes there and src_unit bytes in the source (1 and 1 for bytes; the element
 * sizes for a conversion). Returns the number of loops left, at most RSK_LOOPS if the nest has less than 2^64 runs. */
uint32_t rsk_simplify(struct rsk_loop *loops, uint32_t loop_count, uint64_t *run, uint32_t dst_unit, uint32_t src_unit);

/* A nest that ends in these two loops around a run of so many bytes is copied in tiles: the source is dense across, the
 * destination along. */
int rsk_is_transpose(const struct rsk_loop *across, const struct rsk_loop *along, uint64_t run_bytes);

/* Nests of these are best simplified first, and have at most RSK_LOOPS loops. */
void rsk_copy(void *dst, const void *src, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_bytes,
              unsigned flags);
void rsk_convert(const struct rsk_conv *conv, void *dst, const void *src, const struct rsk_loop *loops,
                 uint32_t loop_count, uint64_t run_elems);
/* Both in turn, element by element, the form between them kept: what a sender and a receiver do. Copies are skipped. */
void rsk_convert_twice(const struct rsk_conv *first, const struct rsk_conv *second, void *dst, const void *src,
                       const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_elems);
/* src_steps are ignored. */
void rsk_zero(void *dst, const struct rsk_loop *loops, uint32_t loop_count, uint64_t run_bytes);

/* "avx512", "avx2" or "base": what this processor runs. */
const char *rsk_isa_name(void);

#ifdef __cplusplus
}
#endif

#endif
