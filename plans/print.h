/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to plans/: the parts of the canonical text form.
 */
#ifndef RSP_PRINT_H
#define RSP_PRINT_H

#include <stdio.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "text", in quotes; quotes, backslashes and every byte that is not printable ASCII as \xHH. */
void rsp_print_str(FILE *out, const char *table, struct rsp_str s);
/* [4, 2] */
void rsp_print_dims(FILE *out, const uint64_t *dims, uint32_t ndim);
/* " train 3", or " train -" for none. */
void rsp_print_rank(FILE *out, const char *word, uint32_t rank);
/* " add 0.5", " neg_exp", or nothing for a copy. */
void rsp_print_op(FILE *out, uint32_t op, float constant);
/* Shortest of %.17g that does not depend on the locale. */
void rsp_print_double(FILE *out, double value);
void rsp_print_program(FILE *out, const struct rsp_program *program);

#ifdef __cplusplus
}
#endif

#endif
