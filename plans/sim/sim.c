/* SPDX-License-Identifier: Apache-2.0
 *
 * In: flows and rates. Out: when each rank ends each phase.
 *
 * In phase p a rank packs round p, exchanges round p-1 and unpacks round p-2, and goes on when it has done the three; a
 * message moves when both its ends are in its phase. Within a round every message has, of each link that it crosses,
 * the share that its bytes are of the link's bytes in that round, so it takes as long as the busier of its links: rates
 * that add up to no more than any link has, and that end the round as early as can be. Memory is one more link, of the
 * rank.
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

#define COARSE_MESSAGES 4e6                     /* below, all rounds are computed anyway */
enum { CYCLE = 64, COMPUTED = 8, SETTLED = 4 }; /* in periods: of a cycle; of it computed; not counted for the pace */

#define MOST_RING_BYTES 5e8 /* with longer periods every round is computed anew */

/* What the ranks do in one round: bytes and messages of the exchange by link, memory traffic beside it. */
enum { L_PACK = RSP_SIM_LINKS, L_UNPACK, L_COUNT };
struct load {
  double *at[L_COUNT];
};

/* Ranks that exchange something in a round. */
struct edge {
  uint32_t src, dst, way;
};
struct edges {
  uint32_t *at;            /* indices of edges; a source's begin where its edges do */
  uint32_t *counts;        /* per source */
  uint32_t *where, *users; /* per edge: its place in `at`; streams in progress */
};

/* A change of what happens in the rounds of one residue of the period. */
struct event {
  uint32_t flow;
  uint8_t add, drop; /* which: 0 nothing, 1 a whole quantum, 2 the last one */
};

struct sim {
  const struct rsp_sim_cluster *cluster;
  const struct rspm_flow *flows;
  size_t flow_count;
  uint32_t world, rounds;
  uint32_t period;    /* of the steps: a round's kind comes again after so many */
  bool irregular;     /* the steps have no short period: every round is computed anew */
  struct load *loads; /* a ring of period + 3 rounds */
  uint32_t ring;
  struct edge *edges;
  size_t edge_count;
  uint32_t *edge_starts;          /* per source, one more */
  uint32_t *edge_of;              /* per flow */
  struct edges *active;           /* per residue of the period */
  struct event *events;           /* by round */
  size_t *event_starts;           /* per round, one more */
  double *start, *end, *message;  /* per rank: start of the phase; end; a message's time by link: [4][world] */
  double *before, *growth;        /* start one period ago; growth in the period before that */
  double (*peaks)[RSP_SIM_LINKS]; /* a ring of phases, as of loads: the busiest rank's seconds */
  bool coarse;
  double *mark, *pace; /* coarse: start where the pace began to be taken; seconds per phase */
  rsp_sim_trace_fn trace;
  void *user;
  struct rsp_sim_result *result;
};

static uint64_t gcd(uint64_t a, uint64_t b) {
  return b ? gcd(b, a % b) : a;
}

/* 0: too long. */
static uint32_t period_of(const struct rspm_flows *flows, uint32_t world) {
  uint64_t period = 1;
  for (size_t i = 0; i < flows->count; i++) {
    uint64_t step = flows->at[i].step;
    if (flows->at[i].rounds < 2 || period % step == 0) continue;
    period = period / gcd(period, step) * step;
    if ((double)period * world * L_COUNT * sizeof(double) > MOST_RING_BYTES) return 0;
  }
  return (uint32_t)period;
}

/* ---- what each round moves ---- */

static struct load *load_of(const struct sim *s, uint32_t round) {
  return &s->loads[round % s->ring];
}

/* `times` is 1 or -1. Whole numbers, so that what is added and taken away leaves nothing. */
static void add_flow(struct load *load, const struct rspm_flow *f, double bytes, double times) {
  load->at[L_PACK][f->src] += times * rint(bytes * (double)f->pack);
  load->at[L_UNPACK][f->dst] += times * rint(bytes * (double)f->unpack);
  if (f->way == RSPM_COPY) return;
  bytes *= times;
  load->at[RSP_SIM_MEMORY][f->src] += bytes;
  load->at[RSP_SIM_MEMORY][f->dst] += bytes;
  load->at[RSP_SIM_ISSUE][f->src] += times * (double)f->messages;
  load->at[RSP_SIM_ISSUE][f->dst] += times * (double)f->messages;
  if (f->way == RSPM_SELF) return;
  load->at[f->way == RSPM_NETWORK ? RSP_SIM_NIC_OUT : RSP_SIM_NVLINK_OUT][f->src] += bytes;
  load->at[f->way == RSPM_NETWORK ? RSP_SIM_NIC_IN : RSP_SIM_NVLINK_IN][f->dst] += bytes;
}

