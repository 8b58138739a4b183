/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole compiler on one screen: each pass reads forms that are finished and makes a new one.
 */
#include "compiler/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/catalogue.h"
#include "compiler/pass/intersect.h"
#include "compiler/pass/lower.h"
#include "compiler/pass/pair.h"
#include "compiler/pass/place.h"
#include "compiler/pass/resolve.h"
#include "compiler/pass/route.h"
#include "compiler/pass/schedule.h"
#include "compiler/pass/topology.h"
#include "plans/words.h"

enum { DIRECT_MIN = 1 << 20 }; /* bytes: shorter runs are packed, so that a round has few messages */

struct compile {
  struct rsc_arena *arena;
  struct rsc_arena *values;  /* of buffers, until they are placed */
  struct rsc_arena *attempt; /* routes and what is made from them, of the present attempt to find rounds */
  struct rsc_sources *sources;
  struct rsc_diag *diag;
  const struct rsc_options *o;
  void (*on_pass)(void *user, const char *pass);
  void *pass_user;
  struct rsc_result *result;
  bool trouble, stopped;
};

static bool dumps(const struct compile *c, const char *form) {
  return c->o->dump && c->o->dump_file && !strcmp(c->o->dump, form);
}

/* Ends a pass: delivers its messages; false if it failed or was the last wanted. */
static bool passed(struct compile *c, const char *pass, bool ok) {
  ok &= rsc_diag_flush(c->diag) && !c->trouble;
  if (c->on_pass) c->on_pass(c->pass_user, pass);
  c->stopped = ok && c->o->stop_after && !strcmp(c->o->stop_after, pass);
  return ok && !c->stopped;
}

static bool load_cluster(struct compile *c, int *file) {
  char *text = NULL;
  size_t len = 0;
  *file = -1;
  if (!c->o->cluster_path) return true;
  if (c->o->load(c->o->load_user, c->o->cluster_path, &text, &len)) {
    *file = rsc_sources_add(c->sources, c->o->cluster_path, text, len);
  } else {
    rsc_error(c->diag, RSC_FILE_UNREADABLE, (struct rsc_span){.file = -1}, "cannot read '%s': %s", c->o->cluster_path,
              text ? text : "unknown reason");
    c->trouble = true;
  }
  free(text);
  return !c->trouble;
}

static void count_placement(struct rsc_stats *s, const struct rsc_placement *p) {
  s->buffers += (uint64_t)p->layout->buffer_count;
  s->classes += (uint64_t)p->class_count;
  for (int32_t i = 0; i < p->class_count; i++) {
    s->entries += (uint64_t)p->classes[i].entry_count;
    for (int32_t e = 0; e < p->classes[i].entry_count; e++) s->pieces += p->classes[i].entries[e].pieces.len;
  }
}

static void state_coverage(struct rsc_result *r, const struct rsc_flows *f, const struct rsc_routes *routes,
                           int64_t minimum) {
  char wanted[32], network[32], least[32];
  snprintf(r->coverage, sizeof r->coverage,
           "coverage: %" PRId64 " tensor%s, %" PRId64 " element%s, %s (%" PRId64
           " bytes): every wanted element has exactly one delivery; network %s, minimum %s",
           f->delivered_tensors, rsp_plural((uint64_t)f->delivered_tensors), f->delivered_elems,
           rsp_plural((uint64_t)f->delivered_elems), rsp_bytes_text((double)f->delivered_bytes, wanted),
           f->delivered_bytes, rsp_bytes_text((double)routes->link_bytes[RSC_LINK_NETWORK], network),
           rsp_bytes_text((double)minimum, least));
}

