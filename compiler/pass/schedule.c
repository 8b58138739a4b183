/* SPDX-License-Identifier: Apache-2.0
 *
 * In: streams between processes and the limits. Out: each stream's rounds and its staging at both ends.
 *
 * Staging of a rank is two regions, for even and for odd rounds: what round r packs or receives lives while rounds r-1
 * and r+1 use the other region. Within a region every stream of one turn has its own slot, turns overlay each other,
 * and what is sent and what is received lie apart.
 */
#include "compiler/pass/schedule.h"

#include <inttypes.h>
#include <math.h>

#include "compiler/base/check.h"
#include "compiler/pass/schedule_turns.h"

#define FILL_LEAST 0.3   /* rounds: what packing the first and unpacking the last round take */
#define WAIT_SHARE 0.125 /* of the issuing of a round's messages: what is not in the shade of their bytes */
#define SHARE_ISSUES 4   /* messages: while so many are issued the smallest share moves */
#define ROUNDS_MOST 1000.0
enum { PEER_TURNS_MAX = 1 << 20, APART_CELLS_MAX = 1 << 24 };

/* Smallest shares and slot alignments, tried in this order. */
static const struct { int64_t quantum, align; } steps[] = {{65536, 128}, {4096, 128}, {256, 16}, {8, 8}};

struct grains;

struct scheduler {
  struct rsc_arena *scratch;
  const struct rsc_routes *routes;
  const struct rsc_flows *flows;
  const struct rsc_cluster *cluster;
  const struct rsc_plan_limits *limits;
  struct grains *grains; /* per stream */
  int64_t min_quantum, align;
  int64_t turns;        /* step of every stream between two processes; 1 or even */
  const int64_t *apart; /* per stream: the turn of the tree that it is the root of; NULL: by formula */
  int64_t rounds;       /* a multiple of turns */
  int64_t *need;        /* staging per rank: out then in, per turn: [world][turns][2] */
  int64_t *ops;         /* [world][turns] */
};

static int64_t round_up(int64_t v, int64_t to) {
  return rsc_ceildiv(v, to) * to;
}

/* The turn of a stream is its tree's, later by its depth. */
static int64_t turn_of(const struct scheduler *s, const struct rsc_stream *st) {
  const struct rsc_stream *root = &s->routes->streams[st->root];
  int64_t first = s->apart ? s->apart[st->root] : root->dst - root->src;
  return rsc_is_copy(st) ? 0 : rsc_floormod(first + st->depth, s->turns);
}

/* Rounds in which the stream may be active: its tree's last hop still ends in time. */
static int64_t active_rounds(const struct scheduler *s, const struct rsc_stream *st) {
  if (rsc_is_copy(st)) return s->rounds;
  int64_t active = s->rounds / s->turns - rsc_ceildiv(st->tail, s->turns);
  return active > 1 ? active : 1;
}

/* A stream that is cut is cut where its slots are aligned: this takes no more staging, and what lies on whole words
 * lies so in every turn. */
static int64_t quantum_of(const struct scheduler *s, const struct rsc_stream *st) {
  int64_t active = active_rounds(s, st);
  int64_t even = round_up(rsc_ceildiv(st->bytes, active), s->align);
  int64_t least = round_up(st->bytes < s->min_quantum ? st->bytes : s->min_quantum, 8);
  return even > least ? even : least;
}

static int64_t slot_bytes(const struct scheduler *s, const struct rsc_stream *st) {
  int64_t q = quantum_of(s, st), whole = round_up(st->bytes, 8);
  return round_up(q < whole ? q : whole, s->align);
}

/* What a direct stream breaks into: its runs, cut at the parts' bounds too. Bytes; zero for a staged stream. */
struct grains {
  int64_t shortest_run, shortest_part, pieces;
};

