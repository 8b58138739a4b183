/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan file, byte for byte: the structs below are the file (little-endian, natural alignment, no implicit
 * padding, 64-bit offsets and counts, reserved fields zero and checked). FORMAT.md is the same thing in prose.
 *
 *   header | global sections, each 8-aligned | holdings blocks, each 8-aligned | a slice per world rank, 4096-aligned
 *
 * Everything has one place: sections stand in the order of enum rsp_section_kind, then holdings blocks in the order of
 * the first rank that has each, then slices in the order of ranks, the tables of a block and of a slice in the order of
 * struct rsp_slice; each at the first aligned byte after the one before, and what is skipped is zero. Where a record
 * owns rows of another section (a class its entries, an entry its pieces, a buffer its slots, a rankmap its holds, a
 * body its descriptors), owners take the rows in order, every row once; ranges of DIMS, PLOOPS, loops, zloops and parts
 * may be shared. A nest has at most 64 loops.
 *
 * The global sections are the *specification*: what every element of every buffer means on both sides. Slices and
 * holdings blocks are the *program*: what each rank does, and which buffers it has for that. A rank maps the header,
 * its directory entry, its slice and its holdings block.
 */
#ifndef RSP_FORMAT_H
#define RSP_FORMAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSP_MAGIC "\211RESHARD\r\n\032\n\0\0\0" /* 16 bytes with the terminator */
#define RSP_VERSION 1u
#define RSP_COMPAT 1u                         /* the oldest reader version that can read what this one writes */
#define RSP_SLICE_MAGIC 0x4543494c53505352ull /* "RSPSLICE" */
#define RSP_PAGE 4096u

/* Required feature bits; a reader refuses a bit that it does not know. */
#define RSP_FEATURE_RELAY 1ull /* streams that pass on what another brought: relay != RSP_NO_STREAM */

enum { RSP_TRAIN = 0, RSP_INFER = 1 };
#define RSP_NO_RANK UINT32_MAX
#define RSP_NO_STREAM UINT32_MAX

/* Bytes of the STRINGS section (in a holdings block: of its names table). Not NUL-terminated; any bytes but NUL. */
struct rsp_str {
  uint64_t off, len;
};

enum rsp_section_kind {
  RSP_SEC_STRINGS,   /* bytes */
  RSP_SEC_INPUTS,    /* struct rsp_input */
  RSP_SEC_FILES,     /* struct rsp_str: names of layout files, as the user wrote them */
  RSP_SEC_TENSORS,   /* struct rsp_tensor */
  RSP_SEC_DIMS,      /* uint64_t */
  RSP_SEC_RANKS,     /* struct rsp_rank, one per world rank */
  RSP_SEC_CLASSES,   /* struct rsp_class */
  RSP_SEC_ENTRIES,   /* struct rsp_entry */
  RSP_SEC_PIECES,    /* struct rsp_piece */
  RSP_SEC_PLOOPS,    /* struct rsp_ploop */
  RSP_SEC_BUFFERS,   /* struct rsp_buffer: all of train, then all of infer; the index is the buffer's gid */
  RSP_SEC_SLOTS,     /* uint32_t: tensor indices */
  RSP_SEC_RANKMAPS,  /* struct rsp_rankmap */
  RSP_SEC_HOLDS,     /* struct rsp_hold */
  RSP_SEC_SUMMARY,   /* struct rsp_summary, exactly one */
  RSP_SEC_DIRECTORY, /* struct rsp_dirent, one per world rank */
  RSP_SECTION_COUNT
};

struct rsp_section {
  uint64_t off, bytes, count; /* bytes = count * the record's size */
  uint64_t reserved;
  uint8_t digest[16]; /* XXH3-128 (canonical, big-endian form) of the section's bytes */
};

