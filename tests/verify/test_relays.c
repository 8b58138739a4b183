// SPDX-License-Identifier: Apache-2.0
//
// In: nothing. Out: whether each of these mutants of plans with relays is refused by the proof that it breaks.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verify/maker.h"
#include "tests/verify/mutants.h"
#include "tests/verify/named.h"

// ---- relays: forms TINY_RELAY_* ------------------------------------------------------------------------------------

// The streams that bring "b": from 0 to 1, and on to 2.
static struct rsp_stream *hop(struct tiny *t, uint32_t rank, uint32_t dir) {
  uint32_t peer = rank == 1 ? (dir == RSP_DIR_OUT ? 2 : 0) : 1;
  bool direct = t->slice[1].streams[3].kind == RSP_KIND_DIRECT;
  return tagged(t, rank, dir, peer, direct ? RSP_KIND_DIRECT : RSP_KIND_STAGED, !direct);
}

static void relay_early(struct tiny *t) {
  hop(t, 1, RSP_DIR_OUT)->round0--;
  hop(t, 2, RSP_DIR_IN)->round0--;
}
static void relay_late(struct tiny *t) {
  more_rounds(t);
  hop(t, 1, RSP_DIR_OUT)->round0++;
  hop(t, 2, RSP_DIR_IN)->round0++;
}
static void relay_before_origin(struct tiny *t) {
  more_rounds(t);
  hop(t, 0, RSP_DIR_OUT)->round0++;
}
static void relay_after_origin(struct tiny *t) {
  more_rounds(t);
  hop(t, 1, RSP_DIR_IN)->round0++;
  hop(t, 1, RSP_DIR_OUT)->round0++;
  hop(t, 2, RSP_DIR_IN)->round0++;
}
static void relay_missed(struct tiny *t) {
  hop(t, 2, RSP_DIR_IN)->round0--;
}
static void relay_lost(struct tiny *t) {
  drop_stream(t, 2, hop(t, 2, RSP_DIR_IN));
}
static void relay_of_nothing(struct tiny *t) {
  drop_stream(t, 0, hop(t, 0, RSP_DIR_OUT));
}

static void relay_other(struct tiny *t) { // "w" instead of "b", in two messages as that comes
  struct rsp_stream *in = hop(t, 2, RSP_DIR_IN), *out = hop(t, 1, RSP_DIR_OUT);
  more_rounds(t);
  out->relay = 2;
  out->quantum = in->quantum = in->slot_stride = 8;
  in->slots = 2;
}

static void swap_tags(struct tiny *t) {
  struct rsp_stream *a = tagged(t, 2, RSP_DIR_IN, 1, RSP_KIND_STAGED, 0), *b = hop(t, 2, RSP_DIR_IN), x = *a;
  *a = *b;
  *b = x;
  a->tag = 0;
  b->tag = 1;
}

static void relay_slot_reused(struct tiny *t) { // by the second message of "w", which comes while "b" is passed on
  tagged(t, 1, RSP_DIR_IN, 0, RSP_KIND_STAGED, 0)->stage_off = hop(t, 1, RSP_DIR_IN)->stage_off - 8;
}
static void relay_slot_packed(struct tiny *t) { // "w" for 2, packed where "b" arrives
  tagged(t, 1, RSP_DIR_OUT, 2, RSP_KIND_STAGED, 0)->stage_off = hop(t, 1, RSP_DIR_IN)->stage_off;
}

// Every place of "b" in two halves; those at the sender in the wrong order.
static void origin_halves(struct tiny *t) {
  const uint32_t dirs[3] = {RSP_DIR_OUT, RSP_DIR_IN, RSP_DIR_IN};
  for (uint32_t r = 0; r < 3; r++) {
    struct rsp_desc *d = desc(t, r, hop(t, r, dirs[r]));
    struct rsp_shape *s = shape(t, r, d);
    s->run = 4;
    s->loop_count = 1;
    t->slice[r].loops[s->loops] = (struct rsp_loop){2, 0, r ? 8 : -8};
    d->off = r ? 0 : 8;
  }
}
static void origin_short(struct tiny *t) {
  struct rsp_stream *s = hop(t, 0, RSP_DIR_OUT);
  part(t, 0, s)->hi--;
  s->bytes -= 2;
}
static void origin_reshaped(struct tiny *t) {
  struct rsp_shape *s = shape(t, 0, desc(t, 0, hop(t, 0, RSP_DIR_OUT)));
  s->run = 4;
  s->loop_count = 1;
  t->slice[0].loops[s->loops] = (struct rsp_loop){2, 0, 8};
}
static void few_ops_of_relay(struct tiny *t) { // rank 1 sends and receives "w", and passes on "b", in round 1
  t->global.max_ops = 2;
}

