// SPDX-License-Identifier: Apache-2.0
//
// reshard verify: proves that a plan is right. In: argv. Out: what was proved, with its numbers, or the first violation
// of each kind; the exit status.
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#include "plans/verify.h"
#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/plan_json.h"
#include "tools/plan_walk.h"
#include "tools/verbs.h"
#include "tools/verify_inputs.h"

static const char help[] =
    "reshard verify - prove that a plan is right\n\n"
    "Usage: reshard verify PLAN [--train F --infer F [--cluster F] [--model F] [-D ...] [-I DIR]] [--json]\n\n"
    "From the file alone, whatever its seals say:\n"
    "  specification  every element of every buffer has exactly one meaning\n"
    "  cover          every wanted element is written exactly once, nothing else is, padding is zeroed\n"
    "  provenance     what arrives is that element, from a training buffer, through every relay\n"
    "  matching       the i-th send of a pair of ranks is the i-th receive, round by round\n"
    "  progress       rounds are one order for all ranks; nothing waits for a later one\n"
    "  hazards        no byte of staging is overwritten before it is read, or read before it is written\n"
    "  bounds         accesses, staging, operations per round and peers are within their limits\n"
    "  summary        the figures that the plan states are those that it has\n\n"
    "  --train F, --infer F, --cluster F, --model F\n"
    "                 also whether the plan was made from these files\n"
    "  -D [train.|infer.]N=V, -I DIR\n"
    "                 as given to reshardc\n"
    "  --json         one JSON object\n\n"
    "PLAN is a file, or - for standard input.\n\n"
    "Exit status: 0 proved, 1 not (also a truncated, extended or edited plan, or one made from other files), 2 "
    "trouble.\n";

enum { OPT_TRAIN = 256, OPT_INFER, OPT_CLUSTER, OPT_MODEL, OPT_JSON };

