/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the value tree of a class. Out: its slots: the conversions, cuts and `replica` that stand above each mention, and
 * whether the dtypes of tensor and buffer allow them.
 */
#include "compiler/pass/place_impl.h"
#include "plans/format.h"

struct above {
  int32_t cuts;
  uint8_t op;
  float constant;
  bool cast, replica, twice;
};

static void walk_slots(struct placer *p, const struct rsc_value *v, struct above above, struct slots *out, bool *ok) {
  above.cuts += v->cut_count;
  for (int32_t i = 0; i < v->dim_count; i++) above.cuts += v->dims[i].cut_count;
  switch (v->kind) {
  case RSC_VALUE_CAST:
    above.cast = true;
    break;
  case RSC_VALUE_REPLICA:
    above.replica = true;
    break;
  case RSC_VALUE_NEG_EXP:
  case RSC_VALUE_ADD:
    if (above.op != RSP_OP_COPY && !above.twice) {
      rsc_error(p->diag, RSC_OP_TWICE, v->span, "an element would go through two of neg_exp and add");
      above.twice = true;
      *ok = false;
    }
    above.op = v->kind == RSC_VALUE_ADD ? RSP_OP_ADD : RSP_OP_NEG_EXP;
    above.constant = (float)v->constant;
    break;
  case RSC_VALUE_TENSOR:
    *RSC_PUSH(p->arena, out) = (struct rsc_slot){.op = above.op,
                                                 .cast = above.cast,
                                                 .replica = above.replica,
                                                 .cuts = above.cuts,
                                                 .constant = above.constant,
                                                 .span = v->span};
    break;
  default:
    break;
  }
  for (int64_t i = 0; i < v->child_count; i++) walk_slots(p, v->children[i], above, out, ok);
}

void rsc_place_slots(struct placer *p, const struct rsc_value *v, struct slots *out, bool *ok) {
  walk_slots(p, v, (struct above){0}, out, ok);
}

static bool converts(enum rsp_dtype from, enum rsp_dtype to) {
  bool to_ok = to == RSP_F16 || to == RSP_BF16 || to == RSP_F32 || to == RSP_F64;
  return from == to || (to_ok && rsp_dtype_is_float(from));
}

static bool op_dtype(enum rsp_dtype d) {
  return d == RSP_F16 || d == RSP_BF16 || d == RSP_F32;
}

bool rsc_place_check_slot(struct placer *p, const struct rsc_buffer *b, enum rsp_dtype buffer,
                          const struct rsc_slot *slot, const struct rsc_tensor *t) {
  bool train = p->layout->side == RSC_TRAIN;
  if (slot->op != RSP_OP_COPY && !(op_dtype(buffer) && op_dtype(t->dtype))) {
    rsc_error(p->diag, RSC_OP_DTYPE, slot->span,
              "neg_exp and add work on f16, bf16 and f32; tensor '%s' is %s, the buffer %s", t->name,
              rsp_dtype_word(t->dtype), rsp_dtype_word(buffer));
    return false;
  }
  if (slot->cast && b->dtype == RSP_DTYPE_NONE) {
    rsc_error(p->diag, RSC_CAST_UNSTATED, slot->span, "cast needs the buffer's dtype: write  buffer \"%s\" f32 = ...",
              b->name);
    return false;
  }
  if (buffer == t->dtype) return true;
  if (!slot->cast) {
    rsc_error(p->diag, RSC_DTYPE_DIFFERS, slot->span,
              "buffer '%s' is %s, but tensor '%s' is %s; write cast(...) to convert", b->name, rsp_dtype_word(buffer),
              t->name, rsp_dtype_word(t->dtype));
    return false;
  }
  enum rsp_dtype from = train ? buffer : t->dtype, to = train ? t->dtype : buffer;
  if (converts(from, to)) return true;
  rsc_error(p->diag, RSC_CAST_REFUSED, slot->span,
            "no cast from %s to %s: data flows from the %s here, and only f16, bf16, f32 and f64 can be made "
            "(quantising needs scales that no layout states)",
            rsp_dtype_word(from), rsp_dtype_word(to), train ? "buffer to the tensor" : "tensor to the buffer");
  return false;
}
