/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to plans/: the digests of the format and the sizes of its records, each written once.
 */
#ifndef RSP_SEAL_H
#define RSP_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "plans/format.h"

#ifdef __cplusplus
extern "C" {
#endif

void rsp_digest(const void *bytes, size_t size, uint8_t out[16]);
/* The plan_id that `header` should carry. */
void rsp_header_id(const struct rsp_header *header, uint8_t out[16]);
/* The check that the directory entry of `world_rank` should carry. */
uint64_t rsp_dirent_seal(const struct rsp_dirent *entry, uint32_t world_rank);

/* Bytes of one record of a section. */
size_t rsp_record_bytes(enum rsp_section_kind kind);
/* Bytes of one record of the i-th table of a slice, in the order of struct rsp_slice. */
size_t rsp_table_record_bytes(unsigned table);
#define RSP_TABLE_COUNT 12u
#define RSP_HELD_COUNT 6u /* of these the first are in the holdings block */
/* The tables of a slice header as an array of RSP_TABLE_COUNT. */
const struct rsp_table *rsp_slice_tables_of(const struct rsp_slice *slice);

/* Entries of the directory, one per distinct holdings block, ascending by held_off; `at` has room for all. */
struct rsp_blocks {
  const struct rsp_dirent **at;
  uint64_t count;
};
/* The one with the place and size of this entry's block, or NULL. Binary search. */
const struct rsp_dirent *rsp_block_of(const struct rsp_blocks *blocks, const struct rsp_dirent *entry);

/* The name of a section, lower case. */
const char *rsp_section_name(enum rsp_section_kind kind);
const char *rsp_table_name(unsigned table);

static inline uint64_t rsp_align_up(uint64_t at, uint64_t to) {
  return (at + to - 1) / to * to;
}

#ifdef __cplusplus
}
#endif

#endif
