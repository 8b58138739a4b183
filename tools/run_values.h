/* SPDX-License-Identifier: Apache-2.0
 *
 * run_values: which value each element of each tensor has in a replay: a keyed hash of (tensor, flat index), shaped
 * so that every dtype that a buffer holds it in can tell.
 *
 * A tensor that is only moved has any bits (a bool: 0 or 1). A tensor that some buffer converts has finite floats that
 * every training buffer of it can stand for exactly; where the buffer is finer than the tensor, it holds a number
 * beside the tensor's that rounds to it, so that a missing conversion shows.
 */
#ifndef RESHARD_TOOLS_RUN_VALUES_H
#define RESHARD_TOOLS_RUN_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One way in which training buffers hold a tensor. */
struct run_form {
  uint32_t dtype, op;
  float constant;
};

struct run_tensor {
  uint32_t index, dtype;
  bool converted;         /* by some buffer */
  int mant, emin, emax;   /* of the finite floats of a converted tensor */
  struct run_form *forms; /* of a converted tensor: distinct; the first says how values are drawn */
  size_t form_count;
  uint32_t replays; /* after how many replays a mix-up of two elements went unseen with probability 2^-32 at most */
  /* Elements that the training side supplies: all; or, of a tensor that it may leave out (`skip`), those set here. */
  bool partial;
  uint64_t *supplied; /* a bit per element; NULL: none */
};

struct run_values {
  struct run_tensor *tensors;
  uint64_t count;
  uint32_t replays; /* the most of all tensors, at least 2 */
};

/* Reads the plan's specification. False when out of memory. Free with run_values_free, in any case. */
bool run_values_init(struct run_values *values, const struct rsp_plan *plan);
void run_values_free(struct run_values *values);

/* Elements t0, t0 + step, ... of the tensor, in its dtype, `count` of them, densely at out. */
void run_values_tensor(const struct run_tensor *tensor, uint64_t key, uint64_t t0, uint64_t step, size_t count,
                       unsigned char *out);
/* The same elements as a training buffer of that form holds them. */
void run_values_train(const struct run_tensor *tensor, const struct run_form *form, uint64_t key, uint64_t t0,
                      uint64_t step, size_t count, unsigned char *out);

static inline bool run_supplied(const struct run_tensor *tensor, uint64_t t) {
  return !tensor->partial || (tensor->supplied && (tensor->supplied[t / 64] >> t % 64 & 1));
}

#ifdef __cplusplus
}
#endif

#endif
