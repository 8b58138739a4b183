/* SPDX-License-Identifier: Apache-2.0
 * See made.h: what must come out. */
#include <string.h>

#include "kernels/rsk.h"
#include "tests/runtime/made.h"
#include "tests/runtime/slow.h"

/* The address of element e of a stream, one element at a time: parts, descriptors, loops as the format says. */
struct element {
  const struct rsp_shape *shape;
  unsigned char *at;
};

static struct element element_of(const struct rsp_program *p, const struct rsp_part *part, uint64_t e,
                                 unsigned char **fill) {
  const struct rsp_desc *desc = p->descs + p->bodies[part->body].descs;
  const struct rsp_shape *shape;
  for (;; desc++) {
    shape = &p->shapes[desc->shape];
    uint64_t elems = shape->run;
    for (uint32_t l = 0; l < shape->loop_count; l++) elems *= p->loops[shape->loops + l].count;
    if (e < elems) break;
    e -= elems;
  }
  uint64_t off = desc->off + e % shape->run * rsp_dtype_bytes(shape->buf_dtype), turn = e / shape->run;
  int64_t gid = desc->ref;
  for (uint32_t l = shape->loop_count; l-- > 0;) {
    const struct rsp_loop *loop = &p->loops[shape->loops + l];
    int64_t k = (int64_t)(turn % loop->count);
    turn /= loop->count;
    gid += k * loop->ref_step;
    off += (uint64_t)(k * loop->off_step);
  }
  const struct rsp_sbuffer *buffer = rsp_program_buffer(p, (uint32_t)gid);
  return (struct element){shape, fill[buffer - p->buffers] + off};
}

static void move_element(struct element from, struct element to) {
  uint64_t bits = 0;
  const struct rsp_shape *s = from.shape, *d = to.shape;
  memcpy(&bits, from.at, rsp_dtype_bytes(s->buf_dtype));
  bits = slow_convert(bits, s->buf_dtype, s->wire_dtype, s->op == RSP_OP_ADD ? RSK_OP_SUB : RSK_OP_COPY, s->constant);
  static const uint32_t ops[] = {RSK_OP_COPY, RSK_OP_NEG_EXP, RSK_OP_ADD};
  bits = slow_convert(bits, d->wire_dtype, d->buf_dtype, ops[d->op], d->constant);
  memcpy(to.at, &bits, rsp_dtype_bytes(d->buf_dtype));
}

static void walk_stream(const struct rsp_plan *plan, uint32_t world, const struct rsp_stream *in,
                        unsigned char ***fill) {
  struct rsp_program to, from;
  rsp_program_of(plan, world, &to);
  uint32_t dir = in->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC, receiver = world, sender = in->peer;
  const struct rsp_stream *out, *got = in;
  for (uint32_t steps = 0;; steps++) { /* back to where it began; nothing comes of what nobody sends */
    rsp_program_of(plan, sender, &from);
    const struct rsp_stream *end = from.streams + from.slice->streams.count;
    out = from.streams;
    while (out < end && (out->dir != dir || out->peer != receiver || out->kind != got->kind || out->tag != got->tag))
      out++;
    if (out == end || steps > plan->header->rounds) return;
    if (out->relay == RSP_NO_STREAM) break;
    got = &from.streams[out->relay];
    receiver = sender;
    sender = got->peer;
  }
  for (uint64_t p = 0; p < in->part_count; p++) {
    const struct rsp_part *a = &from.parts[out->parts + p], *b = &to.parts[in->parts + p];
    for (uint64_t e = b->lo; e < b->hi; e++) {
      move_element(element_of(&from, a, e, fill[sender]), element_of(&to, b, e, fill[world]));
    }
  }
}

void made_walk(const struct rsp_plan *plan, unsigned char ***fill) {
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rsp_program program;
    rsp_program_of(plan, w, &program);
    for (uint64_t s = 0; s < program.slice->streams.count; s++) {
      const struct rsp_stream *stream = &program.streams[s];
      if (stream->dir == RSP_DIR_IN || stream->dir == RSP_DIR_SELF_DST) walk_stream(plan, w, stream, fill);
    }
  }
}
