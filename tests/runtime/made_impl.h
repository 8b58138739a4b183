/* SPDX-License-Identifier: Apache-2.0
 *
 * What made.c and made_moves.c share: a plan in the making.
 */
#ifndef TESTS_RUNTIME_MADE_IMPL_H
#define TESTS_RUNTIME_MADE_IMPL_H

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

struct list {
  void *rows;
  uint64_t count, room;
};

uint64_t made_add(struct list *list, const void *row, uint64_t bytes);
#define ADD(list, type, ...) made_add(list, &(type){__VA_ARGS__}, sizeof(type))

/* Matrices of one shape and dtype: `count` buffers on each side, padding behind each on the inference side. */
struct group {
  uint32_t count, rows, columns, pad;
  uint32_t wire, src_dtype, dst_dtype, src_op, dst_op;
  float src_constant, dst_constant;
  uint32_t src_gid, dst_gid;
};

struct rank {
  struct list names, files, buffers, dims, zeros, bodies, descs, loops, streams, parts;
  uint64_t staging;
};

struct maker {
  uint64_t seed, features;
  const struct made_options *options;
  uint32_t world, rounds;
  struct group *groups;
  uint32_t group_count, train_gids, infer_gids;
  struct rank *ranks;
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

/* Fills bodies, descriptors, loops, streams, parts and staging of all ranks; the rounds. */
void made_moves(struct maker *m);

#endif
