/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the specification, the ranks and the rates. Out: a time that no plan can beat which takes every element into a
 * domain once, and the reason. Each term holds for every such plan; the bound is the largest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/sim/bound_impl.h"
#include "plans/words.h"

struct bounder {
  const struct rsp_plan *plan;
  const struct rsp_sim_cluster *cluster;
  struct rspm_interest interest;
  struct rsp_bound *out;
  bool *inside; /* the ranks that the term at hand is about */
};

static void clear(struct bounder *b) {
  memset(b->inside, 0, b->plan->header->world * sizeof *b->inside);
}

static double rate_of(const struct bounder *b, enum rsp_sim_link link, uint32_t domain, bool mark) {
  double rate = 0;
  for (uint32_t r = 0; r < b->plan->header->world; r++) {
    if (!b->interest.active[r] || (domain != UINT32_MAX && b->interest.domain_of[r] != domain)) continue;
    rate += b->cluster->rate[link][r];
    if (mark) b->inside[r] = true;
  }
  return rate;
}

/* Makes `term` the binding one if it is the largest so far; then says so. */
static bool binds(struct bounder *b, enum rsp_bound_term term, double seconds) {
  if (seconds > b->out->terms[term]) b->out->terms[term] = seconds;
  if (seconds <= b->out->seconds) return false;
  b->out->seconds = seconds;
  b->out->term = term;
  return true;
}

static void say(struct bounder *b, const char *verb, double bytes, const char *what, double rate) {
  char ranks[300], amount[32], per_second[32];
  rspm_ranks_text(b->plan, b->inside, ranks, sizeof ranks);
  snprintf(b->out->words, sizeof b->out->words, "%s %s %s %s, at %s/s", ranks, verb, rsp_bytes_text(bytes, amount),
           what, rsp_bytes_text(rate, per_second));
}

/* The domain for which bytes / rate is largest. */
static double worst_domain(const struct bounder *b, const double *bytes, enum rsp_sim_link link, uint32_t *worst) {
  double *rate = rspm_alloc(b->interest.domains, sizeof *rate), most = 0;
  for (uint32_t r = 0; r < b->plan->header->world; r++)
    if (b->interest.active[r]) rate[b->interest.domain_of[r]] += b->cluster->rate[link][r];
  for (uint32_t d = 0; d < b->interest.domains; d++)
    if (bytes[d] > 0 && bytes[d] / rate[d] > most) {
      most = bytes[d] / rate[d];
      *worst = d;
    }
  free(rate);
  return most;
}

static void bound_domains(struct bounder *b) {
  uint32_t d = 0;
  double seconds = worst_domain(b, b->interest.ingest, RSP_SIM_NIC_IN, &d);
  if (binds(b, RSP_BOUND_INGEST, seconds)) {
    clear(b);
    double rate = rate_of(b, RSP_SIM_NIC_IN, d, true);
    say(b, "want", b->interest.ingest[d], "that none of their domain holds, in through their NICs", rate);
  }
  seconds = worst_domain(b, b->interest.copies, RSP_SIM_NVLINK_IN, &d);
  if (binds(b, RSP_BOUND_NVLINK, seconds)) {
    clear(b);
    double rate = rate_of(b, RSP_SIM_NVLINK_IN, d, true);
    say(b, "want", b->interest.copies[d], "that others of their domain have or want too, over NVLink", rate);
  }
}

/* One copy of what others of a domain want leaves its holders there. */
static void bound_inward(struct bounder *b) {
  double bytes, rate = 0;
  const double *rates = b->cluster->rate[RSP_SIM_NVLINK_OUT];
  double seconds = rspm_egress(&b->interest.inward, rates, b->plan->header->world, b->inside, &bytes);
  if (!binds(b, RSP_BOUND_NVLINK, seconds)) return;
  for (uint32_t r = 0; r < b->plan->header->world; r++) rate += b->inside[r] ? rates[r] : 0;
  say(b, "hold", bytes, "that others of their domain want, out over NVLink", rate);
}

static bool is_inside(const struct bounder *b, uint32_t group) {
  const struct rspm_group *g = &b->interest.outward.at[group];
  for (size_t i = 0; i < g->rank_count; i++)
    if (!b->inside[g->ranks[i]]) return false;
  return true;
}

/* Tensors that have something in a group of the ranks inside. A kind's shares stand together. */
static uint64_t count_inside(const struct bounder *b) {
  uint64_t tensors = 0;
  uint32_t last = UINT32_MAX;
  for (size_t i = 0; i < b->interest.share_count; i++) {
    const struct rspm_share *s = &b->interest.shares[i];
    if (s->kind == last || !is_inside(b, s->group)) continue;
    tensors += s->tensors;
    last = s->kind;
  }
  return tensors;
}

