// SPDX-License-Identifier: Apache-2.0
// The command line of reshard run; see run_args.h.

#include "tools/run_args.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cli.h"

#define REPEAT_MAX 1000000

const char run_help[] =
    "reshard run - replay a plan, every rank a thread or a process, and check every byte\n\n"
    "Usage: reshard run [OPTIONS] PLAN\n"
    "       mpiexec -n WORLD reshard run --backend mpi [OPTIONS] PLAN\n"
    "       torchrun ... reshard run --backend nccl --share DIR [OPTIONS] PLAN\n\n"
    "Without --in, training buffers hold a keyed hash of (tensor, index), and every byte of every inference buffer is\n"
    "checked against the plan's specification, under two keys or more. With --in they are read from files.\n\n"
    "  --backend host     every rank a thread of this process (default)\n"
    "  --backend mpi      every rank a process that mpiexec has started; staged. The mpiexec of the MPI that this was\n"
    "                     built with: on Debian, mpiexec.mpich or mpiexec.openmpi\n"
    "  --backend nccl     every rank a process with a GPU of its own; staged\n"
    "  --share DIR        nccl: an existing directory that all processes share; they meet there\n"
    "  --rank R, --world N, --device D    nccl: this process; default: as torchrun, srun or mpiexec says\n"
    "  --cuda-library FILE, --nccl-library FILE    nccl: instead of those with the usual names\n"
    "  --mode fused       copy straight from buffer to buffer (host: default)\n"
    "  --mode staged      run the plan's rounds and staging as a network would\n"
    "  --verify           the runtime, too, checks that what is received is what was sent\n"
    "  --in DIR           read DIR/train-<rank>.safetensors, one per training rank that holds buffers\n"
    "  --out DIR          write DIR/infer-<rank>.safetensors, one per inference rank that holds buffers; without "
    "--in,\n"
    "                     none of them may be there already\n"
    "  --repeat N         time N replays (default: about a second's worth; with --in: 1)\n"
    "  --seed S           another set of keys\n"
    "  --delay-seed S     staged: seeded delays on each rank, so that a wrong overlap shows\n"
    "  --timeout SECONDS  give up on a rank that does not answer (default 30)\n"
    "  --inject RANK:KIND[:ROUND[:SECONDS]]    see what a failure looks like: that world rank will die, fail, stall "
    "or\n"
    "                     flip (host, mpi: a byte) before the round, or have no-memory\n"
    "  --json             one JSON object instead of the table (tools/RUN.md)\n"
    "  --help\n\n"
    "Exit status: 0 every byte is right, or the files are written; 1 something is wrong, missing or does not fit; 2 "
    "trouble.\n";

const char *const run_mode_words[] = {"fused", "staged", "none"};

static bool parse_mode(const char *word, enum run_mode *mode) {
  for (int i = 0; i < 3; i++)
    if (!strcmp(word, run_mode_words[i])) {
      *mode = (enum run_mode)i;
      return true;
    }
  return false;
}

static int parse_number(const struct run_args *args, const char *option, const char *text, int64_t lo, int64_t hi,
                        int64_t *number) {
  if (cli_parse_number(text, lo, hi, number)) return 0;
  return cli_usage(args->program, "%s takes a number from %" PRId64 " to %" PRId64 ", not '%s'", option, lo, hi, text);
}

enum {
  OPT_BACKEND = 1000,
  OPT_MODE,
  OPT_IN,
  OPT_OUT,
  OPT_REPEAT,
  OPT_SEED,
  OPT_DELAY,
  OPT_TIMEOUT,
  OPT_INJECT,
  OPT_VERIFY,
  OPT_JSON,
  OPT_SHARE,
  OPT_RANK,
  OPT_WORLD,
  OPT_DEVICE,
  OPT_CUDA,
  OPT_NCCL
};

const char *const run_backend_words[] = {[RESHARD_HOST] = "host", [RESHARD_MPI] = "mpi", [RESHARD_NCCL] = "nccl"};

static int take_backend(struct run_args *args, const char *value) {
  for (int i = 0; i < 3; i++) {
    if (strcmp(value, run_backend_words[i])) continue;
    args->replay.backend = (enum reshard_backend)i;
    return 0;
  }
  return cli_usage(args->program, "there is no backend '%s'; there are: host, mpi, nccl", value);
}

static int take_inject(struct run_args *args, const char *value) {
  static const char *const kinds[] = {[RESHARD_INJECT_DIE] = "die",
                                      [RESHARD_INJECT_FAIL] = "fail",
                                      [RESHARD_INJECT_NO_MEMORY] = "no-memory",
                                      [RESHARD_INJECT_STALL] = "stall",
                                      [RESHARD_INJECT_FLIP] = "flip"};
  struct run_options *to = &args->replay;
  char kind[16];
  int ends[3] = {0};
  to->inject.kind = RESHARD_INJECT_NONE;
  if (sscanf(value, "%" SCNu32 ":%15[a-z-]%n:%" SCNu32 "%n:%lf%n", &to->inject_rank, kind, &ends[0], &to->inject.round,
             &ends[1], &to->inject.seconds, &ends[2]) >= 2) {
    int end = ends[2] ? ends[2] : ends[1] ? ends[1] : ends[0];
    for (int i = RESHARD_INJECT_DIE; i <= RESHARD_INJECT_FLIP && !value[end]; i++)
      if (!strcmp(kind, kinds[i])) to->inject.kind = (enum reshard_inject_kind)i;
  }
  if (to->inject.kind != RESHARD_INJECT_NONE) return 0;
  return cli_usage(args->program,
                   "--inject takes RANK:KIND[:ROUND[:SECONDS]] with die, fail, no-memory, stall or flip, not '%s'",
                   value);
}

