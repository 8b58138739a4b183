/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong where a stream is passed on ends in an error on every live rank, soon: a rank of the chain dies,
 * fails or stalls, or its ends do not fit together.
 */
#include <string.h>

#include "tests/runtime/check.h"
#include "tests/runtime/made.h"
#include "tests/runtime/scene.h"

static void dies(enum tiny_form form, enum reshard_mode mode, uint32_t rank, uint32_t round) {
  struct scene s;
  scene_open(&s, form, mode, 0.3);
  s.players[rank].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_DIE, .round = round};
  s.players[rank].hold = 1;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    if (r == rank) continue;
    CHECK(s.players[r].refitted == RESHARD_TIMEOUT, "form %d rank %u: %d %s", (int)form, r, (int)s.players[r].refitted,
          s.players[r].fault.what);
    CHECK(s.players[r].version == 0, "rank %u has version %llu", r, (unsigned long long)s.players[r].version);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  works_again(&s);
  scene_close(&s);
}

static void fails(enum tiny_form form, enum reshard_mode mode, uint32_t rank, uint32_t round) {
  struct scene s;
  scene_open(&s, form, mode, 20);
  s.players[rank].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_FAIL, .round = round};
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].refitted == RESHARD_PEER_FAILED, "rank %u: %d", r, (int)s.players[r].refitted);
    CHECK(s.players[r].fault.rank == rank, "rank %u blames %u", r, s.players[r].fault.rank);
    CHECK(s.players[r].version == 0 && s.players[r].seconds < 5, "rank %u", r);
    says(&s.players[r], "was made to fail");
  }
  works_again(&s);
  scene_close(&s);
}

/* The first sender is late, but not too late: whoever reads its buffers is woken when it begins. */
static void stalls(enum tiny_form form, enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, form, mode, 20);
  s.players[0].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_STALL, .round = 0, .seconds = 0.2};
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].version == 1, "rank %u: %s", r, s.players[r].fault.what);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  CHECK(!stage_check(&s.stage), "%s", stage_check(&s.stage));
  scene_close(&s);
}

/* ---- ends that do not fit ---------------------------------------------------------------------------------------- */

static struct rsp_stream *hop(struct tiny *t, uint32_t rank, uint32_t dir, uint32_t peer) {
  uint32_t kind = t->slice[1].streams[3].kind;
  for (uint64_t i = 0; i < t->slices[rank].stream_count; i++) {
    struct rsp_stream *s = &t->slice[rank].streams[i];
    if (s->dir == dir && s->peer == peer && s->kind == kind && s->tag == (kind == RSP_KIND_STAGED)) return s;
  }
  CHECK(false, "no such stream");
  return NULL;
}

static void late_end(struct tiny *t) {
  hop(t, 2, RSP_DIR_IN, 1)->round0--;
}

static void other_tag(struct tiny *t) {
  hop(t, 2, RSP_DIR_IN, 1)->tag = 7;
}

static void no_origin(struct tiny *t) {
  struct rsp_stream *s = hop(t, 0, RSP_DIR_OUT, 1);
  uint64_t at = (uint64_t)(s - t->slice[0].streams), left = --t->slices[0].stream_count - at;
  memmove(s, s + 1, left * sizeof *s);
}

static void late_origin(struct tiny *t) {
  hop(t, 0, RSP_DIR_OUT, 1)->round0++;
}

/* The same bytes in two runs. */
static void split_runs(struct tiny *t, uint32_t rank, const struct rsp_stream *s) {
  struct tiny_slice *x = &t->slice[rank];
  struct rsp_slice_tables *n = &t->slices[rank];
  struct rsp_desc *d = &x->descs[x->bodies[x->parts[s->parts].body].descs];
  struct rsp_shape *shape = &x->shapes[d->shape];
  shape->run = 4;
  shape->loop_count = 1;
  shape->loops = n->loop_count;
  x->loops[n->loop_count++] = (struct rsp_loop){2, 0, 8};
}
static void origin_runs(struct tiny *t) {
  split_runs(t, 0, hop(t, 0, RSP_DIR_OUT, 1));
}
static void last_runs(struct tiny *t) {
  split_runs(t, 2, hop(t, 2, RSP_DIR_IN, 1));
}

/* `who`: bits of the ranks that see it. */
static void no_fit(enum tiny_form form, enum reshard_mode mode, void (*change)(struct tiny *), uint32_t who) {
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init_form(tiny, form);
  change(tiny);
  void *bytes;
  size_t size;
  CHECK(tiny_build(tiny, &bytes, &size), "build");
  struct scene s;
  scene_of(&s, bytes, size, mode, 20);
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    enum reshard_status want = who >> r & 1 ? RESHARD_BAD_PLAN : RESHARD_PEER_FAILED;
    CHECK(s.players[r].prepared == want, "form %d rank %u: %d %s", (int)form, r, (int)s.players[r].prepared,
          s.players[r].fault.what);
    says(&s.players[r], "do not fit together");
  }
  scene_close(&s);
  free(tiny);
}

