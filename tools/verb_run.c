// SPDX-License-Identifier: Apache-2.0
//
// reshard run: replays a plan on this machine. In: a plan, and training buffers made up or read from files. Out: a
// verdict on every byte, or files; a table or JSON. Exit: 0 all is right, 1 something is not, 2 trouble.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/run_args.h"
#include "tools/run_files.h"
#include "tools/run_pattern.h"
#include "tools/run_ranks.h"
#include "tools/run_replay.h"
#include "tools/run_report.h"
#include "tools/verbs.h"

struct run {
  struct run_args args;
  struct run_ranks ranks;
  struct rsp_plan plan;
  struct run_values values;
  struct run_memory memory;
  struct run_files files;
  struct run_pattern pattern;
  struct run_replay *replay;
  double *refits, *memcpys;
  uint32_t refit_count, memcpy_count, patterns;
  uint64_t memory_bytes;
  double since;
};

// ---- setting up ----------------------------------------------------------------------------------------------------

static int open_plan(struct run *run) {
  struct rsp_error error = {0};
  enum rsp_status status = rsp_open(run->args.plan, &run->plan, &error);
  if (status == RSP_OK) return run_ranks_suit(&run->ranks, run->plan.header->world);
  if (status == RSP_TROUBLE) return cli_trouble(run->args.program, "cannot read %s: %s", run->args.plan, error.text);
  cli_trouble(run->args.program, "%s is not a sound plan: %s", run->args.plan, error.text);
  return CLI_NO;
}

// What this process takes for itself; mapped files are the system's to keep or drop.
static uint64_t count_memory(const struct run *run) {
  uint64_t bytes = run->files.copied_bytes;
  if (!run->args.in) bytes += run_memory_needed(&run->memory.side[RSP_TRAIN]);
  if (!(run->args.in && run->args.out)) bytes += run_memory_needed(&run->memory.side[RSP_INFER]);
  for (uint32_t r = 0; r < run->plan.header->world; r++) {
    if (run->ranks.apart && r != run->ranks.rank) continue;
    if (run->args.replay.mode == RUN_STAGED) bytes += run->plan.directory[r].staging;
    bytes += run->plan.directory[r].bytes;
  }
  return bytes;
}

static int check_memory(struct run *run) {
  uint64_t available = run_memory_available();
  char needs[32], has[32];
  run->memory_bytes = count_memory(run);
  if (run->memory_bytes <= available - available / 32) return CLI_YES;
  return cli_trouble(
      run->args.program, "this takes %s of memory, of which %s %s: %s", cli_bytes((double)run->memory_bytes, needs),
      cli_bytes((double)available, has), available == UINT64_MAX ? "is known" : "is free",
      run->args.in && run->args.out ? "run it on a larger machine"
                                    : "run it on a larger machine, or on files with --in and --out, which are mapped");
}

static int set_up(struct run *run) {
  const char *program = run->args.program;
  int status = open_plan(run);
  if (status) return status;
  if (!run_memory_init(&run->memory, &run->plan)) return cli_trouble(program, "out of memory");
  if (run->ranks.apart) run_memory_keep(&run->memory, &run->plan, run->ranks.rank);
  run_pattern_init(&run->pattern, &run->plan, &run->values, &run->memory, run->args.seed);
  if (run->ranks.apart) run->pattern.threads = 1; // the other ranks are at work as well
  struct run_side *train = &run->memory.side[RSP_TRAIN], *infer = &run->memory.side[RSP_INFER];
  if (run->args.in) status = run_files_read(&run->files, &run->plan, train, run->args.in, program);
  if (!status) status = check_memory(run);
  // Made-up values are checked in memory, with guards and poison, and copied to the files afterwards.
  if (!status && run->args.out)
    status = run_files_create(&run->files, &run->plan, infer, run->args.out, run->args.in != NULL, program);
  if (status) return status;
  bool made_up = run->args.in == NULL;
  if (made_up && (!run_values_init(&run->values, &run->plan) || !run_memory_allocate(train)))
    return cli_trouble(program, "out of memory");
  if ((made_up || !run->args.out) && !run_memory_allocate(infer)) return cli_trouble(program, "out of memory");
  return CLI_YES;
}

// The first process says what is wrong with all; what only one sees, it says.
static int set_up_all(struct run *run) {
  int status = run_ranks_agree(&run->ranks, run->ranks.rank == 0 ? set_up(run) : CLI_YES);
  if (!status && run->ranks.rank != 0) status = set_up(run);
  return run_ranks_agree(&run->ranks, status);
}

