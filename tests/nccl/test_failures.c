/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong around the nccl backend ends in the promised error on every live rank within the timeout, with the
 * version where it was, and the next context works: ranks that die or never come, plans that differ, buffers that move,
 * calls out of order, memory that runs out, two contexts, many contexts.
 */
#include <string.h>

#include "plans/plan.h"
#include "tests/nccl/play.h"
#include "tests/nccl/standin_cuda.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"

#define TIMEOUT 0.05
#define SEEDS 12

static void *tiny_bytes(enum tiny_form form, size_t *size) {
  struct tiny *tiny = malloc(sizeof *tiny);
  void *bytes;
  CHECK(tiny, "memory");
  tiny_init_form(tiny, form);
  CHECK(tiny_build(tiny, &bytes, size), "tiny");
  free(tiny);
  return bytes;
}

static void open_tiny(struct play *play, enum tiny_form form) {
  size_t size;
  void *bytes = tiny_bytes(form, &size);
  play_open(play, bytes, size, 5);
  play->config.timeout_seconds = TIMEOUT;
}

static void close_tiny(struct play *play) {
  const void *bytes = play->bytes;
  play_close(play);
  free((void *)(uintptr_t)bytes);
}

static struct standin_options options_of(uint64_t seed) {
  return (struct standin_options){.world = TINY_WORLD, .seed = seed, .deaf = seed % 2};
}

static void sound(uint64_t seed) {
  CHECK(!standin_violation(), "seed %llu: %s", (unsigned long long)seed, standin_violation());
  CHECK(!standin_leak(), "seed %llu: %s", (unsigned long long)seed, standin_leak());
}

/* ---- ranks that die ---------------------------------------------------------------------------------------------- */

enum moment { BEFORE_OPEN, BEFORE_PREPARE, BEFORE_REFIT, DURING_REFIT, AFTER_WAIT, MOMENTS };
static enum moment moment;
static uint32_t victim;
static double later; /* how far the refit may come */

static bool die_before_open(struct play *play, uint32_t rank) {
  (void)play;
  if (moment != BEFORE_OPEN || rank != victim) return true;
  standin_kill();
  return false;
}

static bool die_before_refit(struct play *play, uint32_t rank, uint32_t refit) {
  (void)play;
  if (rank != victim || (moment != BEFORE_REFIT && moment != AFTER_WAIT) || refit != (moment == AFTER_WAIT))
    return true;
  standin_kill();
  return false;
}

static bool die_during_refit(struct play *play, uint32_t rank, uint32_t refit) {
  (void)play, (void)refit;
  if (rank != victim || moment != DURING_REFIT) return true;
  standin_sleep(later);
  standin_kill();
  return false;
}

/* What was a process's and went with it: kept, so that it is no leak of ours. */
static struct list_of_contexts {
  struct reshard_context **rows;
  size_t count;
} graves;

static void bury(struct reshard_context *context) {
  graves.rows = realloc(graves.rows, (graves.count + 1) * sizeof *graves.rows);
  CHECK(graves.rows, "memory");
  graves.rows[graves.count++] = context;
}

static void free_after_failure(struct play *play, uint32_t rank) {
  struct rsp_program p;
  rsp_program_of(&play->stage.plan, rank, &p);
  for (uint64_t b = 0; b < p.slice->buffers.count; b++) standin_memory_free(play->memory[rank][b]);
}

/* As tests would, but a live rank frees its buffers as soon as wait has told it: nobody touches them any more. */
static void die_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  struct actor *actor = &play->actors[rank];
  if (!die_before_open(play, rank) || play_open_context(play, rank, play->plan) != RESHARD_OK) return;
  if (moment == BEFORE_PREPARE && rank == victim) {
    standin_kill();
    return;
  }
  CHECK(play_bind(play, rank) == RESHARD_OK, "bind");
  actor->prepared = reshard_prepare(actor->context);
  for (uint32_t i = 0; i < 2 && actor->prepared == RESHARD_OK && actor->refitted == RESHARD_OK; i++) {
    if (!die_before_refit(play, rank, i)) return;
    actor->refitted = reshard_refit(actor->context, NULL);
    if (!die_during_refit(play, rank, i)) return;
    if (actor->refitted == RESHARD_OK) actor->refitted = reshard_wait(actor->context);
  }
  if (actor->refitted != RESHARD_OK) free_after_failure(play, rank);
  actor->version = reshard_version(actor->context);
  actor->seconds = standin_now();
  reshard_context_close(actor->context);
}

