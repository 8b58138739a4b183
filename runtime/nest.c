/* SPDX-License-Identifier: Apache-2.0
 * Boxes of descriptors as nests; see nest.h. */
#include "runtime/nest.h"

/* Buffer to wire. neg_exp has no inverse: it is not for senders. */
static bool pack_conv(const struct rsp_shape *shape, struct rsk_conv *conv) {
  if (shape->op == RSP_OP_NEG_EXP) return false;
  uint32_t op = shape->op == RSP_OP_ADD ? RSK_OP_SUB : RSK_OP_COPY;
  return rsk_conversion(conv, shape->buf_dtype, shape->wire_dtype, op, shape->constant) == 0;
}

static bool unpack_conv(const struct rsp_shape *shape, struct rsk_conv *conv) {
  uint32_t op = shape->op == RSP_OP_ADD ? RSK_OP_ADD : shape->op == RSP_OP_NEG_EXP ? RSK_OP_NEG_EXP : RSK_OP_COPY;
  return rsk_conversion(conv, shape->wire_dtype, shape->buf_dtype, op, shape->constant) == 0;
}

const struct rsk_conv rsr_plain = {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1};

/* Counts of the box's loops; steps are filled by the callers. */
static const struct rsp_loop *begin_nest(struct rsr_nest *nest, const struct rsp_program *program,
                                         const struct rsp_desc *desc, const struct rsr_box *box) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  const struct rsp_loop *loops = program->loops + shape->loops + box->level;
  nest->loop_count = shape->loop_count - box->level;
  for (uint32_t l = 0; l < nest->loop_count; l++) nest->loops[l].count = l == 0 ? box->turns : loops[l].count;
  nest->run = nest->loop_count > 0 ? shape->run : box->elems;
  return loops;
}

static void end_nest(struct rsr_nest *nest) {
  uint32_t src_unit = nest->conv[0].src_bytes, dst_unit = nest->conv[1].dst_bytes;
  if (nest->conv[0].is_copy && nest->conv[1].is_copy) {
    nest->run *= dst_unit;
    src_unit = dst_unit = 1;
  }
  nest->loop_count = rsk_simplify(nest->loops, nest->loop_count, &nest->run, dst_unit, src_unit);
}

/* The wire is dense: a loop's step there is all that is inside it. */
static int64_t wire_steps(struct rsr_nest *nest, uint64_t unit, bool at_dst) {
  uint64_t step = nest->run * unit;
  for (uint32_t l = nest->loop_count; l-- > 0;) {
    if (at_dst)
      nest->loops[l].dst_step = (int64_t)step;
    else
      nest->loops[l].src_step = (int64_t)step;
    step *= nest->loops[l].count;
  }
  return (int64_t)step;
}

bool rsr_nest_pack(struct rsr_nest *nest, const struct rsr_slice *slice, const struct rsp_desc *desc,
                   const struct rsr_box *box, unsigned char *wire) {
  if (!pack_conv(rsp_shape_of(&slice->program, desc), &nest->conv[0])) return false;
  nest->conv[1] = rsr_plain;
  nest->conv[1].src_bytes = nest->conv[1].dst_bytes = nest->conv[0].dst_bytes;
  const struct rsp_loop *loops = begin_nest(nest, &slice->program, desc, box);
  for (uint32_t l = 0; l < nest->loop_count; l++) nest->loops[l].src_step = loops[l].off_step;
  wire_steps(nest, nest->conv[0].dst_bytes, true);
  struct rsr_spot spot = rsr_locate(&slice->program, desc, box->first);
  nest->src = rsr_address(slice, spot.ref) + spot.off;
  nest->dst = wire;
  end_nest(nest);
  return true;
}

bool rsr_nest_unpack(struct rsr_nest *nest, const struct rsr_slice *slice, const struct rsp_desc *desc,
                     const struct rsr_box *box, const unsigned char *wire) {
  if (!unpack_conv(rsp_shape_of(&slice->program, desc), &nest->conv[1])) return false;
  nest->conv[0] = rsr_plain;
  nest->conv[0].src_bytes = nest->conv[0].dst_bytes = nest->conv[1].src_bytes;
  const struct rsp_loop *loops = begin_nest(nest, &slice->program, desc, box);
  for (uint32_t l = 0; l < nest->loop_count; l++) nest->loops[l].dst_step = loops[l].off_step;
  wire_steps(nest, nest->conv[1].src_bytes, false);
  struct rsr_spot spot = rsr_locate(&slice->program, desc, box->first);
  nest->dst = rsr_address(slice, spot.ref) + spot.off;
  nest->src = wire;
  end_nest(nest);
  return true;
}

bool rsr_nest_join(struct rsr_nest *nest, const struct rsr_slice *from, const struct rsp_desc *src,
                   const struct rsr_slice *to, const struct rsp_desc *dst, const struct rsr_box *box) {
  const struct rsp_shape *sent = rsp_shape_of(&from->program, src), *taken = rsp_shape_of(&to->program, dst);
  if (!pack_conv(sent, &nest->conv[0]) || !unpack_conv(taken, &nest->conv[1])) return false;
  const struct rsp_loop *dst_loops = begin_nest(nest, &to->program, dst, box);
  const struct rsp_loop *src_loops = from->program.loops + sent->loops + box->level;
  for (uint32_t l = 0; l < nest->loop_count; l++) {
    nest->loops[l].dst_step = dst_loops[l].off_step;
    nest->loops[l].src_step = src_loops[l].off_step;
  }
  struct rsr_spot at = rsr_locate(&from->program, src, box->first);
  nest->src = rsr_address(from, at.ref) + at.off;
  at = rsr_locate(&to->program, dst, box->first);
  nest->dst = rsr_address(to, at.ref) + at.off;
  end_nest(nest);
  return true;
}

void rsr_nest_run_loops(unsigned char *dst, const unsigned char *src, const struct rsk_loop *loops, uint32_t loop_count,
                        uint64_t run, const struct rsk_conv conv[2], unsigned flags) {
  if (conv[0].is_copy && conv[1].is_copy)
    rsk_copy(dst, src, loops, loop_count, run, flags);
  else
    rsk_convert_twice(&conv[0], &conv[1], dst, src, loops, loop_count, run);
}
