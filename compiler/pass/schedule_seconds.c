/* SPDX-License-Identifier: Apache-2.0
 *
 * In: streams and their rounds. Out: about how long they take, from sums over turns and not over rounds: each turn is
 * taken to have, in each of its rounds, the balance of the whole turn. Memory is left out.
 */
#include "compiler/base/check.h"
#include "compiler/pass/schedule.h"

/* Of a rank in one turn. */
struct load {
  double out[2], in[2]; /* seconds of the NIC, of NVLink */
  double messages;
};

/* The streams of turn t, copies left out: of[first[t]] to of[first[t + 1]]. */
struct turns {
  int64_t count, *first, *of;
};

/* Counts the streams of each turn at first[turn + 1] or, if `next` is there, puts them where it says. */
static void each_stream(struct turns *t, const struct rsc_routes *routes, const struct rsc_rounds *rounds,
                        int64_t *next) {
  for (int64_t i = 0; i < routes->stream_count; i++) {
    if (rsc_is_copy(&routes->streams[i])) continue;
    int64_t turn = rounds->timings[i].round0 % t->count;
    if (next)
      t->of[next[turn]++] = i;
    else
      t->first[turn + 1]++;
  }
}

static struct turns turns_of(struct rsc_arena *scratch, const struct rsc_routes *routes,
                             const struct rsc_rounds *rounds) {
  struct turns t = {.count = 1};
  for (int64_t i = 0; i < routes->stream_count; i++)
    if (rounds->timings[i].step > t.count) t.count = rounds->timings[i].step;
  t.first = RSC_ARRAY(scratch, int64_t, t.count + 1);
  t.of = RSC_ARRAY(scratch, int64_t, routes->stream_count);
  int64_t *next = RSC_ARRAY(scratch, int64_t, t.count);
  each_stream(&t, routes, rounds, NULL);
  for (int64_t i = 0; i < t.count; i++) {
    t.first[i + 1] += t.first[i];
    next[i] = t.first[i];
  }
  each_stream(&t, routes, rounds, next);
  return t;
}

static void add(const struct rsc_cluster *cluster, const struct rsc_stream *st, double messages, struct load *loads) {
  struct load *from = &loads[st->src], *to = &loads[st->dst];
  bool network = rsc_link_between(cluster, st->src, st->dst) == RSC_LINK_NETWORK;
  double bytes = (double)st->bytes, nvlink = cluster->links.nvlink_bandwidth;
  from->out[!network] += bytes / (network ? rsc_nic_rate(cluster, st->src) : nvlink);
  to->in[!network] += bytes / (network ? rsc_nic_rate(cluster, st->dst) : nvlink);
  from->messages += messages;
  to->messages += messages;
}

static double busiest(const struct load *l, double issue) {
  double most = l->messages * issue;
  for (int i = 0; i < 2; i++) {
    if (l->out[i] > most) most = l->out[i];
    if (l->in[i] > most) most = l->in[i];
  }
  return most;
}

/* The longest way's hops, each as long as its kind of link is busy, beyond one that is busy all the time. */
static double fill_of(const struct rsc_routes *routes, const struct rsc_cluster *cluster, const double share[2]) {
  double most = 1;
  for (int64_t i = 0; i < routes->stream_count; i++) {
    double sum = 0;
    for (int64_t k = i; k >= 0 && !rsc_is_copy(&routes->streams[i]); k = routes->streams[k].parent)
      sum += share[rsc_link_between(cluster, routes->streams[k].src, routes->streams[k].dst) != RSC_LINK_NETWORK];
    if (sum > most) most = sum;
  }
  return most - 1;
}

struct rsc_busiest rsc_busiest_of(const struct rsc_routes *routes, const struct rsc_cluster *cluster) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct load *loads = RSC_ARRAY(scratch, struct load, cluster->world);
  struct rsc_busiest out = {0};
  double share[2] = {0, 0};
  for (int64_t i = 0; i < routes->stream_count; i++)
    if (!rsc_is_copy(&routes->streams[i])) add(cluster, &routes->streams[i], 1, loads);
  for (int64_t r = 0; r < cluster->world; r++) {
    for (int k = 0; k < 2; k++) {
      share[k] = loads[r].out[k] > share[k] ? loads[r].out[k] : share[k];
      share[k] = loads[r].in[k] > share[k] ? loads[r].in[k] : share[k];
    }
    if (loads[r].messages > (double)out.streams) out.streams = (int64_t)loads[r].messages;
  }
  rsc_arena_free(scratch);
  out.seconds = share[0] > share[1] ? share[0] : share[1];
  for (int k = 0; k < 2 && out.seconds > 0; k++) share[k] /= out.seconds;
  out.fill = fill_of(routes, cluster, share);
  return out;
}

double rsc_rounds_seconds(const struct rsc_routes *routes, const struct rsc_rounds *rounds,
                          const struct rsc_cluster *cluster) {
  struct rsc_arena *scratch = rsc_arena_new();
  const struct rsc_links *links = &cluster->links;
  struct turns by = turns_of(scratch, routes, rounds);
  struct load *loads = RSC_ARRAY(scratch, struct load, cluster->world);
  double seconds = (double)rounds->rounds * (links->network_latency + links->issue_seconds);
  for (int64_t t = 0; t < by.count; t++) {
    double most = 0;
    for (int64_t i = by.first[t]; i < by.first[t + 1]; i++) {
      const struct rsc_stream *st = &routes->streams[by.of[i]];
      add(cluster, st, (double)rsc_ceildiv(st->bytes, rounds->timings[by.of[i]].quantum), loads);
    }
    for (int64_t i = by.first[t]; i < by.first[t + 1]; i++) {
      struct load *ends[2] = {&loads[routes->streams[by.of[i]].src], &loads[routes->streams[by.of[i]].dst]};
      for (int e = 0; e < 2; e++) {
        double its = busiest(ends[e], links->issue_seconds);
        if (its > most) most = its;
        *ends[e] = (struct load){0};
      }
    }
    seconds += most;
  }
  rsc_arena_free(scratch);
  return seconds;
}