struct rsp_header {
  uint8_t magic[16];
  uint32_t version, compat;
  uint64_t features;
  uint8_t plan_id[16]; /* XXH3-128 of this header with plan_id zero: through the digests, of the whole file */
  uint64_t file_bytes;
  uint32_t world, train_world, infer_world; /* processes; ranks of each side */
  uint32_t rounds;
  uint32_t max_ops, max_peers; /* limits: operations per rank per round; peers per rank (0: none) */
  uint64_t staging_limit;      /* bytes per rank */
  uint64_t chunk;              /* bytes a rank moves per round, as planned; informative */
  uint32_t section_count, reserved0;
  uint64_t reserved[2];
  struct rsp_section sections[RSP_SECTION_COUNT];
};

enum rsp_input_kind { RSP_INPUT_TRAIN = 1, RSP_INPUT_INFER, RSP_INPUT_MODEL, RSP_INPUT_CLUSTER, RSP_INPUT_OPTIONS };

struct rsp_input {
  uint32_t kind, reserved;
  struct rsp_str name; /* base name, no directory; "" for options */
  uint8_t digest[16];  /* XXH3-128: of the side's meaning text (train, infer), of the file (model, cluster), of the
                          canonical option text (options) */
};

#define RSP_TENSOR_SKIP_TRAIN 1u /* a `skip` of the training side matches: wanted and not supplied is excused */
#define RSP_TENSOR_SKIP_INFER 2u /* a `skip` of the inference side matches: supplied and not wanted is excused */

struct rsp_tensor {
  struct rsp_str name;
  uint32_t dtype, ndim, flags, reserved;
  uint64_t dims; /* index into DIMS */
  uint64_t elems;
};

struct rsp_rank {
  uint32_t train_rank, infer_rank; /* or RSP_NO_RANK */
  uint32_t domain, gpu;
  struct rsp_str host, domain_name;
};

/* A class is the meaning shared by buffers that differ only in names: one entry per distinct local part. */
struct rsp_class {
  uint64_t entries, entry_count;
  uint32_t slot_count, reserved;
};

struct rsp_entry {
  uint64_t elems; /* elements of the buffer on a rank that holds this entry, padding and gaps included */
  uint64_t dims;  /* index into DIMS: the local shape */
  uint32_t ndim, reserved;
  uint64_t pieces, piece_count; /* sorted by b0, disjoint, together exactly [0, elems) */
};

#define RSP_SLOT_PAD UINT32_MAX
#define RSP_SLOT_GAP (UINT32_MAX - 1)

enum rsp_op {
  RSP_OP_COPY = 0,    /* bits, or a conversion where the dtypes differ */
  RSP_OP_NEG_EXP = 1, /* buffer = -exp(x) in f32, rounded once */
  RSP_OP_ADD = 2      /* buffer = x + c in f32, rounded once; on the training side tensor = b - c */
};

/* Element (t0 + sum k_i * t_step_i) of the tensor in `slot` is element (b0 + sum k_i * b_step_i) of the buffer, for
 * 0 <= k_i < count_i; both are flat row-major indices. For PAD and GAP t0 and t_step are zero. Loops run from the
 * largest b_step to the smallest; counts are at least 1, b_steps at least 1. */
struct rsp_piece {
  uint64_t t0, b0;
  uint64_t loops; /* index into PLOOPS */
  uint32_t loop_count;
  uint32_t slot; /* below the class's slot_count, or RSP_SLOT_PAD, RSP_SLOT_GAP */
  uint32_t op;   /* enum rsp_op */
  float constant;
  uint32_t flags; /* RSP_PIECE_REPLICA */
  uint32_t reserved;
};
#define RSP_PIECE_REPLICA 1u

struct rsp_ploop {
  uint64_t count, t_step, b_step;
};

struct rsp_buffer {
  struct rsp_str name;
  uint32_t side, dtype;
  uint32_t klass, rankmap;
  uint64_t slots; /* index into SLOTS: the class's slot_count tensor indices */
  uint32_t file, line, col;
  uint32_t reserved;
};

/* Which ranks of the buffer's side hold it, and which entry of its class each holds. Ranks ascend. */
struct rsp_rankmap {
  uint64_t holds, count;
};

