// SPDX-License-Identifier: Apache-2.0
//
// In: argv of reshardc. Out: struct reshardc_options, or an answer (help, version, a code explained), or a usage error.

#include "tools/reshardc_options.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/cli.h"

static const char help_text[] =
    "reshardc - compile two layouts into a plan\n"
    "\n"
    "Usage: reshardc [OPTION]... TRAIN INFER -o PLAN\n"
    "       reshardc --explain CODE\n"
    "\n"
    "Reads the layout of the training side and the layout of the inference side, and\n"
    "writes the plan that moves every weight from one to the other: which rank sends\n"
    "which bytes to which rank, in which round. A message about a mistake names the\n"
    "file, line and column. When there is one, PLAN stays as it was.\n"
    "\n"
    "Inputs\n"
    "  TRAIN, INFER           the two layout files; one of them may be - (standard input)\n"
    "      --model=FILE       a catalogue of tensors (YAML), for both sides: the same as\n"
    "                         `model \"FILE\";` on the first line of both\n"
    "      --cluster=FILE     where the ranks live (YAML); without it, each side fills\n"
    "                         hosts of 8 GPUs with 8 NICs and one NVLink domain each\n"
    "  -D, --define=[train.|infer.]NAME=VALUE\n"
    "                         override `param NAME` on every side that has it, or on one;\n"
    "                         VALUE is an expression of literals: -D TP=8,\n"
    "                         -D train.stages=[11,12,11]; for a string, the text itself\n"
    "  -I, --include=DIR      look for included files and models here too, after the\n"
    "                         directory of the file that names them; may be repeated.\n"
    "                         The library that ships with reshardc is looked into last:\n"
    "                         include \"vllm/grid.inc\";\n"
    "\n"
    "Output\n"
    "  -o, --output=PLAN      where the plan goes: whole or not at all; - is standard output\n"
    "      --json             print one JSON object on standard output: see below\n"
    "      --stats            print time and memory of each pass, and counts, on standard\n"
    "                         error\n"
    "      --dump=FORM        print an intermediate form on standard output: ast, layout,\n"
    "                         placement, flows, cluster, routes, rounds or plan\n"
    "      --stop-after=PASS  end after this pass; no plan is written\n"
    "\n"
    "Limits of the plan\n"
    "      --staging=SIZE     staging memory per rank (default 256MiB)\n"
    "      --chunk=SIZE       bytes a rank moves per round, or AUTO (default): chosen\n"
    "      --max-ops=N        sends and receives per rank per round (default 1024)\n"
    "      --max-peers=N      peers per rank (default 0: no limit)\n"
    "  A SIZE is a number of bytes, or one with a unit: KiB MiB GiB TiB, kB MB GB TB.\n"
    "\n"
    "Other\n"
    "      --explain=CODE     say what a code such as RS0031 means\n"
    "  -h, --help             print this\n"
    "      --version          print the version\n"
    "\n"
    "After a success, standard error ends with the bound, what binds it and the simulated\n"
    "time, and then the coverage: tensors, bytes, and that every wanted element has exactly\n"
    "one delivery.\n"
    "\n"
    "The JSON object has: schema (\"reshardc/1\"), status (\"compiled\", \"stopped\",\n"
    "\"rejected\", \"trouble\"), plan (the path), plan_id, plan_bytes, world, train_world,\n"
    "infer_world, rounds, coverage {tensors, elements, bytes, deliveries}, bytes {wanted,\n"
    "local, nvlink, network, network_minimum}, seconds {compile, bound, makespan}, bound\n"
    "{term, words, ratio}, passes [{pass, seconds, cpu_seconds, peak_bytes}], stats\n"
    "{...} and diagnostics [{severity, code, text}]. makespan is simulated, and ratio is makespan over\n"
    "bound. Without a plan, what belongs to it is null.\n"
    "\n"
    "Exit status: 0 compiled, 1 the layouts are refused, 2 trouble (usage, files).\n"
    "NO_COLOR, if set and not empty, turns colour off; there is none but on a terminal.\n"
    "\n"
    "Example: reshardc train.layout infer.layout -o plan.bin && reshard verify plan.bin\n";

enum {
  OPT_MODEL = 256,
  OPT_CLUSTER,
  OPT_JSON,
  OPT_STATS,
  OPT_DUMP,
  OPT_STOP,
  OPT_STAGING,
  OPT_CHUNK,
  OPT_MAX_OPS,
  OPT_MAX_PEERS,
  OPT_SEED_BUG,
  OPT_EXPLAIN,
  OPT_VERSION
};

