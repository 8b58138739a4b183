/* SPDX-License-Identifier: Apache-2.0
 *
 * What the mutation tests share: a plan's bytes are changed, sealed again, and judged by structure, proof and replay.
 */
#ifndef TESTS_VERIFY_MUTANTS_H
#define TESTS_VERIFY_MUTANTS_H

#include "plans/plan.h"
#include "plans/verify.h"

enum verdict { REFUSED_BY_STRUCTURE, REFUSED_BY_PROOF, EQUIVALENT, ACCEPTED_BUT_WRONG };

/* Seals the bytes and judges them. With a proof's refusal, *report says which; with ACCEPTED_BUT_WRONG, *why. */
enum verdict judge_mutant(void *bytes, size_t size, struct rspv_report *report, const char **why);

/* A table of fixed records in a plan's bytes. */
struct region {
  char name[32];
  size_t off, record, count;
};
/* All tables of all slices and all global sections but strings, inputs and directory; *regions is malloc'd. */
size_t list_regions(const void *bytes, struct region **regions);

#endif
