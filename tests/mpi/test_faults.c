/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong on a rank, one process per rank: it ends in an error on every live rank, soon, with the right words
 * and no version; and the next context of the same processes works. Three ranks.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/mpi/ranks.h"
#include "tests/plan/tiny.h"

static struct scene {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
  MPI_Comm comm;
} scene;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void meet(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static void scene_open(enum tiny_form form) {
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init_form(tiny, form);
  CHECK(tiny_build(tiny, &scene.bytes, &scene.size), "tiny");
  free(tiny);
  stage_open(&scene.stage, scene.bytes, scene.size);
  CHECK(reshard_open_memory(scene.bytes, scene.size, &scene.plan, NULL) == RESHARD_OK, "open");
}

static void scene_close(void) {
  reshard_close(scene.plan);
  stage_close(&scene.stage);
  free(scene.bytes);
}

static void player_of(struct player *player, double timeout) {
  ranks_player(player, &scene.stage, scene.plan, (uint32_t)ranks_self, &scene.comm);
  player->config.timeout_seconds = timeout;
}

static void says(const struct player *p, const char *word) {
  CHECK(strstr(p->fault.what, word), "rank %u says '%s', without '%s'", p->rank, p->fault.what, word);
}

/* Whatever happened before. */
static void works(void) {
  struct player p;
  meet();
  ranks_fill(&scene.stage, (uint32_t)ranks_self, 4);
  player_of(&p, 30);
  play_alone(&p);
  CHECK(p.version == 1, "rank %d: %s", ranks_self, p.fault.what);
  reshard_context_close(p.context);
  CHECK(!stage_check(&scene.stage), "%s", stage_check(&scene.stage));
  meet();
}

/* The player's refit failed here; soon. */
static void failed(struct player *p, enum reshard_status status, double since) {
  CHECK(p->refitted == status, "rank %u: %d, not %d: %s", p->rank, (int)p->refitted, (int)status, p->fault.what);
  CHECK(p->version == 0, "rank %u has version %llu", p->rank, (unsigned long long)p->version);
  CHECK(now() - since < 10, "rank %u took %g s", p->rank, now() - since);
  CHECK(reshard_refit(p->context, NULL) == RESHARD_WRONG_STATE, "rank %u goes on", p->rank);
  reshard_context_close(p->context);
  works();
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static void plans_differ(void) {
  struct reshard_plan *other;
  void *bytes = malloc(scene.size);
  struct player p;
  char id[33];
  CHECK(bytes, "memory");
  memcpy(bytes, scene.bytes, scene.size);
  ((struct rsp_header *)bytes)->chunk ^= 1; /* one bit, and sealed again */
  CHECK(rsp_reseal(bytes, scene.size), "reseal");
  CHECK(reshard_open_memory(bytes, scene.size, &other, NULL) == RESHARD_OK, "open");
  player_of(&p, 30);
  if (ranks_self == 2) p.plan = other;
  play_alone(&p);
  CHECK(p.opened == RESHARD_PLAN_DIFFERS, "rank %d: %d", ranks_self, (int)p.opened);
  rsp_id_text(((const struct rsp_header *)bytes)->plan_id, id);
  says(&p, id);
  rsp_id_text(((const struct rsp_header *)scene.bytes)->plan_id, id);
  says(&p, id);
  reshard_close(other);
  free(bytes);
  works();
}

/* Rank `absent` comes when the others have given up; if `fresh`, for the first context of a communicator. */
static void never_comes(int absent, int fresh) {
  MPI_Comm used = scene.comm;
  struct player p;
  if (fresh) MPI_Comm_dup(MPI_COMM_WORLD, &scene.comm);
  meet();
  double since = now();
  player_of(&p, 0.3);
  if (ranks_self != absent) {
    play_alone(&p);
    CHECK(p.opened == RESHARD_TIMEOUT, "rank %d: %d %s", ranks_self, (int)p.opened, p.fault.what);
    says(&p, "context_open: ");
    char who[64];
    snprintf(who, sizeof who, "world rank(s) %d did not arrive", absent);
    if (!fresh) says(&p, who);
    CHECK(now() - since < 5, "rank %d took %g s", ranks_self, now() - since);
  }
  works();
  works();
  if (fresh) MPI_Comm_free(&scene.comm);
  scene.comm = used;
}

/* All but one give up again and again, and go on at once. */
static void comes_late(void) {
  struct player p;
  enum reshard_status wants;
  meet();
  if (ranks_self == 1) usleep(700000);
  do {
    player_of(&p, 0.2);
    ranks_fill(&scene.stage, p.rank, 5);
    play_alone(&p);
    reshard_context_close(p.context);
    wants = p.opened ? p.opened : p.prepared ? p.prepared : p.refitted;
  } while (wants == RESHARD_TIMEOUT || wants == RESHARD_PEER_FAILED);
  CHECK(p.version == 1, "rank %d: %d %s", ranks_self, (int)p.opened, p.fault.what);
  CHECK(!stage_check(&scene.stage), "%s", stage_check(&scene.stage));
  works();
}

static void flags_differ(void) {
  struct player p;
  player_of(&p, 30);
  if (ranks_self == 1) p.config.flags = RESHARD_VERIFY;
  play_alone(&p);
  CHECK(p.opened == RESHARD_INVALID_ARGUMENT, "rank %d: %d", ranks_self, (int)p.opened);
  says(&p, "staged with verify");
  works();
}

static void wrong_world(void) {
  MPI_Comm pair;
  struct player p;
  MPI_Comm_split(MPI_COMM_WORLD, ranks_self == 0, 0, &pair);
  player_of(&p, 30);
  p.config.mpi_comm = &pair;
  play_alone(&p);
  CHECK(p.opened == RESHARD_INVALID_ARGUMENT, "rank %d: %d", ranks_self, (int)p.opened);
  says(&p, "world has 3 ranks");
  CHECK(!strstr(p.fault.what, "another MPI"), "%s", p.fault.what);
  p.config.mpi_comm = &scene.comm;
  p.rank = (p.rank + 1) % 3;
  p.fault.what[0] = 0;
  play_alone(&p);
  CHECK(p.opened == RESHARD_INVALID_ARGUMENT, "rank %d: %d", ranks_self, (int)p.opened);
  says(&p, "of the communicator");
  MPI_Comm_free(&pair);
  works();
}

/* One process alone, as each is under the mpiexec of another MPI. */
static int alone(void) {
  struct player p;
  scene_open(TINY_PLAIN);
  player_of(&p, 30);
  play_alone(&p);
  CHECK(p.opened == RESHARD_INVALID_ARGUMENT, "%d", (int)p.opened);
  says(&p, "start 3 processes (mpiexec -n 3); if");
  says(&p, "that of another MPI");
  char built[61];
  snprintf(built, sizeof built, "%s", reshard_mpi_version());
  says(&p, built);
  scene_close();
  MPI_Finalize();
  return 0;
}

static void no_memory(void) {
  struct player p;
  player_of(&p, 30);
  if (ranks_self == 1) p.config.inject.kind = RESHARD_INJECT_NO_MEMORY;
  play_alone(&p);
  CHECK(p.prepared == (ranks_self == 1 ? RESHARD_NO_MEMORY : RESHARD_PEER_FAILED), "rank %d: %d", ranks_self,
        (int)p.prepared);
  says(&p, "cannot allocate");
  reshard_context_close(p.context);
  works();
}

/* A rank that cannot bind closes its context: the others hear of it in prepare. */
static void wrong_size(void) {
  struct player p;
  struct reshard_buffer_info info;
  double since = now();
  player_of(&p, 30);
  CHECK(reshard_context_open(p.plan, p.rank, &p.config, &p.context, &p.fault) == RESHARD_OK, "%s", p.fault.what);
  if (ranks_self == 1) {
    CHECK(reshard_buffer_get(p.context, 0, &info) == RESHARD_OK, "buffer");
    enum reshard_status bound =
        reshard_bind_n(p.context, info.side, info.name, info.name_bytes, scene.stage.memory[1][0], info.bytes + 4);
    CHECK(bound == RESHARD_WRONG_SIZE, "%d", (int)bound);
  } else {
    CHECK(bind_all(p.context, &scene.stage, p.rank) == RESHARD_OK, "bind");
    CHECK(reshard_prepare(p.context) == RESHARD_PEER_FAILED, "prepare");
    reshard_last_fault(p.context, &p.fault);
    says(&p, "world rank 1 has closed its context");
    CHECK(now() - since < 5, "rank %d took %g s", ranks_self, now() - since);
  }
  reshard_context_close(p.context);
  works();
}

/* Slices that are sound each, but rank 2 receives what rank 1 does not send. */
static void no_fit(void) {
  struct scene one = scene;
  struct player p;
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  tiny_init(tiny);
  for (uint64_t i = 0; i < tiny->slices[2].stream_count; i++) {
    struct rsp_stream *in = &tiny->slice[2].streams[i];
    if (in->peer != 1) continue;
    in->quantum = in->slot_stride = 16;
    in->slots = 1;
  }
  CHECK(tiny_build(tiny, &scene.bytes, &scene.size), "tiny");
  free(tiny);
  stage_open(&scene.stage, scene.bytes, scene.size);
  CHECK(reshard_open_memory(scene.bytes, scene.size, &scene.plan, NULL) == RESHARD_OK, "open");
  player_of(&p, 30);
  play_alone(&p);
  CHECK(p.prepared == (ranks_self == 2 ? RESHARD_BAD_PLAN : RESHARD_PEER_FAILED), "rank %d: %d %s", ranks_self,
        (int)p.prepared, p.fault.what);
  says(&p, "do not fit together");
  reshard_context_close(p.context);
  scene_close();
  scene = one;
  works();
}

/* ---- refits ------------------------------------------------------------------------------------------------------ */

static void dies(int rank) {
  struct player p;
  meet();
  double since = now();
  player_of(&p, 0.5);
  if (ranks_self == rank) p.config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_DIE, .round = 0};
  p.hold = ranks_self == rank; /* it says no word to the others either, until they have given up */
  play_alone(&p);
  if (ranks_self == rank) {
    while (reshard_query(p.context) == RESHARD_PENDING) {
    }
    usleep(1500000);
    p.refitted = reshard_wait(p.context);
  }
  failed(&p, ranks_self == rank ? RESHARD_PEER_FAILED : RESHARD_TIMEOUT, since);
}

static void fails(int rank, uint32_t round) {
  struct player p;
  double since = now();
  player_of(&p, 30);
  if (ranks_self == rank) p.config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_FAIL, .round = round};
  play_alone(&p);
  says(&p, "was made to fail");
  CHECK(p.fault.rank == (uint32_t)rank, "rank %d blames %u", ranks_self, p.fault.rank);
  failed(&p, RESHARD_PEER_FAILED, since);
}

