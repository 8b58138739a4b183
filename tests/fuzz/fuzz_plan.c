// SPDX-License-Identifier: Apache-2.0
//
// In: any bytes, as a plan. The reader must give a rule or a plan that can be walked; then the same with every seal
// made right, so that the rules behind the seals are reached.
#include <stdlib.h>
#include <string.h>

#include "plans/rules.h"
#include "tests/plan/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_and_walk(const unsigned char *bytes, size_t size) {
  struct rsp_plan plan;
  struct rsp_error error;
  enum rsp_status status = rsp_open_memory(bytes, size, &plan, &error);
  if (status == RSP_OK)
    walk_plan(&plan, 100000);
  else if (status != RSP_INVALID || !rsp_rule_name(error.rule) || error.offset > size + 4096)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  unsigned char *bytes = calloc(1, size ? size : 1); // aligned, and exactly as long as the input
  if (!bytes) return 0;
  if (size) memcpy(bytes, data, size);
  open_and_walk(bytes, size);
  if (size >= sizeof(struct rsp_header)) {
    // Fields that a fuzzer would have to guess: the magic, the size, the seals.
    struct rsp_header *header = (void *)bytes;
    memcpy(header->magic, RSP_MAGIC, sizeof header->magic);
    header->file_bytes = size;
    if (rsp_reseal(bytes, size)) open_and_walk(bytes, size);
  }
  free(bytes);
  return 0;
}
