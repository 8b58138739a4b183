// SPDX-License-Identifier: Apache-2.0
//
// reshardc: two layouts -> a plan. In: argv and the files it names. Out: the plan, and the talk about it. The compiler
// itself is compiler/pipeline.h; this is its clock, its files and its mouth.

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "plans/plan.h"
#include "tools/cli/cli.h"
#include "tools/cli/json.h"
#include "tools/reshardc_options.h"

struct pass_time {
  char name[24];
  double seconds, cpu_seconds;
  uint64_t peak_bytes;
};

struct run {
  const struct reshardc_options *options;
  double started, last, last_cpu;
  struct pass_time *passes;
  size_t pass_count;
  char *standard; // what standard input held, once it was read
  size_t standard_len;
  bool unreadable; // an input that the command line names: trouble, where an include would be the layout's mistake
  json_t *diagnostics;
  struct rsp_file *file;       // the plan's, once its first bytes are there
  enum rsp_status file_status; // and whether it could be made
  struct rsp_error file_error;
};

static bool is_input(const struct rsc_options *o, const char *path) {
  const char *inputs[] = {o->train_path, o->infer_path, o->cluster_path, o->model_path};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
    if (inputs[i] && !strcmp(inputs[i], path)) return true;
  return false;
}

// Standard input can be read once, but both sides may ask for the same model.
static bool load(void *user, const char *path, char **text, size_t *len) {
  struct run *run = user;
  bool standard = !strcmp(path, "-"), ok = true;
  char *reason = NULL;
  if (!standard)
    ok = cli_read_file(path, text, len, &reason);
  else if (!run->standard)
    ok = cli_read_file("-", &run->standard, &run->standard_len, &reason);
  if (!ok) {
    *text = reason;
    run->unreadable = run->unreadable || is_input(&run->options->compile, path);
    return false;
  }
  if (!standard) return true;
  *len = run->standard_len;
  *text = malloc(*len + 1);
  if (*text) memcpy(*text, run->standard, *len + 1);
  return *text != NULL;
}

static void diagnose(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  struct run *run = user;
  cli_progress_end();
  cli_diagnostic(stderr, rendered);
  char name[16] = "";
  if (code != RSC_CODE_NONE) snprintf(name, sizeof name, "RS%04d", (int)code);
  json_array_append_new(run->diagnostics,
                        json_pack("{s:s, s:o, s:o}", "severity", severity == RSC_ERROR ? "error" : "warning", "code",
                                  name[0] ? json_string(name) : json_null(), "text", cli_json_text(rendered)));
}

