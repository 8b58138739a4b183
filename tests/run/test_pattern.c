// SPDX-License-Identifier: Apache-2.0
//
// The check of `reshard run` must see any byte that changes: buffers are filled as the specification says, and then
// every single byte of every arena is changed in turn, edges included.
#include <inttypes.h>
#include <string.h>

#include "plans/plan.h"
#include "tests/check.h"
#include "tests/plan/tiny.h"
#include "tools/run_convert.h"
#include "tools/run_pattern.h"
#include "tools/run_walk.h"

struct deliver {
  struct run_pattern *pattern;
  const struct run_slot *slot;
  const struct rsp_piece *piece;
};

// What a right refit does with a row, one element at a time.
static bool deliver_row(void *user, const struct run_row *r) {
  const struct deliver *d = user;
  const struct rsp_plan *plan = d->pattern->plan;
  const struct rsp_buffer *buffer = &plan->buffers[d->slot->gid];
  unsigned to = (unsigned)rsp_dtype_bytes(buffer->dtype);
  for (uint64_t i = 0; i < r->count; i++) {
    unsigned char *at = d->slot->data + (r->b + i * r->b_step) * to;
    if (d->piece->slot == RSP_SLOT_PAD) {
      memset(at, 0, to);
      continue;
    }
    const struct run_tensor *tensor = &d->pattern->values->tensors[plan->slots[buffer->slots + d->piece->slot]];
    unsigned char element[8];
    run_values_tensor(tensor, d->pattern->key, r->t + i * r->t_step, 1, 1, element);
    if (!run_supplied(tensor, r->t + i * r->t_step)) continue;
    uint64_t bits = run_load(element, (unsigned)rsp_dtype_bytes(tensor->dtype));
    run_store(at, to, run_receive(tensor->dtype, buffer->dtype, d->piece->op, d->piece->constant, bits));
  }
  return true;
}

static void deliver_all(struct run_pattern *pattern) {
  const struct run_side *side = &pattern->memory->side[RSP_INFER];
  for (uint64_t i = 0; i < side->slot_count; i++) {
    const struct run_slot *slot = &side->slots[i];
    for (uint64_t p = 0; p < slot->entry->piece_count; p++) {
      struct deliver d = {pattern, slot, &pattern->plan->pieces[slot->entry->pieces + p]};
      if (d.piece->slot != RSP_SLOT_GAP) run_walk(pattern->plan, d.piece, 0, 1, deliver_row, &d);
    }
  }
}

// Bytes that belong to the buffer or its guards.
static bool guarded_byte(const struct run_side *side, const unsigned char *at) {
  for (uint64_t i = 0; i < side->slot_count; i++)
    if (at >= side->slots[i].data - RUN_GUARD && at < side->slots[i].data + side->slots[i].bytes + RUN_GUARD)
      return true;
  return false;
}

static unsigned flip_all(struct run_pattern *pattern, uint32_t which) {
  struct run_side *side = &pattern->memory->side[which];
  unsigned flipped = 0;
  for (uint64_t i = 0; i < side->arena_bytes; i++) {
    unsigned char *at = side->arena + i;
    if (!guarded_byte(side, at)) continue;
    *at ^= 0x10;
    pattern->first = (struct run_mismatch){0};
    CHECK(!run_pattern_check(pattern), "byte %" PRIu64 " of side %u was changed and not seen", i, which);
    *at ^= 0x10;
    flipped++;
  }
  pattern->first = (struct run_mismatch){0};
  return flipped;
}

static void test_plan(const void *bytes, size_t size, unsigned train_bytes, unsigned infer_bytes) {
  struct rsp_plan plan;
  struct rsp_error error;
  struct run_values values;
  struct run_memory memory;
  struct run_pattern pattern;
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK, "rule %d: %s", error.rule, error.text);
  CHECK(run_memory_init(&memory, &plan) && run_values_init(&values, &plan), "memory");
  CHECK(run_memory_allocate(&memory.side[0]) && run_memory_allocate(&memory.side[1]), "memory");
  run_pattern_init(&pattern, &plan, &values, &memory, 7);
  pattern.threads = 1;
  for (uint32_t replay = 0; replay < 2; replay++) {
    run_pattern_begin(&pattern, replay);
    run_pattern_fill(&pattern);
    run_pattern_poison(&pattern, false);
    CHECK(!run_pattern_check(&pattern), "doing nothing was taken for a refit");
    pattern.first = (struct run_mismatch){0};
    deliver_all(&pattern);
    if (!run_pattern_check(&pattern)) run_mismatch_print(&plan, &pattern.first, stderr);
    CHECK(pattern.first.wrong == RUN_RIGHT, "a right refit was refused");
    CHECK(flip_all(&pattern, RSP_INFER) == infer_bytes, "all bytes of the inference side");
    CHECK(flip_all(&pattern, RSP_TRAIN) == train_bytes, "all bytes of the training side");
  }
  run_pattern_free(&pattern);
  run_values_free(&values);
  run_memory_free(&memory);
  rsp_close(&plan);
}

