/* SPDX-License-Identifier: Apache-2.0
 *
 * catalogue: the tensors of a model, from YAML. Made by pass/catalogue, read by resolve.
 */
#ifndef RSC_IR_CATALOGUE_H
#define RSC_IR_CATALOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/diag.h"
#include "compiler/ir/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsc_constant_kind { RSC_CONSTANT_INT, RSC_CONSTANT_STRING, RSC_CONSTANT_LIST };

struct rsc_constant {
  enum rsc_constant_kind kind;
  const char *name; /* NULL inside a list */
  int64_t number;
  const char *string;
  const struct rsc_constant *items;
  int64_t item_count;
  struct rsc_span span;
};

struct rsc_catalogue {
  const char *name;
  const struct rsc_constant *constants;
  int64_t constant_count;
  const struct rsc_tensor *tensors; /* `for` unrolled, in order; names distinct */
  int64_t tensor_count;
};

/* Parses the catalogue that is file `file` of `sources` (already added). All errors are reported to diag; returns
 * false if there was any. */
bool rsc_catalogue_read(struct rsc_arena *arena, struct rsc_sources *sources, struct rsc_diag *diag, int file,
                        struct rsc_catalogue *out);

#ifdef __cplusplus
}
#endif

#endif
