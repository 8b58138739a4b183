/* SPDX-License-Identifier: Apache-2.0
 *
 * In: flows and rates. Out: when each rank ends each phase.
 *
 * In phase p a rank packs round p, exchanges round p-1 and unpacks round p-2, and goes on when it has done the three; a
 * message moves when both its ends are in its phase. Within a round every message has, of each link that it crosses, the
 * share that its bytes are of the link's bytes in that round, so it takes as long as the busier of its links: rates that
 * add up to no more than any link has, and that end the round as early as can be. Memory is one more link, of the rank.
 *
 *   message(a, b) ends  max(start a, start b) + issue + latency + max(bytes out of a / rate, bytes into b / rate,
 *                       (messages of a - 1) * issue, (messages of b - 1) * issue)
 *   phase of a ends     max(its messages' ends, start a + memory traffic of the phase / rate)
 *
 * This is linear in the (max, +) sense: where the same rounds repeat and every rank of a connected set has come to take
 * equally long for each, the rest of the stretch is one multiplication.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plans/sim/impl.h"

enum { MOST_PERIOD = 256 };

enum { L_PACK = RSP_SIM_LINKS, L_UNPACK, L_MESSAGES, L_COUNT };

/* What the ranks do in one round. L_PACK and so on: memory traffic outside the exchange; RSP_SIM_MEMORY: inside it. */
struct load {
  double *at[L_COUNT];
};

struct sim {
  const struct rsp_sim_cluster *cluster;
  const struct rspm_flow *flows;
  size_t flow_count;
  uint32_t world, rounds;
  uint32_t period;       /* of the steps: a round's kind comes again after so many */
  bool irregular;        /* the steps have no short period: every round is computed */
  struct load *loads;    /* a ring of period + 3 rounds */
  uint32_t ring;
  size_t **active;       /* per residue of the period: flows in progress */
  size_t *active_count;
  size_t *starts;        /* flows by round0 */
  size_t next_start;
  uint32_t *events;      /* rounds where something starts, ends or is partly filled, ascending */
  size_t event_count, next_event;
  double *start, *end, *message; /* per rank: start of the phase; end; share of a message's time by link: [4][world] */
  double *before, *growth;       /* start one period ago; growth in the period before that */
  rsp_sim_trace_fn trace;
  void *user;
  struct rsp_sim_result *result;
};

static uint32_t last_round(const struct rspm_flow *f) { return f->round0 + (f->rounds - 1) * f->step; }

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

static uint32_t period_of(const struct rspm_flows *flows) {
  uint64_t period = 1;
  for (size_t i = 0; i < flows->count; i++) {
    uint64_t step = flows->at[i].step;
    if (flows->at[i].rounds < 2 || period % step == 0) continue;
    period = period / gcd(period, step) * step;
    if (period > MOST_PERIOD) return 0;
  }
  return (uint32_t)period;
}

static bool is_in(const struct sim *s, const struct rspm_flow *f, uint32_t residue) {
  if (s->period == 1) return true;
  return f->rounds == 1 ? residue == f->round0 % s->period : residue % f->step == f->round0 % f->step;
}

/* How many residues a flow is active in. */
static uint32_t residues_of(const struct sim *s, const struct rspm_flow *f) {
  return f->rounds == 1 || s->period == 1 ? 1 : s->period / f->step;
}

/* Rounds that are not like the one a period before. */
static void list_events(struct sim *s) {
  size_t count = 0;
  for (size_t i = 0; i < s->flow_count; i++) count += 2 * residues_of(s, &s->flows[i]) + 1;
  s->events = rspm_alloc(count, sizeof *s->events);
  for (size_t i = 0; i < s->flow_count; i++) {
    const struct rspm_flow *f = &s->flows[i];
    uint32_t residues = residues_of(s, f), step = s->period / residues;
    for (uint32_t k = 0; k < residues; k++) s->events[s->event_count++] = f->round0 + k * step;
    for (uint32_t k = 1; k <= residues; k++) s->events[s->event_count++] = last_round(f) + k * step;
    s->events[s->event_count++] = last_round(f);
  }
  if (s->event_count) qsort(s->events, s->event_count, sizeof *s->events, by_number);
  size_t kept = 0;
  for (size_t i = 0; i < s->event_count; i++)
    if (!kept || s->events[kept - 1] != s->events[i]) s->events[kept++] = s->events[i];
  s->event_count = kept;
}

static struct load *load_of(const struct sim *s, uint32_t round) { return &s->loads[round % s->ring]; }

