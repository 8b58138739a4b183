// SPDX-License-Identifier: Apache-2.0
//
// In: a finished simulation. Out: a page or a JSON object on stdout.
#include "tools/sim_report.h"
#include "plans/words.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/plan_json.h"
#include "tools/plan_text.h"

const char *const sim_left_out[] = {
    "NCCL's protocol efficiency: every link is taken at the rate that the cluster states",
    "contention in switches: the network is taken to be as wide as the NICs are together",
    "kernel launches and the stream's own synchronisation",
    "other traffic: collectives of the training, requests to the engines", NULL};

const char *sim_link_title(enum rsp_sim_link link) {
  static const char *const titles[] = {"network out", "network in", "NVLink out", "NVLink in", "memory", "messages"};
  return titles[link];
}

const char *sim_rank_text(const struct rsp_plan *plan, uint32_t rank, char buffer[48]) {
  const struct rsp_rank *r = &plan->ranks[rank];
  if (r->train_rank != RSP_NO_RANK && r->infer_rank != RSP_NO_RANK)
    snprintf(buffer, 48, "training %u, inference %u", r->train_rank, r->infer_rank);
  else if (r->train_rank != RSP_NO_RANK)
    snprintf(buffer, 48, "training rank %u", r->train_rank);
  else
    snprintf(buffer, 48, "inference rank %u", r->infer_rank);
  return buffer;
}

struct sim_spread sim_spread_of(const struct sim_run *run, enum rsp_sim_link link) {
  struct sim_spread s = {0};
  uint32_t users = 0;
  for (uint32_t r = 0; r < run->plan->header->world; r++) {
    double busy = run->result.busy[link][r];
    if (run->result.bytes[link][r] <= 0) continue;
    if (!users++ || busy < s.least) s.least = busy;
    if (busy > s.most) s.most = busy;
    s.mean += busy;
    s.bytes += run->result.bytes[link][r];
  }
  if (users) s.mean /= users;
  if (s.most > 0) s.uneven = run->result.peak[link] / (s.most * run->result.seconds);
  return s;
}

struct ranked {
  double busy;
  struct sim_busy row;
};

static int by_busy(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->busy < y->busy || x->busy > y->busy) return x->busy > y->busy ? -1 : 1;
  if (x->row.link != y->row.link) return x->row.link < y->row.link ? -1 : 1;
  return x->row.rank < y->row.rank ? -1 : x->row.rank > y->row.rank;
}

size_t sim_busiest(const struct sim_run *run, struct sim_busy *rows, size_t most) {
  size_t world = run->plan->header->world, count = 0;
  struct ranked *all = calloc(world * RSP_SIM_LINKS + 1, sizeof *all);
  if (!all) abort();
  for (int link = 0; link < RSP_SIM_LINKS; link++)
    for (uint32_t r = 0; r < world; r++)
      if (run->result.bytes[link][r] > 0)
        all[count++] = (struct ranked){run->result.busy[link][r], {(enum rsp_sim_link)link, r}};
  if (count) qsort(all, count, sizeof *all, by_busy);
  if (count > most) count = most;
  for (size_t i = 0; i < count; i++) rows[i] = all[i].row;
  free(all);
  return count;
}

enum { BUSIEST = 10 };

// Messages are counted, all else are bytes.
static const char *amount(enum rsp_sim_link link, double much, char buffer[32]) {
  if (link != RSP_SIM_ISSUE) return cli_bytes(much, buffer);
  snprintf(buffer, 32, "%.0f", much);
  return buffer;
}

static void print_links(const struct sim_run *run) {
  char bytes[32];
  printf("\n  %-12s %10s %8s %8s %8s %8s\n", "links", "bytes", "least", "mean", "most", "uneven");
  for (int link = 0; link < RSP_SIM_LINKS; link++) {
    struct sim_spread s = sim_spread_of(run, (enum rsp_sim_link)link);
    if (s.bytes <= 0) continue;
    printf("  %-12s %10s %6.1f %% %6.1f %% %6.1f %% %8.2f\n", sim_link_title((enum rsp_sim_link)link),
           amount((enum rsp_sim_link)link, s.bytes, bytes), s.least * 100, s.mean * 100, s.most * 100, s.uneven);
  }
  struct sim_busy rows[BUSIEST];
  size_t count = sim_busiest(run, rows, BUSIEST);
  if (count) printf("\n  the busiest\n");
  for (size_t i = 0; i < count; i++) {
    char name[48];
    const struct rsp_rank *row = &run->plan->ranks[rows[i].rank];
    printf("  %-12s %10s %6.1f %%  %s, ", sim_link_title(rows[i].link),
           amount(rows[i].link, run->result.bytes[rows[i].link][rows[i].rank], bytes),
           run->result.busy[rows[i].link][rows[i].rank] * 100, sim_rank_text(run->plan, rows[i].rank, name));
    plan_text_str(stdout, run->plan->strings, row->host);
    printf(":%u\n", row->gpu);
  }
}

