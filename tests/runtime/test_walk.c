/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of streams as boxes, against one element at a time: all elements once, in order, few boxes; and what makes two
 * ends of a stream differ in shape.
 */
#include <string.h>

#include "runtime/walk.h"
#include "tests/runtime/check.h"

struct small {
  struct rsp_loop loops[12];
  struct rsp_desc descs[3];
  struct rsp_shape shapes[3]; /* of each descriptor its own */
  struct rsp_body bodies[2];
  struct rsp_part parts[4];
  struct rsp_stream stream;
  struct rsp_slice slice;
  struct rsp_program program;
};

static void point(struct small *s) {
  s->program = (struct rsp_program){.slice = &s->slice,
                                    .loops = s->loops,
                                    .descs = s->descs,
                                    .shapes = s->shapes,
                                    .bodies = s->bodies,
                                    .parts = s->parts,
                                    .streams = &s->stream};
}

static uint64_t make_desc(uint64_t *seed, struct small *s, uint32_t d) {
  uint32_t loops = (uint32_t)random_in(seed, 0, 4);
  s->descs[d] = (struct rsp_desc){d, 5, 1000};
  s->shapes[d] = (struct rsp_shape){
      .buf_dtype = RSP_BF16, .wire_dtype = RSP_BF16, .run = random_in(seed, 1, 5), .loops = 4 * d, .loop_count = loops};
  for (uint32_t l = 0; l < loops; l++) {
    s->loops[4 * d + l] = (struct rsp_loop){.count = random_in(seed, 1, 4),
                                            .ref_step = random_in(seed, 0, 3) ? 0 : (int64_t)random_in(seed, 0, 4) - 2,
                                            .off_step = 2 * ((int64_t)random_in(seed, 0, 40) - 20)};
  }
  return rsr_desc_elems(&s->program, &s->descs[d]);
}

/* Two bodies of one and of two descriptors; parts in any order. */
static void make_small(uint64_t *seed, struct small *s) {
  *s = (struct small){0};
  point(s);
  uint64_t a = make_desc(seed, s, 0), b = make_desc(seed, s, 1) + make_desc(seed, s, 2), cut = random_in(seed, 0, b);
  s->bodies[0] = (struct rsp_body){0, 1, a, 2, 0};
  s->bodies[1] = (struct rsp_body){1, 2, b, 2, 0};
  struct rsp_part *p = s->parts;
  if (cut < b) *p++ = (struct rsp_part){1, cut, b};
  *p++ = (struct rsp_part){0, 0, a};
  if (cut > 0) *p++ = (struct rsp_part){1, 0, cut};
  s->stream =
      (struct rsp_stream){.part_count = (uint64_t)(p - s->parts), .bytes = 2 * (a + b), .quantum = 8, .step = 1};
}

static struct rsr_spot slow_spot(const struct small *s, const struct rsp_desc *d, uint64_t e) {
  const struct rsp_shape *shape = &s->shapes[d->shape];
  struct rsr_spot spot = {d->ref, d->off + e % shape->run * 2};
  uint64_t turn = e / shape->run;
  for (uint32_t l = shape->loop_count; l-- > 0; turn /= s->loops[shape->loops + l].count) {
    int64_t k = (int64_t)(turn % s->loops[shape->loops + l].count);
    spot.ref = (uint32_t)((int64_t)spot.ref + k * s->loops[shape->loops + l].ref_step);
    spot.off += (uint64_t)(k * s->loops[shape->loops + l].off_step);
  }
  return spot;
}

/* What a box says, turn by turn, is what its elements are. */
static void check_box(const struct small *s, const struct rsp_desc *d, const struct rsr_box *box) {
  const struct rsp_shape *shape = &s->shapes[d->shape];
  uint64_t inside = shape->run, turns = 1;
  for (uint32_t l = box->level + 1; l < shape->loop_count; l++) turns *= s->loops[shape->loops + l].count;
  if (box->level == shape->loop_count) {
    CHECK(box->elems <= shape->run - box->first % shape->run, "a piece of a run");
    inside = box->elems;
    turns = 1;
  }
  CHECK(box->elems == inside * turns * box->turns, "a box of %llu", (unsigned long long)box->elems);
  struct rsr_spot start = rsr_locate(&s->program, d, box->first);
  for (uint64_t e = 0; e < box->elems; e++) {
    struct rsr_spot want = slow_spot(s, d, box->first + e);
    uint64_t off = start.off + e % inside * 2, turn = e / inside;
    for (uint32_t l = shape->loop_count; l-- > box->level;) {
      uint64_t count = l == box->level ? box->turns : s->loops[shape->loops + l].count;
      off += turn % count * (uint64_t)s->loops[shape->loops + l].off_step;
      turn /= count;
    }
    CHECK(want.ref == start.ref && want.off == off, "element %llu", (unsigned long long)e);
  }
}