static void add_flow(struct load *load, const struct rspm_flow *f, double bytes) {
  load->at[L_PACK][f->src] += bytes * (double)f->pack;
  load->at[L_UNPACK][f->dst] += bytes * (double)f->unpack;
  if (f->way == RSPM_COPY) return;
  load->at[RSP_SIM_MEMORY][f->src] += bytes;
  load->at[RSP_SIM_MEMORY][f->dst] += bytes;
  load->at[L_MESSAGES][f->src] += (double)f->messages;
  load->at[L_MESSAGES][f->dst] += (double)f->messages;
  if (f->way == RSPM_SELF) return;
  load->at[f->way == RSPM_NETWORK ? RSP_SIM_NIC_OUT : RSP_SIM_NVLINK_OUT][f->src] += bytes;
  load->at[f->way == RSPM_NETWORK ? RSP_SIM_NIC_IN : RSP_SIM_NVLINK_IN][f->dst] += bytes;
}

static bool round_has(const struct rspm_flow *f, uint32_t round, double *bytes) {
  if (round < f->round0 || (round - f->round0) % f->step) return false;
  uint32_t turn = (round - f->round0) / f->step;
  if (turn >= f->rounds) return false;
  *bytes = turn + 1 == f->rounds ? f->last : f->quantum;
  return true;
}

/* Flows in progress in the round, in residue `k`'s list. */
static void update_active(struct sim *s, uint32_t round) {
  while (s->next_start < s->flow_count && s->flows[s->starts[s->next_start]].round0 <= round) {
    size_t i = s->starts[s->next_start++];
    const struct rspm_flow *f = &s->flows[i];
    for (uint32_t k = 0; k < s->period; k++)
      if (is_in(s, f, k)) s->active[k][s->active_count[k]++] = i;
  }
  uint32_t k = round % s->period;
  size_t kept = 0;
  for (size_t j = 0; j < s->active_count[k]; j++) {
    size_t i = s->active[k][j];
    if (last_round(&s->flows[i]) >= round) s->active[k][kept++] = i;
  }
  s->active_count[k] = kept;
}

static void compute_load(struct sim *s, uint32_t round) {
  struct load *load = load_of(s, round);
  while (s->next_event < s->event_count && s->events[s->next_event] < round) s->next_event++;
  bool fresh = s->irregular || (s->next_event < s->event_count && s->events[s->next_event] == round);
  uint32_t k = round % s->period;
  if (fresh || round < s->period) {
    update_active(s, round);
  }
  if (!fresh && round >= s->period) {
    const struct load *old = load_of(s, round - s->period);
    for (int i = 0; i < L_COUNT; i++) memcpy(load->at[i], old->at[i], s->world * sizeof(double));
    return;
  }
  for (int i = 0; i < L_COUNT; i++) memset(load->at[i], 0, s->world * sizeof(double));
  for (size_t j = 0; j < s->active_count[k]; j++) {
    const struct rspm_flow *f = &s->flows[s->active[k][j]];
    double bytes;
    if (round_has(f, round, &bytes)) add_flow(load, f, bytes);
  }
}

/* ---- phases ---- */

/* How long a rank's links and its issuing of messages take for a round. */
static void message_times(struct sim *s, const struct load *load) {
  const struct rsp_sim_cluster *c = s->cluster;
  for (uint32_t r = 0; r < s->world; r++) {
    double messages = load->at[L_MESSAGES][r];
    double issue = messages > 1 ? (messages - 1) * c->issue_seconds : 0;
    for (int link = 0; link < RSP_SIM_MEMORY; link++) {
      double seconds = load->at[link][r] / c->rate[link][r];
      s->message[(size_t)link * s->world + r] = seconds > issue ? seconds : issue;
    }
  }
}

static void exchange(struct sim *s, uint32_t round) {
  const struct rsp_sim_cluster *c = s->cluster;
  uint32_t k = round % s->period, world = s->world;
  const double latency[3] = {c->network_latency + c->issue_seconds, c->nvlink_latency + c->issue_seconds,
                             c->issue_seconds};
  message_times(s, load_of(s, round));
  for (size_t j = 0; j < s->active_count[k]; j++) {
    const struct rspm_flow *f = &s->flows[s->active[k][j]];
    double bytes;
    if (round < f->round0 || f->way == RSPM_COPY || (s->irregular && !round_has(f, round, &bytes))) continue;
    double t = s->start[f->src] > s->start[f->dst] ? s->start[f->src] : s->start[f->dst];
    if (f->way == RSPM_SELF) {
      t += latency[2];
    } else {
      size_t link = f->way == RSPM_NETWORK ? RSP_SIM_NIC_OUT : RSP_SIM_NVLINK_OUT;
      double out = s->message[link * world + f->src], in = s->message[(link + 1) * world + f->dst];
      t += latency[f->way] + (out > in ? out : in);
    }
    if (t > s->end[f->src]) s->end[f->src] = t;
    if (t > s->end[f->dst]) s->end[f->dst] = t;
  }
}

