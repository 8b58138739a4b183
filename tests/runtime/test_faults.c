/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong ends in an error on every live rank, soon, with the right words: plans that differ, ranks that never
 * come, die, fail, stall or run out of memory, programs that do not fit together. Wrong calls are in test_calls.c.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/runtime/check.h"
#include "tests/runtime/scene.h"

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static void plans_differ(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 20);
  void *other = malloc(s.size);
  CHECK(other, "memory");
  memcpy(other, s.bytes, s.size);
  ((struct rsp_header *)other)->chunk ^= 1; /* one bit, and sealed again */
  CHECK(rsp_reseal(other, s.size), "reseal");
  struct reshard_plan *differs;
  CHECK(reshard_open_memory(other, s.size, &differs, NULL) == RESHARD_OK, "open");
  struct reshard_plan_info a, b;
  reshard_plan_get(s.plan, &a);
  reshard_plan_get(differs, &b);
  char here[33], there[33];
  rsp_id_text(a.plan_id, here);
  rsp_id_text(b.plan_id, there);
  s.players[2].plan = differs;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].opened == RESHARD_PLAN_DIFFERS, "rank %u: %d", r, (int)s.players[r].opened);
    says(&s.players[r], here);
    says(&s.players[r], there);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  /* The group has not failed: the right plan works in it. */
  players_init(s.players, &s.stage, s.plan, s.group, mode);
  play(s.players, TINY_WORLD);
  CHECK(s.players[0].version == 1, "%s", s.players[0].fault.what);
  reshard_close(differs);
  free(other);
  scene_close(&s);
}

static void never_comes(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 0.2);
  s.players[1].skip = 1;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r += 2) {
    CHECK(s.players[r].opened == RESHARD_TIMEOUT, "rank %u: %d", r, (int)s.players[r].opened);
    says(&s.players[r], "context_open: world rank(s) 1 did not arrive");
    CHECK(s.players[r].fault.rank == 1, "rank %u", s.players[r].fault.rank);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  works_again(&s);
  scene_close(&s);
}

static void modes_differ(void) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, RESHARD_STAGED, 20);
  s.players[1].config.mode = RESHARD_FUSED;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) says(&s.players[r], "the ranks differ");
  scene_close(&s);
}

/* A rank whose slice is damaged tells all. */
static void bad_slice(void) {
  void *bytes;
  size_t size;
  CHECK(tiny_plan(&bytes, &size), "tiny");
  const struct rsp_header *h = bytes;
  const struct rsp_dirent *dir = (const void *)((unsigned char *)bytes + h->sections[RSP_SEC_DIRECTORY].off);
  char path[] = "reshard-XXXXXX"; /* in the directory of the build */
  int fd = mkstemp(path);
  CHECK(fd >= 0, "mkstemp");
  ((unsigned char *)bytes)[dir[2].off + dir[2].bytes - 1] ^= 1;
  CHECK(write(fd, bytes, size) == (ssize_t)size, "write");
  close(fd);
  ((unsigned char *)bytes)[dir[2].off + dir[2].bytes - 1] ^= 1;
  struct scene s;
  scene_of(&s, bytes, size, RESHARD_FUSED, 20);
  struct reshard_plan *plan;
  struct reshard_fault fault;
  CHECK(reshard_open(path, &plan, &fault) == RESHARD_OK, "%s", fault.what);
  for (uint32_t r = 0; r < TINY_WORLD; r++) s.players[r].plan = plan;
  play(s.players, TINY_WORLD);
  CHECK(s.players[2].opened == RESHARD_BAD_PLAN, "rank 2: %d", (int)s.players[2].opened);
  says(&s.players[2], "rule 32");
  for (uint32_t r = 0; r < 2; r++) {
    CHECK(s.players[r].opened == RESHARD_PEER_FAILED, "rank %u: %d", r, (int)s.players[r].opened);
    says(&s.players[r], "world rank 2 failed: ");
    says(&s.players[r], "rule 32");
  }
  reshard_close(plan);
  CHECK(reshard_open("/nowhere/plan", &plan, &fault) == RESHARD_CANNOT_READ && plan == NULL, "no file");
  CHECK(strstr(fault.what, "/nowhere/plan"), "%s", fault.what);
  unlink(path);
  CHECK(reshard_open_memory(bytes, 100, &plan, &fault) == RESHARD_BAD_PLAN, "short");
  scene_close(&s);
}

