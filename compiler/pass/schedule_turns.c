/* SPDX-License-Identifier: Apache-2.0
 *
 * In: trees of streams. Out: a turn for each tree, the first that has room for all its hops. Trees are placed in the
 * order of their roots, each from the turn that the formula would give it, so that most stay where the formula spreads
 * them.
 */
#include "compiler/pass/schedule_turns.h"

#include "compiler/base/check.h"

struct turns {
  const struct rsc_routes *routes;
  int64_t count, max_ops;
  int64_t *next; /* per stream: the next of its tree, or -1 */
  int64_t *ops;  /* [world][count] */
};

static int64_t *ops_at(const struct turns *t, int64_t rank, int64_t turn) {
  return &t->ops[rank * t->count + rsc_floormod(turn, t->count)];
}

/* Adds the hops of a tree that starts at `turn`; false, with nothing added, if a rank would have too many. */
static bool add_tree(const struct turns *t, int64_t root, int64_t turn) {
  const struct rsc_stream *streams = t->routes->streams;
  bool room = true;
  int64_t end = root;
  for (; end >= 0 && room; end = t->next[end]) {
    const struct rsc_stream *st = &streams[end];
    int64_t *out = ops_at(t, st->src, turn + st->depth), *in = ops_at(t, st->dst, turn + st->depth);
    ++*out;
    ++*in;
    room = *out <= t->max_ops && *in <= t->max_ops;
  }
  for (int64_t i = root; !room && i != end; i = t->next[i]) {
    const struct rsc_stream *st = &streams[i];
    --*ops_at(t, st->src, turn + st->depth);
    --*ops_at(t, st->dst, turn + st->depth);
  }
  return room;
}

static void link_trees(struct turns *t, struct rsc_arena *scratch) {
  t->next = RSC_ARRAY(scratch, int64_t, t->routes->stream_count);
  for (int64_t i = 0; i < t->routes->stream_count; i++) t->next[i] = -1;
  for (int64_t i = 0; i < t->routes->stream_count; i++) {
    int64_t root = t->routes->streams[i].root;
    if (i == root) continue;
    t->next[i] = t->next[root];
    t->next[root] = i;
  }
}

const int64_t *rsc_turns_apart(struct rsc_arena *arena, const struct rsc_routes *routes, int64_t world, int64_t turns,
                               int64_t max_ops) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct turns t = {.routes = routes, .count = turns, .max_ops = max_ops};
  int64_t *turn = RSC_ARRAY(arena, int64_t, routes->stream_count);
  t.ops = RSC_ARRAY(scratch, int64_t, world * turns);
  link_trees(&t, scratch);
  bool all = true;
  for (int64_t i = 0; i < routes->stream_count && all; i++) {
    const struct rsc_stream *st = &routes->streams[i];
    if (st->root != i || rsc_is_copy(st)) continue;
    int64_t first = rsc_floormod(st->dst - st->src, turns), tried = 0;
    while (tried < turns && !add_tree(&t, i, first + tried)) tried++;
    turn[i] = rsc_floormod(first + tried, turns);
    all = tried < turns;
  }
  rsc_arena_free(scratch);
  return all ? turn : NULL;
}
