// SPDX-License-Identifier: Apache-2.0
//
// In: a range of seeds. Out: whether the verifier accepts every random plan that replays rightly, with the same figures
// as the planner that made it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plans/verify.h"
#include "tests/verify/maker.h"
#include "tests/verify/replay.h"

// Plans in which something of this is.
enum feature {
  RELAYS,
  STAGED_RELAY,
  DIRECT_RELAY,
  CHAIN_OF_2,
  CHAIN_OF_3,
  TO_ITSELF,
  RELAYED_TWICE,
  TAGS,
  EXCUSED,
  FEATURES
};
static const char *const names[FEATURES] = {"relays",
                                            "staged ones",
                                            "direct ones",
                                            "chains of 2",
                                            "of 3",
                                            "to the rank itself",
                                            "of one stream twice",
                                            "several streams of a pair",
                                            "excused elements"};

static const struct rsp_stream *sender_of(const struct rsp_program *peer, uint32_t self, const struct rsp_stream *in) {
  const struct rsp_stream *x = peer->streams;
  while (x->dir != RSP_DIR_OUT || x->peer != self || x->kind != in->kind || x->tag != in->tag) x++;
  return x;
}

// How many relays lie behind the stream of the rank, itself counted.
static uint32_t depth_of(const struct rsp_plan *plan, uint32_t rank, const struct rsp_stream *s) {
  struct rsp_program program, peer;
  if (s->relay == RSP_NO_STREAM) return 0;
  rsp_program_of(plan, rank, &program);
  const struct rsp_stream *in = &program.streams[s->relay];
  rsp_program_of(plan, in->peer, &peer);
  return 1 + depth_of(plan, in->peer, sender_of(&peer, rank, in));
}

static void note(const struct rsp_plan *plan, bool has[FEATURES]) {
  for (uint32_t r = 0; r < plan->header->world; r++) {
    struct rsp_program p;
    rsp_program_of(plan, r, &p);
    for (uint64_t i = 0; i < p.slice->streams.count; i++) {
      const struct rsp_stream *s = &p.streams[i];
      uint32_t depth = depth_of(plan, r, s);
      if (i && s[-1].dir == s->dir && s[-1].peer == s->peer && s[-1].kind == s->kind) has[TAGS] = true;
      if (!depth) continue;
      has[RELAYS] = has[s->kind == RSP_KIND_DIRECT ? DIRECT_RELAY : STAGED_RELAY] = true;
      if (depth > 1) has[CHAIN_OF_2] = true;
      if (depth > 2) has[CHAIN_OF_3] = true;
      if (s->peer == r) has[TO_ITSELF] = true;
      for (uint64_t k = 0; k < i; k++)
        if (p.streams[k].relay == s->relay) has[RELAYED_TWICE] = true;
    }
  }
}

static bool check(uint64_t seed, uint64_t count[FEATURES]) {
  void *bytes;
  size_t size;
  struct rsp_plan plan;
  struct rsp_error error;
  struct rspv_report report;
  maker_plan(seed, &bytes, &size);
  if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) {
    fprintf(stderr, "seed %" PRIu64 ": rule %d: %s\n", seed, error.rule, error.text);
    free(bytes);
    return false;
  }
  const char *wrong = replay(&plan);
  bool good = rspv_verify(&plan, &report) && !wrong;
  if (wrong) fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, wrong);
  for (int k = 0; k < RSPV_KINDS; k++) {
    if (!report.violations[k].count) continue;
    fprintf(stderr, "seed %" PRIu64 ": ", seed);
    rspv_print_violation(&plan, &report, (enum rspv_kind)k, stderr);
  }
  bool has[FEATURES] = {false};
  note(&plan, has);
  has[EXCUSED] = report.excused > 0;
  for (int i = 0; i < FEATURES; i++) count[i] += has[i];
  rsp_close(&plan);
  free(bytes);
  return good;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
  uint64_t bad = 0, with[FEATURES] = {0};
  for (uint64_t i = 0; i < count && bad < 10; i++) bad += !check(first + i, with);
  printf("%" PRIu64 " plans, %" PRIu64 " wrong; with", count, bad);
  for (int i = 0; i < FEATURES; i++) {
    printf("%s %s %" PRIu64, i ? "," : "", names[i], with[i]);
    if (!with[i]) bad++; // nothing was tested
  }
  printf("\n");
  return bad != 0;
}
