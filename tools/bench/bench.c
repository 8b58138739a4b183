// SPDX-License-Identifier: Apache-2.0
//
// reshard-bench: replay on plain memory beside memcpy of the same bytes on the same threads, in one run. In: sizes.
// Out: a table, or JSON. Not a timed test: the ratios depend on the machine.

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/case.h"
#include "tools/cli/cli.h"
#include "tools/run_memory.h"

#define PROGRAM "reshard-bench"

static const char help[] =
    "reshard-bench - replay on this machine beside memcpy\n\n"
    "Usage: reshard-bench [OPTIONS]\n\n"
    "  --library DIR   plans/library of the source tree (default: where this was built)\n"
    "  --only WORD     rows whose name holds the word\n"
    "  --repeat N      replays per row and mode (default 9); medians are printed\n"
    "  --size BYTES    of the rows that are made up (default 1GB)\n"
    "  --json\n"
    "  --help\n\n"
    "replay and memcpy: GB/s of payload, the same bytes, the same number of threads, taking turns. Fused copies from\n"
    "buffer to buffer; staged runs the rounds as a network would, and is for information.\n"
    "Exit status: 0 measured, 1 a byte came out wrong, 2 trouble. A target that is missed is printed, not an error.\n";

struct args {
  const char *library, *only;
  uint32_t repeat;
  uint64_t size;
  bool json;
};

#define CASES 4

struct cases {
  struct bench_case rows[CASES];
  char *text[6];
};

// A bf16 matrix of about `bytes` bytes, `columns` wide.
static char *layout(uint64_t bytes, unsigned columns, unsigned ranks, const char *cut) {
  char *text = NULL;
  uint64_t unit = UINT64_C(2) * columns, rows = bytes / unit / 64 * 64;
  if (asprintf(&text, "tensor \"w\" bf16 [%" PRIu64 ", %u];\nmesh g [tp: %u];\non g { buffer \"w\"%s; }\n",
               rows ? rows : 64, columns, ranks, cut) < 0)
    abort();
  return text;
}

static char *in_library(const char *library, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", library, name) < 0) abort();
  return path;
}

static void make_cases(struct cases *cases, const struct args *args) {
  char **t = cases->text;
  t[0] = layout(args->size, 4096, 4, "[_ @tp, _]");
  t[1] = layout(args->size, 4096, 2, "[_ @tp, _]");
  t[2] = layout(args->size, 512, 2, "[_ @tp, _]");
  t[3] = layout(args->size, 512, 8, "[_, _ @tp]");
  t[4] = in_library(args->library, "megatron/qwen3-0.6b.layout");
  t[5] = in_library(args->library, "vllm/qwen3-0.6b.layout");
  cases->rows[0] = (struct bench_case){"row cuts, 4 ranks to 2", t[0], t[1], NULL, 0.9};
  cases->rows[1] = (struct bench_case){"rows to columns of 128 bytes", t[2], t[3], NULL, 0.8};
  cases->rows[2] = (struct bench_case){"columns of 128 bytes to rows", t[3], t[2], NULL, 0.8};
  cases->rows[3] = (struct bench_case){"Qwen3-0.6B, Megatron to vLLM", t[4], t[5], NULL, 0.8};
}

static void print_head(const struct args *args) {
  printf("%u processors, medians of %" PRIu32 ", GB/s of payload\n\n", run_processors(), args->repeat);
  printf("%-30s %7s %9s | %7s %7s %6s %7s | %7s %6s\n", "", "threads", "bytes", "fused", "memcpy", "ratio", "target",
         "staged", "ratio");
}

static void print_row(const struct bench_case *c, const struct bench_result *r) {
  char bytes[32];
  double ratio = r->fused / r->fused_memcpy;
  printf("%-30s %7" PRIu32 " %9s | %7.2f %7.2f %6.2f %4.2f %s | %7.2f %6.2f\n", c->name, r->world,
         cli_bytes((double)r->bytes, bytes), r->fused, r->fused_memcpy, ratio, c->target,
         ratio >= c->target ? "ok" : "--", r->staged, r->staged / r->staged_memcpy);
  fflush(stdout);
}

static json_t *row_json(const struct bench_case *c, const struct bench_result *r) {
  return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", c->name, "threads",
                   (json_int_t)r->world, "bytes", (json_int_t)r->bytes, "target", c->target, "fused", r->fused,
                   "fused_memcpy", r->fused_memcpy, "fused_ratio", r->fused / r->fused_memcpy, "staged", r->staged,
                   "staged_memcpy", r->staged_memcpy, "staged_ratio", r->staged / r->staged_memcpy);
}

static int run_all(const struct args *args) {
  struct cases cases;
  int worst = CLI_YES;
  json_t *rows = json_array();
  make_cases(&cases, args);
  if (!args->json) print_head(args);
  for (int i = 0; i < CASES; i++) {
    struct bench_result result;
    const struct bench_case *c = &cases.rows[i];
    if (args->only && !strstr(c->name, args->only)) continue;
    int status = bench_measure(c, args->repeat, &result);
    if (status > worst) worst = status;
    if (status) continue;
    if (args->json)
      json_array_append_new(rows, row_json(c, &result));
    else
      print_row(c, &result);
  }
  if (args->json) {
    json_t *all = json_pack("{s:i, s:I, s:o}", "processors", (int)run_processors(), "repeat", (json_int_t)args->repeat,
                            "rows", rows);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
  } else {
    json_decref(rows);
  }
  for (int i = 0; i < 6; i++) free(cases.text[i]);
  return cli_finish(PROGRAM, worst);
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"library", required_argument, NULL, 'l'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"repeat", required_argument, NULL, 'r'},
                                          {"size", required_argument, NULL, 's'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  struct args args = {.library = RESHARD_LIBRARY, .repeat = 9, .size = UINT64_C(1000000000)};
  int64_t number;
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case 'h':
      return cli_help(help);
    case 'l':
      args.library = optarg;
      break;
    case 'o':
      args.only = optarg;
      break;
    case 'j':
      args.json = true;
      break;
    case 'r':
      if (!cli_parse_number(optarg, 1, 10000, &number))
        return cli_usage(PROGRAM, "--repeat takes a number from 1 to 10000");
      args.repeat = (uint32_t)number;
      break;
    case 's':
      if (!cli_parse_size(optarg, &args.size)) return cli_usage(PROGRAM, "--size takes bytes, such as 256MiB");
      break;
    default:
      return cli_usage(PROGRAM, "that option is not known, or lacks its value");
    }
  }
  if (optind != argc) return cli_usage(PROGRAM, "'%s' is not an option", argv[optind]);
  return run_all(&args);
}