// Forms TINY_AGAIN_*: what rank 2 gets from itself.
static struct rsp_stream *own(struct tiny *t, uint32_t dir) {
  for (uint64_t i = 0; i < t->slices[2].stream_count; i++) {
    struct rsp_stream *s = &t->slice[2].streams[i];
    if (s->dir == dir && s->peer == 2) return s;
  }
  abort();
}
static void again_lost(struct tiny *t) {
  drop_stream(t, 2, own(t, RSP_DIR_IN));
}
static void again_missed(struct tiny *t) {
  own(t, RSP_DIR_IN)->round0--;
}
static void again_halves(struct tiny *t) {
  struct rsp_desc *d = desc(t, 2, own(t, RSP_DIR_IN));
  struct rsp_shape *s = shape(t, 2, d);
  s->run = 4;
  s->loop_count = 1;
  t->slice[2].loops[s->loops] = (struct rsp_loop){2, 0, -8};
  d->off = 8;
}
static void again_same_place(struct tiny *t) { // to "b" once more instead
  struct rsp_desc *d = desc(t, 2, own(t, RSP_DIR_IN));
  d->ref = 3;
}
static void again_same_slot(struct tiny *t) {
  own(t, RSP_DIR_IN)->stage_off = tagged(t, 2, RSP_DIR_IN, 0, RSP_KIND_STAGED, 1)->stage_off;
}

static const struct {
  const char *name;
  enum tiny_form form;
  bool both; // and of the form with direct streams, which follows
  change_tiny *change;
  enum rspv_kind kind; // RSPV_KINDS: structure
  const char *says;
} mutants[] = {
    {"a relay in the round of what it passes on", TINY_RELAY_STAGED, true, relay_early, RSPV_KINDS, "one round later"},
    {"a relay a round later than it may be", TINY_RELAY_STAGED, true, relay_late, RSPV_KINDS, "one round later"},
    {"a relay before its first sender", TINY_RELAY_STAGED, true, relay_before_origin, RSPV_PROGRESS, ", round 0"},
    {"a relay before its first sender, as seen by matching", TINY_RELAY_STAGED, true, relay_before_origin,
     RSPV_MATCHING, "message 0 is sent in round 1 and expected in round 0"},
    {"a relay a round too late for its first sender", TINY_RELAY_STAGED, true, relay_after_origin, RSPV_PROGRESS,
     "waits in round 0"},
    {"a relay that is expected a round early", TINY_RELAY_STAGED, true, relay_missed, RSPV_PROGRESS,
     "waits in round 0"},
    {"a relay that nobody expects", TINY_RELAY_STAGED, true, relay_lost, RSPV_MATCHING,
     "that the peer does not expect"},
    {"a relay of what nobody sends", TINY_RELAY_STAGED, true, relay_of_nothing, RSPV_PROVENANCE,
     "what is passed on is sent by nobody"},
    {"a relay of another incoming stream", TINY_RELAY_STAGED, false, relay_other, RSPV_MATCHING, "other bounds"},
    {"tags swapped at one end", TINY_RELAY_STAGED, false, swap_tags, RSPV_MATCHING, "are expected"},
    {"a slot used again while it is passed on", TINY_RELAY_STAGED, false, relay_slot_reused, RSPV_HAZARDS,
     "the same staging"},
    {"a slot packed while it is passed on", TINY_RELAY_STAGED, false, relay_slot_packed, RSPV_HAZARDS,
     "the same staging"},
    {"other elements at the first sender of a relay", TINY_RELAY_STAGED, true, origin_halves, RSPV_PROVENANCE,
     "another element arrives: tensor \"b\""},
    {"fewer elements at the first sender of a relay", TINY_RELAY_STAGED, true, origin_short, RSPV_MATCHING,
     "14 bytes are sent, 16 are expected"},
    {"other loops at the first sender of a relay", TINY_RELAY_STAGED, true, origin_reshaped, RSPV_MATCHING,
     "different shape"},
    {"too many operations with a relay's", TINY_RELAY_STAGED, true, few_ops_of_relay, RSPV_BOUNDS, "the limit is 2"},
    {"a relay to itself that it does not expect", TINY_AGAIN_STAGED, true, again_lost, RSPV_MATCHING, "on rank 2"},
    {"a relay to itself that it expects early", TINY_AGAIN_STAGED, true, again_missed, RSPV_PROGRESS,
     "waits in round 0"},
    {"a relay to itself to other elements", TINY_AGAIN_STAGED, true, again_halves, RSPV_MATCHING, "different shape"},
    {"a relay to itself to the same place", TINY_AGAIN_STAGED, true, again_same_place, RSPV_COVER, "on rank 2"},
    {"a relay to itself in the slot it is read from", TINY_AGAIN_STAGED, false, again_same_slot, RSPV_HAZARDS,
     "the same staging"},
};

