// SPDX-License-Identifier: Apache-2.0
//
// In: a slice whose tables and buffers are sound. Out: yes, or the first rule that a body or a descriptor breaks; and
// what each body may be used for. Every access is bounded by the extremes of its loops; only loops that change the
// buffer are walked, within a budget.
#include "plans/check.h"

#include <string.h>

// Where one descriptor can go.
struct reach {
  uint64_t elems;
  uint64_t buffers; /* turns of the loops that change the buffer */
  int64_t lo, hi;   /* extremes of the offset within one buffer, from the loops that do not change it */
  uint32_t turning; /* loops that change the buffer */
  const struct rsp_loop *loop[RSP_MAX_NEST];
  uint64_t turn[RSP_MAX_NEST];
};

// Adds a loop's farthest step to one end of [lo, hi]; true on overflow.
static bool stretch(int64_t *lo, int64_t *hi, uint64_t count, int64_t step) {
  int64_t far;
  if (count > INT64_MAX || __builtin_mul_overflow((int64_t)(count - 1), step, &far)) return true;
  return far < 0 ? __builtin_add_overflow(*lo, far, lo) : __builtin_add_overflow(*hi, far, hi);
}

static bool measure(const struct rsp_work *w, const struct rsp_desc *d, const struct rsp_shape *sh, uint64_t width,
                    struct reach *r) {
  const struct rsp_check *check = w->check;
  int64_t off_lo = 0, off_hi = 0, ref_lo = 0, ref_hi = 0; // over all loops: no sum of the walk can overflow
  r->elems = sh->run;
  r->buffers = 1;
  r->lo = r->hi = 0;
  r->turning = 0;
  if (!sh->run || sh->loop_count > RSP_MAX_NEST ||
      !rsp_inside(sh->loops, sh->loop_count, w->program->slice->loops.count))
    return rsp_broken(check, RSP_RULE_DESC_LOOPS, sh, NULL);
  for (uint32_t i = 0; i < sh->loop_count; i++) {
    const struct rsp_loop *loop = &w->program->loops[sh->loops + i];
    if (!loop->count) return rsp_broken(check, RSP_RULE_DESC_LOOPS, loop, NULL);
    if (__builtin_mul_overflow(r->elems, loop->count, &r->elems) || r->elems > INT64_MAX)
      return rsp_broken(check, RSP_RULE_BODY_ELEMS, d, "more than 2^63 elements");
    if (loop->off_step % (int64_t)width || stretch(&off_lo, &off_hi, loop->count, loop->off_step))
      return rsp_broken(check, RSP_RULE_DESC_EXTENT, loop, NULL);
    if (stretch(&ref_lo, &ref_hi, loop->count, loop->ref_step)) return rsp_broken(check, RSP_RULE_DESC_REF, loop, NULL);
    if (loop->count == 1) continue;
    if (!loop->ref_step) {
      stretch(&r->lo, &r->hi, loop->count, loop->off_step);
    } else {
      r->loop[r->turning] = loop;
      r->turn[r->turning++] = 0;
      r->buffers *= loop->count; // at most elems
    }
  }
  // The farthest gid and byte, with the descriptor's own start, must fit as well.
  if (d->off > INT64_MAX || __builtin_add_overflow((int64_t)d->off, off_hi, &off_hi))
    return rsp_broken(check, RSP_RULE_DESC_EXTENT, d, NULL);
  if (ref_lo < -(int64_t)d->ref || ref_hi > (int64_t)UINT32_MAX - (int64_t)d->ref)
    return rsp_broken(check, RSP_RULE_DESC_REF, d, NULL);
  return true;
}

static bool inside(const struct reach *r, int64_t off, uint64_t run, uint64_t width, uint64_t bytes) {
  uint64_t run_bytes;
  int64_t first, last;
  if (__builtin_mul_overflow(run, width, &run_bytes)) return false;
  if (__builtin_add_overflow(off, r->lo, &first) || __builtin_add_overflow(off, r->hi, &last)) return false;
  return first >= 0 && rsp_inside((uint64_t)last, run_bytes, bytes);
}

// The next setting of the turning loops; false after the last.
static bool advance(struct reach *r, int64_t *gid, int64_t *off) {
  for (uint32_t i = r->turning; i-- > 0;) {
    const struct rsp_loop *loop = r->loop[i];
    if (++r->turn[i] < loop->count) {
      *gid += loop->ref_step;
      *off += loop->off_step;
      return true;
    }
    r->turn[i] = 0;
    *gid -= loop->ref_step * (int64_t)(loop->count - 1);
    *off -= loop->off_step * (int64_t)(loop->count - 1);
  }
  return false;
}

