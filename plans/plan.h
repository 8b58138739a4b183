/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan as its readers see it: the one reader, structural verifier and writer of the file format (format.h).
 * Depends on libc and xxHash only. A plan that was opened here is structurally sound: every offset, index and
 * count is in bounds, every rule of FORMAT.md holds, so callers index without further checks. Whether it is *right* is
 * the semantic verifier's question.
 *
 * Read-only objects are thread-safe once opened.
 */
#ifndef RSP_PLAN_H
#define RSP_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plans/dtype.h"
#include "plans/format.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsp_status {
  RSP_OK = 0,
  RSP_INVALID, /* the bytes break a rule: error.rule, error.offset */
  RSP_TROUBLE  /* cannot be read or written at all: error.text */
};

struct rsp_error {
  int rule;        /* number in plans/rules.def (FORMAT.md lists them); 0 for RSP_TROUBLE */
  uint64_t offset; /* byte in the file where the rule is broken */
  char text[240];
};

/* A whole plan, mapped or in memory. Pointers point into the file's bytes. */
struct rsp_plan {
  const struct rsp_header *header;
  const char *strings;
  const struct rsp_input *inputs;
  const struct rsp_str *files;
  const struct rsp_tensor *tensors;
  const uint64_t *dims;
  const struct rsp_rank *ranks;
  const struct rsp_class *classes;
  const struct rsp_entry *entries;
  const struct rsp_piece *pieces;
  const struct rsp_ploop *ploops;
  const struct rsp_buffer *buffers;
  const uint32_t *slots;
  const struct rsp_rankmap *rankmaps;
  const struct rsp_hold *holds;
  const struct rsp_summary *summary;
  const struct rsp_dirent *directory;
  uint64_t input_count, file_count, tensor_count, buffer_count, class_count, rankmap_count;
  const unsigned char *bytes; /* the whole file */
  uint64_t size;
  void *mapping; /* private */
};

/* A rank's program. */
struct rsp_program {
  const struct rsp_slice *slice;
  const char *names;
  const struct rsp_str *files;
  const struct rsp_sbuffer *buffers;
  const uint64_t *dims;
  const struct rsp_zero *zeros;
  const struct rsp_zloop *zloops;
  const struct rsp_body *bodies;
  const struct rsp_desc *descs;
  const struct rsp_shape *shapes;
  const struct rsp_loop *loops;
  const struct rsp_stream *streams;
  const struct rsp_part *parts;
};

/* Opens and checks every rule, seals included. On success *plan must be closed. `path` "-" is standard input. */
enum rsp_status rsp_open(const char *path, struct rsp_plan *plan, struct rsp_error *error);
/* The same over caller-owned bytes (8-aligned), which must outlive the plan. */
enum rsp_status rsp_open_memory(const void *bytes, size_t size, struct rsp_plan *plan, struct rsp_error *error);
void rsp_close(struct rsp_plan *plan);
/* The same over bytes that rsp_build has just made: nothing is checked, nothing has to be closed. */
void rsp_view_built(const void *bytes, size_t size, struct rsp_plan *plan);

/* The program of a world rank of an opened plan: cannot fail. */
void rsp_program_of(const struct rsp_plan *plan, uint32_t world_rank, struct rsp_program *program);

/* What a rank needs and no more: maps the header, its directory entry, its slice and its holdings block; checks their
 * seals and rules. `world_rank` beyond the plan's world is RSP_INVALID. Close with rsp_rank_close. */
struct rsp_rank_view {
  struct rsp_header header; /* a copy */
  struct rsp_program program;
  struct rsp_map {
    void *at;
    size_t bytes;
  } maps[2]; /* private */
  size_t mapped_bytes;
};
enum rsp_status rsp_rank_open(const char *path, uint32_t world_rank, struct rsp_rank_view *view,
                              struct rsp_error *error);
void rsp_rank_close(struct rsp_rank_view *view);

/* Byte offsets in format.h's structs plus the reader's rules are all a reader needs; these are conveniences. */
static inline uint64_t rsp_stream_rounds(const struct rsp_stream *s) {
  return s->bytes / s->quantum + (s->bytes % s->quantum != 0);
}
/* All of a descriptor but where it starts. */
static inline const struct rsp_shape *rsp_shape_of(const struct rsp_program *program, const struct rsp_desc *desc) {
  return &program->shapes[desc->shape];
}
/* The gid's row in the program's buffers, or NULL. Binary search. */
const struct rsp_sbuffer *rsp_program_buffer(const struct rsp_program *program, uint32_t gid);
/* The entry of the buffer that `side_rank` holds, or NULL if it holds none. Binary search. */
const struct rsp_entry *rsp_buffer_entry(const struct rsp_plan *plan, const struct rsp_buffer *buffer,
                                         uint32_t side_rank);
/* "2f9c...": 32 hexadecimal digits and NUL. */
void rsp_id_text(const uint8_t id[16], char text[33]);
/* The sentence of a rule, or NULL. */
const char *rsp_rule_sentence(int rule);