// 1: it is none of these.
static int take_nccl_option(struct run_args *args, int option, const char *value) {
  struct run_launch *launch = &args->replay.launch;
  args->has_launch = true;
  switch (option) {
  case OPT_SHARE:
    launch->share = value;
    return 0;
  case OPT_RANK:
    return parse_number(args, "--rank", value, 0, UINT32_MAX - 1, &launch->rank);
  case OPT_WORLD:
    return parse_number(args, "--world", value, 1, UINT32_MAX - 1, &launch->world);
  case OPT_DEVICE:
    return parse_number(args, "--device", value, 0, 1 << 20, &launch->device);
  case OPT_CUDA:
    launch->cuda_library = value;
    return 0;
  case OPT_NCCL:
    launch->nccl_library = value;
    return 0;
  default:
    return cli_usage(args->program, "that option is not known, or lacks its value");
  }
}

static int take_option(struct run_args *args, int option, const char *value) {
  int64_t number = 0;
  int status = 0;
  switch (option) {
  case OPT_BACKEND:
    return take_backend(args, value);
  case OPT_VERIFY:
    args->replay.verify = true;
    break;
  case OPT_MODE:
    args->has_mode = true;
    if (parse_mode(value, &args->replay.mode)) return 0;
    return cli_usage(args->program, "--mode is fused or staged, not '%s'", value);
  case OPT_IN:
    args->in = value;
    break;
  case OPT_OUT:
    args->out = value;
    break;
  case OPT_JSON:
    args->json = true;
    break;
  case OPT_INJECT:
    return take_inject(args, value);
  case OPT_REPEAT:
    status = parse_number(args, "--repeat", value, 1, REPEAT_MAX, &number);
    args->repeat = (uint32_t)number;
    break;
  case OPT_SEED:
    status = parse_number(args, "--seed", value, 0, INT64_MAX, &number);
    args->seed = (uint64_t)number;
    break;
  case OPT_DELAY:
    status = parse_number(args, "--delay-seed", value, 1, INT64_MAX, &number);
    args->replay.delay_seed = (uint64_t)number;
    break;
  case OPT_TIMEOUT:
    status = parse_number(args, "--timeout", value, 1, 86400, &number);
    args->replay.timeout_seconds = (double)number;
    break;
  default:
    return take_nccl_option(args, option, value);
  }
  return status;
}

// What goes with what.
static int check_args(struct run_args *args) {
  struct run_options *replay = &args->replay;
  const char *backend = run_backend_words[replay->backend];
  if (args->has_launch && replay->backend != RESHARD_NCCL)
    return cli_usage(args->program, "--share, --rank, --world, --device and the libraries go with --backend nccl");
  if (replay->backend != RESHARD_HOST) {
    if (args->has_mode && replay->mode == RUN_FUSED)
      return cli_usage(args->program, "--backend %s is staged: there is no --mode fused between processes", backend);
    if (!strcmp(args->plan, "-")) return cli_usage(args->program, "standard input has the plan for one process only");
    if (replay->delay_seed) return cli_usage(args->program, "--delay-seed goes with --backend host");
    if (replay->mode == RUN_FUSED) replay->mode = RUN_STAGED;
  }
  if (replay->backend == RESHARD_NCCL && replay->inject.kind == RESHARD_INJECT_FLIP)
    return cli_usage(args->program, "--inject RANK:flip goes with --backend host and mpi");
  if (replay->delay_seed && replay->mode != RUN_STAGED)
    return cli_usage(args->program, "--delay-seed goes with --mode staged");
  replay->guard_staging = replay->delay_seed != 0;
  if (replay->backend == RESHARD_HOST) return run_launch_alone(args->program);
  return replay->backend == RESHARD_NCCL ? run_launch_find(&replay->launch, args->program) : 0;
}

int run_args_parse(struct run_args *args, int argc, char **argv) {
  static const struct option options[] = {{"backend", required_argument, NULL, OPT_BACKEND},
                                          {"mode", required_argument, NULL, OPT_MODE},
                                          {"in", required_argument, NULL, OPT_IN},
                                          {"out", required_argument, NULL, OPT_OUT},
                                          {"repeat", required_argument, NULL, OPT_REPEAT},
                                          {"seed", required_argument, NULL, OPT_SEED},
                                          {"delay-seed", required_argument, NULL, OPT_DELAY},
                                          {"timeout", required_argument, NULL, OPT_TIMEOUT},
                                          {"inject", required_argument, NULL, OPT_INJECT},
                                          {"verify", no_argument, NULL, OPT_VERIFY},
                                          {"json", no_argument, NULL, OPT_JSON},
                                          {"share", required_argument, NULL, OPT_SHARE},
                                          {"rank", required_argument, NULL, OPT_RANK},
                                          {"world", required_argument, NULL, OPT_WORLD},
                                          {"device", required_argument, NULL, OPT_DEVICE},
                                          {"cuda-library", required_argument, NULL, OPT_CUDA},
                                          {"nccl-library", required_argument, NULL, OPT_NCCL},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  *args = (struct run_args){.program = argv[0], .replay = {.mode = RUN_FUSED, .timeout_seconds = 30}};
  args->replay.launch = (struct run_launch){.rank = -1, .world = -1, .device = -1};
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') return -1;
    int status = take_option(args, option, optarg);
    if (status) return status;
  }
  if (optind + 1 != argc) return cli_usage(args->program, optind == argc ? "a plan is missing" : "one plan at a time");
  args->plan = argv[optind];
  return check_args(args);
}
