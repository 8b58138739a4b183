/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of place share: place.c sorts buffers into classes and fills their entries, place_slots.c holds
 * mentions against the rules of dtypes, place_occurrences.c finds what is alike among the pieces, place_ranks.c who has
 * them.
 */
#ifndef RSC_PASS_PLACE_IMPL_H
#define RSC_PASS_PLACE_IMPL_H

#include "compiler/base/diag.h"
#include "compiler/base/keys.h"
#include "compiler/ir/placement.h"

struct classes {
  RSC_VEC(struct rsc_class);
};
struct shapes {
  RSC_VEC(struct rsc_shape);
};
struct rankmaps {
  RSC_VEC(struct rsc_rankmap);
};
struct ranksets {
  RSC_VEC(struct rsc_rankset);
};
struct families {
  RSC_VEC(struct rsc_family);
};
struct slots {
  RSC_VEC(struct rsc_slot);
};

struct placer {
  struct rsc_arena *arena, *scratch;
  struct rsc_diag *diag;
  const struct rsc_layout *layout;
  int64_t pieces; /* of a class, at most */
  struct rsc_keys *class_keys, *shape_keys, *family_keys, *rankmap_keys, *rankset_keys;
  struct rsc_keys *failed; /* statements that had an error */
  struct classes classes;
  struct shapes shapes;
  struct rankmaps rankmaps;
  struct ranksets ranksets;
  struct families families;
  struct rsc_key key; /* reused */
};

/* ---- place_slots.c ---- */

/* A slot for each mention of the tree, in order, with what stands above it; `*ok` is cleared after an error. */
void rsc_place_slots(struct placer *p, const struct rsc_value *v, struct slots *out, bool *ok);
/* The rules of dtypes for one mention; data flows buffer to tensor in training, tensor to buffer in inference. */
bool rsc_place_check_slot(struct placer *p, const struct rsc_buffer *b, enum rsp_dtype buffer,
                          const struct rsc_slot *slot, const struct rsc_tensor *t);

/* ---- place_occurrences.c ---- */

/* Adds a nest to the key, at `base` in position. */
void rsc_place_key_nest(struct placer *p, const struct rsc_nest *n, int64_t base);
/* Occurrences of every slot, in entry order. */
void rsc_place_occurrences(struct placer *p, struct rsc_class *c, struct rsc_slot *slots);

/* ---- place_ranks.c ---- */

/* Which rank holds which entry of the class, on the ranks that `pins` (per axis, or -1) leave: index into rankmaps. */
int32_t rsc_place_rankmap(struct placer *p, int32_t klass, const int64_t *pins);

#endif