static double bytes_of(const struct rspm_flow *f, uint8_t which) {
  return which == 2 ? f->last : f->quantum;
}

static void use_edge(struct sim *s, struct edges *a, uint32_t flow, bool more) {
  if (s->flows[flow].way == RSPM_COPY) return;
  uint32_t e = s->edge_of[flow], src = s->flows[flow].src, start = s->edge_starts[src];
  if (more && a->users[e]++ == 0) {
    a->where[e] = start + a->counts[src]++;
    a->at[a->where[e]] = e;
  } else if (!more && --a->users[e] == 0) {
    uint32_t moved = a->at[start + --a->counts[src]];
    a->at[a->where[e]] = moved;
    a->where[moved] = a->where[e];
  }
}

/* A round is the one a period before, with some changes. */
static void compute_load(struct sim *s, uint32_t round) {
  struct load *load = load_of(s, round);
  struct edges *active = &s->active[round % s->period];
  for (int i = 0; i < L_COUNT; i++) {
    if (round < s->period)
      memset(load->at[i], 0, s->world * sizeof(double));
    else
      memmove(load->at[i], load_of(s, round - s->period)->at[i], s->world * sizeof(double));
  }
  for (size_t i = s->event_starts[round]; i < s->event_starts[round + 1]; i++) {
    const struct event *e = &s->events[i];
    const struct rspm_flow *f = &s->flows[e->flow];
    if (e->drop) add_flow(load, f, bytes_of(f, e->drop), -1);
    if (e->add) add_flow(load, f, bytes_of(f, e->add), 1);
    if (!e->drop || !e->add) use_edge(s, active, e->flow, e->add != 0);
  }
}

static void compute_anew(struct sim *s, uint32_t round) {
  struct load *load = load_of(s, round);
  struct edges *active = &s->active[0];
  for (int i = 0; i < L_COUNT; i++) memset(load->at[i], 0, s->world * sizeof(double));
  memset(active->users, 0, s->edge_count * sizeof *active->users);
  memset(active->counts, 0, s->world * sizeof *active->counts);
  for (uint32_t i = 0; i < s->flow_count; i++) {
    const struct rspm_flow *f = &s->flows[i];
    uint32_t turn = round < f->round0 ? UINT32_MAX : (round - f->round0) / f->step;
    if (turn >= f->rounds || (round - f->round0) % f->step) continue;
    add_flow(load, f, turn + 1 == f->rounds ? f->last : f->quantum, 1);
    use_edge(s, active, i, true);
  }
}

/* ---- phases ---- */