static const struct option long_options[] = {{"model", required_argument, NULL, OPT_MODEL},
                                             {"cluster", required_argument, NULL, OPT_CLUSTER},
                                             {"define", required_argument, NULL, 'D'},
                                             {"include", required_argument, NULL, 'I'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"stats", no_argument, NULL, OPT_STATS},
                                             {"dump", required_argument, NULL, OPT_DUMP},
                                             {"stop-after", required_argument, NULL, OPT_STOP},
                                             {"staging", required_argument, NULL, OPT_STAGING},
                                             {"chunk", required_argument, NULL, OPT_CHUNK},
                                             {"max-ops", required_argument, NULL, OPT_MAX_OPS},
                                             {"max-peers", required_argument, NULL, OPT_MAX_PEERS},
                                             {"seed-bug", required_argument, NULL, OPT_SEED_BUG}, /* base/seed.h */
                                             {"explain", required_argument, NULL, OPT_EXPLAIN},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, OPT_VERSION},
                                             {NULL, 0, NULL, 0}};

static const char *const forms[] = {"ast", "layout", "placement", "flows", "cluster", "routes", "rounds", "plan"};
static const char *const passes[] = {"parse",    "resolve", "place",    "pair",  "intersect",
                                     "topology", "route",   "schedule", "lower", "emit"};

static const char program[] = "reshardc";

static bool one_of(const char *option, const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(word, words[i])) return true;
  const char *near = cli_suggest(word, words, count);
  char list[256];
  size_t used = 0;
  for (size_t i = 0; i < count; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
  cli_usage(program, "%s=%s: %s%s%sone of %s is needed", option, word, near ? "did you mean '" : "", near ? near : "",
            near ? "'? " : "", list);
  return false;
}

// "NAME=VALUE", "train.NAME=VALUE", "infer.NAME=VALUE". Cuts `text`, which is argv's and ours to change.
static bool add_define(struct rsc_options *o, char *text) {
  struct rsc_define define = {.side = -1, .name = text};
  char *equals = strchr(text, '=');
  if (!equals || equals == text) {
    cli_usage(program, "-D %s: NAME=VALUE is needed", text);
    return false;
  }
  *equals = '\0';
  define.text = equals + 1;
  if (!strncmp(text, "train.", 6)) define.side = RSC_TRAIN, define.name = text + 6;
  if (!strncmp(text, "infer.", 6)) define.side = RSC_INFER, define.name = text + 6;
  if (!*define.name || strchr(define.name, '.')) {
    cli_usage(program, "-D %s=%s: the name is that of a param, or train.NAME or infer.NAME", text, define.text);
    return false;
  }
  ((struct rsc_define *)o->defines)[o->define_count++] = define;
  return true;
}

static bool read_size(const char *option, const char *text, uint64_t lo, uint64_t *out) {
  if (cli_parse_size(text, out) && *out >= lo) return true;
  cli_usage(program, "%s=%s: a size is needed, from %llu B to less than 8 EiB, such as 256MiB", option, text,
            (unsigned long long)lo);
  return false;
}

static bool read_count(const char *option, const char *text, int64_t lo, uint32_t *out) {
  int64_t number;
  if (!cli_parse_number(text, lo, UINT32_MAX, &number)) {
    cli_usage(program, "%s=%s: a number from %lld to %lu is needed", option, text, (long long)lo,
              (unsigned long)UINT32_MAX);
    return false;
  }
  *out = (uint32_t)number;
  return true;
}

static enum reshardc_next explain(const char *code) {
  const char *sentence = rsc_diag_explain(code);
  if (!sentence) {
    cli_usage(program, "--explain=%s: there is no such code; codes look like RS0031", code);
    return RESHARDC_EXIT_TROUBLE;
  }
  printf("%s\n", sentence);
  return cli_finish(program, CLI_YES) == CLI_YES ? RESHARDC_EXIT_OK : RESHARDC_EXIT_TROUBLE;
}

static enum reshardc_next answer(const char *text) {
  fputs(text, stdout);
  return cli_finish(program, CLI_YES) == CLI_YES ? RESHARDC_EXIT_OK : RESHARDC_EXIT_TROUBLE;
}

static enum reshardc_next goes_on(bool ok) {
  return ok ? RESHARDC_COMPILE : RESHARDC_EXIT_TROUBLE;
}

