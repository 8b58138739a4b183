/* SPDX-License-Identifier: Apache-2.0
 *
 * run_names: names of a plan, which may hold any bytes but NUL, as text.
 */
#ifndef RESHARD_TOOLS_RUN_NAMES_H
#define RESHARD_TOOLS_RUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "train" or "infer"; for sentences "training" or "inference". */
static inline const char *run_side_word(uint32_t side) {
  return side == RSP_TRAIN ? "training" : "inference";
}

/* Whether the bytes are UTF-8: no overlong form, no surrogate, nothing past U+10FFFF. */
bool run_is_utf8(const char *text, size_t len);

/* The name as printable text: control characters and bytes that are no UTF-8 as \xNN. malloc'd; NULL: out of memory. */
char *run_name_text(const char *strings, struct rsp_str name);
/* The same to a stream, in quotes. */
void run_name_print(FILE *out, const char *strings, struct rsp_str name);

#ifdef __cplusplus
}
#endif

#endif
