/* SPDX-License-Identifier: Apache-2.0
 * See made.h: what must come out, one element at a time. */
#include <string.h>

#include "kernels/rsk.h"
#include "tests/runtime/made.h"
#include "tests/runtime/slow.h"

/* The address of element e of a stream, one element at a time: parts, descriptors, loops as the format says. */
struct element {
  const struct rsp_desc *desc;
  uint64_t off;
  unsigned char *at; /* NULL in a stream */
};

static struct element element_of(const struct rsp_program *p, const struct rsp_part *part, uint64_t e,
                                 unsigned char **fill) {
  const struct rsp_desc *desc = p->descs + p->bodies[part->body].descs;
  for (;; desc++) {
    uint64_t elems = desc->run;
    for (uint32_t l = 0; l < desc->loop_count; l++) elems *= p->loops[desc->loops + l].count;
    if (e < elems) break;
    e -= elems;
  }
  uint64_t off = desc->off + e % desc->run * rsp_dtype_bytes(desc->buf_dtype), turn = e / desc->run;
  int64_t gid = desc->ref;
  for (uint32_t l = desc->loop_count; l-- > 0;) {
    const struct rsp_loop *loop = &p->loops[desc->loops + l];
    int64_t k = (int64_t)(turn % loop->count);
    turn /= loop->count;
    gid += k * loop->ref_step;
    off += (uint64_t)(k * loop->off_step);
  }
  if (desc->space == RSP_SPACE_STREAM) return (struct element){desc, off, NULL};
  const struct rsp_sbuffer *buffer = rsp_program_buffer(p, (uint32_t)gid);
  return (struct element){desc, off, fill[buffer - p->buffers] + off};
}

static const struct rsp_stream *find_stream(const struct rsp_program *p, uint32_t dir, uint32_t peer, uint32_t kind) {
  const struct rsp_stream *s = p->streams;
  while (s->dir != dir || s->peer != peer || s->kind != kind) s++;
  return s;
}

static uint64_t wire_bits(const struct rsp_plan *plan, uint32_t world, const struct rsp_part *part, uint64_t e,
                          unsigned char ***fill);

/* The element at a byte of an incoming stream of a rank. */
static uint64_t incoming_bits(const struct rsp_plan *plan, uint32_t world, uint32_t stream, uint64_t byte,
                              unsigned char ***fill) {
  struct rsp_program p, peer;
  rsp_program_of(plan, world, &p);
  const struct rsp_stream *in = &p.streams[stream];
  rsp_program_of(plan, in->peer, &peer);
  const struct rsp_part *part = peer.parts + find_stream(&peer, RSP_DIR_OUT, world, in->kind)->parts;
  for (;; part++) {
    uint64_t unit = peer.bodies[part->body].wire_bytes, bytes = (part->hi - part->lo) * unit;
    if (byte < bytes) return wire_bits(plan, in->peer, part, part->lo + byte / unit, fill);
    byte -= bytes;
  }
}

/* What a sender sends. */
static uint64_t wire_bits(const struct rsp_plan *plan, uint32_t world, const struct rsp_part *part, uint64_t e,
                          unsigned char ***fill) {
  struct rsp_program p;
  rsp_program_of(plan, world, &p);
  struct element from = element_of(&p, part, e, fill[world]);
  const struct rsp_desc *s = from.desc;
  if (s->space == RSP_SPACE_STREAM) return incoming_bits(plan, world, s->ref, from.off, fill);
  uint64_t bits = 0;
  memcpy(&bits, from.at, rsp_dtype_bytes(s->buf_dtype));
  return slow_convert(bits, s->buf_dtype, s->wire_dtype, s->op == RSP_OP_ADD ? RSK_OP_SUB : RSK_OP_COPY, s->constant);
}

static void put_bits(struct element to, uint64_t bits) {
  static const uint32_t ops[] = {RSK_OP_COPY, RSK_OP_NEG_EXP, RSK_OP_ADD};
  const struct rsp_desc *d = to.desc;
  bits = slow_convert(bits, d->wire_dtype, d->buf_dtype, ops[d->op], d->constant);
  memcpy(to.at, &bits, rsp_dtype_bytes(d->buf_dtype));
}

static void walk_stream(const struct rsp_plan *plan, uint32_t world, const struct rsp_stream *in,
                        unsigned char ***fill) {
  struct rsp_program to, from;
  rsp_program_of(plan, world, &to);
  rsp_program_of(plan, in->peer, &from);
  uint32_t dir = in->dir == RSP_DIR_IN ? RSP_DIR_OUT : RSP_DIR_SELF_SRC;
  const struct rsp_stream *out = find_stream(&from, dir, world, in->kind);
  for (uint64_t p = 0; p < in->part_count; p++) {
    const struct rsp_part *a = &from.parts[out->parts + p], *b = &to.parts[in->parts + p];
    for (uint64_t e = b->lo; e < b->hi; e++) {
      put_bits(element_of(&to, b, e, fill[world]), wire_bits(plan, in->peer, a, e, fill));
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
