/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the bodies of all slices. Out: the distinct ones, and for one that is received, which stretch of which buffer it
 * writes. Replicas have equal bodies, so what follows costs no more for them.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

struct words {
  uint64_t *at;
  size_t count, capacity;
};

static void put(struct words *w, uint64_t value) {
  RSPV_PUSH(w->at, w->count, w->capacity, value);
}

static uint64_t two(uint32_t a, uint32_t b) {
  return (uint64_t)a << 32 | b;
}

static void body_words(const struct rsp_program *program, const struct rsp_body *body, struct words *w) {
  w->count = 0;
  put(w, body->elems);
  put(w, two((uint32_t)body->desc_count, body->wire_bytes));
  for (uint64_t i = 0; i < body->desc_count; i++) {
    const struct rsp_desc *d = &program->descs[body->descs + i];
    const struct rsp_shape *shape = rsp_shape_of(program, d);
    uint32_t constant;
    memcpy(&constant, &shape->constant, sizeof constant);
    put(w, d->ref);
    put(w, two(shape->buf_dtype, shape->wire_dtype));
    put(w, two(shape->op, constant));
    put(w, d->off);
    put(w, shape->run);
    put(w, shape->loop_count);
    for (uint32_t l = 0; l < shape->loop_count; l++) {
      const struct rsp_loop *loop = &program->loops[shape->loops + l];
      put(w, loop->count);
      put(w, (uint64_t)loop->ref_step);
      put(w, (uint64_t)loop->off_step);
    }
  }
}

static uint32_t intern_body(struct rspv *v, uint32_t rank, uint64_t index, struct words *w) {
  const struct rsp_program *program = &v->programs[rank];
  const struct rsp_body *body = &program->bodies[index];
  bool fresh;
  body_words(program, body, w);
  uint32_t number = rspv_intern(&v->body_table, w->at, (uint32_t)w->count, &fresh);
  if (fresh) {
    struct rspv_body mine = {.elems = body->elems,
                             .wire_bytes = body->wire_bytes,
                             .desc_count = body->desc_count,
                             .descs = program->descs + body->descs,
                             .shapes = program->shapes,
                             .loops = program->loops};
    RSPV_PUSH(v->bodies, v->body_count, v->body_capacity, mine);
  }
  return number;
}

void rspv_bodies(struct rspv *v) {
  uint32_t world = v->plan->header->world;
  struct words words = {0};
  rspv_table_init(&v->body_table, &v->arena);
  rspv_table_init(&v->stretch_table, &v->arena);
  v->body_of = rspv_xcalloc(world, sizeof *v->body_of);
  for (uint32_t r = 0; r < world; r++) {
    uint64_t count = v->programs[r].slice->bodies.count;
    v->body_of[r] = rspv_xmalloc(count * sizeof **v->body_of);
    for (uint64_t b = 0; b < count; b++) v->body_of[r][b] = intern_body(v, r, b, &words);
  }
  v->report->programs = v->body_count;
  free(words.at);
}

uint32_t rspv_stretch_intern(struct rspv *v, const struct rspv_lattice *lattice) {
  uint64_t words[2 + 2 * 64];
  uint32_t n = 0;
  words[n++] = (uint64_t)lattice->base;
  for (uint32_t i = 0; i < lattice->digits; i++) {
    words[n++] = lattice->digit[i].count;
    words[n++] = (uint64_t)lattice->digit[i].step;
  }
  bool fresh;
  uint32_t number = rspv_intern(&v->stretch_table, words, n, &fresh);
  if (!fresh) return number;
  struct rspv_lattice copy = *lattice;
  struct rspv_digit *digits = rspv_alloc(&v->arena, lattice->digits * sizeof *digits);
  if (lattice->digits) memcpy(digits, lattice->digit, lattice->digits * sizeof *digits);
  copy.digit = digits;
  RSPV_PUSH(v->stretches, v->stretch_count, v->stretch_capacity, copy);
  return number;
}

struct writes_out {
  struct rspv *v;
  struct rspv_writes **writes;
  size_t *count, *capacity;
};

/* A nest that is no lattice, because its loops interleave, is cut along its shortest loop until it is. */
static void add_writes(struct writes_out *out, uint32_t gid, const struct rspv_nest *nest) {
  struct rspv_lattice lattice;
  if (!out->v->work.left) return;
  if (rspv_lattice_of_nest(&out->v->work.arena, nest, RSPV_DST, RSPV_VAL, &lattice)) {
    struct rspv_writes w = {gid, rspv_stretch_intern(out->v, &lattice)};
    RSPV_PUSH(*out->writes, *out->count, *out->capacity, w);
    return;
  }
  uint32_t shortest = 0;
  for (uint32_t i = 1; i < nest->axes; i++) {
    if (nest->axis[i].count < nest->axis[shortest].count) shortest = i;
  }
  for (uint64_t k = 0; k < nest->axis[shortest].count && out->v->work.left; k++) {
    struct rspv_mark mark = rspv_arena_mark(&out->v->work.arena);
    add_writes(out, gid, rspv_nest_cut(&out->v->work, nest, shortest, k, 1));
    rspv_arena_release(&out->v->work.arena, mark);
  }
}

static bool visit_writes(void *context, const struct rspv_visit *visit) {
  add_writes(context, (uint32_t)visit->ref[1], visit->nest);
  return true;
}

void rspv_nest_writes(struct rspv *v, uint32_t gid, const struct rspv_nest *nest, struct rspv_writes **writes,
                      size_t *count, size_t *capacity) {
  struct writes_out out = {v, writes, count, capacity};
  add_writes(&out, gid, nest);
}

void rspv_body_writes(struct rspv *v, struct rspv_body *body, uint64_t lo, uint64_t hi, struct rspv_writes **writes,
                      size_t *count, size_t *capacity) {
  struct writes_out out = {v, writes, count, capacity};
  uint64_t at = 0;
  struct rspv_form form;
  for (uint64_t i = 0; i < body->desc_count && at < hi; i++) {
    if (!rspv_form_make(&form, NULL, body, i)) return;
    uint64_t end = at + form.elems, from = lo > at ? lo : at, to = hi < end ? hi : end;
    if (from < to) rspv_form_visit(v, &form, from - at, to - at, visit_writes, &out);
    at = end;
  }
}

void rspv_body_expand(struct rspv *v, struct rspv_body *body) {
  if (body->expanded) return;
  size_t capacity = 0;
  rspv_body_writes(v, body, 0, body->elems, &body->writes, &body->write_count, &capacity);
  body->expanded = true;
}
