// SPDX-License-Identifier: Apache-2.0
//
// case: from two layouts to GB/s. In: layouts. Out: medians over replays and plain copies that take turns in one
// process, on the same buffers and the same threads.

#include "tools/bench/case.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/pipeline.h"
#include "tools/cli/cli.h"
#include "tools/run_pattern.h"
#include "tools/run_replay.h"
#include "tools/run_report.h"

#define PROGRAM "reshard-bench"

// ---- compiling -----------------------------------------------------------------------------------------------------

static bool load(void *user, const char *path, char **text, size_t *len) {
  const struct bench_case *c = user;
  const char *inline_text = !strcmp(path, "train.layout") && strchr(c->train, '\n')   ? c->train
                            : !strcmp(path, "infer.layout") && strchr(c->infer, '\n') ? c->infer
                                                                                      : NULL;
  if (!inline_text) return cli_read_file(path, text, len, text);
  *text = strdup(inline_text);
  *len = strlen(inline_text);
  return *text != NULL;
}

static void say(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user;
  (void)severity;
  (void)code;
  fputs(rendered, stderr);
}

static void *compile(const struct bench_case *c, size_t *bytes) {
  struct rsc_options options = {.train_path = strchr(c->train, '\n') ? "train.layout" : c->train,
                                .infer_path = strchr(c->infer, '\n') ? "infer.layout" : c->infer,
                                .model_path = c->model,
                                .staging = UINT64_C(256) << 20,
                                .max_ops = 1024,
                                .load = load,
                                .load_user = (void *)(uintptr_t)c};
  struct rsc_result result = {0};
  if (rsc_compile(&options, say, NULL, NULL, NULL, &result) != RSC_COMPILED) {
    free(result.plan);
    return NULL;
  }
  *bytes = result.plan_bytes;
  return result.plan;
}

// ---- measuring -----------------------------------------------------------------------------------------------------

struct bench {
  const struct bench_case *c;
  struct rsp_plan plan;
  struct run_values values;
  struct run_memory memory;
  struct run_pattern pattern;
  uint32_t repeat;
};

static int fail(const struct bench *bench, const struct reshard_fault *fault) {
  cli_trouble(PROGRAM, "%s: %s", bench->c->name, fault->what);
  return CLI_NO;
}

// Times of both, taking turns, in one mode; the last replay is checked.
static int take_turns(struct bench *bench, struct run_replay *replay, double *refits, double *memcpys) {
  struct reshard_fault fault = {0};
  double unused;
  if (!run_replay_refit(replay, &unused, &fault)) return fail(bench, &fault);
  run_replay_memcpy(replay);
  for (uint32_t i = 0; i < bench->repeat; i++) {
    memcpys[i] = run_replay_memcpy(replay);
    if (i + 1 == bench->repeat) run_pattern_poison(&bench->pattern, true);
    if (!run_replay_refit(replay, &refits[i], &fault)) return fail(bench, &fault);
  }
  if (run_pattern_check(&bench->pattern)) return CLI_YES;
  fprintf(stderr, "%s: %s: ", PROGRAM, bench->c->name);
  run_mismatch_print(&bench->plan, &bench->pattern.first, stderr);
  return CLI_NO;
}

static int measure_mode(struct bench *bench, enum run_mode mode, double *rate, double *memcpy_rate) {
  struct run_options options = {.mode = mode, .timeout_seconds = 120};
  struct reshard_fault fault;
  double *samples = calloc(2 * (size_t)bench->repeat, sizeof *samples);
  if (!samples) return cli_trouble(PROGRAM, "out of memory");
  run_pattern_poison(&bench->pattern, false);
  struct run_replay *replay = run_replay_start(&bench->plan, "-", &bench->memory, &options, &fault);
  int status = replay ? take_turns(bench, replay, samples, samples + bench->repeat) : fail(bench, &fault);
  if (replay) run_replay_stop(replay);
  *rate = (double)bench->plan.summary->wanted_bytes / run_median(samples, bench->repeat) / 1e9;
  *memcpy_rate =
      (double)bench->memory.side[RSP_INFER].arena_bytes / run_median(samples + bench->repeat, bench->repeat) / 1e9;
  free(samples);
  return status;
}

static int measure(struct bench *bench, struct bench_result *result) {
  if (!run_memory_init(&bench->memory, &bench->plan) || !run_values_init(&bench->values, &bench->plan))
    return cli_trouble(PROGRAM, "out of memory");
  uint64_t needed = run_memory_needed(&bench->memory.side[0]) + run_memory_needed(&bench->memory.side[1]);
  char needs[32], has[32];
  if (needed > run_memory_available())
    return cli_trouble(PROGRAM, "%s takes %s of memory, of which %s is free; see --size", bench->c->name,
                       cli_bytes((double)needed, needs), cli_bytes((double)run_memory_available(), has));
  if (!run_memory_allocate(&bench->memory.side[0]) || !run_memory_allocate(&bench->memory.side[1]))
    return cli_trouble(PROGRAM, "out of memory");
  run_pattern_init(&bench->pattern, &bench->plan, &bench->values, &bench->memory, 1);
  run_pattern_begin(&bench->pattern, 0);
  run_pattern_fill(&bench->pattern);
  result->bytes = bench->plan.summary->wanted_bytes;
  result->world = bench->plan.header->world;
  int status = measure_mode(bench, RUN_FUSED, &result->fused, &result->fused_memcpy);
  if (!status) status = measure_mode(bench, RUN_STAGED, &result->staged, &result->staged_memcpy);
  run_pattern_free(&bench->pattern);
  return status;
}

int bench_measure(const struct bench_case *c, uint32_t repeat, struct bench_result *result) {
  *result = (struct bench_result){0};
  struct bench *bench = calloc(1, sizeof *bench);
  if (!bench) return cli_trouble(PROGRAM, "out of memory");
  bench->c = c;
  bench->repeat = repeat;
  size_t bytes = 0;
  void *plan = compile(c, &bytes);
  struct rsp_error error;
  int status = CLI_NO;
  if (plan && rsp_open_memory(plan, bytes, &bench->plan, &error) == RSP_OK) {
    status = measure(bench, result);
    run_memory_free(&bench->memory);
    run_values_free(&bench->values);
    rsp_close(&bench->plan);
  } else {
    cli_trouble(PROGRAM, "%s does not compile", c->name);
  }
  free(plan);
  free(bench);
  return status;
}
