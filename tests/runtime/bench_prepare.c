/* SPDX-License-Identifier: Apache-2.0
 *
 * What opening a plan and a context and preparing it cost one rank, by backend: CPU time of the thread that calls. The
 * agreement is with oneself, of the buffers nothing but padding is touched; touching the pages of staging, which refits
 * do, is a line of its own. CUDA, NCCL and MPI do nothing. On the host backend all ranks are there, each in a thread of
 * its own, as a fused rank joins its copies with the programs of its peers; what is measured is the one rank's thread.
 *
 *   bench_prepare PLAN [RANK]...     the least of five, of two for the host backend
 *   bench_prepare                    a small plan, to see that it runs
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "plans/plan.h"
#include "runtime/reshard.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/reserved.h"
#ifdef ALONE_MPI
#include "tests/mpi/alone.h"
#endif

static uint32_t world;
static const char *path;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static int alone(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  (void)user, (void)timeout_seconds;
  for (uint32_t r = 0; r < world; r++) memcpy((char *)all + bytes * r, mine, bytes);
  return 0;
}

struct times {
  double open, bind, prepare;
};

static void keep_least(struct times *least, const struct times *once) {
  if (least->open == 0 || once->open < least->open) least->open = once->open;
  if (least->bind == 0 || once->bind < least->bind) least->bind = once->bind;
  if (least->prepare == 0 || once->prepare < least->prepare) least->prepare = once->prepare;
}

static void print(const char *what, const struct times *t) {
  printf("  %-22s open and context %6.2f, bind %5.2f, prepare %6.2f: together %6.2f\n", what, t->open * 1e3,
         t->bind * 1e3, t->prepare * 1e3, (t->open + t->bind + t->prepare) * 1e3);
}

static struct times measure(uint32_t rank, const struct reshard_config *config, void *const *at) {
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
  CHECK(status == RESHARD_OK, "rank %u: %s", rank, fault.what);
  reshard_context_close(context);
  reshard_close(plan);
  return (struct times){t1 - t0, t2 - t1, t3 - t2};
}

static void measure_alone(const char *what, uint32_t rank, const struct reshard_config *config, void *const *at) {
  struct times least = {0};
  for (int i = 0; i < 5; i++) {
    struct times once = measure(rank, config, at);
    keep_least(&least, &once);
  }
  print(what, &least);
}

/* ---- the host backend: all ranks --------------------------------------------------------------------------------- */

struct seat {
  struct reshard_config config;
  uint32_t rank;
  void **at;
  struct times times;
};

static void *sit(void *user) {
  struct seat *seat = user;
  seat->times = measure(seat->rank, &seat->config, seat->at);
  return NULL;
}

static struct times measure_host(uint32_t rank, enum reshard_mode mode, void **const *at) {
  struct seat *seats = calloc(world, sizeof *seats);
  pthread_t *threads = calloc(world, sizeof *threads);
  struct reshard_host_group *group;
  CHECK(seats && threads && reshard_host_group_new(world, &group) == RESHARD_OK, "memory");
  for (uint32_t r = 0; r < world; r++) {
    seats[r] = (struct seat){.rank = r, .at = at[r]};
    reshard_config_init(&seats[r].config);
    seats[r].config.backend = RESHARD_HOST;
    seats[r].config.mode = mode;
    seats[r].config.group = group;
    seats[r].config.timeout_seconds = 300;
    CHECK(pthread_create(&threads[r], NULL, sit, &seats[r]) == 0, "threads");
  }
  for (uint32_t r = 0; r < world; r++) pthread_join(threads[r], NULL);
  struct times times = seats[rank].times;
  reshard_host_group_free(group);
  free(threads);
  free(seats);
  return times;
}

static void measure_both(uint32_t rank, void **const *at) {
  struct times staged = {0}, fused = {0};
  for (int i = 0; i < 2; i++) {
    struct times once = measure_host(rank, RESHARD_STAGED, at);
    keep_least(&staged, &once);
    once = measure_host(rank, RESHARD_FUSED, at);
    keep_least(&fused, &once);
  }
  print("host, staged", &staged);
  print("host, fused", &fused);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void touch_staging(uint32_t rank) {
  struct rsp_rank_view view;
  struct rsp_error error;
  CHECK(rsp_rank_open(path, rank, &view, &error) == RSP_OK, "%s", error.text);
  uint64_t bytes = view.program.slice->staging, streams = view.program.slice->streams.count;
  void *staging;
  CHECK(posix_memalign(&staging, 4096, bytes + 4096) == 0, "memory");
  double t0 = now();
  for (uint64_t at = 0; at < bytes; at += 4096) ((volatile char *)staging)[at] = 1;
  printf("rank %u of %u: %llu streams, %u rounds; milliseconds of CPU time:\n", rank, world,
         (unsigned long long)streams, view.program.slice->rounds);
  printf("  touching the pages of %.0f MB of staging %.2f\n", (double)bytes * 1e-6, (now() - t0) * 1e3);
  free(staging);
  rsp_rank_close(&view);
}

static void measure_rank(uint32_t rank, void **const *at) {
  struct reshard_config config;
  reshard_config_init(&config);
  touch_staging(rank);
  config.backend = RESHARD_NCCL;
  config.all_gather = alone;
  config.cuda_library = config.nccl_library = NULL_DEVICE;
  measure_alone("nccl", rank, &config, at[rank]);
  config.flags = RESHARD_NO_GRAPH;
  measure_alone("nccl, no graph", rank, &config, at[rank]);
  config.flags = RESHARD_VERIFY;
  measure_alone("nccl, verified", rank, &config, at[rank]);
#ifdef ALONE_MPI
  reshard_config_init(&config);
  config.backend = RESHARD_MPI;
  alone_mpi_is(path, rank);
  measure_alone("mpi", rank, &config, at[rank]);
#endif
  measure_both(rank, at);
}

int main(int argc, char **argv) {
  char small[4096];
  CHECK(argc > 1 || tiny_file(small, sizeof small), "cannot write a plan");
  path = argc > 1 ? argv[1] : small;
  struct reshard_plan *plan;
  struct reshard_plan_info info;
  CHECK(reshard_open(path, &plan, NULL) == RESHARD_OK, "%s", path);
  reshard_plan_get(plan, &info);
  world = info.world;
  void ***at = calloc(world, sizeof *at);
  CHECK(at, "memory");
  for (uint32_t r = 0; r < world; r++) at[r] = reserve_buffers(path, r);
  if (argc <= 2) measure_rank(0, at);
  for (int i = 2; i < argc; i++) measure_rank((uint32_t)strtoul(argv[i], NULL, 10) % world, at);
  for (uint32_t r = 0; r < world; r++) free(at[r]);
  free(at);
  reshard_close(plan);
  if (argc <= 1) remove(path);
  return 0;
}