/* How long a rank's links and its issuing of messages take for a round; the longest go to `peaks`. */
static void message_times(struct sim *s, const struct load *load, double peaks[RSP_SIM_LINKS]) {
  const struct rsp_sim_cluster *c = s->cluster;
  for (uint32_t r = 0; r < s->world; r++) {
    double messages = load->at[RSP_SIM_ISSUE][r], all = messages / c->rate[RSP_SIM_ISSUE][r];
    double issue = messages > 1 ? (messages - 1) * c->issue_seconds : 0;
    if (all > peaks[RSP_SIM_ISSUE]) peaks[RSP_SIM_ISSUE] = all;
    for (int link = 0; link < RSP_SIM_MEMORY; link++) {
      double seconds = load->at[link][r] / c->rate[link][r];
      if (seconds > peaks[link]) peaks[link] = seconds;
      s->message[(size_t)link * s->world + r] = seconds > issue ? seconds : issue;
    }
  }
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* The messages of one source. Its own end is kept apart, so that none waits for what the one before has stored. */
static void send_from(struct sim *s, uint32_t src, const struct edges *active, const double latency[3]) {
  const size_t world = s->world, links[3] = {RSP_SIM_NIC_OUT * world, RSP_SIM_NVLINK_OUT * world, 0};
  const uint32_t *at = active->at + s->edge_starts[src];
  double start = s->start[src], end = s->end[src];
  for (uint32_t i = 0; i < active->counts[src]; i++) {
    const struct edge *e = &s->edges[at[i]];
    const double *out = s->message + links[e->way], *in = out + world;
    double t = larger(start, s->start[e->dst]) + latency[e->way];
    if (e->way != RSPM_SELF) t += larger(out[src], in[e->dst]);
    end = larger(end, t);
    s->end[e->dst] = larger(s->end[e->dst], t);
  }
  s->end[src] = larger(s->end[src], end);
}

static void exchange(struct sim *s, uint32_t round, double peaks[RSP_SIM_LINKS]) {
  const struct rsp_sim_cluster *c = s->cluster;
  const double latency[3] = {c->network_latency + c->issue_seconds, c->nvlink_latency + c->issue_seconds,
                             c->issue_seconds};
  message_times(s, load_of(s, round), peaks);
  for (uint32_t src = 0; src < s->world; src++) send_from(s, src, &s->active[round % s->period], latency);
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
  if (x) bytes[RSP_SIM_ISSUE] = x->at[RSP_SIM_ISSUE][r] * times;
  bytes[RSP_SIM_MEMORY] = memory_bytes(s, phase, r) * times;
  for (int link = 0; link < RSP_SIM_LINKS; link++) s->result->bytes[link][r] += bytes[link];
  if (s->trace) s->trace(s->user, r, from, to, bytes);
}

/* Whether a coarse simulation goes over the phase, and where it is in its cycle. */
static bool is_skipped(const struct sim *s, uint32_t phase) {
  uint32_t cycle = CYCLE * s->period, at = phase % cycle;
  return s->coarse && at >= COMPUTED * s->period && phase - at + cycle < s->rounds;
}

/* Takes each rank's pace over the computed phases of a cycle. */
static void take_pace(struct sim *s, uint32_t phase) {
  uint32_t at = phase % (CYCLE * s->period), phases = (COMPUTED - SETTLED) * s->period;
  if (at == SETTLED * s->period) memcpy(s->mark, s->start, s->world * sizeof(double));
  for (uint32_t r = 0; r < s->world && at == COMPUTED * s->period; r++)
    s->pace[r] = (s->start[r] - s->mark[r]) / phases;
}

static void run_phase(struct sim *s, uint32_t phase) {
  bool skipped = is_skipped(s, phase);
  double *peaks = s->peaks[phase % s->ring];
  memset(peaks, 0, RSP_SIM_LINKS * sizeof *peaks);
  memcpy(s->end, s->start, s->world * sizeof(double));
  if (s->coarse) take_pace(s, phase);
  if (!skipped && phase >= 1 && phase - 1 < s->rounds) exchange(s, phase - 1, peaks);
  if (phase < s->rounds && s->irregular)
    compute_anew(s, phase);
  else if (phase < s->rounds)
    compute_load(s, phase);
  for (uint32_t r = 0; r < s->world; r++) {
    double memory = memory_bytes(s, phase, r) / s->cluster->rate[RSP_SIM_MEMORY][r];
    if (memory > peaks[RSP_SIM_MEMORY]) peaks[RSP_SIM_MEMORY] = memory;
    s->end[r] = larger(s->end[r], s->start[r] + memory);
    if (skipped) s->end[r] = s->start[r] + s->pace[r];
    account(s, phase, r, s->start[r], s->end[r], 1);
  }
  for (int link = 0; link < RSP_SIM_LINKS && !skipped; link++) s->result->peak[link] += peaks[link];
  double *t = s->start;
  s->start = s->end;
  s->end = t;
  s->result->phases_computed += !skipped;
}

/* ---- stretches of equal rounds ---- */

static bool same(double a, double b) {
  return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-15;
}

/* Whether each rank's last two periods took equally long, and those who exchange agree. */
static bool is_steady(const struct sim *s) {
  for (uint32_t r = 0; r < s->world; r++)
    if (!same(s->start[r] - s->before[r], s->growth[r])) return false;
  for (uint32_t k = 0; k < s->period; k++)
    for (size_t e = 0; e < s->edge_count; e++)
      if (s->active[k].users[e] && !same(s->growth[s->edges[e].src], s->growth[s->edges[e].dst])) return false;
  return true;
}

/* Periods from this phase on that are like the last one. */
static uint32_t periods_left(const struct sim *s, uint32_t phase) {
  uint32_t next = phase, last = phase;
  if (phase >= s->rounds) return 0;
  while (last > 0 && phase - last < 3 + s->period && s->event_starts[last] == s->event_starts[last - 1]) last--;
  if (phase - last < 3 + s->period) return 0;
  while (next < s->rounds && s->event_starts[next] == s->event_starts[next + 1]) next++;
  return (next - phase) / s->period;
}

/* Moves whole periods at once; returns the phase to go on with. */
static uint32_t leap(struct sim *s, uint32_t phase, uint32_t periods) {
  for (uint32_t r = 0; r < s->world; r++) {
    double from = s->start[r], to = from + s->growth[r] * periods;
    for (uint32_t k = 0; k < s->period; k++)
      account(s, phase - s->period + k, r, from + (to - from) * k / s->period, from + (to - from) * (k + 1) / s->period,
              periods);
    s->start[r] = to;
  }
  for (uint32_t k = 1; k <= s->period; k++)
    for (int link = 0; link < RSP_SIM_LINKS; link++)
      s->result->peak[link] += s->peaks[(phase - k) % s->ring][link] * periods;
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
    bool may_leap = marked != UINT32_MAX && !s->irregular && !s->coarse;
    uint32_t periods = may_leap ? periods_left(s, phase) : 0;
    if (periods > 0 && is_steady(s)) phase = leap(s, phase, periods);
    for (uint32_t r = 0; r < s->world; r++) {
      s->growth[r] = s->start[r] - s->before[r];
      s->before[r] = s->start[r];
    }
    marked = phase;
  }
}

