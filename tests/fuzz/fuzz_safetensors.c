// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a safetensors file: refused with a reason, or arrays that lie inside the data, do not overlap and
// can be found by name.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct st_file file;
  char *reason;
  if (st_open_memory(data, size, &file, &reason) != ST_OK) {
    if (!reason || !*reason) abort();
    free(reason);
    return 0;
  }
  uint64_t sum = 0, bytes = 0;
  for (size_t i = 0; i < file.count; i++) {
    const struct st_array *a = &file.arrays[i];
    if (st_find(&file, a->name, strlen(a->name)) != a) abort();
    for (uint64_t b = a->begin; b < a->end; b++) sum += file.data[b];
    for (size_t d = 0; d < a->ndim; d++) sum += a->shape[d];
    bytes += a->end - a->begin;
  }
  if (bytes != file.data_bytes) abort();
  st_close(&file);
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