struct rsp_hold {
  uint32_t rank, entry;
};

/* Counts and figures of the compile. verify recomputes all but the times. */
struct rsp_summary {
  uint64_t tensors, elements, bytes, deliveries;     /* coverage: distinct tensors delivered; elements and bytes wanted
                                                         (every rank's copy, buffer dtype); elements delivered */
  uint64_t wanted_bytes;                             /* = bytes */
  uint64_t local_bytes, nvlink_bytes, network_bytes; /* over each kind of link, every hop, wire dtype */
  uint64_t network_minimum;
  double bound_seconds, makespan_seconds; /* planner's estimate */
  double nvlink_bandwidth, nvlink_latency, network_bandwidth, network_latency, memory_bandwidth, issue_seconds;
};

/* Ranks that hold the same parts of the same buffers, replicas above all, share one holdings block: the tables of their
 * slices that tell of buffers. */
struct rsp_dirent {
  uint64_t off, bytes;           /* of the slice; off is a multiple of RSP_PAGE */
  uint64_t held_off, held_bytes; /* of the holdings block; off is a multiple of 8; both 0 if the rank holds nothing */
  uint8_t digest[16];            /* XXH3-128 of the slice's bytes */
  uint8_t held_digest[16];       /* XXH3-128 of the holdings block's bytes */
  uint64_t staging;              /* bytes of staging the rank needs */
  uint64_t check;                /* XXH3-64 of the 72 bytes before, seeded with the world rank */
};

/* ---- a slice ------------------------------------------------------------------------------------------------- */

/* Offsets in a slice header are 8-aligned and tables do not overlap. The first six tables, names to zloops, lie in the
 * rank's holdings block and their offsets count from its start; the others count from the slice's start. */
struct rsp_table {
  uint64_t off, count;
};

struct rsp_slice {
  uint64_t magic;
  uint64_t bytes; /* of the slice, without its holdings block */
  uint32_t world_rank, train_rank, infer_rank;
  uint32_t rounds;
  uint64_t staging;         /* bytes */
  struct rsp_table names;   /* bytes */
  struct rsp_table files;   /* struct rsp_str into names */
  struct rsp_table buffers; /* struct rsp_sbuffer, ascending gid */
  struct rsp_table dims;    /* uint64_t */
  struct rsp_table zeros;   /* struct rsp_zero: padding of inference buffers, zeroed once at prepare */
  struct rsp_table zloops;  /* struct rsp_zloop */
  struct rsp_table bodies;  /* struct rsp_body */
  struct rsp_table descs;   /* struct rsp_desc */
  struct rsp_table shapes;  /* struct rsp_shape, by first use */
  struct rsp_table loops;   /* struct rsp_loop */
  struct rsp_table streams; /* struct rsp_stream, ascending (dir, peer, kind, tag) */
  struct rsp_table parts;   /* struct rsp_part */
};

struct rsp_sbuffer {
  struct rsp_str name;
  uint32_t gid, side, dtype;
  uint32_t ndim;
  uint64_t dims;  /* index into the slice's dims */
  uint64_t bytes; /* local size */
  uint32_t file, line, col;
  uint32_t align; /* required alignment of the bound pointer, bytes: the dtype's size */
};

/* For 0 <= k_i < count_i: run_bytes bytes at off + sum k_i * step_i of buffer gid become zero. */
struct rsp_zero {
  uint32_t gid, loop_count;
  uint64_t loops, off, run_bytes;
};
struct rsp_zloop {
  uint64_t count, step;
};

/* A body is a list of descriptors. It stands for a sequence of elements: descriptor after descriptor, loops row-major
 * (the last loop fastest), run element by run element. Its wire bytes are those elements in their wire dtype, densely.
 */
struct rsp_body {
  uint64_t descs, desc_count;
  uint64_t elems;
  uint32_t wire_bytes; /* per element; the same for all descriptors of a body */
  uint32_t reserved;
};