static enum reshardc_next read_option(int option, char *text, struct reshardc_options *out) {
  struct rsc_options *o = &out->compile;
  switch (option) {
  case OPT_MODEL:
    o->model_path = text;
    break;
  case OPT_CLUSTER:
    o->cluster_path = text;
    break;
  case 'D':
    return goes_on(add_define(o, text));
  case 'I':
    ((const char **)o->include_dirs)[o->include_dir_count++] = text;
    break;
  case 'o':
    out->output = text;
    break;
  case OPT_JSON:
    out->json = true;
    break;
  case OPT_STATS:
    out->stats = true;
    break;
  case OPT_DUMP:
    o->dump = text;
    return goes_on(one_of("--dump", text, forms, sizeof forms / sizeof *forms));
  case OPT_STOP:
    o->stop_after = text;
    return goes_on(one_of("--stop-after", text, passes, sizeof passes / sizeof *passes));
  case OPT_STAGING:
    return goes_on(read_size("--staging", text, 1, &o->staging));
  case OPT_CHUNK:
    if (!strcmp(text, "AUTO") || !strcmp(text, "auto"))
      o->chunk = 0;
    else
      return goes_on(read_size("--chunk", text, 1, &o->chunk));
    break;
  case OPT_MAX_OPS:
    return goes_on(read_count("--max-ops", text, 2, &o->max_ops));
  case OPT_MAX_PEERS:
    return goes_on(read_count("--max-peers", text, 0, &o->max_peers));
  case OPT_SEED_BUG:
    o->seed_bug = strtoull(text, NULL, 10);
    return goes_on(true);
  case OPT_EXPLAIN:
    return explain(text);
  case 'h':
    return answer(help_text);
  case OPT_VERSION:
    return answer("reshardc " CLI_VERSION "\n");
  default: // getopt has said what is wrong
    fprintf(stderr, "Try 'reshardc --help'.\n");
    return RESHARDC_EXIT_TROUBLE;
  }
  return RESHARDC_COMPILE;
}

static bool usage(const char *message) {
  cli_usage(program, "%s", message);
  return false;
}

static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

// What options mean together.
static bool check(const struct reshardc_options *out) {
  const struct rsc_options *o = &out->compile;
  const char *inputs[] = {o->train_path, o->infer_path, o->cluster_path, o->model_path};
  int standard = 0;
  for (size_t i = 0; i < 4; i++) standard += inputs[i] && !strcmp(inputs[i], "-");
  bool to_stdout = out->output && !strcmp(out->output, "-");
  for (size_t i = 0; i < 4; i++)
    if (same_file(out->output, inputs[i])) return usage("PLAN is one of the inputs; it would be overwritten");
  if (standard > 1) return usage("only one input may be - (standard input)");
  if (!out->output && !o->dump && !o->stop_after) return usage("say where the plan goes: -o PLAN");
  if (out->output && o->stop_after && strcmp(o->stop_after, "emit") != 0)
    return usage("--stop-after makes no plan; leave -o out");
  if (to_stdout + out->json + (o->dump != NULL) > 1)
    return usage("-o -, --json and --dump all want standard output; give one of them");
  if (to_stdout && isatty(STDOUT_FILENO))
    return usage("a plan is binary and standard output is a terminal; redirect it");
  return true;
}

// The library of layouts, which stands at a fixed place from this program's; NULL if it is not there.
static char *find_library(void) {
  char self[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len <= 0) return NULL;
  self[len] = '\0';
  char *slash = strrchr(self, '/'), *dir = NULL;
  if (!slash || asprintf(&dir, "%.*s/" RESHARD_LIBRARY_FROM_BIN, (int)(slash - self), self) < 0) return NULL;
  char *real = realpath(dir, NULL);
  free(dir);
  return real;
}

enum reshardc_next reshardc_options_read(int argc, char **argv, struct reshardc_options *out) {
  *out = (struct reshardc_options){.compile = {.staging = 256ull << 20, .max_ops = 1024, .dump_file = stdout}};
  out->compile.defines = calloc((size_t)argc + 1, sizeof *out->compile.defines);
  out->compile.include_dirs = calloc((size_t)argc + 1, sizeof *out->compile.include_dirs);
  if (!out->compile.defines || !out->compile.include_dirs) abort();
  out->compile.library_dir = find_library();
  for (int option; (option = getopt_long(argc, argv, "D:I:o:h", long_options, NULL)) != -1;) {
    enum reshardc_next next = read_option(option, optarg, out);
    if (next != RESHARDC_COMPILE) return next;
  }
  if (argc - optind < 2) cli_usage(program, "two layouts are needed: TRAIN and INFER");
  if (argc - optind > 2) cli_usage(program, "'%s' is one input too many", argv[optind + 2]);
  if (argc - optind != 2) return RESHARDC_EXIT_TROUBLE;
  out->compile.train_path = argv[optind];
  out->compile.infer_path = argv[optind + 1];
  return check(out) ? RESHARDC_COMPILE : RESHARDC_EXIT_TROUBLE;
}

void reshardc_options_free(struct reshardc_options *options) {
  free((void *)options->compile.defines);
  free((void *)options->compile.include_dirs);
  free((void *)(uintptr_t)options->compile.library_dir);
}