static void dies(enum tiny_form form, uint64_t seed) {
  struct play play;
  struct standin_options options = options_of(seed);
  open_tiny(&play, form);
  play.config.flags = seed % 3 == 0 ? RESHARD_NO_GRAPH : 0;
  play_begin(&play, &options);
  standin_run(die_body, &play);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    const struct actor *a = &play.actors[r];
    if (r == victim) bury(a->context);
    if (r == victim) continue;
    enum reshard_status status = a->opened ? a->opened : a->prepared ? a->prepared : a->refitted;
    CHECK(status == RESHARD_TIMEOUT || status == RESHARD_PEER_FAILED, "seed %llu, moment %d: rank %u has %d",
          (unsigned long long)seed, (int)moment, r, (int)status);
    CHECK(a->version == (moment == AFTER_WAIT), "seed %llu: rank %u has version %llu", (unsigned long long)seed, r,
          (unsigned long long)a->version);
    CHECK(a->seconds < 1.6 * TIMEOUT, "seed %llu: rank %u took %g s", (unsigned long long)seed, r, a->seconds);
  }
  sound(seed);
  standin_end();
  close_tiny(&play);
}

static void all_deaths(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    for (int m = 0; m < MOMENTS; m++) {
      moment = (enum moment)m;
      victim = (uint32_t)(seed % TINY_WORLD);
      later = (double)(seed % 6) * 4e-6;
      dies(seed % 2 ? TINY_RELAY_STAGED : TINY_PLAIN, seed);
    }
  }
}

/* ---- plans and worlds that do not fit -----------------------------------------------------------------------------
 */

static struct reshard_plan *other_plan;

static void differs_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  play_open_context(play, rank, rank == 2 ? other_plan : play->plan);
}

static void never_comes_body(uint32_t rank, void *arg) {
  if (rank != 1) play_open_context(arg, rank, ((struct play *)arg)->plan);
}

static void no_library_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  struct play own = *play;
  if (rank == 1) own.config.nccl_library = "/nowhere/libnccl.so.2";
  play_open_context(&own, rank, play->plan);
}

static void fails_to_open(void (*body)(uint32_t, void *), enum reshard_status want, enum reshard_status also,
                          const char *word) {
  struct play play;
  struct standin_options options = options_of(3);
  open_tiny(&play, TINY_PLAIN);
  play_begin(&play, &options);
  standin_run(body, &play);
  for (uint32_t r = 0; r < TINY_WORLD; r++) {
    const struct actor *a = &play.actors[r];
    if (a->opened == RESHARD_OK && body == never_comes_body && r == 1) continue;
    CHECK(a->opened == want || a->opened == also, "rank %u: %d %s", r, (int)a->opened, a->fault.what);
    CHECK(strstr(a->fault.what, word), "rank %u says '%s'", r, a->fault.what);
    CHECK(!strchr(a->fault.what, '\n'), "more than one line: %s", a->fault.what);
  }
  sound(3);
  standin_end();
  close_tiny(&play);
}

static void plans_that_differ(void) {
  size_t size;
  void *bytes = tiny_bytes(TINY_PLAIN, &size);
  ((struct rsp_header *)bytes)->chunk ^= 1; /* one bit, and sealed again */
  CHECK(rsp_reseal(bytes, size), "reseal");
  CHECK(reshard_open_memory(bytes, size, &other_plan, NULL) == RESHARD_OK, "open");
  fails_to_open(differs_body, RESHARD_PLAN_DIFFERS, RESHARD_PLAN_DIFFERS, "do not have the same plan");
  reshard_close(other_plan);
  free(bytes);
}

/* ---- one context, calls in and out of order -----------------------------------------------------------------------
 */

