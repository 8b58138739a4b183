// SPDX-License-Identifier: Apache-2.0
//
// run_mismatch: says in words which byte is wrong. In: what a check found. Out: a few lines of text.

#include <inttypes.h>
#include <stdlib.h>

#include "tools/run_names.h"
#include "tools/run_pattern.h"

static const char *wrong_words(const struct run_mismatch *m) {
  switch (m->wrong) {
  case RUN_WRONG_ELEMENT:
    return m->untouched ? "an element was not delivered" : "an element has a wrong value";
  case RUN_WRONG_PADDING:
    return "padding is not zero";
  case RUN_WRONG_GAP:
    return "a gap was written";
  case RUN_WRONG_EXCUSED:
    return "an element that nobody supplies was written";
  case RUN_WRONG_GUARD:
    return "bytes outside a buffer were written";
  case RUN_WRONG_SOURCE:
    return "a training buffer was written";
  default:
    return "nothing is wrong";
  }
}

static void print_index(FILE *out, uint64_t flat, const uint64_t *dims, uint32_t ndim) {
  fputc('[', out);
  for (uint32_t d = 0; d < ndim; d++) {
    uint64_t below = 1;
    for (uint32_t e = d + 1; e < ndim; e++) below *= dims[e];
    fprintf(out, "%s%" PRIu64, d ? ", " : "", below ? flat / below % (dims[d] ? dims[d] : 1) : 0);
  }
  fputc(']', out);
}

void run_mismatch_print(const struct rsp_plan *plan, const struct run_mismatch *m, FILE *out) {
  const struct rsp_buffer *buffer = &plan->buffers[m->slot->gid];
  const struct rsp_entry *entry = m->slot->entry;
  int digits = (int)(m->wrong == RUN_WRONG_GUARD ? 2 : 2 * rsp_dtype_bytes(buffer->dtype));
  fprintf(out, "%s\n", wrong_words(m));
  if (m->piece && m->piece->slot < RSP_SLOT_GAP) {
    const struct rsp_tensor *tensor = &plan->tensors[plan->slots[buffer->slots + m->piece->slot]];
    fprintf(out, "  tensor    ");
    run_name_print(out, plan->strings, tensor->name);
    fprintf(out, " at ");
    print_index(out, m->t, plan->dims + tensor->dims, tensor->ndim);
    fprintf(out, ", %s\n", rsp_dtype_word(tensor->dtype));
  }
  fprintf(out, "  buffer    ");
  run_name_print(out, plan->strings, buffer->name);
  if (m->wrong == RUN_WRONG_GUARD) {
    int64_t past = (int64_t)m->b - (int64_t)m->slot->bytes;
    if ((int64_t)m->b < 0)
      fprintf(out, ", %" PRId64 " bytes before its start\n", -(int64_t)m->b);
    else
      fprintf(out, ", %" PRId64 " bytes past its end\n", past + 1);
  } else {
    fprintf(out, " at ");
    print_index(out, m->b, plan->dims + entry->dims, entry->ndim);
    fprintf(out, ", %s\n", rsp_dtype_word(buffer->dtype));
  }
  fprintf(out, "  rank      %s rank %" PRIu32 "\n", run_side_word(buffer->side), m->slot->side_rank);
  char *file = run_name_text(plan->strings, plan->files[buffer->file]);
  fprintf(out, "  described %s:%" PRIu32 ":%" PRIu32 "\n", file ? file : "?", buffer->line, buffer->col);
  free(file);
  fprintf(out, "  expected  0x%0*" PRIx64 "\n  got       0x%0*" PRIx64 "%s\n", digits, m->expected, digits, m->got,
          m->untouched && m->wrong != RUN_WRONG_GUARD ? ", the poison put there before" : "");
}
