// SPDX-License-Identifier: Apache-2.0
//
// reshard diff: what changes from one plan to another, by meaning. In: argv. Out: a page or a JSON object on stdout,
// the exit status.
#include <getopt.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/plan_diff.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard diff - what changes from one plan to another\n\n"
    "Usage: reshard diff OLD NEW [--json]\n\n"
    "  --json  one JSON object\n\n"
    "Compares meaning: inputs, ranks, tensors, what each buffer holds, who sends what to whom, bytes per link, rounds\n"
    "and limits. Order of declaration, names of layout files and the way a plan is written down do not count; changed\n"
    "inputs are shown, but are no difference by themselves. One of the plans may be -, standard input.\n\n"
    "Exit status: 0 same, 1 different or not a valid plan, 2 trouble.\n";

static const struct option options[] = {
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int diff_open(const char *program, const struct rsp_plan *old_plan, const struct rsp_plan *new_plan, bool json) {
  struct plan_diff diff;
  if (!plan_diff_of(old_plan, new_plan, &diff)) return cli_trouble(program, "out of memory");
  int status = json ? plan_diff_json(program, &diff) : plan_diff_text(program, &diff);
  plan_diff_free(&diff);
  return status;
}

static int diff_files(const char *program, const char *old_path, const char *new_path, bool json) {
  struct rsp_plan old_plan, new_plan;
  int status = plan_open(program, old_path, &old_plan);
  if (status != CLI_YES) return status;
  status = plan_open(program, new_path, &new_plan);
  if (status == CLI_YES) {
    status = diff_open(program, &old_plan, &new_plan, json);
    rsp_close(&new_plan);
  }
  rsp_close(&old_plan);
  return status;
}

int verb_diff(int argc, char **argv) {
  bool json = false;
  int c;
  optind = 1;
  while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    if (c == 'h') return cli_help(help);
    if (c != 'j') return CLI_TROUBLE; // getopt has said why
    json = true;
  }
  if (argc - optind != 2) return cli_usage(argv[0], "two plans are expected, %d given", argc - optind);
  if (!strcmp(argv[optind], "-") && !strcmp(argv[optind + 1], "-"))
    return cli_usage(argv[0], "only one of the plans can be standard input");
  return diff_files(argv[0], argv[optind], argv[optind + 1], json);
}