static bool check_buffers(struct rsp_work *w, const struct rsp_desc *d, const struct rsp_shape *sh, uint64_t width,
                          struct reach *r, uint32_t *side) {
  const struct rsp_check *check = w->check;
  if (r->buffers > w->budget) return rsp_broken(check, RSP_RULE_DESC_WORK, d, NULL);
  w->budget -= r->buffers;
  int64_t gid = d->ref, off = (int64_t)d->off;
  bool first = true;
  do {
    const struct rsp_sbuffer *b = rsp_program_buffer(w->program, (uint32_t)gid);
    if (!b || (!first && b->side != *side)) return rsp_broken(check, RSP_RULE_DESC_REF, d, "gid %lld", (long long)gid);
    *side = b->side;
    first = false;
    if (b->dtype != sh->buf_dtype) return rsp_broken(check, RSP_RULE_DESC_DTYPE, d, "gid %lld", (long long)gid);
    if (!inside(r, off, sh->run, width, b->bytes))
      return rsp_broken(check, RSP_RULE_DESC_EXTENT, d, "gid %lld", (long long)gid);
  } while (advance(r, &gid, &off));
  return true;
}

// The shape that a descriptor names. Shapes are numbered by first use, so that none is left unread.
static const struct rsp_shape *shape_of(struct rsp_work *w, const struct rsp_desc *d) {
  if (d->shape > w->shapes || d->shape >= w->program->slice->shapes.count) {
    rsp_report(w->check, RSP_RULE_DESC_SHAPE, d, "shape %u", d->shape);
    return NULL;
  }
  if (d->shape == w->shapes) w->shapes++;
  return &w->program->shapes[d->shape];
}

static bool check_desc(struct rsp_work *w, const struct rsp_body *body, const struct rsp_desc *d, unsigned char *flags,
                       uint64_t *elems) {
  const struct rsp_check *check = w->check;
  const struct rsp_shape *sh = shape_of(w, d);
  if (!sh) return false;
  uint64_t width = rsp_dtype_bytes(sh->buf_dtype), wire = rsp_dtype_bytes(sh->wire_dtype);
  uint32_t constant, side = RSP_TRAIN;
  struct reach r;
  memcpy(&constant, &sh->constant, sizeof constant);
  if (!width || !wire) return rsp_broken(check, RSP_RULE_DESC_DTYPE, sh, NULL);
  if (body->wire_bytes != wire) return rsp_broken(check, RSP_RULE_BODY_WIRE, d, NULL);
  if (sh->op > RSP_OP_ADD || (constant && sh->op != RSP_OP_ADD))
    return rsp_broken(check, RSP_RULE_DESC_OP, sh, "op %u", sh->op);
  if (sh->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, sh, "shape");
  if (!measure(w, d, sh, width, &r)) return false;
  if (d->off % width) return rsp_broken(check, RSP_RULE_DESC_EXTENT, d, "off %llu", (unsigned long long)d->off);
  if (!check_buffers(w, d, sh, width, &r, &side)) return false;
  if (side != RSP_TRAIN || sh->op == RSP_OP_NEG_EXP || !rsp_conversion_legal(sh->buf_dtype, sh->wire_dtype, sh->op))
    *flags &= (unsigned char)~RSP_BODY_SRC;
  if (side != RSP_INFER || !rsp_conversion_legal(sh->wire_dtype, sh->buf_dtype, sh->op))
    *flags &= (unsigned char)~RSP_BODY_DST;
  if (sh->op != RSP_OP_COPY || sh->buf_dtype != sh->wire_dtype) *flags &= (unsigned char)~RSP_BODY_DIRECT;
  if (!(*flags & (RSP_BODY_SRC | RSP_BODY_DST)))
    return rsp_broken(check, RSP_RULE_DESC_OP, d, "it can be neither sent nor received");
  *elems = r.elems;
  return true;
}

static bool check_body(struct rsp_work *w, const struct rsp_body *body, unsigned char *flags) {
  const struct rsp_check *check = w->check;
  uint64_t sum = 0, elems = 0;
  for (uint64_t i = 0; i < body->desc_count; i++) {
    if (!check_desc(w, body, &w->program->descs[body->descs + i], flags, &elems)) return false;
    if (elems > INT64_MAX - sum) return rsp_broken(check, RSP_RULE_BODY_ELEMS, body, "more than 2^63 elements");
    sum += elems;
  }
  uint64_t bytes;
  if (sum != body->elems || __builtin_mul_overflow(sum, (uint64_t)body->wire_bytes, &bytes) || bytes > INT64_MAX)
    return rsp_broken(check, RSP_RULE_BODY_ELEMS, body, "%llu there, %llu said", (unsigned long long)sum,
                      (unsigned long long)body->elems);
  return true;
}

bool rsp_check_bodies(struct rsp_work *w) {
  const struct rsp_check *check = w->check;
  const struct rsp_slice *s = w->program->slice;
  uint64_t next = 0;
  for (uint64_t i = 0; i < s->bodies.count; i++) {
    const struct rsp_body *body = &w->program->bodies[i];
    if (body->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, body, "body");
    if (body->descs != next || !body->desc_count || !rsp_inside(next, body->desc_count, s->descs.count))
      return rsp_broken(check, RSP_RULE_BODY_DESCS, body, NULL);
    next += body->desc_count;
    w->flags[i] = RSP_BODY_SRC | RSP_BODY_DST | RSP_BODY_DIRECT;
    if (!check_body(w, body, &w->flags[i])) return false;
  }
  if (next != s->descs.count) return rsp_broken(check, RSP_RULE_BODY_DESCS, s, "a descriptor has no body");
  return w->shapes == s->shapes.count || rsp_broken(check, RSP_RULE_DESC_SHAPE, s, "a shape has no descriptor");
}
