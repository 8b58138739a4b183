// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: its streams as routes: who sends to whom, and fingerprints of which bytes of which buffers
// are read at one end and written at the other.
#include <stdlib.h>
#include <string.h>

#include "tools/plan_meaning.h"

enum { MOST_LOOPS = 64 }; // a rule of the format

struct rank {
  const struct rsp_plan *plan;
  struct rsp_program p;
  struct plan_print *names; /* per row of the program's buffers */
};

static struct plan_who who_of(const struct rsp_plan *plan, uint32_t world_rank) {
  return (struct plan_who){plan->ranks[world_rank].train_rank, plan->ranks[world_rank].infer_rank};
}

// A part of a descriptor's nest: loops before `at` stand at `digit`, loop `at` turns [0, digit[at]), later ones wholly.
struct box {
  uint32_t at;
  uint64_t digit[MOST_LOOPS + 1]; /* the last is of the run */
};

static uint64_t turns_of(const struct box *b, uint32_t i, uint64_t count) {
  return i < b->at ? 1 : i == b->at ? b->digit[i] : count;
}

static struct plan_print name_of(const struct rank *r, int64_t ref) {
  return r->names[rsp_program_buffer(&r->p, (uint32_t)ref) - r->p.buffers];
}

// Sums over the loops that change the buffer; the others are already in `inner`.
static struct plan_print sum_buffers(const struct rank *r, const struct rsp_desc *d, const struct box *b,
                                     struct plan_print inner, int64_t ref, int64_t off) {
  const struct rsp_shape *shape = rsp_shape_of(&r->p, d);
  const struct rsp_loop *loops = r->p.loops + shape->loops;
  uint64_t turn[MOST_LOOPS] = {0};
  struct plan_print sum = {{0}};
  for (;;) {
    struct plan_print here = plan_print_mul(name_of(r, ref), plan_print_at(off, 0));
    sum = plan_print_add(sum, plan_print_mul(here, inner));
    uint32_t i = shape->loop_count;
    while (i-- > 0) {
      uint64_t turns = turns_of(b, i, loops[i].count);
      if (!loops[i].ref_step || turns < 2) continue;
      if (++turn[i] < turns) break;
      ref -= (int64_t)(turns - 1) * loops[i].ref_step;
      off -= (int64_t)(turns - 1) * loops[i].off_step;
      turn[i] = 0;
    }
    if (i == UINT32_MAX) return sum;
    ref += loops[i].ref_step;
    off += loops[i].off_step;
  }
}

static struct plan_print print_box(const struct rank *r, const struct rsp_desc *d, const struct box *b) {
  const struct rsp_shape *shape = rsp_shape_of(&r->p, d);
  const struct rsp_loop *loops = r->p.loops + shape->loops;
  struct plan_print inner = {{1, 1}}, step;
  int64_t ref = d->ref, off = (int64_t)d->off;
  for (uint32_t i = 0; i < shape->loop_count; i++) {
    uint64_t turns = turns_of(b, i, loops[i].count);
    if (!turns) return (struct plan_print){{0}};
    if (i < b->at) {
      ref += (int64_t)b->digit[i] * loops[i].ref_step;
      off += (int64_t)b->digit[i] * loops[i].off_step;
    } else if (!loops[i].ref_step && turns > 1) {
      step = plan_print_at(loops[i].off_step, 0);
      inner = plan_print_mul(inner, plan_print_sum(step, turns));
    }
  }
  uint64_t run = turns_of(b, shape->loop_count, shape->run);
  if (!run) return (struct plan_print){{0}};
  step = plan_print_at((int64_t)rsp_dtype_bytes(shape->buf_dtype), 0);
  inner = plan_print_mul(inner, plan_print_sum(step, run));
  return sum_buffers(r, d, b, inner, ref, off);
}

