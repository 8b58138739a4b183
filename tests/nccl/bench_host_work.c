/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of the nccl backend costs on the host: from opening the plan to being prepared, and a refit without a
 * graph. CUDA and NCCL do nothing, the agreement is with oneself, addresses are reserved and nobody touches them.
 *
 *   bench_nccl_host_work PLAN [RANK]     the least of five; without a rank: the one with the most messages
 *   bench_nccl_host_work                 a small plan, to see that it runs
 */
#include <string.h>
#include <time.h>

#include "plans/plan.h"
#include "runtime/reshard.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/reserved.h"

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static uint32_t world;

static int alone(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  (void)user, (void)timeout_seconds;
  for (uint32_t r = 0; r < world; r++) memcpy((char *)all + bytes * r, mine, bytes);
  return 0;
}

struct times {
  double open, bind, prepare, refit, close;
};

static void keep_least(struct times *least, const struct times *once) {
  double *to = &least->open;
  const double *from = &once->open;
  for (int i = 0; i < 5; i++) to[i] = to[i] == 0 || from[i] < to[i] ? from[i] : to[i];
}

static struct times measure(const char *path, uint32_t rank, const struct reshard_config *config, void *const *at) {
  struct times times = {0};
  struct reshard_plan *plan;
  struct reshard_context *context;
  struct reshard_fault fault;
  double t0 = now();
  CHECK(reshard_open(path, &plan, &fault) == RESHARD_OK, "%s", fault.what);
  CHECK(reshard_context_open(plan, rank, config, &context, &fault) == RESHARD_OK, "%s", fault.what);
  double t1 = now();
  bind_reserved(context, at);
  double t2 = now();
  enum reshard_status status = reshard_prepare(context);
  double t3 = now();
  reshard_last_fault(context, &fault);
  CHECK(status == RESHARD_OK, "%s", fault.what);
  CHECK(reshard_refit(context, NULL) == RESHARD_OK, "refit");
  double t4 = now();
  CHECK(reshard_wait(context) == RESHARD_OK, "wait");
  double t5 = now();
  reshard_context_close(context);
  reshard_close(plan);
  times = (struct times){t1 - t0, t2 - t1, t3 - t2, t4 - t3, now() - t5};
  return times;
}

/* Sends, receives and launches of a refit: an upper end of what a plan says, as launches are counted by round. */
static uint64_t messages_of(const struct rsp_program *p) {
  uint64_t count = 0;
  for (uint64_t s = 0; s < p->slice->streams.count; s++) {
    const struct rsp_stream *stream = &p->streams[s];
    if (stream->dir == RSP_DIR_OUT || stream->dir == RSP_DIR_IN) count += rsp_stream_rounds(stream);
  }
  return count;
}

static uint32_t busiest(const char *path) {
  uint32_t best = 0;
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < world; rank++) {
    struct rsp_rank_view view;
    struct rsp_error error;
    CHECK(rsp_rank_open(path, rank, &view, &error) == RSP_OK, "%s", error.text);
    uint64_t count = messages_of(&view.program);
    if (count > most) most = count, best = rank;
    rsp_rank_close(&view);
  }
  return best;
}

int main(int argc, char **argv) {
  char small[4096];
  CHECK(argc > 1 || tiny_file(small, sizeof small), "cannot write a plan");
  const char *path = argc > 1 ? argv[1] : small;
  struct reshard_plan *plan;
  struct reshard_plan_info info;
  struct reshard_config config;
  CHECK(reshard_open(path, &plan, NULL) == RESHARD_OK, "%s", path);
  reshard_plan_get(plan, &info);
  world = info.world;
  reshard_config_init(&config);
  config.backend = RESHARD_NCCL;
  config.all_gather = alone;
  config.cuda_library = config.nccl_library = NULL_DEVICE;
  uint32_t rank = argc > 2 ? (uint32_t)atoi(argv[2]) : busiest(path);
  void **at = reserve_buffers(path, rank);
  struct times graph = {0}, plain = {0};
  for (int i = 0; i < 5; i++) {
    struct times once = measure(path, rank, &config, at);
    keep_least(&graph, &once);
    config.flags = RESHARD_NO_GRAPH;
    once = measure(path, rank, &config, at);
    keep_least(&plain, &once);
    config.flags = 0;
  }
  struct rsp_rank_view view;
  struct rsp_error error;
  CHECK(rsp_rank_open(path, rank, &view, &error) == RSP_OK, "%s", error.text);
  uint64_t messages = messages_of(&view.program);
  printf("rank %u of %u, %u rounds, at least %llu sends and receives; milliseconds of CPU time, least of 5:\n", rank,
         world, info.rounds, (unsigned long long)messages);
  printf("  open and context %.2f, bind %.2f, prepare %.2f (with a graph %.2f), close %.2f\n", plain.open * 1e3,
         plain.bind * 1e3, plain.prepare * 1e3, graph.prepare * 1e3, plain.close * 1e3);
  printf("  refit without a graph %.2f: %.0f ns for each send or receive; with one %.4f\n", plain.refit * 1e3,
         messages ? plain.refit * 1e9 / (double)messages : 0, graph.refit * 1e3);
  rsp_rank_close(&view);
  free(at);
  reshard_close(plan);
  if (argc <= 1) remove(path);
  return 0;
}