/* The canonical text form: every field that means something, one line per record, stable across versions of the tool
 * that read the same format version. Returns false on a write error. */
bool rsp_print(const struct rsp_plan *plan, FILE *out);

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* Tables of one slice as plain arrays; world_rank.. staging as in struct rsp_slice. */
struct rsp_slice_tables {
  uint32_t world_rank, train_rank, infer_rank, rounds;
  uint64_t staging;
  const char *names;
  uint64_t names_bytes;
  const struct rsp_str *files;
  uint64_t file_count;
  const struct rsp_sbuffer *buffers;
  uint64_t buffer_count;
  const uint64_t *dims;
  uint64_t dim_count;
  const struct rsp_zero *zeros;
  uint64_t zero_count;
  const struct rsp_zloop *zloops;
  uint64_t zloop_count;
  const struct rsp_body *bodies;
  uint64_t body_count;
  const struct rsp_desc *descs;
  uint64_t desc_count;
  const struct rsp_shape *shapes;
  uint64_t shape_count;
  const struct rsp_loop *loops;
  uint64_t loop_count;
  const struct rsp_stream *streams;
  uint64_t stream_count;
  const struct rsp_part *parts;
  uint64_t part_count;
};

/* The global sections as plain arrays; the fields of the header that are not derived. */
struct rsp_global_tables {
  uint64_t features;
  uint32_t world, train_world, infer_world, rounds, max_ops, max_peers;
  uint64_t staging_limit, chunk;
  const void *sections[RSP_SECTION_COUNT]; /* DIRECTORY is ignored: the writer makes it */
  uint64_t counts[RSP_SECTION_COUNT];
};

/* A plan is written piece by piece, so that it need not be in memory at once:
 *
 *   begin  the global tables, which must stay as they are until the end, but for the summary: that is read at the end
 *   held   each distinct holdings block, in the order of the first rank that has it; gives its number
 *   slice  each rank's, in order, with the number of its block
 *   end    seals the file and frees the builder
 *
 * `put` receives the bytes that belong at `off`: offsets ascend, but for the last three (the summary, the directory,
 * the header). What is never put is zero. If put returns false nothing more is put and `end` returns false. */
typedef bool (*rsp_put_fn)(void *user, uint64_t off, const void *bytes, size_t size);
struct rsp_builder;
/* NULL if there is no memory. */
struct rsp_builder *rsp_build_begin(const struct rsp_global_tables *global, rsp_put_fn put, void *user);
/* Only the tables of a holdings block, names to zloops, are read. */
size_t rsp_build_held(struct rsp_builder *builder, const struct rsp_slice_tables *tables);
/* Only world_rank to staging and the tables from bodies on are read. `program`, if not NULL, is what was written,
 * without its holdings; it is good until the next call. False if a piece could not be written. */
bool rsp_build_slice(struct rsp_builder *builder, const struct rsp_slice_tables *tables, size_t held,
                     struct rsp_program *program);
/* The specification as a plan without directory and bytes, so without programs. */
void rsp_build_view(const struct rsp_builder *builder, struct rsp_plan *plan);
/* False if memory or `put` failed, or slices are missing. `header`, if not NULL, is what was written. */
bool rsp_build_end(struct rsp_builder *builder, struct rsp_header *header);

/* Somewhere to put a plan: begin with zeros; `bytes` is malloc'd, 8-aligned. */
struct rsp_memory {
  unsigned char *bytes;
  size_t size, room;
};
bool rsp_put_memory(void *memory, uint64_t off, const void *bytes, size_t size);

/* Builds a whole plan in memory: lays out, seals, computes plan_id; ranks whose holdings are equal share a block.
 * slices[r].world_rank == r. *bytes is malloc'd (8-aligned), the caller frees it. Never fails but for memory (returns
 * false). Deterministic. */
bool rsp_build(const struct rsp_global_tables *global, const struct rsp_slice_tables *slices, void **bytes,
               size_t *size);

/* Recomputes every digest, check and the plan_id of a structurally laid-out plan in place: used by the tests that
 * mutate plans, so that a mutant reaches the proof it must break. Returns false if the header or directory are
 * unusable. */
bool rsp_reseal(void *bytes, size_t size);

/* A file that is there whole or not at all: written under a temporary name beside `path`, synced, renamed. "-" is
 * standard output; it, a device or a pipe gets all bytes at the end. */
struct rsp_file;
enum rsp_status rsp_file_begin(const char *path, struct rsp_file **file, struct rsp_error *error);
/* An rsp_put_fn. */
bool rsp_file_put(void *file, uint64_t off, const void *bytes, size_t size);
/* Frees the file. Without `keep` `path` is left as it was. */
enum rsp_status rsp_file_end(struct rsp_file *file, bool keep, struct rsp_error *error);

/* The same at once. */
enum rsp_status rsp_write_file(const char *path, const void *bytes, size_t size, struct rsp_error *error);

#ifdef __cplusplus
}
#endif

#endif
