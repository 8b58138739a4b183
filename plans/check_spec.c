// SPDX-License-Identifier: Apache-2.0
//
// In: a plan whose sections lie where they should. Out: yes, or the first rule that strings, inputs, files, tensors or
// ranks break. Also the arithmetic that all checks share.
#include "plans/check.h"

#include <stdlib.h>
#include <string.h>

bool rsp_extent(uint64_t *out, uint64_t count, uint64_t step) {
  uint64_t far;
  return __builtin_mul_overflow(count - 1, step, &far) || __builtin_add_overflow(*out, far, out) || *out > INT64_MAX;
}

bool rsp_product(const uint64_t *dims, uint32_t ndim, uint64_t *out) {
  *out = 1;
  for (uint32_t i = 0; i < ndim; i++)
    if (dims[i] == 0) {
      *out = 0;
      return false;
    }
  for (uint32_t i = 0; i < ndim; i++)
    if (__builtin_mul_overflow(*out, dims[i], out) || *out > INT64_MAX) return true;
  return false;
}

bool rsp_conversion_legal(uint32_t from, uint32_t to, uint32_t op) {
  if (!rsp_dtype_bytes(from) || !rsp_dtype_bytes(to)) return false;
  bool from_small = from == RSP_F16 || from == RSP_BF16 || from == RSP_F32;
  bool to_small = to == RSP_F16 || to == RSP_BF16 || to == RSP_F32;
  if (op == RSP_OP_NEG_EXP || op == RSP_OP_ADD) return from_small && to_small;
  if (from == to) return true;
  return rsp_dtype_is_float(from) && (to_small || to == RSP_F64);
}

bool rsp_check_str(const struct rsp_check *check, const struct rsp_plan *plan, const struct rsp_str *s) {
  if (rsp_inside(s->off, s->len, plan->header->sections[RSP_SEC_STRINGS].count)) return true;
  return rsp_broken(check, RSP_RULE_STRING_BOUNDS, s, NULL);
}

static bool check_strings(const struct rsp_check *check, const struct rsp_plan *plan) {
  uint64_t bytes = plan->header->sections[RSP_SEC_STRINGS].count;
  const char *nul = bytes ? memchr(plan->strings, 0, (size_t)bytes) : NULL;
  if (nul) return rsp_broken(check, RSP_RULE_STRING_NUL, nul, NULL);
  for (uint64_t i = 0; i < plan->file_count; i++)
    if (!rsp_check_str(check, plan, &plan->files[i])) return false;
  return true;
}

static bool check_inputs(const struct rsp_check *check, const struct rsp_plan *plan) {
  unsigned seen[RSP_INPUT_OPTIONS + 1] = {0};
  uint32_t last = 0;
  for (uint64_t i = 0; i < plan->input_count; i++) {
    const struct rsp_input *in = &plan->inputs[i];
    if (in->kind < RSP_INPUT_TRAIN || in->kind > RSP_INPUT_OPTIONS || in->kind < last)
      return rsp_broken(check, RSP_RULE_INPUT_KIND, in, "kind %u", in->kind);
    last = in->kind;
    if (seen[in->kind] < 2) seen[in->kind]++;
    if (in->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, in, "input");
    if (!rsp_check_str(check, plan, &in->name)) return false;
  }
  if (seen[RSP_INPUT_TRAIN] != 1 || seen[RSP_INPUT_INFER] != 1 || seen[RSP_INPUT_CLUSTER] > 1 ||
      seen[RSP_INPUT_OPTIONS] > 1)
    return rsp_broken(check, RSP_RULE_INPUT_KIND, plan->inputs, NULL);
  return true;
}

static bool check_tensor(const struct rsp_check *check, const struct rsp_plan *plan, const struct rsp_tensor *t) {
  uint64_t elems, bytes;
  if (!rsp_check_str(check, plan, &t->name)) return false;
  if (!rsp_dtype_bytes(t->dtype)) return rsp_broken(check, RSP_RULE_TENSOR_DTYPE, t, "dtype %u", t->dtype);
  if (t->flags & ~(RSP_TENSOR_SKIP_TRAIN | RSP_TENSOR_SKIP_INFER))
    return rsp_broken(check, RSP_RULE_TENSOR_FLAGS, t, "flags %x", t->flags);
  if (t->reserved) return rsp_broken(check, RSP_RULE_RECORD_RESERVED, t, "tensor");
  if (t->ndim > RSP_MAX_NDIM || !rsp_inside(t->dims, t->ndim, plan->header->sections[RSP_SEC_DIMS].count))
    return rsp_broken(check, RSP_RULE_TENSOR_DIMS, t, "%u dimensions", t->ndim);
  if (rsp_product(plan->dims + t->dims, t->ndim, &elems) || elems != t->elems ||
      __builtin_mul_overflow(elems, (uint64_t)rsp_dtype_bytes(t->dtype), &bytes) || bytes > INT64_MAX)
    return rsp_broken(check, RSP_RULE_TENSOR_ELEMS, t, NULL);
  return true;
}

// A rank of one side: marks it in `seen`; false if it is out of range or marked already.
static bool mark(unsigned char *seen, uint32_t world, uint32_t rank) {
  if (rank == RSP_NO_RANK) return true;
  if (rank >= world || seen[rank]) return false;
  seen[rank] = 1;
  return true;
}

static bool check_rank_rows(const struct rsp_check *check, const struct rsp_plan *plan, unsigned char *train,
                            unsigned char *infer) {
  const struct rsp_header *h = plan->header;
  for (uint32_t r = 0; r < h->world; r++) {
    const struct rsp_rank *row = &plan->ranks[r];
    bool idle = row->train_rank == RSP_NO_RANK && row->infer_rank == RSP_NO_RANK;
    if (idle || !mark(train, h->train_world, row->train_rank) || !mark(infer, h->infer_world, row->infer_rank))
      return rsp_broken(check, RSP_RULE_RANK_ONCE, row, "world rank %u", r);
    if (!rsp_check_str(check, plan, &row->host) || !rsp_check_str(check, plan, &row->domain_name)) return false;
  }
  // Every rank was marked at most once, so a missing one is an unmarked one.
  if (memchr(train, 0, h->train_world) || memchr(infer, 0, h->infer_world))
    return rsp_broken(check, RSP_RULE_RANK_ONCE, plan->ranks, "a rank is missing");
  return true;
}

static bool check_ranks(const struct rsp_check *check, const struct rsp_plan *plan) {
  unsigned char *train = calloc(plan->header->train_world, 1), *infer = calloc(plan->header->infer_world, 1);
  bool good = train && infer ? check_rank_rows(check, plan, train, infer) : rsp_no_memory(check);
  free(train);
  free(infer);
  return good;
}

bool rsp_check_spec(const struct rsp_check *check, const struct rsp_plan *plan) {
  if (!check_strings(check, plan) || !check_inputs(check, plan)) return false;
  for (uint64_t i = 0; i < plan->tensor_count; i++)
    if (!check_tensor(check, plan, &plan->tensors[i])) return false;
  return check_ranks(check, plan);
}