static double cpu_of(const struct rusage *u) {
  return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

static void pass_ended(void *user, const char *pass) {
  struct run *run = user;
  double now = cli_seconds();
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  run->passes = realloc(run->passes, (run->pass_count + 1) * sizeof *run->passes);
  if (!run->passes) abort();
  struct pass_time *p = &run->passes[run->pass_count++];
  snprintf(p->name, sizeof p->name, "%s", pass);
  p->seconds = now - run->last;
  p->cpu_seconds = cpu_of(&usage) - run->last_cpu;
  p->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
  run->last = now;
  run->last_cpu += p->cpu_seconds;
  cli_progress(run->started, "reshardc: %s done, %.0f s", pass, now - run->started);
}

struct count {
  const char *name, *words;
  uint64_t value;
};

enum { COUNTS = 11 };

static void list_counts(const struct rsc_stats *s, struct count out[COUNTS]) {
  const struct count all[COUNTS] = {{"tensors", "tensors", s->tensors},
                                    {"buffers", "buffers", s->buffers},
                                    {"classes", "classes of buffers", s->classes},
                                    {"entries", "entries of classes", s->entries},
                                    {"pieces", "pieces of entries", s->pieces},
                                    {"intersections", "box intersections", s->intersections},
                                    {"records", "records (overlaps of parts)", s->records},
                                    {"groups", "groups of flows", s->groups},
                                    {"streams", "streams", s->streams},
                                    {"descriptors", "descriptors", s->descriptors},
                                    {"arena_bytes", "bytes in the arena", s->arena_bytes}};
  memcpy(out, all, sizeof all);
}

static void print_stats(const struct run *run, const struct rsc_result *result, double seconds) {
  struct count counts[COUNTS];
  fprintf(stderr, "%-10s %10s %10s %10s\n", "pass", "ms", "CPU ms", "peak MiB");
  for (size_t i = 0; i < run->pass_count; i++)
    fprintf(stderr, "%-10s %10.2f %10.2f %10.1f\n", run->passes[i].name, run->passes[i].seconds * 1e3,
            run->passes[i].cpu_seconds * 1e3, (double)run->passes[i].peak_bytes / 1048576);
  fprintf(stderr, "%-10s %10.2f\n\n", "all", seconds * 1e3);
  list_counts(&result->stats, counts);
  for (size_t i = 0; i < COUNTS; i++)
    fprintf(stderr, "%12llu %s\n", (unsigned long long)counts[i].value, counts[i].words);
}

static json_t *number(uint64_t value) {
  return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static void add_plan(json_t *object, const char *path, const struct rsc_result *result) {
  const struct rsp_header *h = &result->header;
  const struct rsp_summary *s = &result->summary;
  char id[33];
  rsp_id_text(h->plan_id, id);
  json_object_set_new(object, "plan", cli_json_text(path));
  json_object_set_new(object, "plan_id", json_string(id));
  json_object_set_new(object, "plan_bytes", number(result->plan_bytes));
  json_object_set_new(object, "world", number(h->world));
  json_object_set_new(object, "train_world", number(h->train_world));
  json_object_set_new(object, "infer_world", number(h->infer_world));
  json_object_set_new(object, "rounds", number(h->rounds));
  json_object_set_new(object, "coverage",
                      json_pack("{s:o, s:o, s:o, s:o}", "tensors", number(s->tensors), "elements", number(s->elements),
                                "bytes", number(s->bytes), "deliveries", number(s->deliveries)));
  json_object_set_new(object, "bytes",
                      json_pack("{s:o, s:o, s:o, s:o, s:o}", "wanted", number(s->wanted_bytes), "local",
                                number(s->local_bytes), "nvlink", number(s->nvlink_bytes), "network",
                                number(s->network_bytes), "network_minimum", number(s->network_minimum)));
  json_t *seconds = json_object_get(object, "seconds");
  json_object_set_new(seconds, "bound", json_real(s->bound_seconds));
  json_object_set_new(seconds, "makespan", json_real(s->makespan_seconds));
  json_object_set_new(
      object, "bound",
      json_pack("{s:s, s:s, s:o}", "term", result->figures.bound_term, "words", result->figures.bound_words, "ratio",
                s->bound_seconds > 0 ? json_real(s->makespan_seconds / s->bound_seconds) : json_null()));
}

static void print_json(const struct run *run, const char *status, const struct rsc_result *result, double seconds) {
  static const char *const of_plan[] = {"plan",        "plan_id", "plan_bytes", "world", "train_world",
                                        "infer_world", "rounds",  "coverage",   "bytes", "bound"};
  struct count counts[COUNTS];
  json_t *object = json_object(), *passes = json_array(), *stats = json_object();
  json_object_set_new(object, "schema", json_string("reshardc/1"));
  json_object_set_new(object, "status", json_string(status));
  for (size_t i = 0; i < sizeof of_plan / sizeof *of_plan; i++) json_object_set_new(object, of_plan[i], json_null());
  json_object_set_new(object, "seconds", json_pack("{s:f, s:n, s:n}", "compile", seconds, "bound", "makespan"));
  if (!strcmp(status, "compiled")) add_plan(object, run->options->output, result);
  for (size_t i = 0; i < run->pass_count; i++)
    json_array_append_new(passes, json_pack("{s:s, s:f, s:f, s:o}", "pass", run->passes[i].name, "seconds",
                                            run->passes[i].seconds, "cpu_seconds", run->passes[i].cpu_seconds,
                                            "peak_bytes", number(run->passes[i].peak_bytes)));
  json_object_set_new(object, "passes", passes);
  list_counts(&result->stats, counts);
  for (size_t i = 0; i < COUNTS; i++) json_object_set_new(stats, counts[i].name, number(counts[i].value));
  json_object_set_new(object, "stats", stats);
  json_object_set(object, "diagnostics", run->diagnostics);
  cli_json_print(object);
}

// The compiler's plan goes to its file as it is made. No file is made where there is no plan.
static bool put(void *user, uint64_t off, const void *bytes, size_t size) {
  struct run *run = user;
  if (!run->options->output) return true;
  if (!run->file && run->file_status == RSP_OK)
    run->file_status = rsp_file_begin(run->options->output, &run->file, &run->file_error);
  return run->file && rsp_file_put(run->file, off, bytes, size);
}

// Keeps the plan if it is whole. One that cannot be written is the world's failure: status 2.
static enum rsc_outcome deliver(struct run *run, enum rsc_outcome outcome) {
  if (run->file) run->file_status = rsp_file_end(run->file, outcome == RSC_COMPILED, &run->file_error);
  if (run->file_status == RSP_OK) return outcome;
  cli_trouble("reshardc", "cannot write %s: %s", run->options->output, run->file_error.text);
  return RSC_TROUBLE;
}

#define LIMITED_RATIO 1.1 // simulated to bound: from here on it is said what limits cost

static void print_end(const struct rsc_result *result) {
  const struct rsc_figures *f = &result->figures;
  char bound[32], simulated[32];
  fprintf(stderr, "bound %s (%s: %s), simulated %s", cli_duration(f->bound_seconds, bound), f->bound_term,
          f->bound_words, cli_duration(f->simulated_seconds, simulated));
  if (f->bound_seconds > 0) fprintf(stderr, ", ratio %.3f", f->simulated_seconds / f->bound_seconds);
  fprintf(stderr, "\n");
  if (result->limited[0] && f->simulated_seconds > LIMITED_RATIO * f->bound_seconds)
    fprintf(stderr, "note: %s\n", result->limited);
  fprintf(stderr, "%s\n", result->coverage);
}

static int compile(struct run *run) {
  static const char *const statuses[] = {"compiled", "rejected", "trouble"};
  struct rsc_options options = run->options->compile;
  struct rsc_result result = {.plan = NULL};
  options.load = load;
  options.load_user = run;
  options.put = put;
  options.put_user = run;
  run->started = run->last = cli_seconds();
  enum rsc_outcome outcome = rsc_compile(&options, diagnose, run, pass_ended, run, &result);
  double seconds = cli_seconds() - run->started;
  if (outcome == RSC_REJECTED && run->unreadable) outcome = RSC_TROUBLE;
  outcome = deliver(run, outcome);
  cli_progress_end();
  bool stopped = outcome == RSC_COMPILED && !result.plan_bytes;
  if (run->options->stats) print_stats(run, &result, seconds);
  if (run->options->json) print_json(run, stopped ? "stopped" : statuses[outcome], &result, seconds);
  if (outcome == RSC_COMPILED && result.forgotten[0]) fprintf(stderr, "note: %s\n", result.forgotten);
  if (outcome == RSC_COMPILED && !stopped) print_end(&result);
  free(result.plan);
  return cli_finish("reshardc", (int)outcome);
}

// What one pass frees the next one asks for: without this glibc gives it back to the system in between, page by page.
static void keep_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int main(int argc, char **argv) {
  struct reshardc_options options;
  enum reshardc_next next = reshardc_options_read(argc, argv, &options);
  int status = next == RESHARDC_EXIT_OK ? CLI_YES : CLI_TROUBLE;
  if (next == RESHARDC_COMPILE) {
    keep_memory();
    struct run run = {.options = &options, .diagnostics = json_array()};
    status = compile(&run);
    json_decref(run.diagnostics);
    free(run.passes);
    free(run.standard);
  }
  reshardc_options_free(&options);
  return status;
}