/* ---- set-up ---- */

/* Flows come by source, so an edge is found through the last source that had its destination. */
static void find_edges(struct sim *s) {
  uint32_t *last = rspm_alloc(s->world, sizeof *last), *edge_to = rspm_alloc(s->world, sizeof *edge_to);
  s->edges = rspm_alloc(s->flow_count, sizeof *s->edges);
  s->edge_of = rspm_alloc(s->flow_count, sizeof *s->edge_of);
  for (size_t i = 0; i < s->flow_count; i++) {
    const struct rspm_flow *f = &s->flows[i];
    if (f->way == RSPM_COPY) continue;
    if (last[f->dst] != f->src + 1) {
      last[f->dst] = f->src + 1;
      edge_to[f->dst] = (uint32_t)s->edge_count;
      s->edges[s->edge_count++] = (struct edge){f->src, f->dst, f->way};
    }
    s->edge_of[i] = edge_to[f->dst];
  }
  s->edge_starts = rspm_alloc((size_t)s->world + 1, sizeof *s->edge_starts);
  for (size_t e = 0; e < s->edge_count; e++) s->edge_starts[s->edges[e].src + 1]++;
  for (uint32_t r = 0; r < s->world; r++) s->edge_starts[r + 1] += s->edge_starts[r];
  free(last);
  free(edge_to);
}

static void put_event(struct sim *s, uint64_t round, uint32_t flow, uint8_t drop, uint8_t add, bool count) {
  if (round >= s->rounds) return;
  size_t at = s->event_starts[round + (count ? 2 : 1)]++;
  if (!count) s->events[at] = (struct event){flow, add, drop};
}

/* What a flow does to the rounds of each residue that it is active in: comes, is trimmed in its last round, goes. */
static void put_events(struct sim *s, uint32_t flow, bool count) {
  const struct rspm_flow *f = &s->flows[flow];
  uint32_t residues = f->rounds == 1 ? 1 : s->period / f->step;
  for (uint32_t k = 0; k < residues && k < f->rounds; k++) {
    uint32_t last = k + (f->rounds - 1 - k) / residues * residues; /* turn */
    bool ends = last + 1 == f->rounds && f->last < f->quantum;
    put_event(s, f->round0 + (uint64_t)k * f->step, flow, 0, ends && last == k ? 2 : 1, count);
    if (ends && last > k) put_event(s, f->round0 + (uint64_t)last * f->step, flow, 1, 2, count);
    put_event(s, f->round0 + (uint64_t)last * f->step + s->period, flow, ends ? 2 : 1, 0, count);
  }
}

static void list_events(struct sim *s) {
  s->event_starts = rspm_alloc((size_t)s->rounds + 2, sizeof *s->event_starts);
  if (s->irregular) return;
  for (uint32_t i = 0; i < s->flow_count; i++) put_events(s, i, true);
  for (uint32_t r = 0; r < s->rounds; r++) s->event_starts[r + 2] += s->event_starts[r + 1];
  s->events = rspm_alloc(s->event_starts[s->rounds + 1], sizeof *s->events);
  for (uint32_t i = 0; i < s->flow_count; i++) put_events(s, i, false);
}