static void say_fault(const struct run *run, const struct reshard_fault *fault) {
  cli_trouble(run->args.program, "%s", fault->what);
  if (fault->buffer[0] && !strstr(fault->what, fault->buffer)) fprintf(stderr, "  buffer '%s'\n", fault->buffer);
  if (fault->file[0] && fault->line) fprintf(stderr, "  described at %s:%" PRIu32 "\n", fault->file, fault->line);
}

// Of many processes the first one says it, and the one that it happened to.
static int runtime_failed(const struct run *run, const struct reshard_fault *fault) {
  bool silent = run->ranks.rank != 0 && fault->rank != run->ranks.rank;
  if (!silent) say_fault(run, fault);
  switch (fault->status) {
  case RESHARD_NO_MEMORY:
  case RESHARD_CANNOT_READ:
    return CLI_TROUBLE;
  default:
    return CLI_NO;
  }
}

static int start_replay(struct run *run) {
  struct reshard_fault fault;
  cli_progress(run->since, "preparing %" PRIu32 " ranks", run->plan.header->world);
  int status = run_ranks_agree(&run->ranks, CLI_YES); // all are there: what the runtime waits for is short
  if (status) return status;
  run->args.replay.world_rank = run->ranks.rank;
  run->replay = run_replay_start(&run->plan, run->args.plan, &run->memory, &run->args.replay, &fault);
  return run_ranks_agree(&run->ranks, run->replay ? CLI_YES : runtime_failed(run, &fault));
}

static int refit(struct run *run, double *seconds) {
  struct reshard_fault fault = {0};
  int status = run_ranks_agree(&run->ranks, CLI_YES);
  if (status) return status;
  if (!run_replay_refit(run->replay, seconds, &fault)) status = runtime_failed(run, &fault);
  return run_ranks_agree_time(&run->ranks, status, seconds);
}

static bool allocate_samples(struct run *run, double first, uint32_t otherwise) {
  if (!run->args.repeat) run->args.repeat = otherwise;
  if (!run->args.repeat) run->args.repeat = first > 0.3 ? 3 : first > 0.02 ? (uint32_t)(1 / first) : 50;
  run->refits = calloc(run->args.repeat, sizeof *run->refits);
  run->memcpys = calloc(run->args.repeat, sizeof *run->memcpys);
  return run->refits && run->memcpys;
}

// ---- made-up values ------------------------------------------------------------------------------------------------

// Replays and plain copies in turn, so that both see the same machine. The last replay is the one that is checked.
static int time_replays(struct run *run, double first) {
  if (!allocate_samples(run, first, 0)) return cli_trouble(run->args.program, "out of memory");
  bool compared = !run->ranks.apart;
  if (compared) run_replay_memcpy(run->replay); // both have then been run once
  for (uint32_t i = 0; i < run->args.repeat; i++) {
    cli_progress(run->since, "timing replay %" PRIu32 " of %" PRIu32, i + 1, run->args.repeat);
    if (compared) run->memcpys[run->memcpy_count++] = run_replay_memcpy(run->replay);
    if (i + 1 == run->args.repeat) run_pattern_poison(&run->pattern, true);
    int status = refit(run, &run->refits[run->refit_count]);
    if (status) return status;
    run->refit_count++;
  }
  return CLI_YES;
}

static int run_once(struct run *run, uint32_t number) {
  double first = 0;
  run_pattern_begin(&run->pattern, number);
  cli_progress(run->since, "pattern %" PRIu32 " of %" PRIu32 ": filling", number + 1, run->values.replays);
  run_pattern_fill(&run->pattern);
  run_pattern_poison(&run->pattern, number > 0);
  int status = number == 0 ? start_replay(run) : CLI_YES;
  if (status) return status;
  // A warm-up of what is timed comes first; its bytes are then poisoned.
  if (number == 1 && !(status = refit(run, &first))) status = time_replays(run, first);
  if (number != 1) status = refit(run, &first);
  if (status) return status;
  cli_progress(run->since, "pattern %" PRIu32 " of %" PRIu32 ": checking", number + 1, run->values.replays);
  run->patterns = number + 1;
  return run_ranks_agree(&run->ranks, run_pattern_check(&run->pattern) ? CLI_YES : CLI_NO);
}

static void extract_slot(void *user, uint64_t i) {
  struct run *run = user;
  const struct run_slot *slot = &run->memory.side[RSP_INFER].slots[i];
  run_pattern_extract(&run->pattern, slot, slot->file_data);
}

static int run_patterns(struct run *run) {
  int status = CLI_YES;
  for (uint32_t i = 0; i < run->values.replays && !status; i++) status = run_once(run, i);
  if (!status && run->args.out)
    run_parallel(run->pattern.threads, run->memory.side[RSP_INFER].slot_count, extract_slot, run);
  return status;
}

// ---- files ---------------------------------------------------------------------------------------------------------

