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
#include <time.h>
#include <unistd.h>

#include "compiler/pipeline.h"
#include "tests/mpi/ranks.h"

#define LONG_BYTES 100000 /* more than an MPI sends before it is wanted */

/* Guards look at staging, so a rank that has them exchanges messages. */
enum way { SHARED, MESSAGES, BOTH, WAYS };

static struct scene {
  void *bytes;
  size_t size;
  struct stage stage;
  struct reshard_plan *plan;
} scene;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Rows to columns, strided, beside rows to other rows, which go from buffer to buffer; and all of it to both inference
 * ranks, of which each passes on to the other what it received. */
static const char train_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                                 "mesh g [tp: 2]; on g { buffer \"w\"[_ @tp, _]; buffer \"v\"[_ @tp, _]; }\n";
static const char cut_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                               "mesh g [tp: 2]; on g { buffer \"w\"[_, _ @tp]; buffer \"v\"[_ @tp, _]; }\n";
static const char copied_text[] = "tensor \"w\" bf16 [512, 1024]; tensor \"v\" f32 [128, 1024];\n"
                                  "mesh g [dp: 2]; on g { buffer \"w\" = permute(\"w\", 1, 0); buffer \"v\"; }\n";
static const char cluster_text[] = "reshard-cluster: 1\nlinks:\n  nvlink: {bandwidth: 450e9, latency: 2e-6}\n"
                                   "  network: {bandwidth: 50e9, latency: 5e-6}\n  memory: {bandwidth: 3.3e12}\n"
                                   "hosts:\n  - {names: \"t,i\", gpus: 2, nics: 2}\ntrain: t\ninfer: i\n";

static bool load(void *infer, const char *path, char **text, size_t *len) {
  *text = strdup(!strcmp(path, "train") ? train_text : !strcmp(path, "infer") ? (const char *)infer : cluster_text);
  *len = *text ? strlen(*text) : 0;
  return *text != NULL;
}

static void say(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)severity, (void)code;
  fputs(rendered, stderr);
}

static struct scene scene_of(const char *infer) {
  struct rsc_options options = {.train_path = "train",
                                .infer_path = "infer",
                                .cluster_path = "cluster",
                                .staging = 64 << 20,
                                .chunk = 400 << 10,
                                .max_ops = 1024,
                                .load = load,
                                .load_user = (void *)(uintptr_t)infer};
  struct rsc_result result = {0};
  struct scene made;
  CHECK(rsc_compile(&options, say, NULL, NULL, NULL, &result) == RSC_COMPILED, "compile");
  made.bytes = result.plan;
  made.size = result.plan_bytes;
  stage_open(&made.stage, made.bytes, made.size);
  CHECK(reshard_open_memory(made.bytes, made.size, &made.plan, NULL) == RESHARD_OK, "open");
  return made;
}

static void scene_close(struct scene *old) {
  reshard_close(old->plan);
  stage_close(&old->stage);
  free(old->bytes);
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

static void player_of(struct player *p, struct scene *at, enum way way, double timeout) {
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

int main(int argc, char **argv) {
  const char *infers[] = {cut_text, copied_text};
  ranks_init(&argc, &argv);
  CHECK(ranks_count == 4, "mpiexec -n 4");
  for (uint32_t i = 0; i < 2; i++) {
    scene = scene_of(infers[i]);
    right(SHARED);
    for (enum way way = 0; way < WAYS; way++) {
      nothing_left(way);
      right(way);
    }
    scene_close(&scene);
  }
  MPI_Finalize();
  return 0;
}