/* For 0 <= k_i < count_i: `run` consecutive elements of the buffer with gid (ref + sum k_i * ref_step_i), from byte
 * (off + sum k_i * off_step_i), where all but ref and off is the shape's: descriptors of many layers, experts and peers
 * share few shapes.
 * The elements have buf_dtype in the buffer and wire_dtype in the stream. On a sender the tensor's element is
 * made from the buffer's (op ADD: minus constant); on a receiver the buffer's from the tensor's (op NEG_EXP, ADD). */
struct rsp_desc {
  uint32_t shape; /* index into the slice's shapes */
  uint32_t ref;   /* gid */
  uint64_t off;
};

struct rsp_shape {
  uint32_t buf_dtype, wire_dtype;
  uint32_t op;
  float constant;
  uint64_t run;   /* elements, at least 1 */
  uint64_t loops; /* index into the slice's loops */
  uint32_t loop_count, reserved;
};

struct rsp_loop {
  uint64_t count;   /* at least 1 */
  int64_t ref_step; /* of the gid */
  int64_t off_step; /* bytes */
};

enum rsp_dir { RSP_DIR_OUT = 0, RSP_DIR_IN = 1, RSP_DIR_SELF_SRC = 2, RSP_DIR_SELF_DST = 3 };
enum rsp_kind { RSP_KIND_STAGED = 0, RSP_KIND_DIRECT = 1 };

/* Bytes of one direction between two ranks, of one kind: the concatenation of its parts. It is active in rounds
 * round0 + i * step for i in [0, ceil(bytes / quantum)) and then moves stream bytes [i * quantum, min((i+1) * quantum,
 * bytes)). Wire sizes do not increase along the parts, and quantum is a multiple of 8, so no element is split. Streams
 * of one (dir, peer, kind) differ in tag, and the two ends of a stream have the same tag. Messages of one round between
 * two ranks are posted in the order of the streams, staged before direct, then by tag.
 *
 * OUT and SELF_SRC read training buffers, IN and SELF_DST write inference buffers.
 *
 * - STAGED: one message per active round. stage_off and slot_stride are multiples of 8, a slot is no smaller than a
 *   message, and the last one ends inside the rank's staging. Packed at (sender) or unpacked from (receiver)
 *   staging[stage_off + (i % slots) * slot_stride ...]. Round r is packed while r-1 is exchanged and r-2 unpacked.
 * - DIRECT: descriptors have contiguous runs at both ends, no conversion; one message per run of a descriptor within
 *   the round's range, from the buffer's bytes to the buffer's bytes; no staging.
 * - A relay is an OUT stream whose `relay` is the index of an IN stream of the same slice. It has no parts and no
 *   staging of its own: it has the incoming stream's kind, bytes, quantum and step, starts one round later (at
 *   round0 + 1), and in each of its rounds sends what the incoming stream received in the round before, from where that
 *   landed: its slot, or, for DIRECT, the buffers that its descriptors name, in the same messages. Only a relay and the
 *   IN stream that receives it may have the rank itself as peer: an element that two buffers of one rank want arrives
 *   once.
 * - SELF_SRC and SELF_DST are the two ends of what a process copies to itself: element k of one to element k of the
 *   other; exactly one pair (kind STAGED, tag 0, no staging, same parts shape, same schedule) per rank that has any.
 *   The copy happens with the unpack of its round. */
struct rsp_stream {
  uint32_t peer; /* world rank */
  uint32_t dir, kind;
  uint32_t tag;
  uint32_t relay; /* OUT: index of the IN stream that is passed on; else RSP_NO_STREAM */
  uint32_t slots; /* STAGED OUT (not a relay) and IN: at least 1; else 0 */
  uint64_t parts, part_count;
  uint64_t bytes, quantum;
  uint32_t round0, step; /* step >= 1 */
  uint64_t stage_off, slot_stride;
};

/* Elements [lo, hi) of a body. */
struct rsp_part {
  uint64_t body, lo, hi;
};

#ifdef __cplusplus
}
#endif

#endif
