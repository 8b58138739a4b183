/* SPDX-License-Identifier: Apache-2.0
 *
 * What the proofs share: the plan, the meaning of its buffers as lattices, its distinct programs, the report.
 * verify.c fills the parts in, in the order of the declarations below; each proof reads them and adds violations.
 */
#ifndef RSPV_CONTEXT_H
#define RSPV_CONTEXT_H

#include "plans/verify.h"
#include "plans/verify/nest.h"

/* Where in the plan a violation is; unknown fields RSPV_NONE, lo == hi for no range. */
struct rspv_place {
  uint32_t tensor, buffer, rank, peer, round;
  uint64_t lo, hi;
};
#define RSPV_NOWHERE ((struct rspv_place){RSPV_NONE, RSPV_NONE, RSPV_NONE, RSPV_NONE, RSPV_NONE, 0, 0})

/* A loop of a descriptor, or its run (the last), at both ends: index 0 the source, 1 the destination. Positions count
 * elements of a buffer, or bytes of a stream. */
struct rspv_floop {
  uint64_t count;
  int64_t ref[2], off[2];
};
/* A descriptor, or a pair of them, without loops of one iteration. Row-major, as elements travel. */
struct rspv_form {
  uint32_t loops;
  int64_t ref[2], off[2];
  uint64_t elems;
  struct rspv_floop loop[66];
};

/* One buffer, or pair of buffers, that a form reaches: the loops that change the buffer are at a fixed iteration, the
 * others are the axes of `nest` (functions SRC and DST). */
struct rspv_visit {
  int64_t ref[2];
  struct rspv_nest *nest;
};
typedef bool rspv_visitor(void *context, const struct rspv_visit *visit); /* false stops */

/* A distinct body. All ranks that have an equal one share it. */
struct rspv_writes {
  uint32_t gid, nest; /* nest: number in rspv.nests */
};
struct rspv_body {
  uint64_t elems;
  uint32_t wire_bytes;
  uint64_t desc_count;
  const struct rsp_desc *descs;
  const struct rsp_shape *shapes; /* base of desc.shape */
  const struct rsp_loop *loops;   /* base of shape.loops */
  bool expanded;
  struct rspv_writes *writes; /* of the whole body, as a destination; made on demand */
  size_t write_count;
};

/* A stretch of a buffer that a descriptor writes; shared by all buffers, as a lattice of elements. */
struct rspv_stretch {
  struct rspv_lattice lattice;
};

struct rspv_entry {
  struct rspv_space space;  /* buffer element -> tensor element; id = index into plan->pieces */
  uint64_t wanted, padding; /* elements */
};

struct rspv {
  const struct rsp_plan *plan;
  struct rspv_report *report;
  struct rspv_work work;        /* scratch */
  struct rspv_arena arena;      /* lives as long as the verification */
  struct rsp_program *programs; /* by world rank */

  struct rspv_entry *entries; /* by index into plan->entries */

  /* profile: the entry that a rank holds of each rankmap. Equal ranks share one. */
  struct rspv_table profiles; /* words: per rankmap, entry + 1 or 0 */
  uint32_t *profile[2];       /* by side and world rank; RSPV_NONE: no role */
  uint32_t *world_of[2];      /* by side and side rank */

  struct rspv_table body_table;
  struct rspv_body *bodies;
  size_t body_count, body_capacity;
  uint32_t **body_of; /* by world rank and index in the slice */

  struct rspv_table stretch_table;
  struct rspv_lattice *stretches;
  size_t stretch_count, stretch_capacity;

  struct rspv_table pair_table;
  unsigned char *pair_good;
  size_t pair_count, pair_capacity;

  /* Which training buffers hold a tensor: gids and slots, by tensor; made on demand. */
  uint64_t *holder_start;
  uint32_t *holder_gid, *holder_slot;
  unsigned char *delivered; /* by tensor */
};