static struct grains grains_of(const struct scheduler *s, const struct rsc_stream *st) {
  struct grains g = {INT64_MAX, INT64_MAX, 0};
  for (size_t i = 0; i < st->parts.len && st->direct; i++) {
    const struct rsc_group *group = &s->flows->groups[st->parts.at[i].group];
    int64_t run = group->min_run * group->wire_bytes;
    int64_t part = (st->parts.at[i].hi - st->parts.at[i].lo) * group->wire_bytes;
    if (run < g.shortest_run) g.shortest_run = run;
    if (part < g.shortest_part) g.shortest_part = part;
    g.pieces += part / run + 2;
  }
  return g;
}

static void find_grains(struct scheduler *s) {
  s->grains = RSC_ARRAY(s->scratch, struct grains, s->routes->stream_count);
  for (int64_t i = 0; i < s->routes->stream_count; i++) s->grains[i] = grains_of(s, &s->routes->streams[i]);
}

/* Most messages one round of a stream can be: a staged round is one. */
static int64_t messages_of(const struct scheduler *s, int64_t index) {
  const struct rsc_stream *st = &s->routes->streams[index];
  if (!st->direct) return 1;
  const struct grains *g = &s->grains[index];
  int64_t q = quantum_of(s, st), most = q / g->shortest_run + q / g->shortest_part + 3;
  return most < g->pieces ? most : g->pieces;
}

static int64_t *need_at(const struct scheduler *s, int64_t rank, int64_t turn, int in) {
  return &s->need[(rank * s->turns + turn) * 2 + in];
}

static void measure(struct scheduler *s) {
  int64_t cells = s->cluster->world * s->turns;
  s->need = RSC_ARRAY(s->scratch, int64_t, cells * 2);
  s->ops = RSC_ARRAY(s->scratch, int64_t, cells);
  for (int64_t i = 0; i < s->routes->stream_count; i++) {
    const struct rsc_stream *st = &s->routes->streams[i];
    if (rsc_is_copy(st)) continue;
    int64_t turn = turn_of(s, st), messages = messages_of(s, i);
    s->ops[st->src * s->turns + turn] += messages;
    s->ops[st->dst * s->turns + turn] += messages;
    if (st->direct) continue;
    if (st->parent < 0) *need_at(s, st->src, turn, 0) += slot_bytes(s, st);
    *need_at(s, st->dst, turn, 1) += slot_bytes(s, st);
  }
}

/* One region of a rank: the largest turn's slots, out and in. */
static int64_t region_of(const struct scheduler *s, int64_t rank, int64_t *out_bytes) {
  int64_t most[2] = {0, 0};
  for (int64_t t = 0; t < s->turns; t++)
    for (int in = 0; in < 2; in++)
      if (*need_at(s, rank, t, in) > most[in]) most[in] = *need_at(s, rank, t, in);
  if (out_bytes) *out_bytes = most[0];
  return most[0] + most[1];
}

struct worst {
  int64_t rank, staging, ops_rank, ops;
};

static struct worst find_worst(struct scheduler *s) {
  struct worst w = {0};
  measure(s);
  for (int64_t r = 0; r < s->cluster->world; r++) {
    int64_t staging = 2 * region_of(s, r, NULL);
    if (staging > w.staging) {
      w.staging = staging;
      w.rank = r;
    }
    for (int64_t t = 0; t < s->turns; t++)
      if (s->ops[r * s->turns + t] > w.ops) {
        w.ops = s->ops[r * s->turns + t];
        w.ops_rank = r;
      }
  }
  return w;
}

static bool fits(struct scheduler *s, int64_t rounds, struct worst *w) {
  struct rsc_arena *outer = s->scratch;
  s->rounds = rounds;
  s->scratch = rsc_arena_new();
  *w = find_worst(s);
  rsc_arena_free(s->scratch);
  s->scratch = outer;
  return w->staging <= s->limits->staging && w->ops <= s->limits->max_ops;
}