static bool nothing(struct compile *c, const struct rsc_pairs *pairs, const struct rsc_flows *f) {
  if (f->delivered_elems > 0) return false;
  struct rsc_span span = {.file = -1};
  if (pairs->gid_count > pairs->train_gids) span = rsc_buffer_of(pairs, pairs->train_gids)->span;
  rsc_error(c->diag, RSC_NOTHING_DELIVERED, span,
            "nothing to transfer: no element of the %d inference buffers is delivered (all empty, or all skipped)",
            pairs->gid_count - pairs->train_gids);
  return true;
}

/* How to route, and how to find rounds for that. */
struct way {
  bool packed;
  int32_t fanout;
  int64_t turns;
  bool apart;
};

/* All streams in every round; all of them packed, for fewer messages; streams that take turns; ranks of a domain that
 * pass pieces on over one another; packed, in turns, also in turns that keep them apart. */
static const struct way ways[] = {
    {false, 0, 1, false}, {true, 0, 1, false}, {false, 0, 0, false}, {false, 16, 0, false}, {false, 4, 0, false},
    {false, 1, 0, false}, {true, 0, 0, true},  {true, 4, 0, true},   {true, 1, 0, true},    {true, 0, 0, false}};
enum { WAYS = sizeof ways / sizeof *ways, EVEN_WAYS = 2 };

/* What rounds are found for. */
struct routed {
  const struct rsc_pairs *pairs;
  const struct rsc_cluster *cluster;
  const struct rsc_plan_limits *limits;
  const struct rsc_flows *direct, *flows;
  const struct rsc_routes *routes;
};

static const struct rsc_rounds *try_way(struct compile *c, struct routed *r, int way, bool last) {
  struct rsc_plan_limits tried = *r->limits;
  tried.max_turns = ways[way].turns;
  tried.apart = ways[way].apart;
  if (way) { /* the first is routed already */
    rsc_arena_free(c->attempt);
    c->attempt = rsc_arena_new();
    r->flows = ways[way].packed ? rsc_flows_packed(c->attempt, r->direct) : r->direct;
    r->routes = rsc_route(c->attempt, r->pairs, r->flows, r->cluster, ways[way].fanout, c->o->seed_bug);
  }
  return rsc_schedule(c->attempt, c->diag, r->routes, r->flows, r->cluster, &tried, last);
}

/* What would do, in the words of the command line. `rounds`: what there are. */
static void state_limits(const struct compile *c, const struct rsc_need *need, int64_t rounds) {
  enum { MIB = 1 << 20 };
  char *text = c->result->limited;
  const size_t size = sizeof c->result->limited;
  bool staging = (uint64_t)need->staging > c->o->staging, ops = need->ops > c->o->max_ops;
  if (c->o->chunk || (!staging && !ops)) return;
  int at = snprintf(text, size, "the limits cost time: ");
  if (staging)
    at += snprintf(text + at, size - (size_t)at, "--staging=%" PRId64 "MiB ", (need->staging + MIB - 1) / MIB);
  if (ops) at += snprintf(text + at, size - (size_t)at, "%s--max-ops=%" PRId64 " ", staging ? "and " : "", need->ops);
  snprintf(text + at, size - (size_t)at, "would do with %" PRId64 " rounds, where there are %" PRId64, need->rounds,
           rounds);
}

/* Rounds within the limits: those in which every round has the balance of the whole, if there are such; else the ones
 * that take the least time. They are found again, so that only one attempt is in memory. */
static const struct rsc_rounds *find_rounds(struct compile *c, struct routed *r) {
  int best = -1;
  double least = 0;
  struct rsc_need need = {0};
  const struct rsc_rounds *rounds = NULL;
  for (int i = 0; i < WAYS; i++) {
    rounds = try_way(c, r, i, i + 1 == WAYS && best < 0);
    if (i < EVEN_WAYS) need = rsc_rounds_need(r->routes, r->flows, r->cluster);
    if (!rounds) continue;
    if (i < EVEN_WAYS) {
      best = i;
      break;
    }
    double seconds = rsc_rounds_seconds(r->routes, rounds, r->cluster);
    if (best >= 0 && seconds >= least) continue;
    best = i;
    least = seconds;
  }
  if (best < 0) return NULL;
  if (best >= EVEN_WAYS) rounds = try_way(c, r, best, true);
  if (rounds) state_limits(c, &need, rounds->rounds);
  return rounds;
}

