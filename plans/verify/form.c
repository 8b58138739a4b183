/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a descriptor, or a sender's and a receiver's that belong together, and a range of its elements. Out: visits, one
 * for each choice of buffers, with everything else still a loop. A range that cuts through loops falls into at most two
 * boxes per loop.
 */
#include <string.h>

#include "plans/verify/context.h"

struct visit_state {
  struct rspv *v;
  const struct rspv_form *form;
  rspv_visitor *visitor;
  void *context;
  uint64_t from[66], count[66];
};

static int64_t unit_of(const struct rsp_desc *d) {
  return d->space == RSP_SPACE_STREAM ? 1 : (int64_t)rsp_dtype_bytes(d->buf_dtype);
}

static void add_loop(struct rspv_form *form, const struct rsp_desc *d, const struct rsp_loop *loop, int end) {
  form->loop[form->loops].ref[end] = loop->ref_step;
  form->loop[form->loops].off[end] = loop->off_step / unit_of(d);
}

bool rspv_form_make(struct rspv_form *form, const struct rsp_desc *src, const struct rsp_loop *src_loops,
                    const struct rsp_desc *dst, const struct rsp_loop *dst_loops) {
  const struct rsp_desc *end[2] = {src, dst}, *any = src ? src : dst;
  const struct rsp_loop *base[2] = {src_loops, dst_loops};
  if (src && dst && (src->loop_count != dst->loop_count || src->run != dst->run)) return false;
  memset(form, 0, offsetof(struct rspv_form, loop));
  form->elems = any->run;
  for (int e = 0; e < 2; e++) {
    if (!end[e]) continue;
    form->ref[e] = end[e]->ref;
    form->off[e] = (int64_t)end[e]->off / unit_of(end[e]);
  }
  for (uint32_t i = 0; i <= any->loop_count; i++) {
    bool run = i == any->loop_count;
    uint64_t count = run ? any->run : base[src ? 0 : 1][any->loops + i].count;
    if (!run && src && dst && base[1][dst->loops + i].count != count) return false;
    if (count == 1) continue;
    memset(&form->loop[form->loops], 0, sizeof form->loop[0]);
    form->loop[form->loops].count = count;
    for (int e = 0; e < 2; e++) {
      if (!end[e]) continue;
      struct rsp_loop step = {
          1, 0, end[e]->space == RSP_SPACE_STREAM ? (int64_t)rsp_dtype_bytes(end[e]->wire_dtype) : unit_of(end[e])};
      add_loop(form, end[e], run ? &step : &base[e][end[e]->loops + i], e);
    }
    if (!run) form->elems *= count;
    form->loops++;
  }
  return true;
}

void rspv_place_in_stream(struct rspv_form *form, int end, int64_t at, int64_t wire) {
  form->off[end] = at;
  for (uint32_t i = form->loops; i-- > 0;) {
    form->loop[i].ref[end] = 0;
    form->loop[i].off[end] = wire;
    wire *= (int64_t)form->loop[i].count;
  }
}

static bool moves_buffer(const struct rspv_floop *l) {
  return l->ref[0] != 0 || l->ref[1] != 0;
}

/* The nest of one choice of iterations of the loops that move between buffers. */
static bool visit_choice(struct visit_state *s, const uint64_t *k, uint32_t axes) {
  const struct rspv_form *f = s->form;
  struct rspv_mark mark = rspv_arena_mark(&s->v->work.arena);
  struct rspv_nest *n = rspv_nest_new(&s->v->work, axes);
  struct rspv_visit visit = {{f->ref[0], f->ref[1]}, n};
  n->base[RSPV_SRC] = f->off[0];
  n->base[RSPV_DST] = f->off[1];
  uint32_t at = 0;
  for (uint32_t i = 0; i < f->loops; i++) {
    const struct rspv_floop *l = &f->loop[i];
    int64_t first = (int64_t)(moves_buffer(l) ? k[i] : s->from[i]);
    visit.ref[0] += first * l->ref[0];
    visit.ref[1] += first * l->ref[1];
    n->base[RSPV_SRC] += first * l->off[0];
    n->base[RSPV_DST] += first * l->off[1];
    if (moves_buffer(l) || s->count[i] == 1) continue;
    memset(&n->axis[at], 0, sizeof n->axis[at]);
    n->axis[at].count = s->count[i];
    n->axis[at].step[RSPV_SRC] = l->off[0];
    n->axis[at++].step[RSPV_DST] = l->off[1];
  }
  bool go_on = s->visitor(s->context, &visit);
  rspv_arena_release(&s->v->work.arena, mark);
  return go_on && s->v->work.left;
}

static bool visit_box(struct visit_state *s) {
  const struct rspv_form *f = s->form;
  uint64_t k[66] = {0};
  uint32_t axes = 0;
  for (uint32_t i = 0; i < f->loops; i++) {
    k[i] = s->from[i];
    axes += !moves_buffer(&f->loop[i]) && s->count[i] > 1;
  }
  for (;;) {
    if (!visit_choice(s, k, axes)) return false;
    uint32_t i = f->loops;
    while (i-- > 0) { /* the next choice: an odometer over the loops that move between buffers */
      if (!moves_buffer(&f->loop[i])) continue;
      if (++k[i] < s->from[i] + s->count[i]) break;
      k[i] = s->from[i];
    }
    if (i == UINT32_MAX) return true;
  }
}

/* Elements [lo, hi) of the loops from `level` inwards; those outside are fixed in `from`. */
static bool visit_range(struct visit_state *s, uint32_t level, uint64_t lo, uint64_t hi) {
  const struct rspv_form *f = s->form;
  uint64_t inner = 1;
  for (uint32_t i = level; i < f->loops; i++) {
    s->from[i] = 0;
    s->count[i] = f->loop[i].count;
    if (i > level) inner *= f->loop[i].count;
  }
  if (level == f->loops || (lo == 0 && hi == inner * f->loop[level].count)) return visit_box(s);
  uint64_t first = lo / inner, last = hi / inner, head = lo % inner, tail = hi % inner;
  s->count[level] = 1;
  if (head) {
    s->from[level] = first;
    if (!visit_range(s, level + 1, head, first == last ? tail : inner)) return false;
    if (first++ == last) return true;
  }
  if (first < last) {
    for (uint32_t i = level + 1; i < f->loops; i++) {
      s->from[i] = 0;
      s->count[i] = f->loop[i].count;
    }
    s->from[level] = first;
    s->count[level] = last - first;
    if (!visit_box(s)) return false;
  }
  if (!tail) return true;
  s->from[level] = last;
  s->count[level] = 1;
  return visit_range(s, level + 1, 0, tail);
}

bool rspv_form_visit(struct rspv *v, const struct rspv_form *form, uint64_t lo, uint64_t hi, rspv_visitor *visitor,
                     void *context) {
  if (lo >= hi) return true;
  struct visit_state s = {.v = v, .form = form, .visitor = visitor, .context = context};
  return visit_range(&s, 0, lo, hi);
}