// The first `elems` elements of a descriptor: at most one box per loop and one of the run.
static struct plan_print print_prefix(const struct rank *r, const struct rsp_desc *d, uint64_t elems) {
  const struct rsp_shape *shape = rsp_shape_of(&r->p, d);
  const struct rsp_loop *loops = r->p.loops + shape->loops;
  struct plan_print sum = {{0}};
  struct box b = {0};
  uint64_t size = plan_desc_elems(&r->p, d);
  for (uint32_t i = 0; i <= shape->loop_count && elems; i++) {
    size /= i < shape->loop_count ? loops[i].count : shape->run;
    b.at = i;
    b.digit[i] = elems / size;
    elems %= size;
    // All turns of the first loop: what is left of the nest is nothing.
    if (b.digit[i]) sum = plan_print_add(sum, print_box(r, d, &b));
  }
  struct plan_print what =
      plan_print_hash(&shape->constant, sizeof shape->constant, shape->op * 256 + shape->wire_dtype);
  return plan_print_mul(sum, what);
}

static struct plan_print print_part(const struct rank *r, const struct rsp_part *part) {
  const struct rsp_body *body = &r->p.bodies[part->body];
  struct plan_print sum = {{0}};
  uint64_t first = 0;
  for (uint64_t k = 0; k < body->desc_count && first < part->hi; k++) {
    const struct rsp_desc *d = &r->p.descs[body->descs + k];
    uint64_t elems = plan_desc_elems(&r->p, d), end = first + elems;
    uint64_t lo = part->lo > first ? part->lo - first : 0, hi = part->hi < end ? part->hi - first : elems;
    if (lo < hi) sum = plan_print_add(sum, plan_print_sub(print_prefix(r, d, hi), print_prefix(r, d, lo)));
    first = end;
  }
  return sum;
}

static void add_stream(const struct rank *r, const struct rsp_stream *s, struct plan_route *route) {
  uint32_t me = r->p.slice->world_rank;
  bool out = s->dir == RSP_DIR_OUT || s->dir == RSP_DIR_SELF_SRC;
  *route = (struct plan_route){.from = who_of(r->plan, out ? me : s->peer),
                               .to = who_of(r->plan, out ? s->peer : me),
                               .link = plan_link_of(r->plan, me, s->peer),
                               .end = !out,
                               .kind = s->kind,
                               .bytes = s->bytes,
                               .quantum = s->quantum,
                               .round0 = s->round0,
                               .step = s->step};
  const struct rsp_stream *from = plan_stream_from(&r->p, s); // a relay reads where what it passes on is written
  for (uint64_t i = 0; i < from->part_count; i++)
    route->elements = plan_print_add(route->elements, print_part(r, &r->p.parts[from->parts + i]));
}

static bool add_rank(const struct rsp_plan *plan, uint32_t world_rank, struct plan_route *routes, size_t *count) {
  struct rank r = {.plan = plan};
  rsp_program_of(plan, world_rank, &r.p);
  const struct rsp_slice *s = r.p.slice;
  r.names = calloc((size_t)s->buffers.count + 1, sizeof *r.names);
  if (!r.names) return false;
  for (uint64_t i = 0; i < s->buffers.count; i++) {
    const struct rsp_sbuffer *b = &r.p.buffers[i];
    r.names[i] = plan_print_hash(r.p.names + b->name.off, (size_t)b->name.len, 7 + b->side);
  }
  for (uint64_t i = 0; i < s->streams.count; i++) add_stream(&r, &r.p.streams[i], &routes[(*count)++]);
  free(r.names);
  return true;
}

bool plan_routes_of(const struct rsp_plan *plan, struct plan_route **routes, size_t *count) {
  uint64_t total = 0;
  for (uint32_t r = 0; r < plan->header->world; r++) {
    struct rsp_program p;
    rsp_program_of(plan, r, &p);
    total += p.slice->streams.count;
  }
  *count = 0;
  *routes = calloc((size_t)total + 1, sizeof **routes);
  bool good = *routes != NULL;
  for (uint32_t r = 0; good && r < plan->header->world; r++) good = add_rank(plan, r, *routes, count);
  if (!good) {
    free(*routes);
    *routes = NULL;
  }
  return good;
}