static double memory_bytes(const struct sim *s, uint32_t phase, uint32_t r) {
  double bytes = phase < s->rounds ? load_of(s, phase)->at[L_PACK][r] : 0;
  if (phase >= 1 && phase - 1 < s->rounds) bytes += load_of(s, phase - 1)->at[RSP_SIM_MEMORY][r];
  if (phase >= 2) bytes += load_of(s, phase - 2)->at[L_UNPACK][r];
  return bytes;
}

static void account(struct sim *s, uint32_t phase, uint32_t r, double from, double to, double times) {
  double bytes[RSP_SIM_LINKS] = {0};
  const struct load *x = phase >= 1 && phase - 1 < s->rounds ? load_of(s, phase - 1) : NULL;
  for (int link = 0; link < RSP_SIM_MEMORY && x; link++) bytes[link] = x->at[link][r] * times;
  bytes[RSP_SIM_MEMORY] = memory_bytes(s, phase, r) * times;
  for (int link = 0; link < RSP_SIM_LINKS; link++) s->result->bytes[link][r] += bytes[link];
  if (s->trace) s->trace(s->user, r, from, to, bytes);
}

static void run_phase(struct sim *s, uint32_t phase) {
  if (phase < s->rounds) compute_load(s, phase);
  memcpy(s->end, s->start, s->world * sizeof(double));
  if (phase >= 1 && phase - 1 < s->rounds) exchange(s, phase - 1);
  for (uint32_t r = 0; r < s->world; r++) {
    double t = s->start[r] + memory_bytes(s, phase, r) / s->cluster->rate[RSP_SIM_MEMORY][r];
    if (t > s->end[r]) s->end[r] = t;
    account(s, phase, r, s->start[r], s->end[r], 1);
  }
  double *t = s->start;
  s->start = s->end;
  s->end = t;
  s->result->phases_computed++;
}

/* ---- stretches of equal rounds ---- */

static bool same(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-15; }

/* Whether each rank's last two periods took equally long, and those who exchange agree. */
static bool is_steady(const struct sim *s) {
  for (uint32_t r = 0; r < s->world; r++)
    if (!same(s->start[r] - s->before[r], s->growth[r])) return false;
  for (uint32_t k = 0; k < s->period; k++)
    for (size_t j = 0; j < s->active_count[k]; j++) {
      const struct rspm_flow *f = &s->flows[s->active[k][j]];
      if (!same(s->growth[f->src], s->growth[f->dst])) return false;
    }
  return true;
}

/* Periods from this phase on that are like the last one. */
static uint32_t periods_left(struct sim *s, uint32_t phase) {
  size_t e = s->next_event;
  while (e < s->event_count && s->events[e] < phase) e++;
  uint32_t last = e ? s->events[e - 1] : 0, next = e < s->event_count ? s->events[e] : s->rounds;
  if (next > s->rounds) next = s->rounds;
  if (phase < last + 3 + s->period || next <= phase) return 0;
  return (next - phase) / s->period;
}

/* Moves whole periods at once; returns the phase to go on with. */
static uint32_t leap(struct sim *s, uint32_t phase, uint32_t periods) {
  for (uint32_t r = 0; r < s->world; r++) {
    double from = s->start[r], to = from + s->growth[r] * periods;
    for (uint32_t k = 0; k < s->period; k++)
      account(s, phase - s->period + k, r, from + (to - from) * k / s->period,
              from + (to - from) * (k + 1) / s->period, periods);
    s->start[r] = to;
  }
  /* The ring is addressed by rounds: shift so that the last rounds are found under their new numbers. */
  uint32_t moved = periods * s->period;
  struct load *turned = rspm_alloc(s->ring, sizeof *turned);
  for (uint32_t i = 0; i < s->ring; i++) turned[(i + moved) % s->ring] = s->loads[i];
  memcpy(s->loads, turned, s->ring * sizeof *turned);
  free(turned);
  return phase + moved;
}