/* The most bytes that a rank sends or receives. */
static int64_t most_moved(const struct scheduler *s) {
  int64_t *moved = RSC_ARRAY(s->scratch, int64_t, s->cluster->world * 2), most = 1;
  for (int64_t i = 0; i < s->routes->stream_count; i++) {
    const struct rsc_stream *st = &s->routes->streams[i];
    int64_t *out = &moved[st->src * 2], *in = &moved[st->dst * 2 + 1];
    *out += st->bytes;
    *in += st->bytes;
    if (*out > most) most = *out;
    if (*in > most) most = *in;
  }
  return most;
}

static int64_t longest_tail(const struct scheduler *s) {
  int64_t most = 0;
  for (int64_t i = 0; i < s->routes->stream_count; i++)
    if (s->routes->streams[i].tail > most) most = s->routes->streams[i].tail;
  return most;
}

/* Each round costs a latency and the issuing of its messages, which has the more ranks waiting for one another the more
 * there are; and until the longest way is full, and empty again, some links wait for as long as about `fill` rounds
 * take. So n rounds of what takes T seconds take T + fill * T / n + n * cost, which is least for n = sqrt(fill * T /
 * cost). Of these some are for passing on. */
static int64_t best_chunk(const struct scheduler *s) {
  const struct rsc_links *links = &s->cluster->links;
  struct rsc_busiest b = rsc_busiest_of(s->routes, s->cluster);
  double cost = links->network_latency + links->issue_seconds * (1 + (double)b.streams * WAIT_SHARE);
  double best = cost > 0 ? sqrt((FILL_LEAST + b.fill) * b.seconds / cost) : ROUNDS_MOST;
  double tail = (double)longest_tail(s);
  double rounds = best > 4 * tail ? best - 2 * tail : best / 2;
  if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
  int64_t chunk = rsc_ceildiv(most_moved(s), rounds > 1 ? (int64_t)rounds : 1);
  return chunk < steps[0].quantum ? steps[0].quantum : chunk;
}

static int64_t longest_stream(const struct scheduler *s) {
  int64_t most = 1;
  for (int64_t i = 0; i < s->routes->stream_count; i++)
    if (s->routes->streams[i].bytes > most) most = s->routes->streams[i].bytes;
  return most;
}

/* Each takes microseconds, however little it moves: this many take seconds. */
#define MOST_ROUNDS (1 << 20)

/* The fewest rounds, by doubling and then halving the gap; false if no number of rounds helps. */
static bool search_rounds(struct scheduler *s, int64_t start, struct worst *w) {
  int64_t most = (rsc_ceildiv(longest_stream(s), s->min_quantum) + 1) * s->turns;
  int64_t lo = start / s->turns, hi = lo, last = most / s->turns;
  if (last < lo) last = lo;
  for (int64_t ops = INT64_MAX; !fits(s, hi * s->turns, w); ops = w->ops) {
    bool hopeless = w->staging <= s->limits->staging && w->ops >= ops; /* more rounds do not make messages fewer */
    if (hi >= last || hopeless) return false;
    lo = hi + 1;
    hi = hi * 2 < last ? hi * 2 : last;
  }
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (fits(s, mid * s->turns, w))
      hi = mid;
    else
      lo = mid + 1;
  }
  s->rounds = hi * s->turns;
  return true;
}

/* The most turns that are tried. By formula two processes meet alone in one of twice their number; apart, even trees
 * that all had to wait for one another would have room in as many turns as there are streams. */
static int64_t most_turns(const struct scheduler *s) {
  int64_t world = s->cluster->world;
  if (s->limits->max_turns) return s->limits->max_turns < 2 * world ? s->limits->max_turns : 2 * world;
  int64_t most = 2 * (s->limits->apart ? s->routes->stream_count : world);
  int64_t cap = s->limits->apart ? APART_CELLS_MAX / world : PEER_TURNS_MAX;
  return most < cap ? most : cap;
}