/* To where the plan goes; one that is to be printed has to be whole. */
static bool emit(struct compile *c, const struct rsc_decided *decided, struct rsc_programs *programs) {
  struct rsc_result *r = c->result;
  struct rsp_memory whole = {0};
  bool keep = !c->o->put || dumps(c, "plan");
  bool ok = keep ? rsc_emit(decided, programs, rsp_put_memory, &whole, r)
                 : rsc_emit(decided, programs, c->o->put, c->o->put_user, r);
  if (keep && !ok) rsc_oom(whole.size);
  r->plan = whole.bytes;
  if (keep && c->o->put) ok = c->o->put(c->o->put_user, 0, whole.bytes, whole.size);
  c->trouble |= !ok;
  return ok;
}

/* Both sides; whether to go on. What is wrong with a file is told in one run: the buffers of a layout that has
 * errors are placed, too, for what there is to say about them. */
static bool resolve(struct compile *c, const struct rsc_layout **layout) {
  const char *stop = c->o->stop_after ? c->o->stop_after : "";
  bool whole = true;
  for (int s = 0; s < 2; s++) {
    bool trouble = false;
    layout[s] = rsc_resolve(c->arena, c->values, c->sources, c->diag, (enum rsc_side)s, c->o, &trouble);
    c->trouble |= trouble;
    whole &= layout[s] && !layout[s]->partial;
  }
  if (!strcmp(stop, "parse")) {
    passed(c, "parse", true); /* that is all it has done */
    return false;
  }
  for (int s = 0; s < 2; s++) {
    if (!layout[s]) continue;
    if (!layout[s]->partial && dumps(c, "layout")) rsc_layout_print(layout[s], c->o->dump_file);
    if (!whole && strcmp(stop, "resolve") != 0) rsc_place(c->arena, c->diag, layout[s], RSC_PIECES_MAX);
  }
  return passed(c, "resolve", whole);
}

