// SPDX-License-Identifier: Apache-2.0
//
// In: nothing. Out: whether each of these mutants, sealed again, is refused by the proof that it breaks.
#include <stdio.h>
#include <stdlib.h>

#include "tests/verify/named.h"

static struct rsp_stream *stream(struct tiny *t, uint32_t rank, uint32_t dir, uint32_t peer, uint32_t kind) {
  return tagged(t, rank, dir, peer, kind, 0);
}

static void drop_both(struct tiny *t) {
  drop_stream(t, 1, stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED));
  drop_stream(t, 2, stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED));
}

static void drop_send(struct tiny *t) {
  drop_stream(t, 1, stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED));
}

static void drop_receive(struct tiny *t) {
  drop_stream(t, 2, stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED));
}

// The stream of 1 to 2 sends its only part twice.
static void double_end(struct tiny *t, uint32_t rank, struct rsp_stream *s) {
  struct rsp_part twice = *part(t, rank, s);
  s->parts = t->slices[rank].part_count;
  s->part_count = 2;
  s->bytes *= 2;
  s->quantum *= 2;
  s->slots = 1; // one message of twice the bytes in what were two slots
  s->slot_stride *= 2;
  t->slice[rank].parts[t->slices[rank].part_count++] = twice;
  t->slice[rank].parts[t->slices[rank].part_count++] = twice;
  s->round0 = 0;
  s->quantum = 32;
  s->slot_stride = 32;
  s->stage_off = t->slices[rank].staging;
  t->slices[rank].staging += 32;
}

static void double_both(struct tiny *t) {
  double_end(t, 1, stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED));
  double_end(t, 2, stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED));
}

static void shift_source(struct tiny *t) {
  desc(t, 1, stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED))->off -= 4;
}

static void shift_target(struct tiny *t) {
  struct rsp_desc *d = desc(t, 2, stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED));
  d->off -= 4;
}

// Rank 0 sends each of its two peers what the other should get.
static void swap_peers(struct tiny *t) {
  struct rsp_part *a = part(t, 0, stream(t, 0, RSP_DIR_OUT, 1, RSP_KIND_STAGED));
  struct rsp_part *b = part(t, 0, stream(t, 0, RSP_DIR_OUT, 2, RSP_KIND_STAGED));
  uint64_t body = a->body;
  a->body = b->body;
  b->body = body;
}

static void shorten_send(struct tiny *t) {
  struct rsp_stream *s = stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED);
  part(t, 1, s)->hi--;
  s->bytes -= 4;
}

static void reshape_send(struct tiny *t) { // the same bytes in one run instead of two
  struct rsp_desc *d = desc(t, 1, stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED));
  struct rsp_shape *s = shape(t, 1, d);
  s->run = 4;
  s->loop_count = 0;
  d->off = 0;
}

static void shift_round(struct tiny *t) {
  more_rounds(t);
  stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED)->round0++;
}

static void stretch_step(struct tiny *t) {
  more_rounds(t);
  stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED)->step = 2;
}

static void other_quantum(struct tiny *t) {
  struct rsp_stream *s = stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED);
  s->quantum = 16;
  s->slots = 1;
  s->slot_stride = 16;
}

static void one_slot_out(struct tiny *t) {
  stream(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED)->slots = 1;
}
static void one_slot_in(struct tiny *t) {
  stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED)->slots = 1;
}
static void same_staging(struct tiny *t) {
  stream(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED)->stage_off = 0;
}
static void half_staging(struct tiny *t) {
  stream(t, 1, RSP_DIR_IN, 0, RSP_KIND_STAGED)->stage_off = 8;
}

static void other_tensor_dtype(struct tiny *t) {
  t->tensors[1].dtype = RSP_F16;
}

static void other_op(struct tiny *t) {
  struct rsp_piece *p = &t->pieces[t->entries[4].pieces];
  p->op = RSP_OP_ADD;
  p->constant = 1;
}

static void other_constant(struct tiny *t) {
  other_op(t);
  for (uint32_t i = 0; i < 2; i++) {
    struct rsp_shape *s = shape(t, 2, desc(t, 2, stream(t, 2, RSP_DIR_IN, i, RSP_KIND_STAGED)));
    s->op = RSP_OP_ADD;
    s->constant = i ? 1 : 2;
  }
}

static void no_zero(struct tiny *t) {
  t->slices[2].zero_count = 0;
}
static void short_zero(struct tiny *t) {
  t->slice[2].zeros[0].run_bytes = 2;
}
static void early_zero(struct tiny *t) {
  t->slice[2].zeros[0].off -= 2;
}
static void zero_twice(struct tiny *t) {
  t->slice[2].zeros[1] = t->slice[2].zeros[0];
  t->slices[2].zero_count = 2;
}

static void into_padding(struct tiny *t) {
  struct rsp_stream *s = stream(t, 2, RSP_DIR_IN, 0, RSP_KIND_DIRECT);
  desc(t, 2, s)->off += 4;
}

static void other_part(struct tiny *t) {
  t->pieces[t->entries[1].pieces].t0 = 4;
}
static void other_column(struct tiny *t) {
  t->pieces[t->entries[4].pieces].t0 = 1;
}
static void two_meanings(struct tiny *t) {
  t->ploops[1].b_step = 1;
} // [{4, 4, 1}, {2, 1, 1}]

static void few_ops(struct tiny *t) {
  t->global.max_ops = 2;
}

static void excuse(struct tiny *t) { // what is held is not excused
  drop_both(t);
  t->tensors[0].flags = RSP_TENSOR_SKIP_TRAIN;
}