static enum reshard_status refit_and_wait(struct reshard_context *context) {
  enum reshard_status status = reshard_refit(context, NULL);
  return status == RESHARD_OK ? reshard_wait(context) : status;
}

static void open_and_bind(struct play *play, uint32_t rank) {
  CHECK(play_open_context(play, rank, play->plan) == RESHARD_OK, "%s", play->actors[rank].fault.what);
  CHECK(play_bind(play, rank) == RESHARD_OK, "bind");
}

/* Refit while a refit runs, bind while it runs, wait without one: refused, and the refit that runs is whole. */
static void order_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  CHECK(reshard_refit(c, NULL) == RESHARD_WRONG_STATE, "refit before prepare");
  CHECK(reshard_prepare(c) == RESHARD_OK, "prepare");
  CHECK(reshard_wait(c) == RESHARD_WRONG_STATE, "wait without a refit");
  CHECK(reshard_refit(c, NULL) == RESHARD_OK, "refit");
  CHECK(reshard_refit(c, NULL) == RESHARD_WRONG_STATE, "refit during a refit");
  CHECK(reshard_prepare(c) == RESHARD_WRONG_STATE && play_bind(play, rank) == RESHARD_WRONG_STATE, "bind in a refit");
  enum reshard_status status = RESHARD_PENDING;
  while (status == RESHARD_PENDING) status = reshard_query(c);
  CHECK(status == RESHARD_OK && reshard_version(c) == 0, "query");
  CHECK(reshard_wait(c) == RESHARD_OK && reshard_version(c) == 1, "wait");
  reshard_context_close(c);
}

/* A buffer of the host, or of another rank's device, is no buffer; then all of them move between refits. */
static void moves_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  static char of_host[4096];
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  struct reshard_buffer_info info;
  CHECK(reshard_buffer_get(c, 0, &info) == RESHARD_OK, "buffer");
  CHECK(reshard_bind_n(c, info.side, info.name, info.name_bytes, of_host, info.bytes) == RESHARD_INVALID_ARGUMENT,
        "memory of the host");
  void *other = play->memory[(rank + 1) % TINY_WORLD][0];
  CHECK(reshard_bind_n(c, info.side, info.name, info.name_bytes, other, info.bytes) == RESHARD_INVALID_ARGUMENT,
        "memory of another device");
  CHECK(reshard_prepare(c) == RESHARD_OK && refit_and_wait(c) == RESHARD_OK, "first refit");
  bool moved = false;
  for (uint64_t b = 0; b < reshard_buffer_count(c); b++) {
    CHECK(reshard_buffer_get(c, b, &info) == RESHARD_OK, "buffer");
    if (info.side != RESHARD_INFER) continue;
    moved = true;
    standin_memory_free(play->memory[rank][b]);
    play->memory[rank][b] = standin_memory(rank, info.bytes, info.align);
    CHECK(reshard_bind_n(c, info.side, info.name, info.name_bytes, play->memory[rank][b], info.bytes) == RESHARD_OK,
          "rebind");
  }
  if (moved) CHECK(reshard_refit(c, NULL) == RESHARD_WRONG_STATE, "refit without prepare");
  CHECK(reshard_prepare(c) == RESHARD_OK && refit_and_wait(c) == RESHARD_OK, "second refit");
  CHECK(reshard_version(c) == 2, "version");
  reshard_context_close(c);
}

/* Prepare fails for one rank, on all; the same context can prepare again. */
static void no_memory_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  if (rank == 1) standin_exhaust(true);
  enum reshard_status status = reshard_prepare(c);
  CHECK(status == (rank == 1 ? RESHARD_NO_MEMORY : RESHARD_PEER_FAILED), "rank %u: %d", rank, (int)status);
  if (rank == 1) standin_exhaust(false);
  CHECK(reshard_prepare(c) == RESHARD_OK && refit_and_wait(c) == RESHARD_OK, "after more memory");
  reshard_context_close(c);
}

