/* SPDX-License-Identifier: Apache-2.0
 * Streams as boxes; see walk.h. */
#include "runtime/walk.h"

uint32_t rsr_outer_loops(const struct rsp_program *program, const struct rsp_desc *desc) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  const struct rsp_loop *loops = program->loops + shape->loops;
  uint32_t outer = shape->loop_count;
  while (outer > 0 && (loops[outer - 1].ref_step == 0 || loops[outer - 1].count == 1)) outer--;
  return outer;
}

uint64_t rsr_desc_elems(const struct rsp_program *program, const struct rsp_desc *desc) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  uint64_t elems = shape->run;
  for (uint32_t l = 0; l < shape->loop_count; l++) elems *= program->loops[shape->loops + l].count;
  return elems;
}

struct rsr_box rsr_next_box(const struct rsp_program *program, const struct rsp_desc *desc, uint32_t outer,
                            uint64_t first, uint64_t end) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  const struct rsp_loop *loops = program->loops + shape->loops;
  uint64_t size = shape->run, in_run = first % shape->run;
  if (in_run != 0 || end - first < size) {
    uint64_t elems = shape->run - in_run < end - first ? shape->run - in_run : end - first;
    return (struct rsr_box){first, elems, 1, shape->loop_count};
  }
  /* Whole runs: the outermost loop of which a whole turn starts here and fits; without one, a single run. Where only
   * some turns are left of a loop, no turn of the next one starts here or fits. */
  struct rsr_box box = {first, size, 1, shape->loop_count};
  for (uint32_t l = shape->loop_count; l-- > outer;) {
    uint64_t turns_left = loops[l].count - first / size % loops[l].count;
    uint64_t turns = (end - first) / size < turns_left ? (end - first) / size : turns_left;
    if (first % size != 0 || turns == 0) break;
    box = (struct rsr_box){first, turns * size, turns, l};
    size *= loops[l].count;
  }
  return box;
}

struct rsr_spot rsr_locate(const struct rsp_program *program, const struct rsp_desc *desc, uint64_t first) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  const struct rsp_loop *loops = program->loops + shape->loops;
  uint64_t unit = rsp_dtype_bytes(shape->buf_dtype);
  uint64_t left = first / shape->run, off = desc->off + first % shape->run * unit, ref = desc->ref;
  for (uint32_t l = shape->loop_count; l-- > 0;) {
    uint64_t turn = left % loops[l].count;
    left /= loops[l].count;
    ref += turn * (uint64_t)loops[l].ref_step;
    off += turn * (uint64_t)loops[l].off_step;
  }
  return (struct rsr_spot){(uint32_t)ref, off};
}

struct rsr_cursor rsr_cursor_at_start(const struct rsp_stream *stream) {
  return (struct rsr_cursor){.part = stream->parts};
}

/* To the descriptor that holds element part->lo of the body. */
static void enter_part(const struct rsp_program *program, struct rsr_cursor *cursor) {
  const struct rsp_part *part = &program->parts[cursor->part];
  cursor->desc = program->bodies[part->body].descs;
  cursor->elem = part->lo;
  cursor->left = part->hi - part->lo;
  cursor->inside = true;
  cursor->desc_elems = rsr_desc_elems(program, &program->descs[cursor->desc]);
  while (cursor->elem >= cursor->desc_elems) {
    cursor->elem -= cursor->desc_elems;
    cursor->desc_elems = rsr_desc_elems(program, &program->descs[++cursor->desc]);
  }
}

struct rsr_span rsr_take(const struct rsp_program *program, struct rsr_cursor *cursor, uint64_t bytes) {
  if (!cursor->inside) {
    enter_part(program, cursor);
  } else if (cursor->elem == cursor->desc_elems) {
    cursor->desc_elems = rsr_desc_elems(program, &program->descs[++cursor->desc]);
    cursor->elem = 0;
  }
  uint64_t unit = program->bodies[program->parts[cursor->part].body].wire_bytes;
  uint64_t elems = bytes / unit;
  if (elems > cursor->left) elems = cursor->left;
  if (elems > cursor->desc_elems - cursor->elem) elems = cursor->desc_elems - cursor->elem;
  struct rsr_span span = {&program->descs[cursor->desc], cursor->elem, cursor->elem + elems, elems * unit};
  cursor->elem += elems;
  cursor->left -= elems;
  if (cursor->left == 0) {
    cursor->part++;
    cursor->inside = false;
  }
  return span;
}

static bool same_desc(const struct rsp_program *a, const struct rsp_shape *x, const struct rsp_program *b,
                      const struct rsp_shape *y) {
  if (x->run != y->run || x->loop_count != y->loop_count || x->wire_dtype != y->wire_dtype) return false;
  for (uint32_t l = 0; l < x->loop_count; l++) {
    if (a->loops[x->loops + l].count != b->loops[y->loops + l].count) return false;
  }
  return true;
}

static bool same_body(const struct rsp_program *a, const struct rsp_body *ba, const struct rsp_program *b,
                      const struct rsp_body *bb) {
  if (ba->desc_count != bb->desc_count || ba->elems != bb->elems || ba->wire_bytes != bb->wire_bytes) return false;
  for (uint64_t d = 0; d < ba->desc_count; d++) {
    if (!same_desc(a, rsp_shape_of(a, &a->descs[ba->descs + d]), b, rsp_shape_of(b, &b->descs[bb->descs + d])))
      return false;
  }
  return true;
}

bool rsr_same_times(const struct rsp_stream *a, const struct rsp_stream *b) {
  return a->kind == b->kind && a->bytes == b->bytes && a->quantum == b->quantum && a->round0 == b->round0 &&
         a->step == b->step;
}

bool rsr_same_parts(const struct rsp_program *a, const struct rsp_stream *sa, const struct rsp_program *b,
                    const struct rsp_stream *sb) {
  if (sa->part_count != sb->part_count || sa->bytes != sb->bytes || sa->quantum != sb->quantum) return false;
  uint64_t last_a = UINT64_MAX, last_b = UINT64_MAX; /* many parts of one body cost one comparison */
  for (uint64_t p = 0; p < sa->part_count; p++) {
    const struct rsp_part *pa = &a->parts[sa->parts + p], *pb = &b->parts[sb->parts + p];
    if (pa->lo != pb->lo || pa->hi != pb->hi) return false;
    if (pa->body == last_a && pb->body == last_b) continue;
    last_a = pa->body;
    last_b = pb->body;
    if (!same_body(a, &a->bodies[pa->body], b, &b->bodies[pb->body])) return false;
  }
  return true;
}