static int run_on_files(struct run *run) {
  int status = start_replay(run);
  if (!status && !allocate_samples(run, 0, 1)) status = cli_trouble(run->args.program, "out of memory");
  for (uint32_t i = 0; !status && i < run->args.repeat; i++) {
    cli_progress(run->since, "replay %" PRIu32 " of %" PRIu32, i + 1, run->args.repeat);
    status = refit(run, &run->refits[i]);
    run->refit_count += status == CLI_YES;
  }
  return status;
}

// ---- the verb ------------------------------------------------------------------------------------------------------

// One process prints: the first that has a wrong byte, else the first one.
static int report(const struct run *run, int status) {
  bool wrong = run->pattern.first.wrong != RUN_RIGHT;
  uint32_t who = run_ranks_first(&run->ranks, wrong);
  if (status && who == RUN_NOBODY) return status; // said already
  if (run->ranks.rank != (who == RUN_NOBODY ? 0 : who)) return status;
  struct run_report r = {.plan = &run->plan,
                         .memory = &run->memory,
                         .backend = run_backend_words[run->args.replay.backend],
                         .processes = run->ranks.count,
                         .verified = run->args.replay.verify,
                         .mode = run_mode_words[run->args.replay.mode],
                         .processors = run_processors(),
                         .memory_bytes = run->memory_bytes,
                         .file_bytes = run->files.file_bytes,
                         .in = run->args.in,
                         .out = run->args.out,
                         .patterns = run->patterns,
                         .right = !wrong,
                         .mismatch = wrong ? &run->pattern.first : NULL,
                         .mismatch_pattern = run->pattern.replay,
                         .refits = run->refits,
                         .refit_count = run->refit_count,
                         .memcpys = run->memcpys,
                         .memcpy_count = run->memcpy_count};
  if (!run->args.json)
    run_report_table(&r, stdout);
  else if (!run_report_json(&r, stdout))
    return cli_trouble(run->args.program, "cannot write the report");
  return cli_finish(run->args.program, status);
}

// A drill that tries nothing must not look like one that was passed.
static void say_untried(const struct run *run) {
  const struct run_options *replay = &run->args.replay;
  const struct reshard_inject *inject = &replay->inject;
  const struct rsp_header *header = run->plan.header;
  bool slept = inject->kind == RESHARD_INJECT_STALL && inject->seconds > 0 && replay->inject_rank < header->world;
  if (inject->kind == RESHARD_INJECT_NONE || slept || run->ranks.rank != 0) return;
  cli_trouble(run->args.program,
              "--inject changed nothing: the plan has %" PRIu32 " world ranks and %" PRIu32
              " rounds, counted from 0; a "
              "stall needs SECONDS, a flip a round in which the rank receives, and --mode staged or --verify",
              header->world, header->rounds);
}

static void tear_down(struct run *run) {
  run_replay_stop(run->replay);
  run_device_close(run->args.replay.device);
  run_ranks_end(&run->ranks);
  run_files_close(&run->files);
  run_pattern_free(&run->pattern);
  run_memory_free(&run->memory);
  run_values_free(&run->values);
  free(run->refits);
  free(run->memcpys);
  rsp_close(&run->plan);
}

// Whether there is a GPU is known before others are waited for.
static int begin(struct run *run) {
  struct run_options *replay = &run->args.replay;
  const char *program = run->args.program;
  run_ranks_alone(&run->ranks, program);
  if (replay->backend == RESHARD_HOST) return CLI_YES;
  if (replay->backend == RESHARD_MPI) return run_ranks_begin_mpi(&run->ranks, program);
  int status = run_device_open(&replay->device, &replay->launch, program);
  if (status) return status;
  status = run_ranks_begin_directory(&run->ranks, &replay->launch, replay->timeout_seconds, program);
  replay->directory = run->ranks.directory;
  return status;
}

int verb_run(int argc, char **argv) {
  struct run_args args;
  int status = run_args_parse(&args, argc, argv);
  if (status) return status < 0 ? cli_help(run_help) : status;
  struct run *run = calloc(1, sizeof *run);
  if (!run) return cli_trouble(args.program, "out of memory");
  run->args = args;
  run->since = cli_seconds();
  status = begin(run);
  if (status) {
    run_device_close(run->args.replay.device);
    free(run);
    return status;
  }
  status = set_up_all(run);
  if (!status) status = args.in ? run_on_files(run) : run_patterns(run);
  cli_progress_end();
  if (!status && args.out) status = run_ranks_agree(&run->ranks, run_files_publish(&run->files, args.program));
  status = run_ranks_agree(&run->ranks, report(run, status));
  if (!status) say_untried(run);
  tear_down(run);
  free(run);
  return status;
}