/* report.c */
void rspv_report_add(struct rspv *v, enum rspv_kind kind, struct rspv_place place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* True once the budget is spent; the first call after that reports it as a violation of `kind`. */
bool rspv_spent(struct rspv *v, enum rspv_kind kind, struct rspv_place place);
/* The tensor range that begins with the nest's first element, by its function VAL. */
void rspv_place_range(struct rspv_place *place, uint32_t tensor, const struct rspv_nest *nest, enum rspv_func f);

/* spec.c: entries, profiles, world_of. False if the specification is broken: then nothing else can be proved. */
bool rspv_spec(struct rspv *v);
void rspv_profiles(struct rspv *v);
/* Global number of the entry of a buffer under a profile, or RSPV_NONE. */
uint32_t rspv_entry_of(const struct rspv *v, uint32_t profile, uint32_t gid);
static inline uint32_t rspv_tensor_of(const struct rspv *v, uint32_t gid, uint32_t slot) {
  return v->plan->slots[v->plan->buffers[gid].slots + slot];
}
void rspv_holders(struct rspv *v);

/* form.c */
/* Descriptor i of a source, of a destination (either may be NULL) or of both. False if the loops of the two differ. */
bool rspv_form_make(struct rspv_form *form, const struct rspv_body *src, const struct rspv_body *dst, uint64_t i);
/* Visits elements [lo, hi) of the form. Nests are made in v->work and released after each visit. */
bool rspv_form_visit(struct rspv *v, const struct rspv_form *form, uint64_t lo, uint64_t hi, rspv_visitor *visitor,
                     void *context);

/* Makes one end of a form with one end only the place in the stream: dense, from byte `at` on. */
void rspv_place_in_stream(struct rspv_form *form, int end, int64_t at, int64_t wire);

/* bodies.c */
void rspv_bodies(struct rspv *v);
/* Appends what elements [lo, hi) of the body write. */
void rspv_body_writes(struct rspv *v, struct rspv_body *body, uint64_t lo, uint64_t hi, struct rspv_writes **writes,
                      size_t *count, size_t *capacity);
void rspv_nest_writes(struct rspv *v, uint32_t gid, const struct rspv_nest *nest, struct rspv_writes **writes,
                      size_t *count, size_t *capacity); /* the same for one nest: function DST */
void rspv_body_expand(struct rspv *v, struct rspv_body *body);
uint32_t rspv_stretch_intern(struct rspv *v, const struct rspv_lattice *lattice);

/* streams.c: matching, progress; provenance of every part through pair.c. */
void rspv_streams(struct rspv *v);
const struct rsp_stream *rspv_find_stream(const struct rsp_program *program, uint32_t dir, uint32_t peer, uint32_t kind,
                                          uint32_t tag);
static inline uint32_t rspv_round_of(const struct rsp_stream *s, uint64_t byte) {
  return (uint32_t)(s->round0 + byte / s->quantum * s->step);
}

/* pair.c */
struct rspv_end {
  uint32_t rank, profile; /* world rank; profile of the side that this end is of */
  uint32_t body;          /* distinct body */
  const struct rsp_stream *stream;
};
/* Proves that elements [lo, hi) of one body are those of the other. `at`: byte of the stream where they begin. */
void rspv_pair(struct rspv *v, const struct rspv_end *src, const struct rspv_end *dst, uint64_t lo, uint64_t hi,
               uint64_t at);

void rspv_cover(struct rspv *v);   /* cover.c, with wanted.c */
void rspv_hazards(struct rspv *v); /* hazards.c */
void rspv_ops(struct rspv *v);     /* ops.c: operations per round, peers, staging */
void rspv_minimum(struct rspv *v); /* minimum.c */

/* locate.c: the last round in which a rank is delivered an element of a buffer, or RSPV_NONE. */
uint32_t rspv_locate(struct rspv *v, uint32_t rank, uint32_t gid, uint64_t element);

/* wanted.c: one buffer's deliveries against its entry. */
struct rspv_hole { /* wanted and not delivered: elements of the tensor in `slot` (function VAL) */
  struct rspv_hole *next;
  uint32_t slot;
  struct rspv_nest *nest;
};
struct rspv_verdict {
  uint64_t delivered, wanted; /* elements */
  struct rspv_hole *holes;
  bool doubled;    /* something is written twice, or is not wanted */
  bool padding;    /* ... that is padding or a gap */
  uint64_t where;  /* buffer element */
  uint32_t *slots; /* tensors delivered */
  uint32_t slot_count;
};
struct rspv_verdict *rspv_wanted(struct rspv *v, uint32_t entry, const uint32_t *stretches, uint32_t count);
/* Exactly the padding? True if so, else *where is an element that is not right. */
bool rspv_padding(struct rspv *v, uint32_t entry, const struct rspv_lattice *zeros, uint32_t count, uint64_t *where);
/* Does any training buffer hold an element of the tensor on this nest (function VAL)? */
bool rspv_supplied(struct rspv *v, uint32_t tensor, const struct rspv_nest *nest);

#endif
