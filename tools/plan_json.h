/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON of show and diff, by jansson. Running out of memory is trouble: plan_json_ok tells at the end.
 */
#ifndef RESHARD_TOOLS_PLAN_JSON_H
#define RESHARD_TOOLS_PLAN_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A string of a table. */
json_t *plan_json_str(const char *table, struct rsp_str s);
json_t *plan_json_u64(uint64_t n);
json_t *plan_json_id(const uint8_t id[16]);
/* A rank, or null for RSP_NO_RANK. */
json_t *plan_json_rank(uint32_t rank);
json_t *plan_json_dims(const uint64_t *dims, uint32_t ndim);
/* The layout's place: {"file", "line", "col"} added to an object. */
void plan_json_place(json_t *object, const char *table, struct rsp_str file, uint32_t line, uint32_t col);
/* Writes the object and a newline to stdout; frees it. Returns the exit status: `status`, or CLI_TROUBLE. */
int plan_json_write(const char *program, json_t *object, int status);

#ifdef __cplusplus
}
#endif

#endif