static void run_phases(struct sim *s) {
  uint32_t phases = s->rounds + 2, marked = UINT32_MAX;
  for (uint32_t phase = 0; phase < phases;) {
    run_phase(s, phase++);
    if (phase % s->period) continue;
    uint32_t periods = marked != UINT32_MAX && !s->irregular ? periods_left(s, phase) : 0;
    if (periods > 0 && is_steady(s)) phase = leap(s, phase, periods);
    for (uint32_t r = 0; r < s->world; r++) {
      s->growth[r] = s->start[r] - s->before[r];
      s->before[r] = s->start[r];
    }
    marked = phase;
  }
}

/* ---- set-up ---- */

static int by_round(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : (x[1] < y[1] ? -1 : x[1] > y[1]);
}

static void sort_starts(struct sim *s) {
  uint32_t(*keys)[2] = rspm_alloc(s->flow_count, sizeof *keys);
  s->starts = rspm_alloc(s->flow_count, sizeof *s->starts);
  for (size_t i = 0; i < s->flow_count; i++) {
    keys[i][0] = s->flows[i].round0;
    keys[i][1] = (uint32_t)i;
  }
  qsort(keys, s->flow_count, sizeof *keys, by_round);
  for (size_t i = 0; i < s->flow_count; i++) s->starts[i] = keys[i][1];
  free(keys);
}

static void open_active(struct sim *s) {
  for (uint32_t k = 0; k < s->period; k++) {
    size_t count = 0;
    for (size_t i = 0; i < s->flow_count; i++) count += is_in(s, &s->flows[i], k);
    s->active[k] = rspm_alloc(count, sizeof **s->active);
  }
}

static void open_sim(struct sim *s, const struct rspm_flows *flows) {
  s->period = period_of(flows);
  s->irregular = s->period == 0;
  if (s->irregular) s->period = 1;
  s->ring = s->period + 3;
  s->loads = rspm_alloc(s->ring, sizeof *s->loads);
  for (uint32_t i = 0; i < s->ring; i++)
    for (int k = 0; k < L_COUNT; k++) s->loads[i].at[k] = rspm_alloc(s->world, sizeof(double));
  s->active = rspm_alloc(s->period, sizeof *s->active);
  s->active_count = rspm_alloc(s->period, sizeof *s->active_count);
  open_active(s);
  s->start = rspm_alloc(s->world, sizeof(double));
  s->end = rspm_alloc(s->world, sizeof(double));
  s->before = rspm_alloc(s->world, sizeof(double));
  s->growth = rspm_alloc(s->world, sizeof(double));
  s->message = rspm_alloc((size_t)s->world * RSP_SIM_MEMORY, sizeof(double));
  sort_starts(s);
  list_events(s);
  for (int k = 0; k < RSP_SIM_LINKS; k++) {
    s->result->bytes[k] = rspm_alloc(s->world, sizeof(double));
    s->result->busy[k] = rspm_alloc(s->world, sizeof(double));
  }
}

static void close_sim(struct sim *s) {
  for (uint32_t i = 0; i < s->ring; i++)
    for (int k = 0; k < L_COUNT; k++) free(s->loads[i].at[k]);
  for (uint32_t k = 0; k < s->period; k++) free(s->active[k]);
  void *all[] = {s->loads, s->active, s->active_count, s->starts, s->events,
                 s->start, s->end,    s->before,       s->growth,  s->message};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

void rsp_simulate(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, rsp_sim_trace_fn trace,
                  void *user, struct rsp_sim_result *result) {
  struct rspm_flows flows = {0};
  rspm_flows_of(plan, &flows);
  *result = (struct rsp_sim_result){.phases = plan->header->rounds ? (uint64_t)plan->header->rounds + 2 : 0};
  struct sim s = {.cluster = cluster,
                  .flows = flows.at,
                  .flow_count = flows.count,
                  .world = plan->header->world,
                  .rounds = plan->header->rounds,
                  .trace = trace,
                  .user = user,
                  .result = result};
  open_sim(&s, &flows);
  if (s.rounds) run_phases(&s);
  for (uint32_t r = 0; r < s.world; r++)
    if (s.start[r] > result->seconds) result->seconds = s.start[r];
  for (int k = 0; k < RSP_SIM_LINKS; k++)
    for (uint32_t r = 0; r < s.world && result->seconds > 0; r++)
      result->busy[k][r] = result->bytes[k][r] / cluster->rate[k][r] / result->seconds;
  close_sim(&s);
  free(flows.at);
}

void rsp_sim_result_free(struct rsp_sim_result *result) {
  for (int k = 0; k < RSP_SIM_LINKS; k++) {
    free(result->bytes[k]);
    free(result->busy[k]);
  }
  *result = (struct rsp_sim_result){.seconds = 0};
}