static bool test_relays(void) {
  bool good = true;
  struct tiny *t = malloc(sizeof *t);
  if (!t) abort();
  for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
    for (int kind = 0; kind <= mutants[i].both; kind++) {
      void *bytes;
      size_t size;
      char name[128];
      tiny_init_form(t, (enum tiny_form)((int)mutants[i].form + kind));
      mutants[i].change(t);
      if (!tiny_build(t, &bytes, &size)) abort();
      snprintf(name, sizeof name, "%s, %s", mutants[i].name, kind ? "direct" : "staged");
      good &= expect(name, bytes, size, mutants[i].kind, mutants[i].says);
      free(bytes);
    }
  }
  free(t);
  return good;
}

// ---- relays of random plans ----------------------------------------------------------------------------------------

struct tries {
  uint64_t made, refused, wrong; // mutants; refused by the proof that should
};

static void judge(struct tries *tries, void *bytes, size_t size, enum rspv_kind kind) {
  struct rspv_report report;
  const char *why = "";
  enum verdict v = judge_mutant(bytes, size, &report, &why);
  tries->made++;
  tries->refused += v == REFUSED_BY_PROOF && report.violations[kind].count;
  tries->wrong += v == ACCEPTED_BUT_WRONG;
}

// For each relay: another incoming stream of the same times passed on; its slots fewer; another stream in its slots.
static void break_relays(void *bytes, size_t size, struct rsp_slice *s, struct tries tries[3]) {
  struct rsp_stream *x = (void *)((char *)s + s->streams.off);
  for (uint64_t i = 0; i < s->streams.count; i++) {
    if (x[i].relay == RSP_NO_STREAM) continue;
    uint32_t relay = x[i].relay;
    struct rsp_stream *in = &x[relay], old = *in;
    for (uint64_t k = 0; k < s->streams.count; k++) {
      bool like = x[k].dir == RSP_DIR_IN && x[k].kind == in->kind && x[k].bytes == in->bytes && k != relay &&
                  x[k].quantum == in->quantum && x[k].step == in->step && x[k].round0 == in->round0;
      x[i].relay = like ? (uint32_t)k : relay;
      if (like) judge(&tries[0], bytes, size, RSPV_PROVENANCE);
    }
    x[i].relay = relay;
    if (in->slots > 1 && in->step == 1 && in->bytes > in->quantum) {
      in->slots = 1;
      judge(&tries[1], bytes, size, RSPV_HAZARDS);
      *in = old;
    }
    for (uint64_t k = 0; k < s->streams.count; k++) {
      if (k == relay || !x[k].slots || !in->slots || x[k].stage_off + x[k].slots * x[k].slot_stride > s->staging)
        continue;
      uint64_t off = x[k].stage_off;
      x[k].stage_off = in->stage_off;
      judge(&tries[2], bytes, size, RSPV_HAZARDS);
      x[k].stage_off = off;
    }
  }
}

static bool test_random_relays(void) {
  static const char *const what[3] = {"another stream passed on", "too few slots", "another stream in its slots"};
  struct tries tries[3] = {{0, 0, 0}};
  bool good = true;
  for (uint64_t seed = 1; seed < 150; seed++) {
    void *bytes;
    size_t size;
    maker_plan(seed, &bytes, &size);
    const struct rsp_header *h = bytes;
    const struct rsp_dirent *d = (const void *)((char *)bytes + h->sections[RSP_SEC_DIRECTORY].off);
    for (uint32_t r = 0; r < h->world; r++) break_relays(bytes, size, (void *)((char *)bytes + d[r].off), tries);
    free(bytes);
  }
  for (int i = 0; i < 3; i++) {
    printf("%s: %" PRIu64 " mutants, %" PRIu64 " refused by the proof, %" PRIu64 " wrong\n", what[i], tries[i].made,
           tries[i].refused, tries[i].wrong);
    good &= tries[i].refused && !tries[i].wrong;
  }
  return good;
}

int main(void) {
  bool good = test_relays();
  good &= test_random_relays();
  printf("%zu named mutants: %s\n", sizeof mutants / sizeof mutants[0], good ? "good" : "FAILED");
  return !good;
}