static void lie_tensors(struct tiny *t) {
  t->summary.tensors++;
}
static void lie_elements(struct tiny *t) {
  t->summary.elements++;
}
static void lie_bytes(struct tiny *t) {
  t->summary.bytes = ++t->summary.wanted_bytes;
}
static void lie_deliveries(struct tiny *t) {
  t->summary.deliveries--;
}
static void lie_local(struct tiny *t) {
  t->summary.local_bytes++;
}
static void lie_nvlink(struct tiny *t) {
  t->summary.nvlink_bytes++;
}
static void lie_network(struct tiny *t) {
  t->summary.network_bytes--;
}
static void lie_minimum(struct tiny *t) {
  t->summary.network_minimum--;
}
static void other_domain(struct tiny *t) {
  t->ranks[1].domain = 1;
}

static const struct {
  const char *name;
  change_tiny *change;
  enum rspv_kind kind;
  const char *says; // part of the violation's line
} mutants[] = {
    {"an operation dropped", drop_both, RSPV_COVER,
     "a wanted element is not delivered: tensor \"w\" [2:4, 2:4] (flat 10:16), inference buffer \"w_t\" "
     "(infer.layout:4), on rank 2 (infer 1)"},
    {"an operation dropped at the sender", drop_send, RSPV_MATCHING, "on rank 2 (infer 1), peer rank 1"},
    {"an operation dropped at the receiver", drop_receive, RSPV_MATCHING, "on rank 1 (train 1, infer 0), peer rank 2"},
    {"an operation doubled", double_both, RSPV_COVER, ", round 0"},
    {"an offset off by one element at the sender", shift_source, RSPV_PROVENANCE,
     "another element arrives: tensor \"w\" "},
    {"an offset off by one element at the receiver", shift_target, RSPV_PROVENANCE, ", round 0"},
    {"two sends swapped", swap_peers, RSPV_PROVENANCE, "infer.layout:4"},
    {"a count changed on one side", shorten_send, RSPV_MATCHING, "12 bytes are sent, 16 are expected"},
    {"other loops on one side", reshape_send, RSPV_MATCHING, "different shape"},
    {"a round later on one side", shift_round, RSPV_PROGRESS, "waits in round 0"},
    {"a round later on one side, as seen by matching", shift_round, RSPV_MATCHING, "expected in round 0"},
    {"every other round on one side", stretch_step, RSPV_PROGRESS, "waits in round 1"},
    {"other message sizes on one side", other_quantum, RSPV_MATCHING, "of 16 are expected"},
    {"staging reused a round too early by the sender", one_slot_out, RSPV_HAZARDS, "used again before"},
    {"staging reused a round too early by the receiver", one_slot_in, RSPV_HAZARDS, "used again before"},
    {"two streams in the same staging", same_staging, RSPV_HAZARDS, "peers 0 and 1"},
    {"streams out and in that share a slot", half_staging, RSPV_HAZARDS, "on rank 1"},
    {"another dtype of a tensor", other_tensor_dtype, RSPV_PROVENANCE, "not the tensor's dtype: tensor \"b\""},
    {"another operation", other_op, RSPV_PROVENANCE, "operation is not the layout's"},
    {"another constant", other_constant, RSPV_PROVENANCE, "another constant"},
    {"padding not zeroed", no_zero, RSPV_COVER, "not exactly the padding: local elements 8:9"},
    {"padding zeroed in part", short_zero, RSPV_COVER, "not exactly the padding: local elements 9:10"},
    {"more than padding zeroed", early_zero, RSPV_COVER, "not exactly the padding"},
    {"padding zeroed twice", zero_twice, RSPV_COVER, "not exactly the padding"},
    {"padding written", into_padding, RSPV_COVER, "padding"},
    {"a piece of the training side that is another part", other_part, RSPV_PROVENANCE, "another element arrives"},
    {"a piece of the inference side that is another part", other_column, RSPV_PROVENANCE, "another element arrives"},
    {"a piece that gives an element two meanings", two_meanings, RSPV_SPEC, ""},
    {"too many operations", few_ops, RSPV_BOUNDS, "3 operations in a round, the limit is 2"},
    {"an element excused though it is held", excuse, RSPV_COVER, "though a training buffer holds it"},
    {"summary: tensors", lie_tensors, RSPV_SUMMARY, "tensors is stated as 3 and is 2"},
    {"summary: elements", lie_elements, RSPV_SUMMARY, "elements"},
    {"summary: bytes", lie_bytes, RSPV_SUMMARY, "bytes"},
    {"summary: deliveries", lie_deliveries, RSPV_SUMMARY, "deliveries"},
    {"summary: local", lie_local, RSPV_SUMMARY, "local_bytes"},
    {"summary: nvlink", lie_nvlink, RSPV_SUMMARY, "nvlink_bytes"},
    {"summary: network", lie_network, RSPV_SUMMARY, "network_bytes"},
    {"summary: minimum", lie_minimum, RSPV_SUMMARY, "network_minimum is stated as 47 and is 48"},
    {"another domain", other_domain, RSPV_SUMMARY, "is stated as"},
};

static bool test_tiny(void) {
  bool good = true;
  struct tiny *t = malloc(sizeof *t);
  if (!t) abort();
  for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
    void *bytes;
    size_t size;
    tiny_init(t);
    mutants[i].change(t);
    if (!tiny_build(t, &bytes, &size)) abort();
    good &= expect(mutants[i].name, bytes, size, mutants[i].kind, mutants[i].says);
    free(bytes);
  }
  free(t);
  return good;
}

int main(void) {
  bool good = test_tiny();
  printf("%zu named mutants: %s\n", sizeof mutants / sizeof mutants[0], good ? "good" : "FAILED");
  return !good;
}
