/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the maker of plans: made.c (buffers, the file) and made_flow.c (what moves).
 */
#ifndef TESTS_RUNTIME_MADE_IMPL_H
#define TESTS_RUNTIME_MADE_IMPL_H

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

struct list {
  void *rows;
  uint64_t count, room;
};

uint64_t made_add(struct list *list, const void *row, uint64_t bytes); /* the new row's number */
#define add made_add
#define ADD(list, type, ...) add(list, &(type){__VA_ARGS__}, sizeof(type))

/* Matrices of one shape and dtype: `count` buffers on each side, padding behind each on the inference side. */
struct group {
  uint32_t count, rows, columns, pad;
  uint32_t wire, src_dtype, dst_dtype, src_op, dst_op;
  float src_constant, dst_constant;
  uint32_t src_gid, dst_gid, twin_gid; /* twin: what inference ranks hold once more, with relays */
};

struct rank {
  struct list names, files, buffers, dims, zeros, bodies, descs, shapes, loops, streams, parts;
  uint64_t staging;
};

struct maker {
  uint64_t seed;
  const struct made_options *options;
  uint32_t world, rounds;
  struct group *groups;
  uint32_t group_count, train_gids, infer_gids;
  struct rank *ranks;
  bool relays;    /* there is one */
  uint32_t *tags; /* next one: by sender, receiver and kind */
  struct list flows;
  struct list strings, inputs, files, tensors, dims, world_ranks, classes, entries, pieces, ploops, buffers, slots,
      rankmaps, holds, summary;
};

static inline uint64_t pick(struct maker *m, uint64_t lo, uint64_t hi) {
  return random_in(&m->seed, lo, hi);
}

static inline uint32_t world_of_train(const struct maker *m, uint32_t rank) {
  (void)m;
  return rank;
}

static inline uint32_t world_of_infer(const struct maker *m, uint32_t rank) {
  return rank < m->options->shared ? rank : m->options->train + rank - m->options->shared;
}

/* made_flow.c: bodies, streams and parts of all slices. */
void made_move_all(struct maker *m);

#endif
