/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that a rank should not make, and those around them: wrong buffers, wrong arguments, buffers not bound, ranks
 * out of step; and the change to another plan, which is right only in order.
 */
#include <pthread.h>
#include <stdlib.h>
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
  swap_plans(RESHARD_STAGED);
  swap_plans(RESHARD_FUSED);
  binds();
  unbound();
  steps();
  arguments();
  return 0;
}