/* Over to another plan and back: the communicator stays. */
static void swap_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  uint64_t comms = standin_counts(rank).comms;
  CHECK(reshard_prepare(c) == RESHARD_OK && refit_and_wait(c) == RESHARD_OK, "first");
  CHECK(reshard_swap(c, other_plan) == RESHARD_OK && reshard_swap(c, play->plan) == RESHARD_OK, "swap");
  play_poison(play, rank, 0x99);
  CHECK(reshard_prepare(c) == RESHARD_OK && refit_and_wait(c) == RESHARD_OK, "second");
  CHECK(standin_counts(rank).comms == comms && reshard_version(c) == 2, "one communicator, two versions");
  reshard_context_close(c);
}

/* Two contexts of two plans at a time; their refits run side by side. */
static void two_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  open_and_bind(play, rank);
  struct reshard_context *a = play->actors[rank].context;
  play->seats[rank] = play->second_seats[rank];
  CHECK(play_open_context(play, rank, other_plan) == RESHARD_OK, "%s", play->actors[rank].fault.what);
  struct reshard_context *b = play->actors[rank].context;
  CHECK(play_bind(play, rank) == RESHARD_OK, "bind");
  CHECK(reshard_prepare(a) == RESHARD_OK && reshard_prepare(b) == RESHARD_OK, "prepare");
  CHECK(reshard_refit(a, NULL) == RESHARD_OK && reshard_wait(a) == RESHARD_OK, "first");
  play_poison(play, rank, 0x99);
  CHECK(reshard_prepare(b) == RESHARD_OK && reshard_refit(b, NULL) == RESHARD_OK, "second");
  CHECK(reshard_wait(b) == RESHARD_OK, "second");
  CHECK(reshard_version(a) == 1 && reshard_version(b) == 1, "versions");
  reshard_context_close(a);
  reshard_context_close(b);
}

/* A trainer that captures its own graph: the refit is part of it, and runs when it is launched. */
static void captured_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  struct stream *stream;
  struct graph *graph, *exec;
  CHECK(cudaSetDevice((int)rank) == 0 && cudaStreamCreateWithFlags(&stream, 1) == 0, "stream");
  CHECK(reshard_prepare(c) == RESHARD_OK, "prepare");
  CHECK(cudaStreamBeginCapture(stream, 1) == 0 && reshard_refit(c, stream) == RESHARD_OK, "capture");
  int rc = cudaStreamEndCapture(stream, &graph);
  CHECK(rc == 0, "rank %u: cudaStreamEndCapture %d: %s", rank, rc, standin_violation());
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == 0 && cudaGraphLaunch(exec, stream) == 0, "launch");
  CHECK(reshard_wait(c) == RESHARD_OK && reshard_version(c) == 1, "wait");
  play_poison(play, rank, 0); /* padding stays as prepare has left it */
  CHECK(cudaGraphLaunch(exec, stream) == 0 && reshard_wait(c) == RESHARD_OK && reshard_version(c) == 2, "again");
  CHECK(cudaGraphExecDestroy(exec) == 0 && cudaGraphDestroy(graph) == 0 && cudaStreamDestroy(stream) == 0, "destroy");
  reshard_context_close(c);
}

static void is_current(int device, const char *after) {
  int now = -1;
  CHECK(cudaGetDevice(&now) == 0 && now == device, "device %d is the current one after %s, not %d", now, after, device);
}

/* The caller's current device is another one: every call leaves it as it was. */
static void device_body(uint32_t rank, void *arg) {
  struct play *play = arg;
  int mine = (int)((rank + 1) % TINY_WORLD);
  CHECK(cudaSetDevice(mine) == 0, "cudaSetDevice");
  open_and_bind(play, rank);
  struct reshard_context *c = play->actors[rank].context;
  is_current(mine, "open and bind");
  CHECK(reshard_prepare(c) == RESHARD_OK, "prepare");
  is_current(mine, "prepare");
  CHECK(reshard_refit(c, NULL) == RESHARD_OK, "refit");
  is_current(mine, "refit");
  (void)reshard_query(c);
  is_current(mine, "query");
  CHECK(reshard_wait(c) == RESHARD_OK, "wait");
  is_current(mine, "wait");
  reshard_context_close(c);
  is_current(mine, "close");
}