static void stalls(void) {
  struct player p;
  double since = now();
  player_of(&p, 30);
  if (ranks_self == 0) p.config.inject = (struct reshard_inject){RESHARD_INJECT_STALL, 0, 0.3};
  play_alone(&p);
  CHECK(p.version == 1, "%s", p.fault.what);
  reshard_context_close(p.context);
  player_of(&p, 0.4);
  if (ranks_self == 0) p.config.inject = (struct reshard_inject){RESHARD_INJECT_STALL, 0, 50};
  play_alone(&p);
  failed(&p, RESHARD_TIMEOUT, since);
}

/* Two ranks take longer than the timeout, a little at a time; the one that has done its part hears that they move on.
 */
static void slow(void) {
  struct player p;
  ranks_fill(&scene.stage, (uint32_t)ranks_self, 13);
  meet();
  double since = now();
  player_of(&p, 2);
  p.hold = 1;
  play_alone(&p);
  enum reshard_status status = ranks_self == 0 ? RESHARD_OK : RESHARD_PENDING;
  while (status == RESHARD_PENDING) {
    usleep(600000);
    status = reshard_query(p.context);
  }
  status = reshard_wait(p.context);
  reshard_last_fault(p.context, &p.fault);
  CHECK(status == RESHARD_OK && reshard_version(p.context) == 1, "rank %d: %s", ranks_self, p.fault.what);
  CHECK(now() - since > 2, "it took %g s: nothing was tried", now() - since);
  CHECK(!stage_check(&scene.stage), "%s", stage_check(&scene.stage));
  reshard_context_close(p.context);
  works();
}

