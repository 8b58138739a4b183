/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong ends in an error on every live rank, soon, with the right words: plans that differ, ranks that never
 * come, die, fail, stall or run out of memory, wrong buffers, calls out of order, programs that do not fit together.
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

/* ---- calls of one rank ------------------------------------------------------------------------------------------- */

static void wrong_binds(struct player *p) {
  struct reshard_context *c = p->context;
  struct reshard_fault f;
  unsigned char *w = p->stage->memory[p->rank][0];
  CHECK(reshard_bind(c, RESHARD_TRAIN, "nothing", w, 32) == RESHARD_UNKNOWN_BUFFER, "unknown");
  reshard_last_fault(c, &f);
  CHECK(strstr(f.what, "'nothing'"), "%s", f.what);
  if (p->rank == 0) {
    CHECK(reshard_bind(c, RESHARD_INFER, "w", w, 32) == RESHARD_UNKNOWN_BUFFER, "side");
    reshard_last_fault(c, &f);
    CHECK(strstr(f.what, "give the other side"), "%s", f.what);
    CHECK(reshard_bind(c, RESHARD_TRAIN, "w", w, 31) == RESHARD_WRONG_SIZE, "size");
    reshard_last_fault(c, &f);
    CHECK(strstr(f.what, "32 bytes in the plan, not 31") && strcmp(f.buffer, "w") == 0 &&
              strcmp(f.file, "train.layout") == 0 && f.line == 4,
          "%s %s %s %u", f.what, f.buffer, f.file, f.line);
    CHECK(reshard_bind(c, RESHARD_TRAIN, "w", w + 1, 32) == RESHARD_WRONG_ALIGNMENT, "alignment");
    CHECK(reshard_bind(c, RESHARD_TRAIN, "w", NULL, 32) == RESHARD_WRONG_ALIGNMENT, "null");
    CHECK(reshard_bind(c, (enum reshard_side)7, "w", w, 32) == RESHARD_INVALID_ARGUMENT, "side 7");
    CHECK(reshard_rebind(c, RESHARD_TRAIN, "w", w, 32) == RESHARD_OK, "rebind");
  }
  CHECK(reshard_wait(c) == RESHARD_WRONG_STATE, "wait");
  CHECK(reshard_query(c) == RESHARD_WRONG_STATE, "query");
  /* Rank 0 has moved a buffer: every rank prepares again. */
  CHECK(reshard_prepare(c) == RESHARD_OK, "prepare");
  CHECK(reshard_refit(c, p) == RESHARD_INVALID_ARGUMENT, "a stream of the host"); /* and nothing has begun */
}

static void binds(void) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, RESHARD_FUSED, 20);
  for (uint32_t r = 0; r < TINY_WORLD; r++) s.players[r].between = wrong_binds;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) CHECK(s.players[r].version == 1, "rank %u: %s", r, s.players[r].fault.what);
  CHECK(!stage_check(&s.stage), "%s", stage_check(&s.stage));
  scene_close(&s);
}

static struct scene own;

static void *unbound_rank(void *arg) {
  uint32_t rank = *(uint32_t *)arg;
  struct reshard_context *c;
  struct reshard_fault f;
  CHECK(reshard_context_open(own.plan, rank, &own.players[rank].config, &c, &f) == RESHARD_OK, "%s", f.what);
  CHECK(reshard_refit(c, NULL) == RESHARD_WRONG_STATE, "refit before prepare");
  enum reshard_status status = reshard_prepare(c);
  CHECK(status == RESHARD_UNBOUND, "%d", (int)status);
  reshard_last_fault(c, &f);
  CHECK(strcmp(f.buffer, rank == 2 ? "w_t" : "w") == 0 && f.line == 4, "%s %u", f.buffer, f.line);
  CHECK(bind_all(c, &own.stage, rank) == RESHARD_OK, "bind");
  if (rank == 2) { /* padding and all of "b" would lie in "w_t" */
    CHECK(reshard_bind(c, RESHARD_INFER, "b", own.stage.memory[2][0] + 4, 20) == RESHARD_OK, "bind");
  }
  status = reshard_prepare(c);
  CHECK(status == (rank == 2 ? RESHARD_OVERLAP : RESHARD_PEER_FAILED), "rank %u: %d", rank, (int)status);
  CHECK(bind_all(c, &own.stage, rank) == RESHARD_OK, "bind");
  CHECK(reshard_prepare(c) == RESHARD_OK, "prepare");
  CHECK(reshard_refit(c, NULL) == RESHARD_OK, "refit");
  CHECK(reshard_refit(c, NULL) == RESHARD_WRONG_STATE, "refit twice");
  CHECK(reshard_bind(c, RESHARD_INFER, "b", own.stage.memory[2][0], 20) == RESHARD_WRONG_STATE, "bind in a refit");
  while (reshard_query(c) == RESHARD_PENDING) usleep(100);
  CHECK(reshard_query(c) == RESHARD_OK, "query");
  CHECK(reshard_version(c) == 0, "version before wait");
  uint32_t train_rank, infer_rank;
  reshard_ranks(c, &train_rank, &infer_rank);
  CHECK(train_rank != RESHARD_NO_RANK || infer_rank != RESHARD_NO_RANK, "ranks");
  reshard_ranks(NULL, &train_rank, NULL);
  CHECK(train_rank == RESHARD_NO_RANK, "rank of no context");
  CHECK(reshard_wait(c) == RESHARD_OK && reshard_version(c) == 1, "wait");
  reshard_context_close(c);
  return NULL;
}

