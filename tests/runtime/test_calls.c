/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of a context: wrong buffers, wrong arguments, wrong order, all refused with a reason and without harm;
 * another plan in the same context.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/runtime/check.h"
#include "tests/runtime/scene.h"

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
}

static void binds(void) {
  struct scene s;
  scene_open(&s, RESHARD_FUSED, 20);
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
  CHECK(reshard_wait(c) == RESHARD_OK && reshard_version(c) == 1, "wait");
  reshard_context_close(c);
  return NULL;
}

static void unbound(void) {
  scene_open(&own, RESHARD_STAGED, 20);
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
  scene_open(&s, RESHARD_FUSED, 2);
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
  scene_open(&s, RESHARD_FUSED, 20);
  struct reshard_context *c;
  struct reshard_fault f;
  struct reshard_config config = s.players[0].config;
  CHECK(reshard_context_open(s.plan, 3, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "rank 3 of 3");
  config.struct_bytes = 0;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "no size");
  config = s.players[0].config;
  config.group = NULL;
  CHECK(reshard_context_open(s.plan, 0, &config, &c, &f) == RESHARD_INVALID_ARGUMENT, "no group");
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
  scene_open(&s, mode, 20);
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

/* A control channel of the caller's: an array behind a barrier, which fails from the third call on if told so. */
static struct {
  pthread_barrier_t barrier;
  unsigned char words[TINY_WORLD * 4096];
  int calls[TINY_WORLD], most;
} channel;

static int gather(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  const struct player *p = user;
  if (channel.calls[p->rank]++ >= channel.most || bytes > 4096 || timeout_seconds != 20) return 7;
  memcpy(channel.words + p->rank * bytes, mine, bytes);
  pthread_barrier_wait(&channel.barrier);
  memcpy(all, channel.words, TINY_WORLD * bytes);
  pthread_barrier_wait(&channel.barrier);
  return 0;
}

static void own_channel(enum reshard_mode mode, int calls, uint64_t version) {
  struct scene s;
  scene_open(&s, mode, 20);
  memset(&channel, 0, sizeof channel);
  channel.most = calls;
  pthread_barrier_init(&channel.barrier, NULL, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    s.players[r].config.all_gather = gather;
    s.players[r].config.all_gather_user = &s.players[r];
    s.players[r].refits = 3;
  }
  play(s.players, TINY_WORLD);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    CHECK(s.players[r].version == version, "rank %u: %s", r, s.players[r].fault.what);
    if (version == 3) continue;
    /* A rank may see that another has given up and closed before it fails itself. */
    enum reshard_status status = s.players[r].fault.status;
    CHECK(status == RESHARD_TIMEOUT || status == RESHARD_PEER_FAILED, "rank %u: %d", r, (int)status);
    if (status == RESHARD_TIMEOUT) says(&s.players[r], "all-gather failed with 7");
  }
  pthread_barrier_destroy(&channel.barrier);
  scene_close(&s);
}

int main(void) {
  binds();
  unbound();
  steps();
  arguments();
  for (int calls = 0; calls <= 6; calls++) { /* opening is one, preparing two, waiting one */
    own_channel(RESHARD_STAGED, calls, calls < 4 ? 0 : (uint64_t)calls - 3);
    own_channel(RESHARD_FUSED, calls, calls < 4 ? 0 : (uint64_t)calls - 3);
  }
  swap_plans(RESHARD_STAGED);
  swap_plans(RESHARD_FUSED);
  return 0;
}