static void bound_egress(struct bounder *b) {
  const struct rspm_interest *in = &b->interest;
  double bytes, rate = 0, total = 0;
  double seconds =
      rspm_egress(&in->outward, b->cluster->rate[RSP_SIM_NIC_OUT], b->plan->header->world, b->inside, &bytes);
  for (size_t g = 0; g < in->outward.count; g++) b->out->one_copy += (uint64_t)in->outward.at[g].bytes;
  if (binds(b, RSP_BOUND_EGRESS, seconds)) {
    uint64_t tensors = count_inside(b);
    const struct rspm_group *largest = NULL;
    for (size_t g = 0; g < in->outward.count; g++)
      if (is_inside(b, (uint32_t)g) && (!largest || in->outward.at[g].example_bytes > largest->example_bytes))
        largest = &in->outward.at[g];
    for (uint32_t r = 0; r < b->plan->header->world; r++)
      if (b->inside[r]) rate += b->cluster->rate[RSP_SIM_NIC_OUT][r];
    char what[200] = "that only they can send, out through their NICs";
    if (largest) {
      const struct rsp_str *name = &b->plan->tensors[largest->example].name;
      int len = name->len > 80 ? 80 : (int)name->len;
      snprintf(what, sizeof what, "that only they can send (of %llu tensor%s, such as %.*s), out through their NICs",
               (unsigned long long)tensors, rsp_plural(tensors), len, b->plan->strings + name->off);
    }
    say(b, "hold", bytes, what, rate);
  }
  for (uint32_t d = 0; d < in->domains; d++) total += in->ingest[d];
  b->out->network_minimum = (uint64_t)(total + 0.5);
  rate = rate_of(b, RSP_SIM_NIC_OUT, UINT32_MAX, false);
  if (binds(b, RSP_BOUND_NETWORK, total > 0 ? total / rate : 0)) {
    clear(b);
    rate_of(b, RSP_SIM_NIC_OUT, UINT32_MAX, true);
    say(b, "must send", total, "in all, out through their NICs", rate);
  }
}

static void bound_ranks(struct bounder *b) {
  const struct rspm_interest *in = &b->interest;
  uint32_t *members = rspm_alloc(in->domains, sizeof *members), worst[2] = {0, 0};
  double most[2] = {0, 0}, rates[2] = {0, 0};
  for (uint32_t r = 0; r < b->plan->header->world; r++) members[b->interest.domain_of[r]] += in->active[r];
  for (uint32_t r = 0; r < b->plan->header->world; r++) {
    double in_rate = b->cluster->rate[RSP_SIM_NIC_IN][r];
    if (members[b->interest.domain_of[r]] > 1) in_rate += b->cluster->rate[RSP_SIM_NVLINK_IN][r];
    double rate[2] = {in_rate, b->cluster->rate[RSP_SIM_MEMORY][r]}, bytes[2] = {in->need[r], in->memory[r]};
    for (int k = 0; k < 2; k++)
      if (bytes[k] / rate[k] > most[k]) {
        most[k] = bytes[k] / rate[k];
        rates[k] = rate[k];
        worst[k] = r;
      }
  }
  free(members);
  if (binds(b, RSP_BOUND_RANK, most[0])) {
    clear(b);
    b->inside[worst[0]] = true;
    say(b, "wants", in->need[worst[0]], "that it does not hold, in through its NIC and NVLink", rates[0]);
  }
  if (binds(b, RSP_BOUND_MEMORY, most[1])) {
    clear(b);
    b->inside[worst[1]] = true;
    say(b, "reads and writes", in->memory[worst[1]], "at least", rates[1]);
  }
}

static void bound_latency(struct bounder *b) {
  const struct rsp_sim_cluster *c = b->cluster;
  double seconds = 0, copies = 0;
  for (uint32_t d = 0; d < b->interest.domains; d++) copies += b->interest.copies[d];
  if (copies > 0) seconds = c->nvlink_latency + c->issue_seconds;
  if (b->out->network_minimum) seconds = c->network_latency + c->issue_seconds;
  if (binds(b, RSP_BOUND_LATENCY, seconds))
    snprintf(b->out->words, sizeof b->out->words, "one message takes %.3g us to issue and to arrive, however short",
             seconds * 1e6);
}

void rsp_bound_of(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, struct rsp_bound *bound) {
  *bound = (struct rsp_bound){.words = "nothing has to move"};
  struct bounder b = {.plan = plan, .cluster = cluster, .out = bound};
  b.inside = rspm_alloc(plan->header->world, sizeof *b.inside);
  rspm_interest_of(plan, &b.interest);
  bound->exact = b.interest.exact;
  bound_domains(&b);
  bound_inward(&b);
  bound_egress(&b);
  bound_ranks(&b);
  bound_latency(&b);
  if (bound->term == RSP_BOUND_NOTHING && !b.interest.exact)
    snprintf(bound->words, sizeof bound->words,
             "unknown, since what moves is cut too finely to be divided among the ranks");
  rspm_interest_free(&b.interest);
  free(b.inside);
}
