/* SPDX-License-Identifier: Apache-2.0
 *
 * placement: which elements every part of every buffer of one side holds. Made by pass/place from a layout.
 *
 * Buffers whose value trees differ only in the names of tensors form one *class*. A class has an *entry* for each
 * distinct local part that the settings of its cut axes give; ranks that hold copies share an entry. A *slot* is
 * one mention of a tensor in the class's tree. The pieces of a slot in one entry are an *occurrence*; occurrences
 * with their position taken out are interned as *shapes*, so that 94 layers x 128 experts share a few.
 */
#ifndef RSC_IR_PLACEMENT_H
#define RSC_IR_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/base/nest.h"
#include "compiler/ir/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RSC_SLOT_PAD = -1, RSC_SLOT_GAP = -2 };

/* nest: RSC_F_TENSOR and RSC_F_POS (flat element of the buffer); PAD and GAP have no tensor functional. */
struct rsc_piece {
  struct rsc_nest nest;
  int32_t slot;
};

struct rsc_pieces {
  RSC_VEC(struct rsc_piece);
};

struct rsc_entry {
  int32_t ndim;
  const int64_t *dims;
  int64_t elems;
  struct rsc_pieces pieces; /* sorted by base position */
};

/* What a slot holds in the entries where it holds anything: nests relative to `base` in position. */
struct rsc_shape {
  struct rsc_nests nests;
  int64_t elems;
  int64_t t_min, t_max; /* inclusive range of tensor elements */
};

struct rsc_occurrence {
  int32_t entries; /* index into the class's entry sets: entries that hold this very part at this position */
  int32_t shape;   /* index into the placement's shapes */
  int64_t base;    /* position that the shape's nests are relative to */
};

struct rsc_entry_set {
  const int32_t *at; /* ascending */
  int32_t count;
};

struct rsc_slot {
  uint8_t op; /* enum rsp_op */
  bool cast, replica;
  int32_t cuts; /* on the way from the tensor to the buffer */
  bool shared;  /* occurrences may hold copies of each other's elements; otherwise they are disjoint */
  float constant;
  struct rsc_span span; /* of the mention in the class's first buffer */
  const struct rsc_occurrence *occurrences;
  int32_t occurrence_count;
  int32_t family; /* index into families */
};

/* The occurrences' shapes of a slot: slots of one family meet other slots alike. */
struct rsc_family {
  const int32_t *shapes;
  int32_t count;
  bool shared;
};

struct rsc_class {
  int32_t mesh;
  enum rsp_dtype dtype;    /* of the buffer */
  const int32_t *cut_axes; /* ascending */
  int32_t cut_axis_count;
  const int32_t *entry_of; /* by row-major index over the cut axes' coordinates */
  const struct rsc_entry *entries;
  int32_t entry_count;
  const struct rsc_entry_set *entry_sets;
  int32_t entry_set_count;
  const struct rsc_slot *slots;
  int32_t slot_count;
};

struct rsc_placed_buffer {
  int32_t klass; /* -1: refused */
  int32_t rankmap;
  const int32_t *slots; /* the class's slot_count tensor indices */
};

/* Which ranks hold a buffer and which entry each holds: shared by buffers of one class, mesh and pins. */
struct rsc_rankmap {
  const int64_t *ranks; /* ascending */
  const int32_t *entries;
  int64_t count;
  const int32_t *rankset_of; /* per entry set of the class: id of the set of ranks that hold one of its entries */
};

struct rsc_rankset {
  const int64_t *ranks; /* ascending */
  int64_t count;
};

struct rsc_placement {
  const struct rsc_layout *layout;
  const struct rsc_class *classes;
  int32_t class_count;
  const struct rsc_placed_buffer *buffers; /* as the layout's */
  const struct rsc_shape *shapes;
  int32_t shape_count;
  const struct rsc_rankmap *rankmaps;
  int32_t rankmap_count;
  const struct rsc_rankset *ranksets;
  int32_t rankset_count;
  const struct rsc_family *families;
  int32_t family_count;
};

void rsc_placement_print(const struct rsc_placement *placement, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
