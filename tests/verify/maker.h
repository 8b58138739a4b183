/* SPDX-License-Identifier: Apache-2.0
 *
 * Random small plans that are right, made element by element and then folded into runs and loops: a planner that
 * shares no code with the compiler. Layers of equal buffers, transposed, interleaved, padded, converted and skipped
 * tensors, replicas, colocated ranks, direct and staged streams, several between two ranks, relays of both kinds in
 * chains and trees, to others and to the rank itself.
 */
#ifndef TESTS_VERIFY_MAKER_H
#define TESTS_VERIFY_MAKER_H

#include "plans/plan.h"

/* The caller frees *bytes. Aborts on a bug of its own. */
void maker_plan(uint64_t seed, void **bytes, size_t *size);

/* ---- shared by maker.c and maker_flow.c ---- */

struct mk_buf {
  void *at;
  size_t count, capacity, item;
};

struct mk_elem { // an element of a buffer on a rank
  uint32_t kind; // 0 tensor, RSP_SLOT_PAD, RSP_SLOT_GAP
  uint32_t tensor, op;
  float constant;
  uint64_t index;
};

struct mk_slice {
  struct mk_buf names, files, buffers, dims, zeros, zloops, bodies, descs, shapes, loops, streams, parts;
  uint64_t staging;
};

struct mk {
  uint64_t state;
  struct mk_buf strings, inputs, files, tensors, dims, ranks, classes, entries, pieces, ploops, buffers, slots,
      rankmaps, holds;
  struct rsp_summary summary;
  uint32_t world, train_world, infer_world, rounds;
  bool relays;
  struct mk_slice *slices;
  uint32_t (*world_of)[8]; // by side and side rank
};

uint64_t mk_draw(struct mk *m, uint64_t below);
void *mk_push(struct mk_buf *b, size_t item);
#define MK_PUSH(buf, type, ...) (*(type *)mk_push((buf), sizeof(type)) = (type)__VA_ARGS__)
#define MK_ADD(buf, type, value) (*(type *)mk_push((buf), sizeof(type)) = (value))
#define MK_AT(buf, type, i) (&((type *)(buf).at)[i])
struct rsp_str mk_string(struct mk_buf *b, const char *text);
/* What the buffer holds on a side rank; the number of elements, 0 if not held. *elems is malloc'd. */
uint64_t mk_elements(const struct mk *m, uint32_t gid, uint32_t side_rank, struct mk_elem **elems, bool *held);
/* What a rank holds, in its slice, and what of it is zeroed. */
void mk_tables(struct mk *m, uint32_t rank);
/* maker_flow.c: streams of all slices, and the summary. */
void mk_flows(struct mk *m);

#endif