/* Slices that are sound each, but one receives what the other does not send. */
static void other_quantum(struct tiny *t, struct rsp_stream *in) {
  (void)t;
  in->quantum = in->slot_stride = 16;
  in->slots = 1;
}

/* The shape of rank 2's descriptor, in a row of its own from here on, with a loop of its own. */
static struct rsp_shape *own_shape(struct tiny *t, const struct rsp_desc *desc) {
  struct tiny_slice *s = &t->slice[2];
  struct rsp_slice_tables *n = &t->slices[2];
  struct rsp_shape old[8];
  memcpy(old, s->shapes, sizeof old);
  for (uint32_t i = 0; i < n->desc_count; i++) {
    s->shapes[i] = old[s->descs[i].shape];
    s->descs[i].shape = i;
  }
  n->shape_count = n->desc_count;
  s->shapes[desc->shape].loops = n->loop_count++;
  return &s->shapes[desc->shape];
}

static void other_parts(struct tiny *t, struct rsp_stream *in) {
  struct tiny_slice *s = &t->slice[2];
  struct rsp_part *part = &s->parts[in->parts];
  s->bodies[part->body].elems = 8; /* twice the loop, of which the part takes the second half */
  s->loops[own_shape(t, &s->descs[s->bodies[part->body].descs])->loops] = (struct rsp_loop){4, 0, 0};
  part->lo = 4, part->hi = 8;
}

static void other_runs(struct tiny *t, struct rsp_stream *in) {
  struct tiny_slice *s = &t->slice[2];
  struct rsp_shape *shape = own_shape(t, &s->descs[s->bodies[s->parts[in->parts].body].descs]);
  shape->run = 1;
  s->loops[shape->loops] = (struct rsp_loop){4, 0, 4};
}

static void other_time(struct tiny *t, struct rsp_stream *in) {
  (void)t;
  in->quantum = 16; /* one message, in the second round */
  in->slot_stride = 16;
  in->slots = 1;
  in->round0 = 1;
}

static void no_fit(enum reshard_mode mode, void (*change)(struct tiny *tiny, struct rsp_stream *in)) {
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init(tiny);
  for (uint64_t i = 0; i < tiny->slices[2].stream_count; i++) {
    struct rsp_stream *stream = &tiny->slice[2].streams[i];
    if (stream->peer == 1) change(tiny, stream);
  }
  void *bytes;
  size_t size;
  CHECK(tiny_build(tiny, &bytes, &size), "build");
  struct scene s;
  scene_of(&s, bytes, size, mode, 20);
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].prepared == (r == 0 ? RESHARD_PEER_FAILED : RESHARD_BAD_PLAN), "rank %u: %d", r,
          (int)s.players[r].prepared);
    says(&s.players[r], "do not fit together");
  }
  scene_close(&s);
  free(tiny);
}

/* ---- during a refit ---------------------------------------------------------------------------------------------- */

/* Of the ranks that stand still, the one is named for which the others do. */
static void accuses(const struct player *p, uint32_t rank) {
  char here[64], awaited[64];
  snprintf(here, sizeof here, "world rank(s) %u did not arrive", rank);
  snprintf(awaited, sizeof awaited, "for world rank %u", rank);
  CHECK(strstr(p->fault.what, here) || strstr(p->fault.what, awaited), "rank %u: %s", rank, p->fault.what);
}

static void dies(enum reshard_mode mode, uint32_t rank) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 0.3);
  s.players[rank].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_DIE, .round = 0};
  s.players[rank].hold = 1;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    if (r == rank) continue;
    CHECK(s.players[r].refitted == RESHARD_TIMEOUT, "rank %u: %d %s", r, (int)s.players[r].refitted,
          s.players[r].fault.what);
    CHECK(s.players[r].version == 0, "rank %u has version %llu", r, (unsigned long long)s.players[r].version);
    accuses(&s.players[r], rank);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  works_again(&s);
  scene_close(&s);
}

static void fails(enum reshard_mode mode, uint32_t rank, uint32_t round) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 20);
  s.players[rank].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_FAIL, .round = round};
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].refitted == RESHARD_PEER_FAILED, "rank %u: %d", r, (int)s.players[r].refitted);
    CHECK(s.players[r].fault.rank == rank, "rank %u blames %u", r, s.players[r].fault.rank);
    CHECK(s.players[r].version == 0, "rank %u", r);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
    says(&s.players[r], "was made to fail");
  }
  works_again(&s);
  scene_close(&s);
}

