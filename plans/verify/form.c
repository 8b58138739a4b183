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

bool rspv_form_make(struct rspv_form *form, const struct rspv_body *src, const struct rspv_body *dst, uint64_t i) {
  const struct rspv_body *body[2] = {src, dst};
  const struct rsp_shape *shape[2] = {NULL, NULL}, *any;
  memset(form, 0, offsetof(struct rspv_form, loop));
  int64_t unit[2] = {1, 1};
  for (int e = 0; e < 2; e++) {
    if (!body[e]) continue;
    shape[e] = &body[e]->shapes[body[e]->descs[i].shape];
    unit[e] = (int64_t)rsp_dtype_bytes(shape[e]->buf_dtype);
    form->ref[e] = body[e]->descs[i].ref;
    form->off[e] = (int64_t)body[e]->descs[i].off / unit[e];
  }
  if (src && dst && (shape[0]->loop_count != shape[1]->loop_count || shape[0]->run != shape[1]->run)) return false;
  any = src ? shape[0] : shape[1];
  form->elems = any->run;
  for (uint32_t k = 0; k <= any->loop_count; k++) {
    bool run = k == any->loop_count;
    uint64_t count = run ? any->run : body[src ? 0 : 1]->loops[any->loops + k].count;
    if (!run && src && dst && dst->loops[shape[1]->loops + k].count != count) return false;
    if (count == 1) continue;
    struct rspv_floop *loop = &form->loop[form->loops++];
    memset(loop, 0, sizeof *loop);
    loop->count = count;
    for (int e = 0; e < 2; e++) {
      if (!body[e]) continue;
      loop->ref[e] = run ? 0 : body[e]->loops[shape[e]->loops + k].ref_step;
      loop->off[e] = run ? 1 : body[e]->loops[shape[e]->loops + k].off_step / unit[e];
    }
    if (!run) form->elems *= count;
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
