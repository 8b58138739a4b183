// SPDX-License-Identifier: Apache-2.0
//
// reshard explain: why bytes go the way they go. In: argv. Out: a page or a JSON object on stdout, the exit status.
#include <getopt.h>

#include "tools/cli/cli.h"
#include "tools/explain.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard explain - which bytes go which way, and why\n\n"
    "Usage: reshard explain PLAN TENSOR [--json]\n"
    "       reshard explain PLAN LINK [--json]\n\n"
    "  TENSOR                a name, or a glob: * any characters, ? one, [abc] a set. Who holds it, who wants it, by\n"
    "                        which way each piece goes, and why from that sender\n"
    "  LINK                  what fills it:\n"
    "                          3->17             from one process to another (numbers of the world)\n"
    "                          nic:HOST:GPU      a GPU's share of the NICs, out and in\n"
    "                          nvlink:HOST:GPU   its NVLink, out and in\n"
    "  --json                one JSON object\n\n"
    "PLAN is a file, or - for standard input.\n\n"
    "Exit status: 0 explained, 1 not a valid plan, or no such tensor or link, 2 trouble.\n";

static const struct option options[] = {
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int explain(const char *program, const char *path, const char *what, bool json) {
  struct rsp_plan plan;
  struct explain e;
  bool is_link = false;
  int status = plan_open(program, path, &plan);
  if (status != CLI_YES) return status;
  explain_open(&e, program, &plan);
  status = explain_link(&e, what, json, &is_link);
  if (!is_link) status = explain_tensors(&e, what, json);
  explain_close(&e);
  rsp_close(&plan);
  return status;
}

int verb_explain(int argc, char **argv) {
  bool json = false;
  int c;
  optind = 1;
  while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    if (c == 'h') return cli_help(help);
    if (c != 'j') return CLI_TROUBLE; // getopt has said why
    json = true;
  }
  if (optind + 2 != argc)
    return cli_usage(argv[0], "a plan and a tensor or link are expected, %d words given", argc - optind);
  return explain(argv[0], argv[optind], argv[optind + 1], json);
}