static bool compile(struct compile *c) {
  const struct rsc_options *o = c->o;
  struct rsc_stats *stats = &c->result->stats;
  int64_t intersections = 0;

  const struct rsc_layout *layout[2];
  if (!resolve(c, layout)) return c->stopped;

  const struct rsc_placement *placed[2];
  for (int s = 0; s < 2; s++) placed[s] = rsc_place(c->arena, c->diag, layout[s], RSC_PIECES_MAX);
  for (int s = 0; s < 2; s++) {
    if (placed[s] && dumps(c, "placement")) rsc_placement_print(placed[s], o->dump_file);
    if (placed[s]) count_placement(stats, placed[s]);
  }
  rsc_arena_reset(c->values);
  if (!passed(c, "place", placed[0] && placed[1])) return c->stopped;

  const struct rsc_pairs *pairs = rsc_pair(c->arena, c->diag, placed[0], placed[1], RSC_PIECES_MAX, &intersections);
  if (pairs) snprintf(c->result->forgotten, sizeof c->result->forgotten, "%s", pairs->forgotten);
  if (!passed(c, "pair", pairs)) return c->stopped;

  const struct rsc_flows *flows = rsc_intersect(c->arena, c->diag, pairs, RSC_PIECES_MAX, DIRECT_MIN, o->seed_bug);
  if (flows && dumps(c, "flows")) rsc_flows_print(flows, o->dump_file);
  if (!passed(c, "intersect", flows && !nothing(c, pairs, flows))) return c->stopped;

  struct rsc_cluster cluster;
  int cluster_file;
  bool ok = load_cluster(c, &cluster_file) &&
            rsc_topology(c->arena, c->sources, c->diag, cluster_file, layout[0]->world, layout[1]->world, &cluster);
  if (ok && dumps(c, "cluster")) rsc_cluster_print(&cluster, o->dump_file);
  if (!passed(c, "topology", ok)) return c->stopped;

  int64_t *ingest = RSC_ARRAY(c->arena, int64_t, cluster.domain_count);
  int64_t minimum = rsc_network_minimum(pairs, &cluster, ingest, &intersections);
  struct rsc_plan_limits limits = {(int64_t)o->staging, (int64_t)o->chunk, o->max_ops, o->max_peers, 0, false};
  struct routed routed = {pairs, &cluster, &limits, flows, flows, NULL};
  routed.routes = rsc_route(c->attempt, pairs, flows, &cluster, 0, o->seed_bug);
  if (dumps(c, "routes")) rsc_routes_print(routed.routes, o->dump_file);
  if (!passed(c, "route", true)) return c->stopped;

  const struct rsc_rounds *rounds = find_rounds(c, &routed);
  const struct rsc_routes *routes = routed.routes;
  flows = routed.flows;
  if (rounds && dumps(c, "rounds")) rsc_rounds_print(routes, rounds, o->dump_file);
  if (!passed(c, "schedule", rounds)) return c->stopped;

  struct rsc_decided decided = {pairs,   flows,   &cluster,    routes,        rounds,        c->sources,
                                &limits, minimum, o->seed_bug, o->train_path, o->infer_path, o->cluster_path};
  struct rsc_programs *programs = rsc_lower(&decided);
  bool lowered = passed(c, "lower", true);
  if (lowered) ok = emit(c, &decided, programs);
  rsc_lower_end(programs);
  if (!lowered) return c->stopped;

  state_coverage(c->result, flows, routes, minimum);
  stats->tensors = (uint64_t)pairs->tensor_count;
  stats->intersections = (uint64_t)(intersections + flows->intersections);
  stats->records = (uint64_t)flows->flow_count;
  stats->groups = (uint64_t)flows->group_count;
  stats->streams = (uint64_t)routes->stream_count;
  stats->descriptors = (uint64_t)flows->desc_count;
  passed(c, "emit", ok);
  return ok;
}

/* The plan's text comes from the finished bytes through the one reader: what is printed is what was written. */
static void dump_plan(const struct compile *c) {
  struct rsp_plan plan;
  struct rsp_error error;
  if (!dumps(c, "plan") || !c->result->plan) return;
  if (rsp_open_memory(c->result->plan, c->result->plan_bytes, &plan, &error) == RSP_OK) {
    rsp_print(&plan, c->o->dump_file);
    rsp_close(&plan);
  } else {
    fprintf(c->o->dump_file, "the plan breaks rule %d at byte %" PRIu64 ": %s\n", error.rule, error.offset, error.text);
  }
}

enum rsc_outcome rsc_compile(const struct rsc_options *options, rsc_diag_fn diag, void *diag_user,
                             void (*on_pass)(void *user, const char *pass), void *pass_user,
                             struct rsc_result *result) {
  struct compile c = {.arena = rsc_arena_new(),
                      .values = rsc_arena_new(),
                      .attempt = rsc_arena_new(),
                      .o = options,
                      .on_pass = on_pass,
                      .pass_user = pass_user,
                      .result = result};
  *result = (struct rsc_result){0};
  c.sources = rsc_sources_new(c.arena);
  c.diag = rsc_diag_new(c.arena, c.sources, diag, diag_user);
  bool ok = compile(&c);
  rsc_diag_flush(c.diag);
  dump_plan(&c);
  result->stats.arena_bytes = rsc_arena_bytes(c.arena) + rsc_arena_bytes(c.attempt);
  rsc_arena_free(c.values);
  rsc_arena_free(c.attempt);
  rsc_arena_free(c.arena);
  return ok ? RSC_COMPILED : c.trouble ? RSC_TROUBLE : RSC_REJECTED;
}
