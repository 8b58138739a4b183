/* SPDX-License-Identifier: Apache-2.0
 * See worlds.h. */
#include "tests/nccl/worlds.h"

#include <string.h>

#include "tests/nccl/standin_cuda.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"
#include "tests/runtime/made.h"

struct process processes[PROCESSES];
double worlds_timeout = 0.05;
uint32_t worlds_flags, worlds_odd_process;
struct reshard_plan *worlds_odd_plan;

static uint64_t seed_now;
/* What was a process's and went with it: kept, so that it is no leak of ours. */
static struct reshard_context **graves;
static size_t grave_count;

/* ---- plans --------------------------------------------------------------------------------------------------------
 */

static void fill_world(struct world *world, const char *places) {
  CHECK(reshard_open_memory(world->bytes, world->size, &world->plan, NULL) == RESHARD_OK, "open");
  stage_open(&world->stage, world->bytes, world->size);
  world->ranks = world->stage.plan.header->world;
  CHECK(strlen(places) == world->ranks && world->ranks <= PROCESSES, "%s: %u ranks", world->name, world->ranks);
  for (uint32_t r = 0; r < world->ranks; r++) world->process[r] = (uint32_t)(places[r] - '0');
}

void world_made(struct world *world, const char *name, uint64_t seed, uint32_t train, uint32_t infer,
                const char *places) {
  struct made_options options = {.seed = seed,
                                 .train = train,
                                 .infer = infer,
                                 .relays = seed % 2 == 0,
                                 .groups = 3,
                                 .buffers = 2,
                                 .rows = 10,
                                 .columns = 20};
  *world = (struct world){.name = name};
  world->bytes = made_plan(&options, &world->size);
  fill_world(world, places);
}

void world_tiny(struct world *world, const char *name, int form, const char *places) {
  struct tiny *tiny = malloc(sizeof *tiny);
  CHECK(tiny, "memory");
  *world = (struct world){.name = name};
  tiny_init_form(tiny, (enum tiny_form)form);
  CHECK(tiny_build(tiny, &world->bytes, &world->size), "tiny");
  free(tiny);
  fill_world(world, places);
}

void world_free(struct world *world) {
  for (uint32_t r = 0; r < world->ranks; r++) free(world->memory[r]), free(world->kept[r]);
  stage_close(&world->stage);
  reshard_close(world->plan);
  free(world->bytes);
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */

static bool same_buffer(const struct rsp_program *p, const struct rsp_sbuffer *a, const struct rsp_program *q,
                        const struct rsp_sbuffer *b) {
  return a->side == b->side && a->bytes == b->bytes && a->name.len == b->name.len &&
         memcmp(p->names + a->name.off, q->names + b->name.off, a->name.len) == 0;
}

/* Where the process has that buffer already, or NULL. */
static unsigned char *carried(const struct process *process, const struct rsp_program *p,
                              const struct rsp_sbuffer *buffer) {
  struct rsp_program q;
  if (!process->at || !process->context) return NULL;
  rsp_program_of(&process->at->stage.plan, process->rank, &q);
  for (uint64_t b = 0; b < q.slice->buffers.count; b++) {
    unsigned char *at = process->at->memory[process->rank][b];
    if (same_buffer(p, buffer, &q, &q.buffers[b]) && (uintptr_t)at % buffer->align == 0) return at;
  }
  return NULL;
}

/* What was bound stays; the rest is new. All of it is filled. */
static void furnish(struct world *world, bool is_new) {
  stage_fill(&world->stage, ++seed_now);
  for (uint32_t r = 0; r < world->ranks; r++) {
    struct rsp_program p;
    rsp_program_of(&world->stage.plan, r, &p);
    if (!world->memory[r]) world->memory[r] = calloc(p.slice->buffers.count + 1, sizeof *world->memory[r]);
    if (!world->kept[r]) world->kept[r] = calloc(p.slice->buffers.count + 1, sizeof *world->kept[r]);
    CHECK(world->memory[r] && world->kept[r], "memory");
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      const struct rsp_sbuffer *buffer = &p.buffers[b];
      unsigned char *old = carried(&processes[world->process[r]], &p, buffer);
      if (is_new) world->kept[r][b] = old != NULL;
      world->memory[r][b] = old ? old : standin_memory(world->process[r], buffer->bytes, buffer->align);
      memcpy(world->memory[r][b], world->stage.memory[r][b], buffer->bytes);
    }
  }
}