int sim_report_text(const struct sim_run *run) {
  char id[33], text[32];
  rsp_id_text(run->plan->header->plan_id, id);
  printf("plan %s\n\n", id);
  printf("  simulated  %s in %u round%s of %u process%s\n", cli_duration(run->result.seconds, text),
         run->plan->header->rounds, rsp_plural(run->plan->header->rounds), run->plan->header->world,
         run->plan->header->world == 1 ? "" : "es");
  printf("  bound      %s (%s): %s\n", cli_duration(run->bound.seconds, text), rsp_bound_word(run->bound.term),
         run->bound.words);
  if (!run->bound.exact)
    printf("             too low: some tensors are cut too finely to be counted and are left out\n");
  if (run->bound.seconds > 0) printf("  ratio      %.3f\n", run->result.seconds / run->bound.seconds);
  for (size_t i = 0; i < run->slow_count; i++)
    printf("  slowed     %s: the NIC%s of %u rank%s\n", run->slow[i].text, rsp_plural(run->slow[i].ranks),
           run->slow[i].ranks, rsp_plural(run->slow[i].ranks));
  print_links(run);
  printf("\n  left out\n");
  for (size_t i = 0; sim_left_out[i]; i++) printf("  - %s\n", sim_left_out[i]);
  return cli_finish(run->program, CLI_YES);
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static json_t *bound_json(const struct rsp_bound *b) {
  json_t *o = json_object(), *terms = json_object();
  json_object_set_new(o, "seconds", json_real(b->seconds));
  json_object_set_new(o, "term", json_string(rsp_bound_word(b->term)));
  json_object_set_new(o, "words", json_string(b->words));
  for (int i = RSP_BOUND_NOTHING + 1; i < RSP_BOUND_TERMS; i++)
    json_object_set_new(terms, rsp_bound_word((enum rsp_bound_term)i), json_real(b->terms[i]));
  json_object_set_new(o, "terms", terms);
  json_object_set_new(o, "exact", json_boolean(b->exact));
  json_object_set_new(o, "network_minimum", plan_json_u64(b->network_minimum));
  json_object_set_new(o, "one_copy", plan_json_u64(b->one_copy));
  return o;
}

static json_t *links_json(const struct sim_run *run) {
  json_t *list = json_array();
  for (int link = 0; link < RSP_SIM_LINKS; link++) {
    struct sim_spread s = sim_spread_of(run, (enum rsp_sim_link)link);
    json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f}", "link",
                                          rsp_sim_link_word((enum rsp_sim_link)link), "bytes", s.bytes, "least",
                                          s.least, "mean", s.mean, "most", s.most, "uneven", s.uneven));
  }
  return list;
}

static void add_rank(json_t *o, const struct rsp_plan *plan, uint32_t rank) {
  const struct rsp_rank *r = &plan->ranks[rank];
  json_object_set_new(o, "rank", plan_json_u64(rank));
  json_object_set_new(o, "train_rank", plan_json_rank(r->train_rank));
  json_object_set_new(o, "infer_rank", plan_json_rank(r->infer_rank));
  json_object_set_new(o, "host", plan_json_str(plan->strings, r->host));
  json_object_set_new(o, "gpu", plan_json_u64(r->gpu));
}

static json_t *load_json(const struct sim_run *run, int link, uint32_t rank) {
  return json_pack("{s:f,s:f,s:f}", "bytes", run->result.bytes[link][rank], "rate", run->cluster.rate[link][rank],
                   "busy", run->result.busy[link][rank]);
}

static json_t *busiest_json(const struct sim_run *run) {
  json_t *list = json_array();
  struct sim_busy rows[BUSIEST];
  size_t count = sim_busiest(run, rows, BUSIEST);
  for (size_t i = 0; i < count; i++) {
    json_t *o = load_json(run, (int)rows[i].link, rows[i].rank);
    json_object_set_new(o, "link", json_string(rsp_sim_link_word(rows[i].link)));
    add_rank(o, run->plan, rows[i].rank);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *ranks_json(const struct sim_run *run) {
  json_t *list = json_array();
  for (uint32_t r = 0; r < run->plan->header->world; r++) {
    json_t *o = json_object();
    add_rank(o, run->plan, r);
    for (int link = 0; link < RSP_SIM_LINKS; link++)
      json_object_set_new(o, rsp_sim_link_word((enum rsp_sim_link)link), load_json(run, link, r));
    json_array_append_new(list, o);
  }
  return list;
}

int sim_report_json(const struct sim_run *run) {
  json_t *o = json_object(), *slowed = json_array(), *left = json_array();
  json_object_set_new(o, "schema", json_string("reshard-sim/1"));
  json_object_set_new(o, "plan_id", plan_json_id(run->plan->header->plan_id));
  json_object_set_new(o, "world", plan_json_u64(run->plan->header->world));
  json_object_set_new(o, "rounds", plan_json_u64(run->plan->header->rounds));
  json_object_set_new(o, "simulated_seconds", json_real(run->result.seconds));
  json_object_set_new(o, "bound", bound_json(&run->bound));
  json_object_set_new(o, "ratio",
                      run->bound.seconds > 0 ? json_real(run->result.seconds / run->bound.seconds) : json_null());
  json_object_set_new(o, "phases", plan_json_u64(run->result.phases));
  json_object_set_new(o, "phases_computed", plan_json_u64(run->result.phases_computed));
  for (size_t i = 0; i < run->slow_count; i++)
    json_array_append_new(slowed, json_pack("{s:s,s:f,s:i}", "where", run->slow[i].text, "factor", run->slow[i].factor,
                                            "ranks", (int)run->slow[i].ranks));
  json_object_set_new(o, "slowed", slowed);
  json_object_set_new(o, "links", links_json(run));
  json_object_set_new(o, "busiest", busiest_json(run));
  json_object_set_new(o, "ranks", ranks_json(run));
  for (size_t i = 0; sim_left_out[i]; i++) json_array_append_new(left, json_string(sim_left_out[i]));
  json_object_set_new(o, "left_out", left);
  return plan_json_write(run->program, o, CLI_YES);
}
