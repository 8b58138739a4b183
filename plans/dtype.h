/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of the language, the file format and the runtime: one list, in dtype.def.
 */
#ifndef RSP_DTYPE_H
#define RSP_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rsp_dtype {
  RSP_DTYPE_NONE = 0,
#define RSP_DTYPE(NAME, word, number, bytes, st) RSP_##NAME = number,
#include "plans/dtype.def"
#undef RSP_DTYPE
};

/* Bytes per element, or 0 for an unknown number. Thread-safe, as are all here. */
size_t rsp_dtype_bytes(uint32_t dtype);
/* "bf16", or NULL for an unknown number. */
const char *rsp_dtype_word(uint32_t dtype);
/* "BF16": the spelling of a safetensors header, or NULL. */
const char *rsp_dtype_safetensors(uint32_t dtype);
/* The number for a word of the language ("bf16"), or RSP_DTYPE_NONE. */
enum rsp_dtype rsp_dtype_from_word(const char *word, size_t len);
enum rsp_dtype rsp_dtype_from_safetensors(const char *word, size_t len);
/* 1 for f16, bf16, f32, f64, f8e4m3, f8e5m2. */
int rsp_dtype_is_float(uint32_t dtype);

#ifdef __cplusplus
}
#endif

#endif