/* What the slowest NIC moves while some messages are issued: shares that take longer would make rounds uneven. */
static int64_t least_share(const struct scheduler *s) {
  double rate = rsc_nic_rate(s->cluster, 0);
  for (int64_t r = 1; r < s->cluster->world; r++)
    if (rsc_nic_rate(s->cluster, r) < rate) rate = rsc_nic_rate(s->cluster, r);
  double bytes = rate * SHARE_ISSUES * s->cluster->links.issue_seconds;
  return bytes >= 65536 ? 65536 : bytes <= 4096 ? 4096 : round_up((int64_t)bytes, 8);
}

static bool search(struct scheduler *s, int64_t chunk, struct worst *w) {
  int64_t rounds = rsc_ceildiv(most_moved(s), chunk), tail = longest_tail(s);
  int64_t most = most_turns(s), share = least_share(s);
  for (s->turns = 1; s->turns <= most; s->turns *= 2) {
    s->apart = s->limits->apart
                   ? rsc_turns_apart(s->scratch, s->routes, s->cluster->world, s->turns, s->limits->max_ops)
                   : NULL;
    for (size_t g = 0; g < sizeof steps / sizeof *steps; g++) {
      if (steps[g].quantum > chunk && g + 1 < sizeof steps / sizeof *steps) continue;
      s->min_quantum = steps[g].quantum < share ? steps[g].quantum : share;
      s->align = steps[g].align;
      if (search_rounds(s, round_up(rounds + tail, s->turns) + round_up(tail, s->turns), w)) return true;
      if (w->staging <= s->limits->staging) break; /* too many operations: smaller shares do not help */
    }
  }
  s->turns /= 2;
  return false;
}

static bool check_peers(struct scheduler *s, struct rsc_diag *diag) {
  int64_t *peers = RSC_ARRAY(s->scratch, int64_t, s->cluster->world);
  for (int64_t i = 0; i < s->routes->stream_count; i++) {
    const struct rsc_stream *st = &s->routes->streams[i], *before = i ? st - 1 : NULL;
    if (st->src == st->dst || (before && before->src == st->src && before->dst == st->dst)) continue; /* one peer */
    peers[st->src]++;
    peers[st->dst]++; /* training and inference ranks of one process meet different peers: an upper bound */
  }
  int64_t most = 0;
  for (int64_t r = 1; r < s->cluster->world; r++)
    if (peers[r] > peers[most]) most = r;
  if (!s->limits->max_peers || peers[most] <= s->limits->max_peers) return true;
  if (diag)
    rsc_error(diag, RSC_PEERS_LIMIT, (struct rsc_span){.file = -1},
              "rank %" PRId64 " has %" PRId64 " peers, the most of all, and --max-peers allows %" PRId64
              "; --max-peers=%" PRId64 " would do",
              most, peers[most], s->limits->max_peers, peers[most]);
  return false;
}

/* Offsets of the streams' slots, and the spread of short streams over the rounds. */
static void place_streams(struct scheduler *s, struct rsc_arena *arena, struct rsc_rounds *out) {
  measure(s);
  struct rsc_timing *timings = RSC_ARRAY(arena, struct rsc_timing, s->routes->stream_count);
  int64_t *staging = RSC_ARRAY(arena, int64_t, s->cluster->world);
  int64_t *region = RSC_ARRAY(s->scratch, int64_t, s->cluster->world);
  int64_t *out_part = RSC_ARRAY(s->scratch, int64_t, s->cluster->world);
  int64_t *used = RSC_ARRAY(s->scratch, int64_t, s->cluster->world * s->turns * 2);
  for (int64_t r = 0; r < s->cluster->world; r++) {
    region[r] = region_of(s, r, &out_part[r]);
    staging[r] = 2 * region[r];
  }
  for (int64_t i = 0; i < s->routes->stream_count; i++) {
    const struct rsc_stream *st = &s->routes->streams[i];
    struct rsc_timing *t = &timings[i];
    const struct rsc_stream *root = &s->routes->streams[st->root];
    int64_t quantum = quantum_of(s, st), active = rsc_ceildiv(st->bytes, quantum);
    int64_t turns = rsc_is_copy(st) ? 1 : s->turns, room = active_rounds(s, st) - active + 1;
    t->quantum = quantum;
    t->step = turns;
    t->round0 = turn_of(s, root) + turns * ((root->src * 7 + root->dst * 3) % room) + st->depth;
    if (rsc_is_copy(st) || st->direct) continue;
    /* With step 1 a stream alternates between its slots in the two regions; with an even step all its rounds use one.
     */
    bool alternate = turns == 1 && active > 1;
    int64_t turn = t->round0 % turns;
    for (int in = st->parent < 0 ? 0 : 1; in < 2; in++) {
      int64_t rank = in ? st->dst : st->src, *at = &used[(rank * s->turns + turn) * 2 + in];
      struct rsc_staging *place = in ? &t->at_dst : &t->at_src;
      int64_t off = *at + (in ? out_part[rank] : 0);
      *at += slot_bytes(s, st);
      place->slots = alternate ? 2 : 1;
      place->stride = alternate ? region[rank] : slot_bytes(s, st);
      place->off = off + (!alternate && t->round0 % 2 ? region[rank] : 0);
    }
  }
  out->timings = timings;
  out->staging = staging;
}

