// SPDX-License-Identifier: Apache-2.0
//
// In: parts of a plan. Out: the words for them.
#include "tools/plan_text.h"

void plan_text_str(FILE *out, const char *table, struct rsp_str s) {
  for (uint64_t i = 0; i < s.len; i++) {
    unsigned char c = (unsigned char)table[s.off + i];
    if (c < 0x20 || c == 0x7f)
      fprintf(out, "\\x%02x", c);
    else
      fputc(c, out);
  }
}

void plan_text_dims(FILE *out, const uint64_t *dims, uint32_t ndim) {
  fputs(" [", out);
  for (uint32_t i = 0; i < ndim; i++) fprintf(out, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
  fputc(']', out);
}

void plan_text_ranks(FILE *out, const uint32_t *ranks, uint64_t count) {
  for (uint64_t i = 0; i < count;) {
    uint64_t last = i;
    while (last + 1 < count && ranks[last + 1] == ranks[last] + 1) last++;
    fprintf(out, "%s%u", i ? ", " : "", ranks[i]);
    if (last > i) fprintf(out, "-%u", ranks[last]);
    i = last + 1;
  }
}

void plan_text_place(FILE *out, const char *table, struct rsp_str file, uint32_t line, uint32_t col) {
  plan_text_str(out, table, file);
  fprintf(out, ":%u:%u", line, col);
}