static void unbound(void) {
  scene_open(&own, TINY_PLAIN, RESHARD_STAGED, 20);
  pthread_t threads[TINY_WORLD];
  uint32_t ranks[TINY_WORLD] = {0, 1, 2};
  for (uint32_t r = 0; r < TINY_WORLD; r++)
    CHECK(!pthread_create(&threads[r], NULL, unbound_rank, &ranks[r]), "thread");
  for (uint32_t r = 0; r < TINY_WORLD; r++) pthread_join(threads[r], NULL);
  CHECK(!stage_check(&own.stage), "%s", stage_check(&own.stage));
  scene_close(&own);
}

/* One rank waits, another prepares: both are told. */
static void out_of_step(struct player *p) {
  if (p->rank == 0) reshard_prepare(p->context);
}

static void steps(void) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, RESHARD_FUSED, 2);
  s.players[0].between = out_of_step;
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].version == 0 && s.players[r].fault.status != RESHARD_OK, "rank %u", r);
    CHECK(s.players[r].seconds < 10, "rank %u took %g s", r, s.players[r].seconds);
  }
  scene_close(&s);
}

static void arguments(void) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, RESHARD_FUSED, 20);
  struct reshard_context *c;
  struct reshard_fault f;
  struct reshard_config config = s.players[0].config;
  CHECK(reshard_context_open(s.plan, 3, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "rank 3 of 3");
  config.struct_bytes = 0;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "no size");
  config = s.players[0].config;
  config.group = NULL;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "no group");
  config.flags = 1u << 20;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "unknown flags");
  config.flags = 0;
  config = s.players[0].config;
  config.backend = (enum reshard_backend)9;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, NULL) == RESHARD_UNSUPPORTED, "backend 9");
  CHECK(reshard_host_group_new(0, &config.group) == RESHARD_INVALID_ARGUMENT, "a world of 0");
  CHECK(reshard_host_group_new(2, &config.group) == RESHARD_OK, "group");
  config.backend = RESHARD_HOST;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "a group of 2");
  reshard_host_group_free(config.group);
  CHECK(reshard_prepare(NULL) == RESHARD_INVALID_ARGUMENT && reshard_version(NULL) == 0, "NULL");
  reshard_context_close(NULL);
  reshard_close(NULL);
  for (int status = 0; status <= RESHARD_UNSUPPORTED; status++) {
    CHECK(strncmp(reshard_status_text((enum reshard_status)status), "RESHARD_", 8) == 0, "status %d", status);
  }
  scene_close(&s);
}

/* ---- another plan ------------------------------------------------------------------------------------------------ */

static struct reshard_plan *next_plan;
static pthread_barrier_t all_here;

static void swaps(struct player *p) {
  if (reshard_version(p->context) == 0) return;
  CHECK(reshard_swap(p->context, next_plan) == RESHARD_OK, "swap");
  CHECK(reshard_refit(p->context, NULL) == RESHARD_WRONG_STATE, "refit before prepare");
  /* Addresses of the old plan are those of the new one. */
  CHECK(reshard_prepare(p->context) == RESHARD_OK, "prepare");
  pthread_barrier_wait(&all_here);
}

static void swap_plans(enum reshard_mode mode) {
  struct scene s;
  scene_open(&s, TINY_PLAIN, mode, 20);
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init(tiny);
  tiny->global.chunk = 99;
  void *bytes;
  size_t size;
  CHECK(tiny_build(tiny, &bytes, &size), "build");
  CHECK(reshard_open_memory(bytes, size, &next_plan, NULL) == RESHARD_OK, "open");
  pthread_barrier_init(&all_here, NULL, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    s.players[r].between = swaps;
    s.players[r].refits = 2;
  }
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) CHECK(s.players[r].version == 2, "rank %u: %s", r, s.players[r].fault.what);
  CHECK(!stage_check(&s.stage), "%s", stage_check(&s.stage));
  pthread_barrier_destroy(&all_here);
  reshard_close(next_plan);
  scene_close(&s);
  free(bytes);
  free(tiny);
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
    swap_plans(mode);
  }
  modes_differ();
  bad_slice();
  abort_call();
  binds();
  unbound();
  steps();
  arguments();
  return 0;
}