static void check_span(const struct small *s, const struct rsr_span *span) {
  uint32_t outer = rsr_outer_loops(&s->program, span->desc);
  const struct rsp_shape *shape = &s->shapes[span->desc->shape];
  uint64_t count = 0, most = 2 * (uint64_t)shape->loop_count + 1;
  for (uint32_t l = 0; l < outer; l++) most *= s->loops[shape->loops + l].count;
  for (uint64_t at = span->first; at < span->end; count++) {
    struct rsr_box box = rsr_next_box(&s->program, span->desc, outer, at, span->end);
    CHECK(box.first == at && box.elems > 0 && box.elems <= span->end - at, "box at %llu", (unsigned long long)at);
    check_box(s, span->desc, &box);
    at += box.elems;
  }
  CHECK(count <= most, "%llu boxes, at most %llu", (unsigned long long)count, (unsigned long long)most);
}

static void walk(uint64_t seed) {
  struct small s;
  make_small(&seed, &s);
  point(&s);
  struct rsr_cursor cursor = rsr_cursor_at_start(&s.stream);
  uint64_t part = 0, elem = s.parts[0].lo, left = s.stream.bytes;
  while (left > 0) {
    uint64_t limit = 2 * random_in(&seed, 1, 30);
    struct rsr_span span = rsr_take(&s.program, &cursor, limit < left ? limit : left);
    CHECK(span.bytes > 0 && span.bytes <= limit && span.bytes == 2 * (span.end - span.first), "span");
    if (elem == s.parts[part].hi) elem = s.parts[++part].lo;
    uint64_t before = s.parts[part].body == 1 && span.desc == &s.descs[2] ? rsr_desc_elems(&s.program, &s.descs[1]) : 0;
    CHECK(before + span.first == elem, "a span out of order");
    elem += span.end - span.first;
    check_span(&s, &span);
    left -= span.bytes;
  }
}

static bool same(const struct small *a, const struct small *b) {
  return rsr_same_times(&a->stream, &b->stream) && rsr_same_parts(&a->program, &a->stream, &b->program, &b->stream);
}

static void shapes(void) {
  uint64_t seed = 5;
  struct small a, b;
  do {
    make_small(&seed, &a);
  } while (a.shapes[0].loop_count < 2 || a.stream.part_count < 3);
  point(&a);
#define SAME(EXPECT, CHANGE)                                                                                           \
  do {                                                                                                                 \
    b = a;                                                                                                             \
    point(&b);                                                                                                         \
    CHANGE;                                                                                                            \
    CHECK(same(&a, &b) == (EXPECT), #CHANGE);                                                                          \
  } while (0)
  SAME(true, (void)0);
  SAME(true, b.descs[0].off += 2);
  SAME(true, b.descs[0].ref += 1);
  SAME(true, b.shapes[0].buf_dtype = RSP_F32);
  SAME(true, b.loops[0].off_step += 2);
  SAME(false, b.stream.kind = RSP_KIND_DIRECT);
  SAME(false, b.stream.part_count--);
  SAME(false, b.stream.bytes -= 2);
  SAME(false, b.stream.quantum += 8);
  SAME(false, b.stream.round0++);
  SAME(false, b.stream.step++);
  SAME(false, b.parts[0].lo++);
  SAME(false, b.parts[2].hi--);
  SAME(false, b.bodies[1].desc_count--);
  SAME(false, b.bodies[0].elems++);
  SAME(false, b.bodies[0].wire_bytes = 4);
  SAME(false, b.shapes[0].run++);
  SAME(false, b.shapes[2].run++);
  SAME(false, b.shapes[0].loop_count--);
  SAME(false, b.shapes[1].wire_dtype = RSP_F16);
  SAME(false, b.loops[1].count++);
#undef SAME
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
  shapes();
  for (uint64_t seed = 1; seed <= cases; seed++) walk(seed);
  return 0;
}