static void goes_well(const char *what, void (*body)(uint32_t, void *), uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    struct play play;
    struct standin_options options = options_of(seed);
    open_tiny(&play, seed % 2 ? TINY_PLAIN : TINY_AGAIN_STAGED);
    play.config.flags = seed % 3 == 0 ? RESHARD_NO_GRAPH : seed % 3 == 1 ? RESHARD_REGISTER : 0;
    CHECK(reshard_open_memory(play.bytes, play.size, &other_plan, NULL) == RESHARD_OK, "open");
    play_begin(&play, &options);
    standin_run(body, &play);
    sound(seed);
    CHECK(!play_compare(&play), "%s, seed %llu: %s", what, (unsigned long long)seed, play_compare(&play));
    standin_end();
    reshard_close(other_plan);
    close_tiny(&play);
  }
}

/* ---- bytes that change on their way --------------------------------------------------------------------------------
 */

/* Found with RESHARD_VERIFY, on the rank that has them; without, no status says so, so it is the flag that finds it. */
static void flipped(uint32_t flags, uint32_t rank, uint64_t message, uint64_t seed) {
  struct play play;
  struct standin_options options = options_of(seed);
  open_tiny(&play, seed % 2 ? TINY_PLAIN : TINY_RELAY_DIRECT);
  play.config.flags = flags | (seed % 3 == 0 ? RESHARD_NO_GRAPH : 0);
  options.rank = rank;
  options.flip_message = message;
  play_run(&play, &options);
  const struct actor *hit = &play.actors[rank];
  if (!(flags & RESHARD_VERIFY)) {
    CHECK(hit->refitted == RESHARD_OK && play_wrong(&play), "a byte is wrong and nothing sees it");
  } else {
    CHECK(hit->refitted == RESHARD_CORRUPT && hit->fault.rank == rank && hit->fault.peer != RESHARD_NO_RANK &&
              hit->fault.round != RESHARD_NO_ROUND && hit->fault.buffer[0],
          "rank %u, message %llu, seed %llu: %d %s", rank, (unsigned long long)message, (unsigned long long)seed,
          (int)hit->refitted, hit->fault.what);
    for (uint32_t r = 0; r < TINY_WORLD; r++) {
      const struct actor *a = &play.actors[r];
      CHECK(a->version == 0 && (a->refitted == RESHARD_CORRUPT || a->refitted == RESHARD_PEER_FAILED), "rank %u: %d", r,
            (int)a->refitted);
    }
    sound(seed);
  }
  standin_end();
  close_tiny(&play);
}

static void all_flips(void) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    for (uint32_t rank = 1; rank < TINY_WORLD; rank++) {
      for (uint64_t message = 1; message <= 2; message++) {
        flipped(RESHARD_VERIFY, rank, message, seed);
      }
      flipped(0, rank, 1, seed);
    }
  }
}

/* ---- again and again -----------------------------------------------------------------------------------------------
 */

static void cycles(uint32_t count) {
  struct play play;
  struct standin_options options = options_of(1);
  open_tiny(&play, TINY_PLAIN);
  play.config.timeout_seconds = 1;
  play.cycles = count;
  play_run(&play, &options);
  CHECK(!play_wrong(&play), "%s", play_wrong(&play));
  standin_end();
  close_tiny(&play);
}

int main(void) {
  all_deaths();
  plans_that_differ();
  fails_to_open(never_comes_body, RESHARD_TIMEOUT, RESHARD_TIMEOUT, "all-gather failed");
  fails_to_open(no_library_body, RESHARD_UNSUPPORTED, RESHARD_PEER_FAILED, "cannot open NCCL");
  goes_well("calls out of order", order_body, SEEDS);
  goes_well("buffers that move", moves_body, SEEDS);
  goes_well("no memory", no_memory_body, SEEDS);
  goes_well("swap", swap_body, SEEDS);
  goes_well("two contexts", two_body, SEEDS);
  goes_well("a caller's capture", captured_body, SEEDS);
  goes_well("another device", device_body, SEEDS);
  all_flips();
  cycles(1000);
  return 0;
}
