/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to plans/: the structural verifier. Each check returns true, or false after filling in the error. All are
 * total, without recursion, and linear in the bytes they read (a lookup costs a binary search); what they allocate
 * is bounded by the bytes of the file.
 */
#ifndef RSP_CHECK_H
#define RSP_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "plans/plan.h"
#include "plans/rules.h"
#include "plans/seal.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RSP_MAX_NEST 64u /* a deeper nest of loops that all turn would pass 2^63 elements */
#define RSP_MAX_NDIM 8u
/* Holdings blocks, each counted for every rank that has it, are at most so many times as long as the file. A slice
 * fills a page, so this refuses no plan whose ranks hold less than 4 MiB of rows each, however many share a block. */
#define RSP_MAX_SHARING 1024u

/* Where bytes being checked begin, in memory and in the file. */
struct rsp_check {
  const unsigned char *bytes;
  uint64_t base;
  struct rsp_error *error;
};

/* Reports that the record at `at` breaks `rule`. `format` adds what was found, or is NULL. */
void rsp_report(const struct rsp_check *check, enum rsp_rule rule, const void *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, and false: `return rsp_broken(...)`. A macro, so that the compiler sees that nothing goes on from there. */
#define rsp_broken(...) (rsp_report(__VA_ARGS__), false)
/* Reports the world's failure; always false. error->rule is 0. */
bool rsp_no_memory(const struct rsp_check *check);
enum rsp_status rsp_status_of(bool good, const struct rsp_error *error);

/* The first bytes of a file of file_bytes bytes; `size` of them are at hand. */
bool rsp_check_magic(const struct rsp_check *check, uint64_t size);
bool rsp_check_header(const struct rsp_check *check, uint64_t file_bytes);
/* The directory entry of world_rank, which lies at `at`. */
bool rsp_check_dirent(const struct rsp_check *check, const struct rsp_header *header, const struct rsp_dirent *at,
                      uint32_t world_rank);
/* Digests, padding and exact cover of a whole file whose header is good. */
bool rsp_check_cover(const struct rsp_check *check, uint64_t file_bytes);

/* A string of the strings section. */
bool rsp_check_str(const struct rsp_check *check, const struct rsp_plan *plan, const struct rsp_str *s);
bool rsp_check_spec(const struct rsp_check *check, const struct rsp_plan *plan);    /* strings .. ranks */
bool rsp_check_buffers(const struct rsp_check *check, const struct rsp_plan *plan); /* classes .. summary */

/* A slice and its holdings block by themselves, of the sizes in `entry`. *relays is set if a stream is a relay. */
bool rsp_check_slice(const struct rsp_check *check, const struct rsp_check *held, const struct rsp_header *header,
                     const struct rsp_dirent *entry, uint32_t world_rank, bool *relays);

/* What a body may be used for; a body that may do nothing is refused. */
enum { RSP_BODY_SRC = 1, RSP_BODY_DST = 2, RSP_BODY_DIRECT = 4 };

/* The work of one slice: `budget` steps are left for what is not plainly linear in slice and holdings block. `flags`
 * has one byte per body. */
struct rsp_work {
  const struct rsp_check *check;
  const struct rsp_header *header;
  const struct rsp_program *program;
  uint64_t budget;
  unsigned char *flags;
  uint64_t shapes; /* used so far */
  bool relays;
};
bool rsp_check_bodies(struct rsp_work *work);
/* `bytes` are those of the slice and of its holdings block: what its work is measured by. */
bool rsp_check_streams(const struct rsp_check *check, const struct rsp_header *header,
                       const struct rsp_program *program, uint64_t bytes, bool *relays);
/* Every slice against the global sections. */
bool rsp_check_slices(const struct rsp_check *check, const struct rsp_plan *plan);

/* The last index of a loop nest: *out = start + sum (count - 1) * step, or true on overflow of 63 bits. */
bool rsp_extent(uint64_t *out, uint64_t count, uint64_t step);
/* Product of dims, zero if any is zero; true on overflow of 63 bits. */
bool rsp_product(const uint64_t *dims, uint32_t ndim, uint64_t *out);
/* May a value of dtype `from` become one of dtype `to` by `op`? */
bool rsp_conversion_legal(uint32_t from, uint32_t to, uint32_t op);
static inline bool rsp_inside(uint64_t first, uint64_t count, uint64_t rows) {
  return first <= rows && count <= rows - first;
}
/* Pointers into a slice and its holdings block, whose tables are known to lie inside them. */
void rsp_program_at(const void *slice, const void *held, struct rsp_program *program);

#ifdef __cplusplus
}
#endif

#endif