/* Late, but within the timeout: no error. Later than it: one on all, and the sleeper ends too. */
static void stalls(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 20);
  s.players[0].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_STALL, .round = 0, .seconds = 0.2};
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) CHECK(s.players[r].version == 1, "rank %u: %s", r, s.players[r].fault.what);
  scene_close(&s);
  scene_open(&s, TINY_PLAIN, mode, 0.2);
  s.players[0].config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_STALL, .round = 0, .seconds = 50};
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].refitted == RESHARD_TIMEOUT, "rank %u: %d %d %s", r, (int)s.players[r].prepared,
          (int)s.players[r].refitted, s.players[r].fault.what);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  CHECK(s.players[2].fault.peer == 0 || s.players[2].fault.peer == 1, "peer %u", s.players[2].fault.peer);
  scene_close(&s);
}

static void no_memory(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 20);
  s.players[1].config.inject.kind = RESHARD_INJECT_NO_MEMORY;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].prepared == (r == 1 ? RESHARD_NO_MEMORY : RESHARD_PEER_FAILED), "rank %u: %d", r,
          (int)s.players[r].prepared);
    says(&s.players[r], "cannot allocate");
  }
  scene_close(&s);
}

/* A rank closes its context while the others go on. */
static void quits(struct player *p) {
  if (p->rank == 1) {
    reshard_context_close(p->context);
    p->context = NULL;
    pthread_exit(NULL);
  }
}

static void closes_early(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 0.3);
  s.players[1].between = quits;
  s.players[1].hold = 1; /* not waited for */
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r += 2) {
    CHECK(s.players[r].refitted != RESHARD_OK && s.players[r].version == 0, "rank %u", r);
    CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
  }
  scene_close(&s);
}

/* A rank begins its refit and closes its context without waiting: it ends soon, and nobody reads what is gone. */
static void walks_off(struct player *p) {
  if (p->rank != 1) return;
  CHECK(reshard_refit(p->context, NULL) == RESHARD_OK, "refit");
  usleep(p->config.inject.round * 50); /* here the number of the try */
  quits(p);
}

static void closes_unwaited(enum reshard_mode mode) {
  for (uint32_t i = 0; i < 12; i++) {
    struct scene s;
    scene_open(&s, TINY_PLAIN, mode, 0.1);
    s.players[1].between = walks_off;
    s.players[1].hold = 1;
    s.players[1].config.inject.round = i;
    play(s.players, TINY_WORLD);
    for (uint32_t r = 0; r < TINY_WORLD; r += 2) {
      CHECK(s.players[r].refitted != RESHARD_OK && s.players[r].version == 0, "rank %u: %d %d %d %s", r,
            (int)s.players[r].opened, (int)s.players[r].prepared, (int)s.players[r].refitted, s.players[r].fault.what);
      CHECK(s.players[r].seconds < 5, "rank %u took %g s", r, s.players[r].seconds);
    }
    scene_close(&s);
  }
}

static void gives_up(struct player *p) {
  if (p->rank == 2) reshard_host_group_abort(p->config.group, 2, "out of patience");
}

static void abort_call(void) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, RESHARD_FUSED, 20);
  s.players[2].between = gives_up;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].refitted == RESHARD_PEER_FAILED, "rank %u: %d", r, (int)s.players[r].refitted);
    says(&s.players[r], "out of patience");
  }
  scene_close(&s);
}

int main(void) {
  for (int m = RESHARD_STAGED; m <= RESHARD_FUSED; m++) {
    enum reshard_mode mode = (enum reshard_mode)m;
    plans_differ(mode);
    never_comes(mode);
    no_fit(mode, other_quantum);
    no_fit(mode, other_parts);
    no_fit(mode, other_runs);
    no_fit(mode, other_time);
    no_memory(mode);
    for (uint32_t rank = 0; rank < TINY_WORLD; rank++) {
      dies(mode, rank);
      fails(mode, rank, 0);
      if (mode == RESHARD_STAGED) fails(mode, rank, 1);
    }
    stalls(mode);
    closes_early(mode);
    closes_unwaited(mode);
  }
  modes_differ();
  bad_slice();
  abort_call();
  return 0;
}