// Two kinds of element of one buffer in each other's place.
static void test_swap(const void *bytes, size_t size) {
  struct rsp_plan plan;
  struct rsp_error error;
  struct run_values values;
  CHECK(rsp_open_memory(bytes, size, &plan, &error) == RSP_OK, "rule %d", error.rule);
  CHECK(run_values_init(&values, &plan), "memory");
  float row[16];
  run_values_tensor(&values.tensors[0], 1, 0, 1, 16, (unsigned char *)row);
  for (int i = 0; i < 16; i++) {
    float one;
    run_values_tensor(&values.tensors[0], 1, (uint64_t)i, 1, 1, (unsigned char *)&one);
    CHECK(memcmp(&one, &row[i], sizeof one) == 0, "element %d depends on its row", i);
    for (int k = 0; k < i; k++) CHECK(memcmp(&row[i], &row[k], sizeof one) != 0, "elements %d and %d are alike", i, k);
  }
  // Indices on both sides of 2^32, in any step.
  uint32_t wide[8], one;
  run_values_tensor(&values.tensors[0], 1, (UINT64_C(1) << 32) - 9, 3, 8, (unsigned char *)wide);
  for (uint64_t i = 0; i < 8; i++) {
    run_values_tensor(&values.tensors[0], 1, (UINT64_C(1) << 32) - 9 + 3 * i, 1, 1, (unsigned char *)&one);
    CHECK(one == wide[i], "element %" PRIu64 " past 2^32", i);
  }
  run_values_free(&values);
  rsp_close(&plan);
}

// Every training buffer of a converted tensor must stand for the tensor's elements, and where it is finer, not by its
// upper bits alone: a conversion left out, or cut off, would show.
static void test_forms(const struct run_tensor *tensor) {
  enum { COUNT = 256 };
  unsigned char elements[COUNT * 8], held[COUNT * 8];
  unsigned bytes = (unsigned)rsp_dtype_bytes(tensor->dtype);
  run_values_tensor(tensor, 3, 0, 1, COUNT, elements);
  for (size_t f = 0; f < tensor->form_count; f++) {
    const struct run_form *form = &tensor->forms[f];
    unsigned form_bytes = (unsigned)rsp_dtype_bytes(form->dtype), cut = 0;
    run_values_train(tensor, form, 3, 0, 1, COUNT, held);
    for (unsigned i = 0; i < COUNT; i++) {
      uint64_t v = run_load(elements + i * bytes, bytes), b = run_load(held + i * form_bytes, form_bytes);
      CHECK(run_send(form->dtype, tensor->dtype, form->op, form->constant, b) == v, "element %u in form %zu", i, f);
      cut += form_bytes > bytes && b >> (form_bytes - bytes) * 8 != v;
    }
    if (form->op == RSP_OP_COPY && form->dtype == RSP_F32 && tensor->dtype == RSP_BF16)
      CHECK(cut > COUNT / 8, "only %u of %d elements need rounding", cut, COUNT);
  }
}

// A plan from a file: the same, whatever it holds.
static void test_file(const char *path) {
  struct rsp_plan plan;
  struct rsp_error error;
  struct run_values values;
  struct run_memory memory;
  struct run_pattern pattern;
  CHECK(rsp_open(path, &plan, &error) == RSP_OK, "%s: %s", path, error.text);
  CHECK(run_memory_init(&memory, &plan) && run_values_init(&values, &plan), "memory");
  CHECK(run_memory_allocate(&memory.side[0]) && run_memory_allocate(&memory.side[1]), "memory");
  run_pattern_init(&pattern, &plan, &values, &memory, 7);
  pattern.threads = 1;
  run_pattern_begin(&pattern, 0);
  run_pattern_fill(&pattern);
  run_pattern_poison(&pattern, false);
  deliver_all(&pattern);
  if (!run_pattern_check(&pattern)) run_mismatch_print(&plan, &pattern.first, stderr);
  CHECK(pattern.first.wrong == RUN_RIGHT, "a right refit was refused");
  flip_all(&pattern, RSP_INFER);
  flip_all(&pattern, RSP_TRAIN);
  for (uint64_t i = 0; i < values.count; i++)
    if (values.tensors[i].converted) test_forms(&values.tensors[i]);
  run_pattern_free(&pattern);
  run_values_free(&values);
  run_memory_free(&memory);
  rsp_close(&plan);
}

int main(int argc, char **argv) {
  if (argc == 2) {
    test_file(argv[1]);
    return 0;
  }
  void *bytes;
  size_t size;
  CHECK(tiny_plan(&bytes, &size), "tiny plan");
  test_plan(bytes, size, 2 * (32 + 16) + 4 * 2 * RUN_GUARD, 2 * (32 + 20) + 4 * 2 * RUN_GUARD);
  test_swap(bytes, size);
  free(bytes);

  static struct tiny tiny; // its padding as a gap: it must stay as it is
  tiny_init(&tiny);
  tiny.pieces[6].slot = RSP_SLOT_GAP;
  tiny.slices[1].zero_count = tiny.slices[2].zero_count = 0;
  CHECK(tiny_build(&tiny, &bytes, &size), "tiny plan");
  test_plan(bytes, size, 2 * (32 + 16) + 4 * 2 * RUN_GUARD, 2 * (32 + 20) + 4 * 2 * RUN_GUARD);
  free(bytes);
  return 0;
}
