/* SPDX-License-Identifier: Apache-2.0
 *
 * Small pieces of text that show and diff share.
 */
#ifndef RESHARD_TOOLS_PLAN_TEXT_H
#define RESHARD_TOOLS_PLAN_TEXT_H

#include <stdio.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of a name; what would disturb a terminal as \xHH. */
void plan_text_str(FILE *out, const char *table, struct rsp_str s);
/* "[4, 8]" */
void plan_text_dims(FILE *out, const uint64_t *dims, uint32_t ndim);
/* "0-3, 8, 12-15" of ascending ranks. */
void plan_text_ranks(FILE *out, const uint32_t *ranks, uint64_t count);
/* "train.layout:4:3" */
void plan_text_place(FILE *out, const char *table, struct rsp_str file, uint32_t line, uint32_t col);

#ifdef __cplusplus
}
#endif

#endif