const struct rsc_rounds *rsc_schedule(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_routes *routes,
                                      const struct rsc_flows *flows, const struct rsc_cluster *cluster,
                                      const struct rsc_plan_limits *limits, bool last) {
  struct scheduler s = {
      .scratch = rsc_arena_new(), .routes = routes, .flows = flows, .cluster = cluster, .limits = limits};
  struct rsc_rounds *out = RSC_NEW(arena, struct rsc_rounds);
  int64_t chunk = limits->chunk ? limits->chunk : best_chunk(&s);
  struct worst w = {0};
  find_grains(&s);
  bool ok = check_peers(&s, last ? diag : NULL);
  if (ok && !search(&s, chunk, &w)) {
    if (last && w.staging > limits->staging)
      rsc_error(diag, RSC_STAGING_SMALL, (struct rsc_span){.file = -1},
                "no schedule was found within the limits: rank %" PRId64 " would need %" PRId64
                " bytes of staging; raise --staging, which is %" PRId64,
                w.rank, w.staging, limits->staging);
    else if (last)
      rsc_error(diag, RSC_STAGING_SMALL, (struct rsc_span){.file = -1},
                "no schedule was found within the limits: rank %" PRId64 " would have %" PRId64
                " operations in a round; raise --max-ops, which is %" PRId64,
                w.ops_rank, w.ops, limits->max_ops);
    ok = false;
  }
  if (ok && s.rounds > MOST_ROUNDS) {
    if (last)
      rsc_error(diag, RSC_ROUNDS_LIMIT, (struct rsc_span){.file = -1},
                "%" PRId64
                " rounds would be needed, and more than %d is not worth the wait; raise --staging or --chunk",
                s.rounds, MOST_ROUNDS);
    ok = false;
  }
  if (ok) {
    place_streams(&s, arena, out);
    out->rounds = routes->stream_count ? s.rounds : 0;
    out->chunk = chunk;
  }
  rsc_arena_free(s.scratch);
  return ok ? out : NULL;
}

struct rsc_need rsc_rounds_need(const struct rsc_routes *routes, const struct rsc_flows *flows,
                                const struct rsc_cluster *cluster) {
  const struct rsc_plan_limits none = {INT64_MAX, 0, INT64_MAX, 0, 1, false};
  struct scheduler s = {.scratch = rsc_arena_new(),
                        .routes = routes,
                        .flows = flows,
                        .cluster = cluster,
                        .limits = &none,
                        .align = steps[0].align,
                        .turns = 1};
  struct worst w = {0};
  find_grains(&s);
  s.min_quantum = least_share(&s);
  fits(&s, rsc_ceildiv(most_moved(&s), best_chunk(&s)) + 2 * longest_tail(&s), &w);
  rsc_arena_free(s.scratch);
  return (struct rsc_need){s.rounds, w.staging, w.ops};
}
