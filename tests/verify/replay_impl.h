/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the replay on symbols: its state, shared by replay.c (moves) and replay_judge.c (what should be).
 */
#ifndef TESTS_VERIFY_REPLAY_IMPL_H
#define TESTS_VERIFY_REPLAY_IMPL_H

#include <stdbool.h>
#include <string.h>

#include "plans/plan.h"

enum sym_kind { SYM_POISON, SYM_ZERO, SYM_PAD, SYM_GAP, SYM_ELEMENT, SYM_GARBAGE };

struct sym {
  uint32_t kind, tensor, dtype, op, constant, end; /* end: 0 pure, 1 as a training buffer, 2 as an inference buffer */
  uint64_t index;
};
struct cell { /* a byte of staging */
  struct sym sym;
  uint32_t byte;
};

struct elem { /* where an element of a stream is at one end */
  const struct rsp_shape *shape;
  uint32_t ref;
  uint64_t off; /* bytes */
  uint64_t at;  /* byte of the stream */
  uint32_t wire;
  bool first; /* of a run */
};

struct flow { /* a stream, element by element; a relay has the elements of the stream that it passes on */
  const struct rsp_stream *s, *slots; /* slots: whose staging it has */
  struct elem *elems;
  size_t count;
};

struct rank {
  struct rsp_program program;
  struct sym **buffers; /* by gid; NULL if not held */
  uint64_t *sizes;      /* elements */
  struct cell *staging;
  struct flow *flows;
};

struct run {
  const struct rsp_plan *plan;
  struct rank *ranks;
  unsigned char **held; /* training: by tensor and element */
  const char *wrong;
};

static inline bool same(const struct sym *a, const struct sym *b) {
  return !memcmp(a, b, sizeof *a);
}

static inline struct sym garbage(void) {
  struct sym s;
  memset(&s, 0, sizeof s);
  s.kind = SYM_GARBAGE;
  return s;
}

static inline uint32_t bits(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  return b;
}

/* Message i of the stream in this round; false if it is not active. */
static inline bool active(const struct rsp_stream *s, int64_t round, uint64_t *i) {
  if (round < s->round0 || (round - s->round0) % s->step) return false;
  *i = (uint64_t)(round - s->round0) / s->step;
  return *i < rsp_stream_rounds(s);
}

#define EACH_ELEM(flow, i, e)                                                                                          \
  for (const struct elem *e = (flow)->elems; e < (flow)->elems + (flow)->count; e++)                                   \
    if (e->at / (flow)->s->quantum == (i))

/* replay_judge.c: what each element of the buffer should be; false if one has no meaning or two. */
bool specify(const struct rsp_plan *plan, const struct rsp_buffer *b, const struct rsp_entry *e, struct sym *out);
/* Sets run->wrong if a buffer, a round or a figure of the summary is not right. */
void judge(struct run *run);

#endif
