/* SPDX-License-Identifier: Apache-2.0
 *
 * The semantic verifier: is a plan *right*? In: a plan that rsp_open has found structurally sound. Out: a report of
 * what was proved, or the first violation of each kind. It reads the file alone and works on affine loop nests, never
 * on elements: its cost follows the distinct programs of the plan, not its replicas and not its bytes. It shares no
 * code with the compiler.
 *
 * Thread-safe; no globals. Running out of memory aborts.
 */
#ifndef RSP_VERIFY_H
#define RSP_VERIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rspv_kind {
  RSPV_SPEC,       /* the specification contradicts itself: an element of a buffer with no meaning or with two */
  RSPV_COVER,      /* a wanted element not written, or written twice; something else written; padding not zeroed */
  RSPV_PROVENANCE, /* what arrives is not that element of that tensor, or not from a training buffer its sender holds */
  RSPV_MATCHING,   /* sends and receives of an ordered pair of ranks do not agree */
  RSPV_PROGRESS,   /* a round waits for a later one */
  RSPV_HAZARDS,    /* a byte of staging is overwritten before it is read, or read before it is written */
  RSPV_BOUNDS,     /* an access outside its buffer; a limit of the header exceeded */
  RSPV_SUMMARY,    /* a stated number is not what the plan does */
  RSPV_KINDS
};

#define RSPV_NONE UINT32_MAX

/* What, where, when; a field that does not apply is RSPV_NONE. */
struct rspv_violation {
  uint64_t count; /* how often this kind was found; replicas of one program count once */
  uint32_t tensor;
  uint32_t buffer; /* gid; its layout line is plan->buffers[buffer].file, line */
  uint64_t lo, hi; /* first to last flat element of the tensor, or of the buffer where there is no tensor, as
                        [lo, hi); lo == hi: none */
  uint32_t rank;   /* world rank */
  uint32_t peer;   /* world rank */
  uint32_t round;
  char what[240];
};

struct rspv_report {
  struct rspv_violation violations[RSPV_KINDS];  /* count 0: that proof holds */
  uint64_t tensors, elements, bytes, deliveries; /* as in struct rsp_summary, recomputed */
  uint64_t excused;                              /* wanted elements that a skip of the training side excuses */
  uint64_t local_bytes, nvlink_bytes, network_bytes, network_minimum;
  uint64_t messages; /* staged messages and direct runs, all rounds */
  uint32_t rounds;
  uint32_t busiest_ops; /* most operations of one rank in one round */
  uint32_t most_peers;
  uint64_t most_staging;            /* bytes */
  uint64_t programs, program_pairs; /* distinct bodies; distinct pairs of them proved equal */
};

/* True if every proof holds. The report is filled in either way. */
bool rspv_verify(const struct rsp_plan *plan, struct rspv_report *report);

/* "cover" */
const char *rspv_kind_word(enum rspv_kind kind);
/* One line: the violation with its tensor, multi-dimensional and flat range, rank on its side, round, file and line. */
void rspv_print_violation(const struct rsp_plan *plan, const struct rspv_report *report, enum rspv_kind kind,
                          FILE *out);
/* "[3, 0:4]" for the box between flat elements lo and hi - 1 of a row-major shape, "[0, 3]..[2, 1]" where that is no
 * box; cut off to fit. */
void rspv_range_text(const uint64_t *dims, uint32_t ndim, uint64_t lo, uint64_t hi, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