/* A rank is in no call at all while the others wait for it, give up and go on; then it comes. */
static void sleeps(int rank) {
  struct player p;
  meet();
  double since = now();
  player_of(&p, 0.4);
  p.hold = 1; /* no wait */
  play_alone(&p);
  CHECK(p.refitted == RESHARD_OK, "%s", p.fault.what);
  if (ranks_self == rank) usleep(2500000);
  p.refitted = reshard_wait(p.context);
  failed(&p, RESHARD_TIMEOUT, since);
}

static void flips(int rank) {
  struct player p;
  double since = now();
  player_of(&p, 30);
  p.config.flags = RESHARD_VERIFY;
  if (ranks_self == rank) p.config.inject = (struct reshard_inject){RESHARD_INJECT_FLIP, 0, 0};
  play_alone(&p);
  if (ranks_self == rank) CHECK(p.fault.buffer[0] && p.fault.round == 0 && p.fault.peer != RESHARD_NO_RANK, "names");
  failed(&p, ranks_self == rank ? RESHARD_CORRUPT : RESHARD_PEER_FAILED, since);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void refit_during_refit(void) {
  struct player p;
  ranks_fill(&scene.stage, (uint32_t)ranks_self, 6);
  player_of(&p, 30);
  p.hold = 1;
  play_alone(&p);
  CHECK(reshard_refit(p.context, NULL) == RESHARD_WRONG_STATE, "a second refit");
  CHECK(reshard_prepare(p.context) == RESHARD_WRONG_STATE, "prepare during a refit");
  enum reshard_status status;
  while ((status = reshard_query(p.context)) == RESHARD_PENDING) {
  }
  CHECK(status == RESHARD_OK && reshard_version(p.context) == 0, "query");
  CHECK(reshard_wait(p.context) == RESHARD_OK && reshard_version(p.context) == 1, "wait");
  CHECK(!stage_check(&scene.stage), "%s", stage_check(&scene.stage));
  reshard_context_close(p.context);
  works();
}

/* Every buffer goes somewhere else; what was there is freed. */
static void rebound(void) {
  struct player p;
  ranks_fill(&scene.stage, (uint32_t)ranks_self, 7);
  player_of(&p, 30);
  play_alone(&p);
  CHECK(p.version == 1, "%s", p.fault.what);
  struct stage old = scene.stage;
  stage_open(&scene.stage, scene.bytes, scene.size);
  stage_close(&old);
  ranks_fill(&scene.stage, p.rank, 8);
  CHECK(bind_all(p.context, &scene.stage, p.rank) == RESHARD_OK, "bind");
  CHECK(reshard_refit(p.context, NULL) == RESHARD_WRONG_STATE, "refit without prepare");
  CHECK(reshard_prepare(p.context) == RESHARD_OK, "prepare");
  CHECK(reshard_refit(p.context, NULL) == RESHARD_OK && reshard_wait(p.context) == RESHARD_OK, "refit");
  CHECK(reshard_version(p.context) == 2, "version");
  CHECK(!stage_check(&scene.stage), "%s", stage_check(&scene.stage));
  reshard_context_close(p.context);
  works();
}

/* Two plans at once; each rank waits for them in an order of its own. */
static void two_contexts(void) {
  struct scene one = scene;
  struct player a, b;
  scene_open(TINY_RELAY_STAGED);
  struct scene two = scene;
  two.comm = one.comm;
  ranks_fill(&one.stage, (uint32_t)ranks_self, 9);
  ranks_fill(&two.stage, (uint32_t)ranks_self, 10);
  ranks_player(&a, &one.stage, one.plan, (uint32_t)ranks_self, &one.comm);
  ranks_player(&b, &two.stage, two.plan, (uint32_t)ranks_self, &two.comm);
  a.hold = b.hold = 1;
  play_alone(&a);
  play_alone(&b);
  for (int refit = 1; refit <= 3; refit++) {
    bool first = (ranks_self + refit) % 2;
    /* Neither can end without the other ranks: who waits for one lets the other go on only in query. */
    enum reshard_status x = RESHARD_PENDING, y = RESHARD_PENDING;
    while (x == RESHARD_PENDING || y == RESHARD_PENDING) {
      if (first || y != RESHARD_PENDING) x = reshard_query(a.context);
      y = reshard_query(b.context);
      first = true;
    }
    CHECK(x == RESHARD_OK && y == RESHARD_OK, "refit %d: %d %d", refit, (int)x, (int)y);
    CHECK(reshard_wait(a.context) == RESHARD_OK && reshard_wait(b.context) == RESHARD_OK, "wait");
    CHECK(!stage_check(&one.stage) && !stage_check(&two.stage), "refit %d", refit);
    if (refit == 3) break;
    CHECK(reshard_refit(b.context, NULL) == RESHARD_OK && reshard_refit(a.context, NULL) == RESHARD_OK, "refit");
  }
  reshard_context_close(a.context);
  reshard_context_close(b.context);
  scene = two;
  scene_close();
  scene = one;
  works();
}

/* To the plan of another topology, and back. */
static void swapped(void) {
  struct scene one = scene;
  struct player p;
  scene_open(TINY_RELAY_STAGED);
  struct scene two = scene;
  scene = one;
  ranks_fill(&one.stage, (uint32_t)ranks_self, 11);
  player_of(&p, 30);
  play_alone(&p);
  CHECK(p.version == 1, "%s", p.fault.what);
  CHECK(reshard_swap(p.context, two.plan) == RESHARD_OK, "swap");
  ranks_fill(&two.stage, p.rank, 12);
  CHECK(bind_all(p.context, &two.stage, p.rank) == RESHARD_OK, "bind");
  CHECK(reshard_prepare(p.context) == RESHARD_OK, "prepare");
  CHECK(reshard_refit(p.context, NULL) == RESHARD_OK && reshard_wait(p.context) == RESHARD_OK, "refit");
  CHECK(reshard_version(p.context) == 2, "version");
  CHECK(!stage_check(&two.stage), "%s", stage_check(&two.stage));
  reshard_context_close(p.context);
  scene = two;
  scene_close();
  scene = one;
  works();
}

/* ---- the library's own MPI --------------------------------------------------------------------------------------- */

static void gathers(void) {
  uint32_t rank, size, mine = 100 + (uint32_t)ranks_self, all[3];
  struct reshard_fault fault;
  CHECK(reshard_mpi_init(&rank, &size, &fault) == RESHARD_OK, "%s", fault.what);
  CHECK(rank == (uint32_t)ranks_self && size == 3, "rank %u of %u", rank, size);
  CHECK(reshard_mpi_version(), "version");
  for (int i = 0; i < 3; i++) {
    CHECK(reshard_mpi_all_gather(NULL, &mine, sizeof mine, all, 30) == 0, "gather");
    CHECK(all[0] == 100 && all[1] == 101 && all[2] == 102, "words");
    meet();
    if (ranks_self != 1) {
      int status = reshard_mpi_all_gather(&fault, &mine, sizeof mine, all, 0.3);
      CHECK(status == RESHARD_TIMEOUT, "%d %s", status, fault.what);
    }
    meet();
  }
}

int main(int argc, char **argv) {
  ranks_init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &scene.comm);
  if (ranks_count == 1) return alone();
  CHECK(ranks_count == TINY_WORLD, "mpiexec -n %d", TINY_WORLD);
  scene_open(TINY_PLAIN);
  works();
  plans_differ();
  for (int rank = 0; rank < 3; rank++) never_comes(rank, rank == 1);
  comes_late();
  flags_differ();
  wrong_world();
  no_memory();
  wrong_size();
  no_fit();
  slow();
  for (int rank = 0; rank < 3; rank++) {
    dies(rank);
    for (uint32_t round = 0; round < 2; round++) fails(rank, round);
    sleeps(rank);
  }
  stalls();
  flips(1);
  flips(2);
  refit_during_refit();
  rebound();
  two_contexts();
  swapped();
  gathers();
  scene_close();
  MPI_Comm_free(&scene.comm);
  MPI_Finalize();
  return 0;
}