static void open_sim(struct sim *s, const struct rspm_flows *flows) {
  s->period = period_of(flows, s->world);
  s->irregular = s->period == 0;
  if (s->irregular) s->period = 1;
  s->ring = s->period + 3;
  s->loads = rspm_alloc(s->ring, sizeof *s->loads);
  for (uint32_t i = 0; i < s->ring; i++)
    for (int k = 0; k < L_COUNT; k++) s->loads[i].at[k] = rspm_alloc(s->world, sizeof(double));
  s->peaks = rspm_alloc(s->ring, sizeof *s->peaks);
  find_edges(s);
  list_events(s);
  s->active = rspm_alloc(s->period, sizeof *s->active);
  for (uint32_t k = 0; k < s->period; k++) {
    s->active[k].at = rspm_alloc(s->edge_count, sizeof(uint32_t));
    s->active[k].counts = rspm_alloc(s->world, sizeof(uint32_t));
    s->active[k].where = rspm_alloc(s->edge_count, sizeof(uint32_t));
    s->active[k].users = rspm_alloc(s->edge_count, sizeof(uint32_t));
  }
  s->start = rspm_alloc(s->world, sizeof(double));
  s->end = rspm_alloc(s->world, sizeof(double));
  s->before = rspm_alloc(s->world, sizeof(double));
  s->growth = rspm_alloc(s->world, sizeof(double));
  s->message = rspm_alloc((size_t)s->world * RSP_SIM_MEMORY, sizeof(double));
  s->mark = rspm_alloc(s->world, sizeof(double));
  s->pace = rspm_alloc(s->world, sizeof(double));
  s->coarse = s->coarse && !s->irregular && (double)s->edge_count * s->rounds > COARSE_MESSAGES;
  for (int k = 0; k < RSP_SIM_LINKS; k++) {
    s->result->bytes[k] = rspm_alloc(s->world, sizeof(double));
    s->result->busy[k] = rspm_alloc(s->world, sizeof(double));
  }
}

static void close_sim(struct sim *s) {
  for (uint32_t i = 0; i < s->ring; i++)
    for (int k = 0; k < L_COUNT; k++) free(s->loads[i].at[k]);
  for (uint32_t k = 0; k < s->period; k++) {
    free(s->active[k].at);
    free(s->active[k].counts);
    free(s->active[k].where);
    free(s->active[k].users);
  }
  void *all[] = {s->peaks, s->loads, s->active, s->edges,  s->edge_starts, s->edge_of, s->event_starts, s->events,
                 s->start, s->end,   s->before, s->growth, s->message,     s->mark,    s->pace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void simulate(struct rsp_sim_streams *streams, uint32_t world, uint32_t rounds,
                     const struct rsp_sim_cluster *cluster, struct sim s) {
  struct rspm_flows flows;
  struct rsp_sim_result *result = s.result;
  rspm_flows_of(streams, &flows);
  *result = (struct rsp_sim_result){.phases = rounds ? (uint64_t)rounds + 2 : 0};
  s.cluster = cluster;
  s.flows = flows.at;
  s.flow_count = flows.count;
  s.world = world;
  s.rounds = rounds;
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

static void simulate_plan(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, struct sim s) {
  uint32_t world = plan->header->world;
  struct rsp_sim_streams *streams = rsp_sim_streams_new(world, plan->ranks);
  for (uint32_t r = 0; r < world; r++) {
    struct rsp_program program;
    rsp_program_of(plan, r, &program);
    rsp_sim_streams_add(streams, r, &program);
  }
  simulate(streams, world, plan->header->rounds, cluster, s);
}

void rsp_simulate(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster, rsp_sim_trace_fn trace,
                  void *user, struct rsp_sim_result *result) {
  simulate_plan(plan, cluster, (struct sim){.trace = trace, .user = user, .result = result});
}

void rsp_simulate_coarsely(const struct rsp_plan *plan, const struct rsp_sim_cluster *cluster,
                           struct rsp_sim_result *result) {
  simulate_plan(plan, cluster, (struct sim){.coarse = true, .result = result});
}

void rsp_simulate_streams(struct rsp_sim_streams *streams, uint32_t world, uint32_t rounds,
                          const struct rsp_sim_cluster *cluster, struct rsp_sim_result *result) {
  simulate(streams, world, rounds, cluster, (struct sim){.result = result});
}

void rsp_sim_result_free(struct rsp_sim_result *result) {
  for (int k = 0; k < RSP_SIM_LINKS; k++) {
    free(result->bytes[k]);
    free(result->busy[k]);
  }
  *result = (struct rsp_sim_result){.seconds = 0};
}
