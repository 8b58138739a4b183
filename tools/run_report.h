/* SPDX-License-Identifier: Apache-2.0
 *
 * run_report: what `reshard run` found, as a table for people and as JSON for scripts (tools/RUN.md lists its keys).
 */
#ifndef RESHARD_TOOLS_RUN_REPORT_H
#define RESHARD_TOOLS_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/run_pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct run_report {
  const struct rsp_plan *plan;
  const struct run_memory *memory;
  const char *backend, *mode; /* "host", "fused" ... */
  uint32_t processes;
  bool verified; /* by the runtime itself, end to end */
  unsigned processors;
  uint64_t memory_bytes; /* of buffers, staging and programs */
  uint64_t file_bytes;   /* mapped */
  const char *in, *out;  /* directories, or NULL */
  uint32_t patterns;     /* replays whose every byte was checked; 0: files were replayed, nothing to check against */
  bool right;
  const struct run_mismatch *mismatch; /* or NULL */
  uint32_t mismatch_pattern;
  const double *refits; /* seconds, of timed replays */
  uint32_t refit_count;
  const double *memcpys; /* seconds; NULL: not measured */
  uint32_t memcpy_count;
};

double run_median(const double *values, uint32_t count);
void run_report_table(const struct run_report *report, FILE *out);
/* False: out of memory or cannot be written. */
bool run_report_json(const struct run_report *report, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
