/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to plans/: what the two parts of the writer share.
 */
#ifndef RSP_BUILD_H
#define RSP_BUILD_H

#include "plans/plan.h"
#include "plans/seal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rsp_array {
  const void *at;
  uint64_t count;
};

/* The tables of a slice in the order of struct rsp_slice. */
void rsp_arrays_of(const struct rsp_slice_tables *tables, struct rsp_array out[RSP_TABLE_COUNT]);

#ifdef __cplusplus
}
#endif

#endif
