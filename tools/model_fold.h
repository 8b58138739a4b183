/* SPDX-License-Identifier: Apache-2.0
 *
 * model_fold: a flat list of named tensors -> entries of a catalogue, numbered families folded into loops.
 */
#ifndef RESHARD_TOOLS_MODEL_FOLD_H
#define RESHARD_TOOLS_MODEL_FOLD_H

#include "compiler/base/vec.h"
#include "plans/dtype.h"

struct model_tensor {
  const char *name;
  enum rsp_dtype dtype;
  const uint64_t *shape;
  size_t ndim;
};

/* The values of one loop, ascending and distinct. */
struct model_values {
  RSC_VEC(int64_t);
};

/* All tensors whose name is `parts` with numbers between: parts[0] number parts[1] ... parts[loops]. Their numbers
 * are the product of `values`. */
struct model_entry {
  const struct model_tensor *like; /* dtype and shape */
  const char *const *parts;
  size_t loops;
  const struct model_values *values; /* [loops], the first outermost */
};

struct model_entries {
  RSC_VEC(struct model_entry);
};

/* Numbers are parts of a name between dots that are decimal without leading zeros. A family is what has one dtype, one
 * shape and one name but for its numbers; where its numbers are no product, it becomes several entries. Every tensor
 * is in exactly one entry; entries stand in the order of their first tensor. `tensors` have distinct names. */
struct model_entries model_fold(struct rsc_arena *arena, const struct model_tensor *tensors, size_t count);

#endif
