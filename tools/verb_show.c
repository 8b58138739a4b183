// SPDX-License-Identifier: Apache-2.0
//
// reshard show: what a plan says. In: argv. Out: a page or a JSON object on stdout, the exit status.
#include <getopt.h>

#include "tools/cli/cli.h"
#include "tools/plan_show.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard show - what a plan says\n\n"
    "Usage: reshard show PLAN [--rank R] [--tensor GLOB] [--ops] [--json]\n\n"
    "  --rank R       only this rank of the world, with its buffers and streams\n"
    "  --tensor GLOB  also where the tensors are that match: * any characters, ? one, [abc] a set\n"
    "  --ops          also what each rank does in each round; with --rank, that rank\n"
    "  --json         one JSON object\n\n"
    "PLAN is a file, or - for standard input. The plan is checked for form and seals as it is read; whether it is\n"
    "right is for `reshard verify`.\n\n"
    "Exit status: 0 shown, 1 not a valid plan, 2 trouble.\n";

enum { OPT_RANK = 256, OPT_TENSOR, OPT_OPS, OPT_JSON };

static const struct option options[] = {{"rank", required_argument, NULL, OPT_RANK},
                                        {"tensor", required_argument, NULL, OPT_TENSOR},
                                        {"ops", no_argument, NULL, OPT_OPS},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

enum { MOST_OPS = 5000000 }; // a JSON object is built in memory, about 400 bytes for each

static bool too_many_ops(const struct plan_show *show) {
  uint64_t ops = 0;
  for (uint32_t r = 0; show->rank < 0 && r < show->plan->header->world && ops <= MOST_OPS; r++) {
    struct plan_facts facts;
    plan_facts_of(show->plan, r, &facts);
    ops += facts.messages + facts.copies;
  }
  return ops > MOST_OPS;
}

static int show_plan(struct plan_show *show, const char *path, bool json) {
  struct rsp_plan plan;
  int status = plan_open(show->program, path, &plan);
  if (status != CLI_YES) return status;
  show->plan = &plan;
  if (show->rank >= plan.header->world)
    status = cli_usage(show->program, "the plan has ranks 0 to %u, no rank %lld", plan.header->world - 1,
                       (long long)show->rank);
  else if (json && show->ops && too_many_ops(show))
    status = cli_usage(show->program, "the plan has more than %d operations; pick a rank with --rank", MOST_OPS);
  else
    status = json ? plan_show_json(show) : plan_show_text(show);
  rsp_close(&plan);
  return status;
}

int verb_show(int argc, char **argv) {
  struct plan_show show = {.program = argv[0], .rank = -1};
  bool json = false;
  int c;
  optind = 1;
  while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    switch (c) {
    case OPT_RANK:
      if (!cli_parse_number(optarg, 0, UINT32_MAX - 1, &show.rank))
        return cli_usage(argv[0], "--rank takes a rank of the world, not '%s'", optarg);
      break;
    case OPT_TENSOR:
      show.glob = optarg;
      break;
    case OPT_OPS:
      show.ops = true;
      break;
    case OPT_JSON:
      json = true;
      break;
    case 'h':
      return cli_help(help);
    default:
      return CLI_TROUBLE; // getopt has said why
    }
  }
  if (optind + 1 != argc) return cli_usage(argv[0], "one plan is expected, %d given", argc - optind);
  return show_plan(&show, argv[optind], json);
}
