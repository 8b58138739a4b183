/* SPDX-License-Identifier: Apache-2.0
 *
 * test_device_rounds PLAN: the plan through the nccl backend, every rank a process, all of them on the first GPU; every
 * inference buffer must be, bit for bit, what the host backend makes of the same training buffers. NCCL from 2.30 on
 * lets ranks share a GPU. Exit 0; 1: something is wrong; 77 (skipped): one line says what there is no way to do here.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/hash.h"
#include "runtime/cuda_api.h"
#include "tests/check.h"

#define WORD_ROOM 1024u /* bytes that a rank says at once, at most */
#define BUFFERS 64u     /* of a rank, in the plans of this test */
#define REFITS 5

/* Shared by the processes. */
struct shared {
  _Atomic uint32_t arrived, departed;
  struct {
    enum reshard_status status;
    char why[512];
    double seconds; /* of the last refit */
    uint64_t got[BUFFERS], want[BUFFERS];
    unsigned char word[WORD_ROOM];
  } ranks[];
};

struct rank {
  struct shared *shared;
  struct reshard_plan *plan;
  struct reshard_config config;
  struct rsr_cuda *cuda; /* NULL: plain memory */
  uint32_t rank, world;
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Until `count` reaches a multiple of the world that `mine` belongs to. */
static int meet(_Atomic uint32_t *count, uint32_t world, double deadline) {
  uint32_t mine = atomic_fetch_add(count, 1), full = (mine / world + 1) * world;
  while (atomic_load(count) < full) {
    if (now() > deadline) return -1;
    usleep(100);
  }
  return 0;
}

static int all_gather(void *user, const void *mine, size_t bytes, void *all, double timeout) {
  struct rank *me = user;
  double deadline = now() + timeout;
  if (bytes > WORD_ROOM) return -1;
  memcpy(me->shared->ranks[me->rank].word, mine, bytes);
  if (meet(&me->shared->arrived, me->world, deadline) != 0) return -1;
  for (uint32_t r = 0; r < me->world; r++) memcpy((unsigned char *)all + r * bytes, me->shared->ranks[r].word, bytes);
  return meet(&me->shared->departed, me->world, deadline);
}

/* What a training buffer holds, and what an inference buffer holds before. */
static void fill(unsigned char *at, uint64_t bytes, const struct reshard_buffer_info *info, uint64_t rank) {
  memset(at, 0xa5, bytes);
  for (uint64_t i = 0; info->side == RESHARD_TRAIN && i < bytes; i++)
    at[i] = (unsigned char)(rsk_hash_word(i / 8 + 1000003 * rank, info->bytes) >> (8 * (i % 8)));
}

static void move(struct rank *me, void *dst, const void *src, uint64_t bytes) {
  if (!me->cuda) {
    memcpy(dst, src, bytes);
    return;
  }
  CHECK(me->cuda->MemcpyAsync(dst, src, bytes, RSR_CUDA_COPY_DEFAULT, NULL) == RSR_CUDA_OK, "cudaMemcpyAsync");
  while (me->cuda->StreamQuery(NULL) == RSR_CUDA_NOT_READY) {
  }
}

static void bind_all(struct rank *me, struct reshard_context *context) {
  CHECK(reshard_buffer_count(context) <= BUFFERS, "too many buffers");
  for (uint64_t i = 0; i < reshard_buffer_count(context); i++) {
    struct reshard_buffer_info info;
    CHECK(reshard_buffer_get(context, i, &info) == RESHARD_OK, "buffer");
    unsigned char *plain = malloc(info.bytes + 1);
    void *ptr = plain;
    CHECK(plain, "no memory");
    fill(plain, info.bytes, &info, me->rank);
    if (me->cuda) {
      CHECK(me->cuda->Malloc(&ptr, info.bytes + 1) == RSR_CUDA_OK, "cudaMalloc");
      move(me, ptr, plain, info.bytes);
      free(plain);
    }
    CHECK(reshard_bind_n(context, info.side, info.name, info.name_bytes, ptr, info.bytes) == RESHARD_OK, "bind");
  }
}

static void hash_all(struct rank *me, struct reshard_context *context, uint64_t *hashes) {
  for (uint64_t i = 0; i < reshard_buffer_count(context); i++) {
    struct reshard_buffer_info info;
    CHECK(reshard_buffer_get(context, i, &info) == RESHARD_OK, "buffer");
    unsigned char *plain = malloc(info.bytes + 1);
    CHECK(plain, "no memory");
    move(me, plain, info.bound, info.bytes);
    hashes[i] = rsk_hash(plain, info.bytes);
    free(plain);
    if (!me->cuda) free(info.bound);
  }
}

/* Memory of the device goes with the process. */
static void *run_rank(void *user) {
  struct rank *me = user;
  struct reshard_context *context = NULL;
  struct reshard_fault fault = {0};
  enum reshard_status status = reshard_context_open(me->plan, me->rank, &me->config, &context, &fault);
  if (status == RESHARD_OK) {
    bind_all(me, context);
    status = reshard_prepare(context);
    for (int i = 0; i < REFITS && status == RESHARD_OK; i++) {
      double begin = now();
      status = reshard_refit(context, NULL);
      if (status == RESHARD_OK) status = reshard_wait(context);
      me->shared->ranks[me->rank].seconds = now() - begin;
    }
    if (status != RESHARD_OK) reshard_last_fault(context, &fault);
    if (status == RESHARD_OK)
      hash_all(me, context, me->cuda ? me->shared->ranks[me->rank].got : me->shared->ranks[me->rank].want);
  }
  me->shared->ranks[me->rank].status = status;
  snprintf(me->shared->ranks[me->rank].why, sizeof me->shared->ranks[me->rank].why, "%.500s", fault.what);
  reshard_context_close(context);
  return NULL;
}

static void on_host(const struct rank *base) {
  struct reshard_host_group *group;
  pthread_t *threads = calloc(base->world, sizeof *threads);
  struct rank *ranks = calloc(base->world, sizeof *ranks);
  CHECK(threads && ranks && reshard_host_group_new(base->world, &group) == RESHARD_OK, "no memory");
  for (uint32_t r = 0; r < base->world; r++) {
    ranks[r] = *base;
    ranks[r].rank = r;
    ranks[r].config.group = group;
    CHECK(pthread_create(&threads[r], NULL, run_rank, &ranks[r]) == 0, "no thread");
  }
  for (uint32_t r = 0; r < base->world; r++) {
    pthread_join(threads[r], NULL);
    CHECK(base->shared->ranks[r].status == RESHARD_OK, "host: %s", base->shared->ranks[r].why);
  }
  reshard_host_group_free(group);
  free(threads);
  free(ranks);
}

/* In a process of its own: CUDA is never touched before a fork. */
static int as_rank(struct rank *me) {
  struct rsr_cuda cuda;
  struct reshard_fault fault = {0};
  enum reshard_status status = rsr_cuda_open(&cuda, NULL, &fault);
  if (status == RESHARD_OK && cuda.SetDevice(0) != RSR_CUDA_OK) {
    status = RESHARD_UNSUPPORTED;
    snprintf(fault.what, sizeof fault.what, "there is no GPU");
  }
  me->shared->ranks[me->rank].status = status;
  snprintf(me->shared->ranks[me->rank].why, sizeof me->shared->ranks[me->rank].why, "%.500s", fault.what);
  if (status != RESHARD_OK) return 1;
  me->cuda = &cuda;
  me->config.backend = RESHARD_NCCL;
  me->config.mode = RESHARD_STAGED;
  me->config.all_gather = all_gather;
  me->config.all_gather_user = me;
  me->config.device = 0;
  run_rank(me);
  return me->shared->ranks[me->rank].status != RESHARD_OK;
}

static int judge(const struct rank *base, const char *path) {
  const struct shared *shared = base->shared;
  double slowest = 0;
  for (uint32_t r = 0; r < base->world; r++) {
    enum reshard_status status = shared->ranks[r].status;
    if (status != RESHARD_OK) {
      printf("nccl, %u ranks on one GPU: %s: %s\n", base->world, reshard_status_text(status), shared->ranks[r].why);
      /* Ranks that NCCL does not let share a GPU are no fault of ours; a single one is. */
      return status == RESHARD_UNSUPPORTED || (base->world > 1 && status == RESHARD_BACKEND_FAILED) ? 77 : 1;
    }
    for (uint32_t i = 0; i < BUFFERS; i++)
      CHECK(shared->ranks[r].got[i] == shared->ranks[r].want[i], "%s: rank %u buffer %u differs from the host's", path,
            r, i);
    if (shared->ranks[r].seconds > slowest) slowest = shared->ranks[r].seconds;
  }
  printf("nccl, %2u ranks on one GPU, %d refits%*s %10.2f ms the last, every buffer the host's\n", base->world, REFITS,
         10, "", slowest * 1e3);
  return 0;
}

int main(int argc, char **argv) {
  CHECK(argc == 2, "usage: test_device_rounds PLAN");
  struct rank base = {0};
  struct reshard_plan_info info;
  struct reshard_fault fault = {0};
  CHECK(reshard_open(argv[1], &base.plan, &fault) == RESHARD_OK, "%s", fault.what);
  reshard_plan_get(base.plan, &info);
  base.world = info.world;
  reshard_config_init(&base.config);
  size_t bytes = sizeof *base.shared + info.world * sizeof base.shared->ranks[0];
  base.shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(base.shared != MAP_FAILED, "no memory");
  on_host(&base);
  fflush(NULL);
  for (uint32_t r = 0; r < info.world; r++) {
    base.rank = r;
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) _exit(as_rank(&base));
  }
  /* A rank that died without a word has the host's status still: its end says it. */
  int died = 0, how;
  while (wait(&how) > 0) died |= !WIFEXITED(how) || WEXITSTATUS(how) > 1;
  CHECK(!died, "a rank died");
  int result = judge(&base, argv[1]);
  reshard_close(base.plan);
  return result;
}
