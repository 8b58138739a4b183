// SPDX-License-Identifier: Apache-2.0
//
// In: numbers or words. Out: the facts of dtype.def.
#include "plans/dtype.h"

#include <string.h>

struct fact {
  const char *word, *safetensors;
  size_t bytes;
};

static const struct fact facts[] = {
#define RSP_DTYPE(NAME, word, number, bytes, st) [number] = {word, st, bytes},
#include "plans/dtype.def"
#undef RSP_DTYPE
};
static const uint32_t fact_count = sizeof facts / sizeof facts[0];

size_t rsp_dtype_bytes(uint32_t dtype) {
  return dtype < fact_count ? facts[dtype].bytes : 0;
}

const char *rsp_dtype_word(uint32_t dtype) {
  return dtype < fact_count ? facts[dtype].word : NULL;
}

const char *rsp_dtype_safetensors(uint32_t dtype) {
  return dtype < fact_count ? facts[dtype].safetensors : NULL;
}

static int same(const char *text, const char *word, size_t len) {
  return text && strlen(text) == len && memcmp(text, word, len) == 0;
}

enum rsp_dtype rsp_dtype_from_word(const char *word, size_t len) {
  for (uint32_t i = 1; i < fact_count; i++)
    if (same(facts[i].word, word, len)) return (enum rsp_dtype)i;
  return RSP_DTYPE_NONE;
}

enum rsp_dtype rsp_dtype_from_safetensors(const char *word, size_t len) {
  for (uint32_t i = 1; i < fact_count; i++)
    if (same(facts[i].safetensors, word, len)) return (enum rsp_dtype)i;
  return RSP_DTYPE_NONE;
}

int rsp_dtype_is_float(uint32_t dtype) {
  switch (dtype) {
  case RSP_F16:
  case RSP_BF16:
  case RSP_F32:
  case RSP_F64:
  case RSP_F8E4M3:
  case RSP_F8E5M2:
    return 1;
  default:
    return 0;
  }
}
