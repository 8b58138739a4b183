/* SPDX-License-Identifier: Apache-2.0
 *
 * Long messages, which MPI does not send before they are wanted: what a failed refit leaves under way must be ended, or
 * it stays for ever. Plans between ranks that share memory, that exchange messages, and both; refits that are
 * torn in every round by every rank; then buffers elsewhere, the old ones given back, and a refit that must be right.
 *
 *   test_mpi_torn
 */
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/mpi/long.h"

#define LONG_BYTES 100000 /* more than an MPI sends before it is wanted */

/* Guards look at staging, so a rank that has them exchanges messages. */
enum way { SHARED, MESSAGES, BOTH, WAYS };

static struct long_plan scene;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* The longest turn of any staged stream. */
static uint64_t longest(const struct rsp_plan *plan) {
  uint64_t most = 0;
  for (uint32_t w = 0; w < plan->header->world; w++) {
    struct rsp_program p;
    rsp_program_of(plan, w, &p);
    for (uint64_t s = 0; s < p.slice->streams.count; s++) {
      const struct rsp_stream *stream = &p.streams[s];
      uint64_t bytes = stream->bytes < stream->quantum ? stream->bytes : stream->quantum;
      if (stream->dir == RSP_DIR_OUT && stream->kind == RSP_KIND_STAGED && bytes > most) most = bytes;
    }
  }
  return most;
}

static void player_of(struct player *p, struct long_plan *at, enum way way, double timeout) {
  ranks_player(p, &at->stage, at->plan, (uint32_t)ranks_self, NULL);
  p->config.timeout_seconds = timeout;
  if (way == MESSAGES || (way == BOTH && ranks_self == 1)) p->config.flags = RESHARD_GUARD;
}

static void right(enum way way) {
  struct player p;
  player_of(&p, &scene, way, 60);
  ranks_fill(&scene.stage, p.rank, 4 + way);
  p.refits = 2;
  play_alone(&p);
  CHECK(p.version == 2, "rank %d, way %d: %s", ranks_self, (int)way, p.fault.what);
  CHECK(!stage_check(&scene.stage), "rank %d, way %d: %s", ranks_self, (int)way, stage_check(&scene.stage));
  reshard_context_close(p.context);
}

/* Other buffers, and what was there is given back. */
static void move(void) {
  struct stage old = scene.stage;
  stage_open(&scene.stage, scene.bytes, scene.size);
  stage_close(&old);
}

static void torn(enum way way, uint32_t victim, uint32_t round) {
  struct player p;
  double since = now();
  player_of(&p, &scene, way, 60);
  if (p.rank == victim) p.config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_FAIL, .round = round};
  play_alone(&p);
  CHECK(p.refitted == RESHARD_PEER_FAILED && p.version == 0, "rank %u, way %d: %d %s", p.rank, (int)way,
        (int)p.refitted, p.fault.what);
  CHECK(p.fault.rank == victim, "rank %u blames %u", p.rank, p.fault.rank);
  reshard_context_close(p.context);
  CHECK(now() - since < 30, "rank %u, way %d: %g s", p.rank, (int)way, now() - since);
  move();
}

/* Files and mappings of this process: rings are both. */
static size_t entries(const char *path, bool lines) {
  size_t count = 0;
  if (!lines) {
    DIR *dir = opendir(path);
    CHECK(dir, "%s", path);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
  }
  FILE *file = fopen(path, "r");
  CHECK(file, "%s", path);
  for (char line[4096]; fgets(line, sizeof line, file);) count += strstr(line, "reshard-") != NULL;
  fclose(file);
  return count;
}

/* Every rank in turn, in the first rounds. */
static void all_torn(enum way way) {
  uint32_t rounds = scene.stage.plan.header->rounds;
  CHECK(rounds >= 2 && longest(&scene.stage.plan) >= LONG_BYTES, "the plan has %u rounds, turns of %llu bytes", rounds,
        (unsigned long long)longest(&scene.stage.plan));
  for (uint32_t round = 0; round < rounds && round < 3; round++) {
    for (uint32_t victim = 0; victim < 4; victim++) torn(way, victim, round);
  }
}

/* Staging of a context that cannot end stays; so it does if a message is never taken or a receive never cancelled. */
static void nothing_left(enum way way) {
  all_torn(way);
  size_t heap = ranks_heap(), files = entries("/proc/self/fd", false);
  all_torn(way);
  CHECK(ranks_heap() < heap + LONG_BYTES, "rank %d, way %d: %zu bytes more", ranks_self, (int)way, ranks_heap() - heap);
  CHECK(entries("/proc/self/fd", false) <= files, "rank %d, way %d: files stay open", ranks_self, (int)way);
  CHECK(entries("/proc/self/maps", true) == 0, "rank %d, way %d: rings stay", ranks_self, (int)way);
}

/* Refits of two plans at once, of which neither can end before the other has moved on. */
static void two_at_once(enum way way) {
  struct long_plan other = long_open(1);
  struct player a, b;
  player_of(&a, &scene, way, 60);
  player_of(&b, &other, way, 60);
  ranks_fill(&scene.stage, a.rank, 20);
  ranks_fill(&other.stage, b.rank, 21);
  a.hold = b.hold = 1;
  play_alone(&a);
  play_alone(&b);
  CHECK(reshard_refit(a.context, NULL) == RESHARD_WRONG_STATE, "a refit during a refit");
  enum reshard_status x = RESHARD_PENDING, y = RESHARD_PENDING;
  while (x == RESHARD_PENDING || y == RESHARD_PENDING) {
    if (ranks_self % 2 == 0) x = reshard_query(a.context);
    y = reshard_query(b.context);
    x = reshard_query(a.context);
  }
  CHECK(reshard_wait(a.context) == RESHARD_OK && reshard_wait(b.context) == RESHARD_OK, "%d %d", (int)x, (int)y);
  CHECK(!stage_check(&scene.stage) && !stage_check(&other.stage), "rank %d, way %d", ranks_self, (int)way);
  reshard_context_close(a.context);
  reshard_context_close(b.context);
  long_close(&other);
}

/* What is wrong may be passed on. */
static void flips(uint32_t rank) {
  struct player p;
  player_of(&p, &scene, SHARED, 60);
  ranks_fill(&scene.stage, p.rank, 30);
  if (p.rank == rank) p.config.inject = (struct reshard_inject){.kind = RESHARD_INJECT_FLIP, .round = 1};
  play_alone(&p);
  CHECK(p.version == 1, "rank %u: %s", p.rank, p.fault.what);
  CHECK(p.rank != rank || stage_check(&scene.stage), "rank %u is to have a wrong byte", rank);
  reshard_context_close(p.context);
  move();
}

/* A process that may make no long file is not ended by a signal. */
static void right_within(rlim_t file_bytes) {
  struct rlimit old, low;
  CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0, "the limit");
  low = (struct rlimit){file_bytes, old.rlim_max};
  if (ranks_self == 0) CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0, "a limit");
  right(SHARED);
  CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0, "the limit");
}

int main(int argc, char **argv) {
  ranks_init(&argc, &argv);
  CHECK(ranks_count == LONG_WORLD, "mpiexec -n 4");
  for (uint32_t i = 0; i < 2; i++) {
    scene = long_open(i);
    for (enum way way = 0; way < WAYS; way++) {
      nothing_left(way);
      right(way);
      if (i == 0 && way != BOTH) two_at_once(way);
    }
    for (uint32_t rank = 2; rank < 4; rank++) flips(rank);
    right_within(100 << 10);
    long_close(&scene);
  }
  MPI_Finalize();
  return 0;
}
