// SPDX-License-Identifier: Apache-2.0
//
// reshard sim: how long a plan would take. In: argv. Out: a page or a JSON object on stdout, a picture, the exit
// status.
#include <getopt.h>
#include <stdlib.h>

#include "tools/cli/cli.h"
#include "tools/plan_walk.h"
#include "tools/sim_report.h"
#include "tools/verbs.h"

static const char help[] =
    "reshard sim - how long a plan would take, simulated\n\n"
    "Usage: reshard sim PLAN [--cluster F] [--slow HOST[:GPU]=FACTOR]... [--json] [--svg F]\n\n"
    "  --cluster F               rates, latencies and NICs of a cluster file instead of those that the plan states; "
    "it\n"
    "                            must put the ranks on the plan's hosts. A plan says nothing of NICs: without a "
    "cluster\n"
    "                            file each GPU has one\n"
    "  --slow HOST=FACTOR        the host's NICs run at that share of their rate: 0.5 is half; HOST:GPU=FACTOR: one "
    "GPU's\n"
    "  --json                    one JSON object\n"
    "  --svg F                   also a picture: links down, time across, and a bar per link; - is standard output\n\n"
    "A fluid model of the plan's own rounds. The time is simulated, not measured; the report says what it leaves out.\n"
    "PLAN is a file, or - for standard input.\n\n"
    "Exit status: 0 simulated, 1 not a valid plan, 2 trouble.\n";

enum { OPT_CLUSTER = 256, OPT_SLOW, OPT_JSON, OPT_SVG };

static const struct option options[] = {{"cluster", required_argument, NULL, OPT_CLUSTER},
                                        {"slow", required_argument, NULL, OPT_SLOW},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"svg", required_argument, NULL, OPT_SVG},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int report(struct sim_run *run, const char *svg, bool json) {
  int status = sim_cluster_open(run);
  if (status == CLI_YES) {
    rsp_simulate(run->plan, &run->cluster, NULL, NULL, &run->result);
    rsp_bound_of(run->plan, &run->cluster, &run->bound);
    if (svg) status = sim_svg(run, svg);
    if (status == CLI_YES && json)
      status = sim_report_json(run);
    else if (status == CLI_YES && !(svg && svg[0] == '-' && !svg[1]))
      status = sim_report_text(run);
    rsp_sim_result_free(&run->result);
  }
  rsp_sim_cluster_free(&run->cluster);
  return status;
}

static int simulate(struct sim_run *run, const char *path, const char *svg, bool json) {
  struct rsp_plan plan;
  int status = plan_open(run->program, path, &plan);
  if (status != CLI_YES) return status;
  run->plan = &plan;
  status = report(run, svg, json);
  rsp_close(&plan);
  return status;
}

int verb_sim(int argc, char **argv) {
  struct sim_run run = {.program = argv[0]};
  const char *svg = NULL;
  bool json = false;
  int c, status = -1;
  run.slow = calloc((size_t)argc, sizeof *run.slow);
  if (!run.slow) abort();
  optind = 1;
  while (status < 0 && (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
    switch (c) {
    case OPT_CLUSTER:
      run.cluster_path = optarg;
      break;
    case OPT_SLOW:
      run.slow[run.slow_count++].text = optarg;
      break;
    case OPT_JSON:
      json = true;
      break;
    case OPT_SVG:
      svg = optarg;
      break;
    case 'h':
      status = cli_help(help);
      break;
    default:
      status = CLI_TROUBLE; // getopt has said why
    }
  }
  if (status < 0 && optind + 1 != argc) status = cli_usage(argv[0], "one plan is expected, %d given", argc - optind);
  if (status < 0) status = simulate(&run, argv[optind], svg, json);
  free(run.slow);
  return status;
}