static const char *compare(const struct world *world) {
  static char text[160];
  for (uint32_t r = 0; r < world->ranks; r++) {
    struct rsp_program p;
    rsp_program_of(&world->stage.plan, r, &p);
    for (uint64_t b = 0; b < p.slice->buffers.count; b++) {
      if (memcmp(world->memory[r][b], world->stage.want[r][b], p.buffers[b].bytes) == 0) continue;
      snprintf(text, sizeof text, "world rank %u, gid %u is not as it must be", r, p.buffers[b].gid);
      return text;
    }
  }
  return NULL;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------
 */

void worlds_begin(uint64_t seed) {
  struct standin_options options = {.world = PROCESSES, .seed = seed, .deaf = seed % 2};
  standin_begin(&options);
  memset(processes, 0, sizeof processes);
  seed_now = seed;
}

static void close_body(uint32_t at, void *arg) {
  (void)arg;
  struct process *process = &processes[at];
  if (!process->context || process->is_dead) return;
  reshard_context_close(process->context);
  process->context = NULL;
}

void worlds_end(void) {
  standin_run(close_body, NULL);
  CHECK(!standin_violation(), "%s", standin_violation());
  CHECK(!standin_leak(), "%s", standin_leak());
  standin_end();
}

static uint32_t rank_of(const struct world *world, uint32_t process) {
  for (uint32_t r = 0; r < world->ranks; r++) {
    if (world->process[r] == process) return r;
  }
  return RESHARD_NO_RANK;
}

static bool among(const char *digits, uint32_t process) {
  return digits && strchr(digits, (int)('0' + process)) != NULL;
}

struct meeting {
  struct world *world;
  const char *away;
  bool others_close;
};

static struct reshard_config config_of(struct world *world, uint32_t process, uint32_t rank) {
  struct reshard_config config;
  reshard_config_init(&config);
  config.backend = RESHARD_NCCL;
  config.mode = RESHARD_STAGED;
  config.timeout_seconds = worlds_timeout;
  config.flags = worlds_flags;
  config.all_gather = standin_all_gather;
  config.all_gather_user = &world->seats[rank];
  config.cuda_library = config.nccl_library = STANDIN_LIBRARY;
  config.device = (int)process;
  return config;
}

static void meet_body(uint32_t at, void *arg) {
  const struct meeting *m = arg;
  struct process *process = &processes[at];
  uint32_t rank = rank_of(m->world, at);
  if (process->is_dead || among(m->away, at)) return;
  if (rank == RESHARD_NO_RANK) {
    if (m->others_close) close_body(at, NULL);
    return;
  }
  struct reshard_config config = config_of(m->world, at, rank);
  struct reshard_plan *plan = worlds_odd_plan && at == worlds_odd_process ? worlds_odd_plan : m->world->plan;
  double begun = standin_now();
  if (process->context) {
    process->status = reshard_regroup(process->context, plan, rank, &config);
    reshard_last_fault(process->context, &process->fault);
  } else {
    process->status = reshard_context_open(plan, rank, &config, &process->context, &process->fault);
  }
  process->seconds = standin_now() - begun;
}

void world_meet(struct world *world, const char *away, bool others_close) {
  struct meeting meeting = {world, away, others_close};
  struct standin_channel *channel = standin_channel_new(world->ranks);
  for (uint32_t r = 0; r < world->ranks; r++) world->seats[r] = (struct standin_seat){channel, r};
  furnish(world, true);
  standin_run(meet_body, &meeting);
  for (uint32_t r = 0; r < world->ranks; r++) {
    struct process *process = &processes[world->process[r]];
    if (process->is_dead || process->status != RESHARD_OK) continue;
    process->at = world;
    process->rank = r;
  }
}

static void bind_rest(struct process *process) {
  struct reshard_context *c = process->context;
  for (uint64_t b = 0; b < reshard_buffer_count(c); b++) {
    struct reshard_buffer_info info;
    unsigned char *want = process->at->memory[process->rank][b];
    CHECK(reshard_buffer_get(c, b, &info) == RESHARD_OK, "buffer");
    bool kept = process->at->kept[process->rank][b];
    CHECK(info.bound == want || (!info.bound && !kept), "%.*s is bound to what it is not", (int)info.name_bytes,
          info.name);
    if (!info.bound)
      CHECK(reshard_bind_n(c, info.side, info.name, info.name_bytes, want, info.bytes) == RESHARD_OK, "bind");
  }
}

static double kill_later;
static const char *kill_whom;

static void refit_body(uint32_t at, void *arg) {
  struct process *process = &processes[at];
  if (process->at != arg || process->is_dead || !process->context) return;
  struct reshard_context *c = process->context;
  double begun = standin_now();
  bind_rest(process);
  process->status = reshard_prepare(c);
  if (process->status == RESHARD_OK) process->status = reshard_refit(c, NULL);
  if (among(kill_whom, at)) {
    standin_sleep(kill_later);
    standin_kill();
    process->is_dead = true;
    return;
  }
  if (process->status == RESHARD_OK) process->status = reshard_wait(c);
  reshard_last_fault(c, &process->fault);
  process->seconds = standin_now() - begun;
}

static void bury(struct process *process) {
  if (!process->context) return;
  graves = realloc(graves, (grave_count + 1) * sizeof(*graves));
  CHECK(graves, "memory");
  graves[grave_count++] = process->context;
  process->context = NULL;
}

void world_refit(struct world *world) {
  furnish(world, false);
  standin_run(refit_body, world);
}

void world_kill_in_refit(struct world *world, const char *victims, double later) {
  kill_whom = victims;
  kill_later = later;
  world_refit(world);
  kill_whom = NULL;
  for (uint32_t p = 0; p < PROCESSES; p++) {
    if (processes[p].is_dead) bury(&processes[p]);
  }
}

static void kill_body(uint32_t at, void *arg) {
  if (!among(arg, at)) return;
  standin_kill();
  processes[at].is_dead = true;
}

void world_kill(const char *victims) {
  standin_run(kill_body, (void *)(uintptr_t)victims);
  for (uint32_t p = 0; p < PROCESSES; p++) {
    if (processes[p].is_dead) bury(&processes[p]);
  }
}

/* ---- the verdict --------------------------------------------------------------------------------------------------
 */

void world_check(const struct world *world, enum reshard_status status, uint64_t version, const char *what) {
#define SAY "%s, %s, process %u: "
  CHECK(!standin_violation(), "%s, %s: %s", what, world->name, standin_violation());
  for (uint32_t r = 0; r < world->ranks; r++) {
    uint32_t p = world->process[r];
    const struct process *process = &processes[p];
    if (process->is_dead) continue;
    CHECK(process->status == status || (status != RESHARD_OK && process->status == RESHARD_PEER_FAILED),
          SAY "%d, not %d: %s", what, world->name, p, (int)process->status, (int)status, process->fault.what);
    CHECK(process->seconds < 12 * worlds_timeout, SAY "%g s", what, world->name, p, process->seconds);
    CHECK(!process->context || reshard_version(process->context) == version, SAY "version %llu", what, world->name, p,
          (unsigned long long)reshard_version(process->context));
  }
  if (status == RESHARD_OK) CHECK(!compare(world), "%s, %s: %s", what, world->name, compare(world));
}

struct standin_counts world_counts(const struct world *world) {
  struct standin_counts sum = {0};
  for (uint32_t r = 0; r < world->ranks; r++) {
    struct standin_counts one = standin_counts(world->process[r]);
    sum.comms += one.comms;
    sum.shrunk += one.shrunk;
    sum.grown += one.grown;
    sum.calls += one.calls;
  }
  return sum;
}
