/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of named mutants share: where a change to the tiny plan is made, and what must come of it.
 */
#ifndef TESTS_VERIFY_NAMED_H
#define TESTS_VERIFY_NAMED_H

#include "plans/verify.h"
#include "tests/plan/tiny.h"

typedef void change_tiny(struct tiny *t);

struct rsp_stream *tagged(struct tiny *t, uint32_t rank, uint32_t dir, uint32_t peer, uint32_t kind, uint32_t tag);
/* The stream's first part, and the first descriptor of that. */
struct rsp_part *part(struct tiny *t, uint32_t rank, const struct rsp_stream *s);
struct rsp_desc *desc(struct tiny *t, uint32_t rank, const struct rsp_stream *s);
/* The descriptor's shape and loop, in rows of its own from here on. */
struct rsp_shape *shape(struct tiny *t, uint32_t rank, const struct rsp_desc *d);
void drop_stream(struct tiny *t, uint32_t rank, const struct rsp_stream *s);
void more_rounds(struct tiny *t); /* four */
/* Sealed again, the bytes are refused by the proof `kind`, in a line that has `says` in it; with RSPV_KINDS, by a rule
 * of structure whose sentence has it. */
bool expect(const char *name, void *bytes, size_t size, enum rspv_kind kind, const char *says);

#endif