/* Two ranks that pass on to each other what each gets from the other, and nobody begins: sound in each slice. */
static void circle(struct tiny *t) {
  struct rsp_stream *out = hop(t, 1, RSP_DIR_OUT, 2), *in = hop(t, 1, RSP_DIR_IN, 0);
  /* Rank 1 gets "b" from rank 2, which gets it from rank 1. */
  no_origin(t);
  t->global.rounds = 4;
  for (int r = 0; r < TINY_WORLD; r++) t->slices[r].rounds = 4;
  in->peer = 2;
  in->round0 = 2;
  out->round0 = 3;
  struct tiny_slice *x = &t->slice[2];
  uint64_t count = t->slices[2].stream_count++;
  memmove(x->streams + 1, x->streams, count * sizeof *x->streams);
  struct rsp_stream *got = hop(t, 2, RSP_DIR_IN, 1);
  x->streams[0] = *out;
  x->streams[0].peer = 1;
  x->streams[0].relay = (uint32_t)(got - x->streams);
  x->streams[0].round0 = 2;
  got->round0 = 1;
}

/* ---- long chains ------------------------------------------------------------------------------------------------- */

static void chain_dies(enum reshard_mode mode, uint64_t seed, uint32_t rank) {
  struct made_options options = {.seed = seed,
                                 .train = 2,
                                 .infer = 4,
                                 .groups = 2,
                                 .buffers = 2,
                                 .rows = 6,
                                 .columns = 20,
                                 .plain = true,
                                 .relays = true};
  size_t size;
  void *bytes = made_plan(&options, &size);
  struct stage stage;
  struct reshard_plan *plan;
  struct reshard_host_group *group;
  struct player players[6];
  stage_open(&stage, bytes, size);
  stage_fill(&stage, seed);
  CHECK(reshard_open_memory(bytes, size, &plan, NULL) == RESHARD_OK, "open");
  for (uint32_t turn = 0; turn < 2; turn++) { /* with the death, and without */
    CHECK(reshard_host_group_new(6, &group) == RESHARD_OK, "group");
    players_init(players, &stage, plan, group, mode);
    for (uint32_t r = 0; r < 6 && turn == 0; r++) players[r].config.timeout_seconds = 0.3;
    if (turn == 0) players[rank].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_DIE, .round = 1};
    players[rank].hold = turn == 0;
    play(players, 6);
    for (uint32_t r = 0; r < 6; r++) {
      if (turn == 0 && r == rank) continue;
      CHECK(players[r].version == turn, "seed %llu rank %u: %s", (unsigned long long)seed, r, players[r].fault.what);
      CHECK(turn == 1 || (players[r].refitted != RESHARD_OK && players[r].seconds < 5), "rank %u", r);
    }
    reshard_host_group_free(group);
  }
  CHECK(!stage_check(&stage), "%s", stage_check(&stage));
  reshard_close(plan);
  stage_close(&stage);
  free(bytes);
}

int main(void) {
  for (int m = RESHARD_STAGED; m <= RESHARD_FUSED; m++) {
    enum reshard_mode mode = (enum reshard_mode)m;
    for (int f = TINY_RELAY_STAGED; f <= TINY_AGAIN_DIRECT; f++) {
      enum tiny_form form = (enum tiny_form)f;
      uint32_t rounds = mode == RESHARD_STAGED ? 2 : 1;
      for (uint32_t i = 0; i < TINY_WORLD * rounds; i++) {
        dies(form, mode, i / rounds, i % rounds);
        fails(form, mode, i / rounds, i % rounds);
      }
      stalls(form, mode);
      if (f > TINY_RELAY_DIRECT) continue;
      no_fit(form, mode, late_end, 1u << 1 | 1u << 2);
      no_fit(form, mode, other_tag, 1u << 1 | 1u << 2);
      no_fit(form, mode, no_origin, 1u << 1 | 1u << 2);
      no_fit(form, mode, late_origin, 1u << 0 | 1u << 1 | 1u << 2);
      no_fit(form, mode, origin_runs, 1u << 0 | 1u << 1 | 1u << 2);
      no_fit(form, mode, last_runs, 1u << 2);
      no_fit(form, mode, circle, 1u << 1 | 1u << 2);
    }
    for (uint32_t rank = 0; rank < 6; rank++) chain_dies(mode, 2 + rank, rank);
  }
  return 0;
}
