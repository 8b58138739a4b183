/* SPDX-License-Identifier: Apache-2.0
 *
 * layout: what one side's file means once names, constants and loops are gone. Made by pass/resolve from an
 * AST, read by pass/place. Everything lives in the compilation's arena and is never changed after resolve.
 *
 * A buffer holds a value tree. Trees keep the shape of the source: `_` and local shapes are worked out by
 * place, at each setting of the mesh axes that the tree cuts. Constants are already integers.
 */
#ifndef RSC_IR_LAYOUT_H
#define RSC_IR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/base/span.h"
#include "plans/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsc_side { RSC_TRAIN = 0, RSC_INFER = 1 };

enum rsc_cut_rule {
  RSC_CUT_EVEN,     /* @axis */
  RSC_CUT_CHUNK,    /* :chunk */
  RSC_CUT_BALANCED, /* :balanced */
  RSC_CUT_SIZES,    /* :[3, 5, 4]          list = sizes */
  RSC_CUT_CYCLIC,   /* :cyclic, cyclic(b)  arg = b (1 by default) */
  RSC_CUT_SHARE,    /* :share(k), :share([2,1])  shares = one */
  RSC_CUT_PADDED,   /* :padded(m)          arg = m (1 by default) */
  RSC_CUT_EACH      /* :each(sizes, shares) list = section lengths; shares = each section's, NULL if none */
};

/* Groups of consecutive coordinates that hold the same part: of k each or, where k is 0, of these many; they fill the
 * axis. */
struct rsc_share {
  int64_t k;
  const int64_t *groups;
  int64_t group_count;
};

struct rsc_cut {
  enum rsc_cut_rule rule;
  int32_t axis; /* index into the axes of the buffer's mesh; resolve has reported axes that the mesh lacks,
                   that the `on` pins, or that cut before on the same way from the tensor */
  int64_t arg;
  const int64_t *list;
  int64_t list_len;
  const struct rsc_share *shares;
  int64_t share_count;
  struct rsc_span span;
};

enum rsc_dim_kind {
  RSC_DIM_SIZE, /* size */
  RSC_DIM_KEEP, /* _ */
  RSC_DIM_REST  /* .. (last) */
};

struct rsc_dim {
  enum rsc_dim_kind kind;
  bool padded; /* pad(real, pad_to): `kind` and `size` describe the real extent */
  int64_t size, pad_to;
  const struct rsc_cut *cuts; /* in the order of application */
  int32_t cut_count;
  struct rsc_span span;
};

enum rsc_value_kind {
  RSC_VALUE_TENSOR,  /* tensor */
  RSC_VALUE_VIEW,    /* child[0], dims */
  RSC_VALUE_CAT,     /* children, along dimension k */
  RSC_VALUE_STACK,   /* children (one per element of the range, all of them), cuts on the new first dimension */
  RSC_VALUE_SLICE,   /* child[0], dimension k, [lo, hi) */
  RSC_VALUE_PERMUTE, /* child[0], perm[0..perm_len) */
  RSC_VALUE_GAP,     /* dims (sizes, no `_`; cuts are legal) */
  RSC_VALUE_CAST,    /* child[0] */
  RSC_VALUE_NEG_EXP, /* child[0] */
  RSC_VALUE_ADD,     /* child[0], constant */
  RSC_VALUE_REPLICA  /* child[0] */
};

struct rsc_value {
  enum rsc_value_kind kind;
  struct rsc_span span;
  int32_t tensor; /* index into the side's tensors */
  const struct rsc_value *const *children;
  int64_t child_count;
  const struct rsc_dim *dims;
  int32_t dim_count;
  const struct rsc_cut *cuts; /* STACK */
  int32_t cut_count;
  int64_t k, lo, hi;
  const int64_t *perm;
  int32_t perm_len;
  double constant;
};

struct rsc_tensor {
  const char *name; /* NUL-terminated; names hold no NUL */
  enum rsp_dtype dtype;
  int32_t ndim;
  const int64_t *dims;
  int64_t elems; /* product of dims, checked */
  struct rsc_span span;
};

struct rsc_axis {
  const char *name;
  int64_t size; /* >= 1 */
};

struct rsc_mesh {
  const char *name;
  const struct rsc_axis *axes;
  int32_t axis_count;
  const int64_t *ranks; /* row-major over the axes, the last fastest; distinct, >= 0 */
  int64_t rank_count;
  struct rsc_span span;
};

struct rsc_buffer {
  const char *name;
  enum rsp_dtype dtype; /* 0 if not stated: it is the tensors' dtype */
  int32_t mesh;
  const int64_t *pins; /* per axis of the mesh: the pinned coordinate, or -1 */
  const struct rsc_value *value;
  struct rsc_span span;    /* of the buffer's name */
  const char *loop_values; /* "l = 3, e = 17", or "" outside loops; for messages */
};

struct rsc_skip {
  const char *glob;
  struct rsc_span span;
};

struct rsc_layout {
  enum rsc_side side;
  int64_t world; /* `world N`, or the highest rank named plus 1 */
  const struct rsc_tensor *tensors;
  int64_t tensor_count; /* in order of declaration; names distinct */
  const struct rsc_mesh *meshes;
  int32_t mesh_count;
  const struct rsc_buffer *buffers;
  int64_t buffer_count; /* in order of execution */
  const struct rsc_skip *skips;
  int64_t skip_count;
  bool
      partial; /* there were errors: it has the buffers without one, for place to check, and is good for nothing else */
};

#ifdef __cplusplus
}
#endif

#endif
