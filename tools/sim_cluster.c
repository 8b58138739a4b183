// SPDX-License-Identifier: Apache-2.0
//
// In: a plan, perhaps a cluster file, and what is slow. Out: rates per rank.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/topology.h"
#include "tools/cli/cli.h"
#include "tools/sim_report.h"

static void diagnose(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)code, (void)severity;
  cli_diagnostic(stderr, rendered);
}

static bool is_str(const struct rsp_plan *plan, struct rsp_str s, const char *text, size_t len) {
  return s.len == len && !memcmp(plan->strings + s.off, text, len);
}

// A simulation of the plan on other GPUs would be another plan's.
static int check_places(const struct sim_run *run, const struct rsc_cluster *c) {
  const struct rsp_plan *plan = run->plan;
  if (c->world != plan->header->world)
    return cli_trouble(run->program, "%s makes %" PRId64 " processes, the plan has %u", run->cluster_path, c->world,
                       plan->header->world);
  for (int64_t r = 0; r < c->world; r++) {
    const struct rsc_process *p = &c->processes[r];
    const char *host = c->hosts[p->host].name;
    const struct rsp_rank *row = &plan->ranks[r];
    if (is_str(plan, row->host, host, strlen(host)) && row->gpu == (uint32_t)p->gpu) continue;
    return cli_trouble(run->program, "process %" PRId64 " is on %.*s:%u in the plan and on %s:%d in %s", r,
                       (int)row->host.len, plan->strings + row->host.off, row->gpu, host, p->gpu, run->cluster_path);
  }
  return CLI_YES;
}

static void take_rates(struct sim_run *run, const struct rsc_cluster *c) {
  struct rsp_sim_cluster *out = &run->cluster;
  for (int64_t r = 0; r < c->world; r++) {
    const struct rsc_host *h = &c->hosts[c->processes[r].host];
    double nic = c->links.network_bandwidth * (h->gpus && h->nics ? (double)h->nics / h->gpus : 1);
    out->rate[RSP_SIM_NIC_OUT][r] = out->rate[RSP_SIM_NIC_IN][r] = nic;
    out->rate[RSP_SIM_NVLINK_OUT][r] = out->rate[RSP_SIM_NVLINK_IN][r] = c->links.nvlink_bandwidth;
    out->rate[RSP_SIM_MEMORY][r] = c->links.memory_bandwidth;
    out->rate[RSP_SIM_ISSUE][r] = c->links.issue_seconds > 0 ? 1 / c->links.issue_seconds : 1e30;
  }
  out->network_latency = c->links.network_latency;
  out->nvlink_latency = c->links.nvlink_latency;
  out->issue_seconds = c->links.issue_seconds;
}

static int read_cluster(struct sim_run *run) {
  char *text = NULL, *reason = NULL;
  size_t len = 0;
  if (!cli_read_file(run->cluster_path, &text, &len, &reason)) {
    int status = cli_trouble(run->program, "cannot read %s: %s", run->cluster_path, reason ? reason : "unknown reason");
    free(reason);
    return status;
  }
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_sources *sources = rsc_sources_new(arena);
  struct rsc_diag *diag = rsc_diag_new(arena, sources, diagnose, NULL);
  struct rsc_cluster cluster;
  const struct rsp_header *h = run->plan->header;
  int file = rsc_sources_add(sources, run->cluster_path, text, len);
  bool good = rsc_topology(arena, sources, diag, file, h->train_world, h->infer_world, &cluster);
  rsc_diag_flush(diag);
  int status = good ? check_places(run, &cluster) : CLI_TROUBLE;
  if (status == CLI_YES) take_rates(run, &cluster);
  rsc_arena_free(arena);
  free(text);
  return status;
}

// HOST=FACTOR, HOST:GPU=FACTOR: the NICs of those ranks run at that share of their rate.
static int slow_down(struct sim_run *run, struct sim_slow *slow) {
  const char *equals = strrchr(slow->text, '='), *colon = NULL;
  char *end = NULL;
  if (equals) slow->factor = strtod(equals + 1, &end);
  if (!equals || equals == slow->text || end == equals + 1 || *end || !(slow->factor > 0 && slow->factor <= 1))
    return cli_usage(run->program,
                     "--slow takes HOST=FACTOR or HOST:GPU=FACTOR with a factor above 0 and up to 1, not '%s'",
                     slow->text);
  for (const char *c = slow->text; c < equals; c++)
    if (*c == ':') colon = c;
  int64_t gpu = -1;
  char number[24] = "";
  if (colon && (size_t)(equals - colon - 1) < sizeof number) {
    memcpy(number, colon + 1, (size_t)(equals - colon - 1));
    if (!cli_parse_number(number, 0, UINT32_MAX, &gpu)) return cli_usage(run->program, "'%s' is no GPU", number);
  }
  size_t len = (size_t)((colon ? colon : equals) - slow->text);
  for (uint32_t r = 0; r < run->plan->header->world; r++) {
    const struct rsp_rank *row = &run->plan->ranks[r];
    if (!is_str(run->plan, row->host, slow->text, len) || (gpu >= 0 && row->gpu != gpu)) continue;
    run->cluster.rate[RSP_SIM_NIC_OUT][r] *= slow->factor;
    run->cluster.rate[RSP_SIM_NIC_IN][r] *= slow->factor;
    slow->ranks++;
  }
  if (slow->ranks) return CLI_YES;
  return cli_usage(run->program, "no rank of the plan is on '%.*s'", (int)(equals - slow->text), slow->text);
}

int sim_cluster_open(struct sim_run *run) {
  rsp_sim_cluster_of(run->plan, &run->cluster);
  int status = run->cluster_path ? read_cluster(run) : CLI_YES;
  if (status == CLI_YES && !rsp_sim_cluster_usable(run->plan, &run->cluster))
    status = cli_trouble(run->program,
                         "the plan states a rate of zero or a latency below it; give a cluster file with --cluster");
  for (size_t i = 0; i < run->slow_count && status == CLI_YES; i++) status = slow_down(run, &run->slow[i]);
  return status;
}