static const struct option options[] = {{"train", required_argument, NULL, OPT_TRAIN},
                                        {"infer", required_argument, NULL, OPT_INFER},
                                        {"cluster", required_argument, NULL, OPT_CLUSTER},
                                        {"model", required_argument, NULL, OPT_MODEL},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

// ---- text ----------------------------------------------------------------------------------------------------------

static void print_figures(const struct rsp_plan *plan, const struct rspv_report *r, enum rspv_kind kind) {
  char a[32], b[32];
  switch (kind) {
  case RSPV_SPEC:
    printf("%" PRIu64 " buffer%s in %" PRIu64 " class%s", plan->buffer_count, rsp_plural(plan->buffer_count),
           plan->class_count, plan->class_count == 1 ? "" : "es");
    break;
  case RSPV_COVER:
    printf("%" PRIu64 " element%s (%s) of %" PRIu64 " tensor%s, each delivered once", r->elements,
           rsp_plural(r->elements), cli_bytes((double)r->bytes, a), r->tensors, rsp_plural(r->tensors));
    if (r->excused) printf("; %" PRIu64 " more excused by a skip", r->excused);
    break;
  case RSPV_PROVENANCE:
    printf("%" PRIu64 " distinct program%s, %" PRIu64 " pair%s of them", r->programs, rsp_plural(r->programs),
           r->program_pairs, rsp_plural(r->program_pairs));
    break;
  case RSPV_MATCHING:
    printf("%" PRIu64 " message%s", r->messages, rsp_plural(r->messages));
    break;
  case RSPV_PROGRESS:
    printf("%u round%s", r->rounds, rsp_plural(r->rounds));
    break;
  case RSPV_HAZARDS:
    printf("at most %s of staging on a rank", cli_bytes((double)r->most_staging, a));
    break;
  case RSPV_BOUNDS:
    printf("at most %u of %u operations in a round, %u peer%s, %s of %s of staging", r->busiest_ops,
           plan->header->max_ops, r->most_peers, rsp_plural(r->most_peers), cli_bytes((double)r->most_staging, a),
           cli_bytes((double)plan->header->staging_limit, b));
    break;
  case RSPV_SUMMARY:
    printf("network %s, minimum %s", cli_bytes((double)r->network_bytes, a), cli_bytes((double)r->network_minimum, b));
    if (r->network_minimum) printf(", ratio %.3f", (double)r->network_bytes / (double)r->network_minimum);
    break;
  default:
    break;
  }
}

static void print_report(const struct rsp_plan *plan, const struct rspv_report *r, bool proved) {
  char id[33];
  rsp_id_text(plan->header->plan_id, id);
  printf("plan %s: %s\n", id, proved ? "proved" : "NOT PROVED");
  for (int k = 0; k < RSPV_KINDS; k++) {
    bool holds = !r->violations[k].count;
    // Without a specification nothing else was looked at; without cover the figures were not compared.
    bool skipped = holds && k != RSPV_SPEC &&
                   (r->violations[RSPV_SPEC].count || (k == RSPV_SUMMARY && r->violations[RSPV_COVER].count));
    printf("  %-13s  %-10s  ", rspv_kind_word((enum rspv_kind)k), skipped ? "not tried" : holds ? "holds" : "BROKEN");
    if (holds && !skipped) print_figures(plan, r, (enum rspv_kind)k);
    fputc('\n', stdout);
  }
  for (int k = 0; k < RSPV_KINDS; k++) {
    if (r->violations[k].count) rspv_print_violation(plan, r, (enum rspv_kind)k, stdout);
  }
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static json_t *number_or_null(uint32_t n) {
  return n == RSPV_NONE ? json_null() : plan_json_u64(n);
}

static json_t *violation_json(const struct rsp_plan *plan, const struct rspv_violation *x) {
  json_t *o = json_object();
  json_object_set_new(o, "what", json_string(x->what));
  json_object_set_new(o, "count", plan_json_u64(x->count));
  if (x->tensor != RSPV_NONE) {
    const struct rsp_tensor *t = &plan->tensors[x->tensor];
    char text[256];
    json_object_set_new(o, "tensor", plan_json_str(plan->strings, t->name));
    rspv_range_text(plan->dims + t->dims, t->ndim, x->lo, x->hi, text, sizeof text);
    if (x->hi > x->lo) json_object_set_new(o, "elements", json_string(text));
  }
  if (x->hi > x->lo) {
    json_object_set_new(o, "flat_lo", plan_json_u64(x->lo));
    json_object_set_new(o, "flat_hi", plan_json_u64(x->hi));
  }
  if (x->buffer != RSPV_NONE) {
    const struct rsp_buffer *b = &plan->buffers[x->buffer];
    json_object_set_new(o, "side", json_string(b->side == RSP_TRAIN ? "train" : "infer"));
    json_object_set_new(o, "buffer", plan_json_str(plan->strings, b->name));
    plan_json_place(o, plan->strings, plan->files[b->file], b->line, b->col);
  }
  json_object_set_new(o, "rank", number_or_null(x->rank));
  json_object_set_new(o, "peer", number_or_null(x->peer));
  json_object_set_new(o, "round", number_or_null(x->round));
  return o;
}

static json_t *report_json(const struct rsp_plan *plan, const struct rspv_report *r, bool proved) {
  const struct {
    const char *name;
    uint64_t value;
  } figures[] = {{"tensors", r->tensors},
                 {"elements", r->elements},
                 {"bytes", r->bytes},
                 {"deliveries", r->deliveries},
                 {"excused", r->excused},
                 {"local", r->local_bytes},
                 {"nvlink", r->nvlink_bytes},
                 {"network", r->network_bytes},
                 {"network_minimum", r->network_minimum},
                 {"messages", r->messages},
                 {"rounds", r->rounds},
                 {"busiest_ops", r->busiest_ops},
                 {"most_peers", r->most_peers},
                 {"most_staging", r->most_staging},
                 {"programs", r->programs},
                 {"program_pairs", r->program_pairs}};
  json_t *o = json_object(), *f = json_object(), *v = json_object();
  json_object_set_new(o, "plan_id", plan_json_id(plan->header->plan_id));
  json_object_set_new(o, "proved", json_boolean(proved));
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    json_object_set_new(f, figures[i].name, plan_json_u64(figures[i].value));
  json_object_set_new(o, "figures", f);
  for (int k = 0; k < RSPV_KINDS; k++) {
    if (r->violations[k].count)
      json_object_set_new(v, rspv_kind_word((enum rspv_kind)k), violation_json(plan, &r->violations[k]));
  }
  json_object_set_new(o, "violations", v);
  return o;
}

// ---- the verb ------------------------------------------------------------------------------------------------------

static int verify_plan(const char *program, const char *path, const struct verify_inputs *inputs, bool json) {
  struct rsp_plan plan;
  struct rspv_report report;
  int status = plan_open(program, path, &plan);
  if (status != CLI_YES) return status;
  bool proved = rspv_verify(&plan, &report);
  json_t *object = json ? report_json(&plan, &report, proved) : NULL;
  if (!json) print_report(&plan, &report, proved);
  int belongs = verify_inputs(program, inputs, &plan, object);
  status = belongs == CLI_TROUBLE ? CLI_TROUBLE : proved && belongs == CLI_YES ? CLI_YES : CLI_NO;
  rsp_close(&plan);
  if (json) return plan_json_write(program, object, status);
  return cli_finish(program, status);
}

enum { HELPED = -1 };

static int read_options(int argc, char **argv, struct verify_inputs *inputs, bool *json) {
  int c;
  optind = 1;
  while ((c = getopt_long(argc, argv, "hD:I:", options, NULL)) != -1) {
    switch (c) {
    case OPT_TRAIN:
      inputs->train = optarg;
      break;
    case OPT_INFER:
      inputs->infer = optarg;
      break;
    case OPT_CLUSTER:
      inputs->cluster = optarg;
      break;
    case OPT_MODEL:
      inputs->model = optarg;
      break;
    case OPT_JSON:
      *json = true;
      break;
    case 'D':
    case 'I':
      inputs->more[inputs->more_count++] = c == 'D' ? "-D" : "-I";
      inputs->more[inputs->more_count++] = optarg;
      break;
    case 'h':
      return cli_help(help) == CLI_YES ? HELPED : CLI_TROUBLE;
    default:
      return CLI_TROUBLE; // getopt has said why
    }
  }
  return CLI_YES;
}

int verb_verify(int argc, char **argv) {
  struct verify_inputs inputs = {.more = calloc((size_t)argc * 2, sizeof *inputs.more)};
  bool json = false;
  int status = read_options(argc, argv, &inputs, &json);
  if (status == CLI_YES && optind + 1 != argc)
    status = cli_usage(argv[0], "one plan is expected, %d given", argc - optind);
  if (status == CLI_YES && !inputs.train != !inputs.infer)
    status = cli_usage(argv[0], "--train and --infer go together");
  if (status == CLI_YES && !inputs.train && (inputs.cluster || inputs.model || inputs.more_count))
    status = cli_usage(argv[0], "--cluster, --model, -D and -I go with --train and --infer");
  if (status == CLI_YES)
    status = verify_plan(argv[0], argv[optind], &inputs, json);
  else if (status == HELPED)
    status = CLI_YES;
  free(inputs.more);
  return status;
}
