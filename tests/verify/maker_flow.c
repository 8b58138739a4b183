// SPDX-License-Identifier: Apache-2.0
//
// In: a specification. Out: its programs: every wanted element is given a sender, element by element; elements that go
// from one rank to the same places become a group; neighbours become runs, runs become loops, at all places at once.
// Each place of a group is a hop: a stream from the sender, or a relay of an earlier hop, with a schedule and staging
// of its own.
#include <stdlib.h>
#include <string.h>

#include "tests/verify/maker.h"

enum { PLACES = 6, ENDS = PLACES + 1 };

struct end {
  int64_t ref, off; // gid and byte
  uint32_t dtype, op;
  float constant;
};

struct item { // an element, a run, or a loop of them; end 0 is the sender's
  struct end end[ENDS];
  uint32_t tensor, wire;
  uint64_t index, run;
  uint32_t loops;
  struct {
    uint64_t count;
    int64_t ref[ENDS], off[ENDS];
  } loop[3]; // innermost first
};

struct hop {
  uint32_t src, dst, tag, round0;
  int parent;     // the hop that is passed on; -1: none
  bool read;      // a relay passes it on
  uint64_t index; // of the incoming stream at dst
};

struct group {
  uint32_t origin, kind, count;
  uint32_t at[PLACES]; // ranks
  bool relays;
  uint32_t lot; // tensors of one lot go together
  struct mk_buf items;
  uint64_t bytes, quantum;
  uint32_t step;
  struct hop hop[PLACES];
};

struct flows {
  struct mk *m;
  struct mk_buf groups;
  uint32_t lots;
  uint64_t relays, direct; // how likely, of 4
  uint32_t tags[2][16][16];
};

static struct end end_of(const struct mk *m, uint32_t gid, uint64_t element, const struct mk_elem *e) {
  const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
  return (struct end){gid, (int64_t)(element * rsp_dtype_bytes(b->dtype)), b->dtype, e->op, e->constant};
}

static uint32_t world_of(const struct mk *m, uint32_t side, uint32_t side_rank) {
  return m->world_of[side][side_rank];
}

// A training place of the element: on `rank` itself if there is one, else one of all holders.
static bool find_source(struct mk *m, uint32_t rank, uint32_t tensor, uint64_t index, uint32_t pick, struct item *item,
                        uint32_t *from) {
  uint32_t found = 0;
  for (uint32_t pass = 0; pass < 2; pass++) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < m->train_world; t++) {
      for (uint32_t gid = 0; gid < m->buffers.count; gid++) {
        if (MK_AT(m->buffers, struct rsp_buffer, gid)->side != RSP_TRAIN) continue;
        struct mk_elem *elems;
        bool held;
        uint64_t count = mk_elements(m, gid, t, &elems, &held);
        for (uint64_t i = 0; i < count; i++) {
          if (elems[i].kind || elems[i].tensor != tensor || elems[i].index != index) continue;
          bool own = world_of(m, RSP_TRAIN, t) == rank;
          if (!pass) found++;
          if (!own && !(pass && n++ == pick % found)) continue;
          item->end[0] = end_of(m, gid, i, &elems[i]);
          *from = world_of(m, RSP_TRAIN, t);
          free(elems);
          return true;
        }
        free(elems);
      }
    }
    if (!found) return false;
  }
  return false;
}

static struct group *group_of(struct flows *f, const struct group *like) {
  for (size_t i = 0; i < f->groups.count; i++) {
    struct group *g = MK_AT(f->groups, struct group, i);
    if (g->origin == like->origin && g->kind == like->kind && g->count == like->count && g->lot == like->lot &&
        g->relays == like->relays && !memcmp(g->at, like->at, sizeof g->at))
      return g;
  }
  MK_ADD(&f->groups, struct group, *like);
  return MK_AT(f->groups, struct group, f->groups.count - 1);
}

static bool pure(const struct item *x, uint32_t places) {
  for (uint32_t e = 0; e <= places; e++) {
    if (x->end[e].dtype != x->wire || x->end[e].op) return false;
  }
  return true;
}

static void put_item(struct flows *f, struct group like, const struct item *x) {
  bool own = like.count == 1 && like.at[0] == like.origin;
  like.lot = own ? 0 : x->tensor % f->lots;
  like.kind = !own && mk_draw(f->m, 4) < f->direct && pure(x, like.count) ? RSP_KIND_DIRECT : RSP_KIND_STAGED;
  struct group *g = group_of(f, &like);
  MK_ADD(&g->items, struct item, *x);
}

// The places of an element that all get it from one rank: together, if it is passed on, else each by itself.
static void put_places(struct flows *f, struct group g, const struct item *x) {
  if (!g.count) return;
  bool again = false; // only a relay brings it to a place twice
  for (uint32_t i = 1; i < g.count; i++) again |= g.at[i] == g.at[i - 1];
  g.relays = g.count > 1 && (again ? f->relays : mk_draw(f->m, 4) < f->relays);
  if (g.relays) {
    put_item(f, g, x);
    return;
  }
  for (uint32_t i = 0; i < g.count; i++) {
    struct group one = {.origin = g.origin, .count = 1, .at = {g.at[i]}};
    struct item y = *x;
    y.end[1] = x->end[i + 1];
    put_item(f, one, &y);
  }
}

struct place {
  uint32_t rank;
  struct end end;
};

static size_t find_places(struct mk *m, uint32_t tensor, uint64_t index, struct mk_buf *places) {
  for (uint32_t w = 0; w < m->world; w++) {
    uint32_t infer_rank = MK_AT(m->ranks, struct rsp_rank, w)->infer_rank;
    for (uint32_t gid = 0; gid < m->buffers.count && infer_rank != RSP_NO_RANK; gid++) {
      if (MK_AT(m->buffers, struct rsp_buffer, gid)->side != RSP_INFER) continue;
      struct mk_elem *elems;
      bool held;
      uint64_t count = mk_elements(m, gid, infer_rank, &elems, &held);
      for (uint64_t i = 0; i < count; i++) {
        if (elems[i].kind || elems[i].tensor != tensor || elems[i].index != index) continue;
        MK_PUSH(places, struct place, {w, end_of(m, gid, i, &elems[i])});
      }
      free(elems);
    }
  }
  return places->count;
}

// Ranks that hold the element serve themselves. The others are served from one holder, or two.
static void deliver(struct flows *f, uint32_t tensor, uint64_t index) {
  struct mk *m = f->m;
  struct mk_buf places = {0};
  struct group group = {0};
  struct item item = {.tensor = tensor, .index = index, .run = 1};
  item.wire = MK_AT(m->tensors, struct rsp_tensor, tensor)->dtype;
  for (size_t i = 0, count = find_places(m, tensor, index, &places); i < count; i++) {
    const struct place *p = MK_AT(places, struct place, i);
    struct item one = item;
    uint32_t from;
    if (!find_source(m, p->rank, tensor, index, tensor + (f->relays > 2 ? 0 : p->rank), &one, &from)) break; // skipped
    one.end[1] = p->end;
    if (from == p->rank) {
      put_item(f, (struct group){.origin = from, .count = 1, .at = {from}}, &one);
      continue;
    }
    if (group.count == PLACES || (group.count && group.origin != from)) {
      put_places(f, group, &item);
      group = (struct group){0};
    }
    group.origin = from;
    item.end[0] = one.end[0];
    item.end[1 + group.count] = p->end;
    group.at[group.count++] = p->rank;
  }
  put_places(f, group, &item);
  free(places.at);
}

static int by_wire(const void *a, const void *b) { // falling size, else as they lie at the first place
  const struct item *x = a, *y = b;
  size_t p = rsp_dtype_bytes(x->wire), q = rsp_dtype_bytes(y->wire);
  if (p != q) return p > q ? -1 : 1;
  if (x->end[1].ref != y->end[1].ref) return x->end[1].ref < y->end[1].ref ? -1 : 1;
  return x->end[1].off < y->end[1].off ? -1 : x->end[1].off > y->end[1].off;
}

static void schedule(struct flows *f, struct group *g) {
  struct mk *m = f->m;
  bool own = g->count == 1 && g->at[0] == g->origin;
  qsort(g->items.at, g->items.count, sizeof(struct item), by_wire);
  for (size_t i = 0; i < g->items.count; i++) g->bytes += rsp_dtype_bytes(MK_AT(g->items, struct item, i)->wire);
  g->quantum = 8 * (1 + mk_draw(m, 4));
  g->step = 1 + (uint32_t)mk_draw(m, 2);
  bool chain = mk_draw(m, 2);
  for (uint32_t h = 0; h < g->count; h++) {
    struct hop *x = &g->hop[h];
    x->parent = h && g->relays ? (int)(chain ? h - 1 : mk_draw(m, h)) : -1;
    bool again = h && g->at[h] == g->at[h - 1]; // only from itself
    if (h && g->relays && !chain && !again && mk_draw(m, 4) == 0) x->parent = -1;
    if (again && !chain && mk_draw(m, 2)) x->parent = (int)h - 1;
    x->src = x->parent < 0 ? g->origin : g->hop[x->parent].dst;
    x->dst = g->at[h];
    x->round0 = x->parent < 0 ? (uint32_t)mk_draw(m, 3) : g->hop[x->parent].round0 + 1;
    if (x->parent >= 0) g->hop[x->parent].read = m->relays = true;
    if (!own) x->tag = f->tags[g->kind][x->src][x->dst] += (uint32_t)mk_draw(m, 2);
    if (!own) f->tags[g->kind][x->src][x->dst]++;
    uint32_t last = x->round0 + (uint32_t)((g->bytes + g->quantum - 1) / g->quantum - 1) * g->step;
    if (last + 1 > m->rounds) m->rounds = last + 1;
  }
}

// ---- runs and loops ------------------------------------------------------------------------------------------------

static bool alike(const struct item *a, const struct item *b, uint32_t ends) {
  if (a->wire != b->wire || a->run != b->run || a->loops != b->loops) return false;
  if (memcmp(a->loop, b->loop, sizeof a->loop)) return false;
  for (uint32_t e = 0; e < ends; e++) {
    const struct end *x = &a->end[e], *y = &b->end[e];
    if (x->dtype != y->dtype || x->op != y->op) return false;
    if (memcmp(&x->constant, &y->constant, sizeof(float))) return false;
  }
  return true;
}

static bool continues(const struct item *t, const struct item *x, uint32_t ends) {
  struct item one = *t;
  one.run = 1;
  if (!alike(&one, x, ends)) return false;
  for (uint32_t e = 0; e < ends; e++) {
    int64_t past = (int64_t)(t->run * rsp_dtype_bytes(t->end[e].dtype));
    if (t->end[e].ref != x->end[e].ref || t->end[e].off + past != x->end[e].off) return false;
  }
  return true;
}

static size_t join_runs(struct item *x, size_t count, uint32_t ends) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept && continues(&x[kept - 1], &x[i], ends))
      x[kept - 1].run++;
    else
      x[kept++] = x[i];
  }
  return kept;
}

static bool follows(const struct item *a, const struct item *b, const struct item *c, uint32_t ends) {
  if (!alike(a, c, ends)) return false;
  for (uint32_t e = 0; e < ends; e++) {
    if (c->end[e].ref - b->end[e].ref != b->end[e].ref - a->end[e].ref) return false;
    if (c->end[e].off - b->end[e].off != b->end[e].off - a->end[e].off) return false;
  }
  return true;
}

static size_t join_loops(struct item *x, size_t count, uint32_t level, uint32_t ends) {
  size_t kept = 0;
  for (size_t i = 0; i < count;) {
    struct item head = x[i];
    size_t n = 1;
    head.loop[level].count = 1;
    if (i + 1 < count && alike(&x[i], &x[i + 1], ends)) {
      n = 2;
      while (i + n < count && follows(&x[i + n - 2], &x[i + n - 1], &x[i + n], ends)) n++;
      head.loop[level].count = n;
      for (uint32_t e = 0; e < ends; e++) {
        head.loop[level].ref[e] = x[i + 1].end[e].ref - x[i].end[e].ref;
        head.loop[level].off[e] = x[i + 1].end[e].off - x[i].end[e].off;
      }
    }
    head.loops = level + 1;
    x[kept++] = head;
    i += n;
  }
  return kept;
}

// ---- slices --------------------------------------------------------------------------------------------------------

// The number of an equal shape, at times; else of a new one, with loops of its own.
static uint32_t shape_of(struct mk_slice *s, const struct rsp_shape *shape, const struct rsp_loop *loops) {
  for (size_t i = 0; i < s->shapes.count; i++) {
    struct rsp_shape *x = MK_AT(s->shapes, struct rsp_shape, i), y = *shape;
    y.loops = x->loops;
    const struct rsp_loop *at = MK_AT(s->loops, struct rsp_loop, x->loops);
    if (!memcmp(x, &y, sizeof y) && (!y.loop_count || !memcmp(at, loops, y.loop_count * sizeof *loops)))
      return (uint32_t)i;
  }
  MK_ADD(&s->shapes, struct rsp_shape, *shape);
  MK_AT(s->shapes, struct rsp_shape, s->shapes.count - 1)->loops = s->loops.count;
  for (uint32_t l = 0; l < shape->loop_count; l++) MK_ADD(&s->loops, struct rsp_loop, loops[l]);
  return (uint32_t)s->shapes.count - 1;
}

static void add_desc(struct mk_slice *s, const struct item *x, uint32_t end) {
  const struct end *e = &x->end[end];
  struct rsp_shape shape = {.buf_dtype = e->dtype, .wire_dtype = x->wire, .op = e->op, .constant = e->constant};
  struct rsp_loop loops[3];
  shape.run = x->run;
  for (uint32_t l = x->loops; l-- > 0;) {
    if (x->loop[l].count == 1) continue;
    loops[shape.loop_count++] = (struct rsp_loop){x->loop[l].count, x->loop[l].ref[end], x->loop[l].off[end]};
  }
  MK_PUSH(&s->descs, struct rsp_desc, {shape_of(s, &shape, loops), (uint32_t)e->ref, (uint64_t)e->off});
}

// The items of one wire size as a body, and its parts.
static void add_body(struct mk_slice *s, const struct item *items, size_t count, uint64_t elems, uint64_t cut,
                     uint32_t end) {
  uint64_t body = s->bodies.count;
  MK_PUSH(&s->bodies, struct rsp_body, {s->descs.count, count, elems, (uint32_t)rsp_dtype_bytes(items[0].wire), 0});
  for (size_t i = 0; i < count; i++) add_desc(s, &items[i], end);
  if (cut) MK_PUSH(&s->parts, struct rsp_part, {body, 0, cut});
  MK_PUSH(&s->parts, struct rsp_part, {body, cut, elems});
}

static void add_parts(struct mk *m, struct mk_slice *s, const struct group *g, struct rsp_stream *x, uint32_t end) {
  x->parts = s->parts.count;
  for (size_t i = 0, next; i < g->items.count; i = next) {
    const struct item *at = MK_AT(g->items, struct item, i);
    for (next = i; next < g->items.count; next++) {
      if (rsp_dtype_bytes(MK_AT(g->items, struct item, next)->wire) != rsp_dtype_bytes(at->wire)) break;
    }
    struct item *copy = malloc((next - i) * sizeof *copy);
    if (!copy) abort();
    memcpy(copy, at, (next - i) * sizeof *copy);
    size_t count = join_runs(copy, next - i, g->count + 1);
    for (uint32_t level = 0; level < 3; level++) count = join_loops(copy, count, level, g->count + 1);
    add_body(s, copy, count, next - i, mk_draw(m, 2) ? mk_draw(m, next - i) : 0, end);
    free(copy);
  }
  x->part_count = s->parts.count - x->parts;
}

// One end of a hop; `state` gives the same cuts at all ends of the group.
static void add_end(struct flows *f, const struct group *g, uint32_t h, bool source, uint64_t state) {
  struct mk *m = f->m;
  const struct hop *hop = &g->hop[h];
  struct mk_slice *s = &m->slices[source ? hop->src : hop->dst];
  bool relay = source && hop->parent >= 0, own = hop->src == hop->dst && hop->parent < 0;
  struct rsp_stream x = {.peer = source ? hop->dst : hop->src, .kind = g->kind, .tag = hop->tag, .bytes = g->bytes};
  x.relay = relay ? (uint32_t)g->hop[hop->parent].index : RSP_NO_STREAM;
  m->state = state;
  if (!relay) add_parts(m, s, g, &x, source ? 0 : h + 1);
  x.quantum = g->quantum;
  x.round0 = hop->round0;
  x.step = g->step;
  x.dir = own ? RSP_DIR_SELF_SRC : RSP_DIR_OUT;
  if (!source) x.dir++; // RSP_DIR_IN, RSP_DIR_SELF_DST
  if (!own && !relay && g->kind == RSP_KIND_STAGED) {
    x.slots = g->step == 1 ? 2 : 1;
    x.slot_stride = g->quantum;
    x.stage_off = s->staging;
    s->staging += x.slots * x.slot_stride;
  }
  MK_ADD(&s->streams, struct rsp_stream, x);
}

static int by_order(const void *a, const void *b) {
  const struct rsp_stream *x = a, *y = b;
  if (x->dir != y->dir) return x->dir < y->dir ? -1 : 1;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->tag < y->tag ? -1 : x->tag > y->tag;
}

static bool is_own(const struct hop *x) {
  return x->src == x->dst && x->parent < 0;
}

// How many streams of the rank stand before the incoming one of hop `x`: all outgoing ones, and those by order.
static uint64_t number_of(const struct flows *f, const struct group *g, const struct hop *x) {
  struct rsp_stream mine = {.peer = x->src, .kind = g->kind, .tag = x->tag};
  uint64_t before = 0;
  for (size_t k = 0; k < f->groups.count; k++) {
    const struct group *other = MK_AT(f->groups, struct group, k);
    for (uint32_t h = 0; h < other->count; h++) {
      const struct hop *y = &other->hop[h];
      struct rsp_stream its = {.peer = y->src, .kind = other->kind, .tag = y->tag};
      if (is_own(y)) continue;
      before += y->src == x->dst;
      before += y->dst == x->dst && by_order(&its, &mine) < 0;
    }
  }
  return before;
}

static void add_streams(struct flows *f) {
  struct mk *m = f->m;
  for (size_t i = 0; i < f->groups.count; i++) schedule(f, MK_AT(f->groups, struct group, i));
  for (size_t i = 0; i < f->groups.count; i++) {
    struct group *g = MK_AT(f->groups, struct group, i);
    for (uint32_t h = 0; h < g->count; h++) g->hop[h].index = number_of(f, g, &g->hop[h]);
  }
  for (size_t i = 0; i < f->groups.count; i++) {
    const struct group *g = MK_AT(f->groups, struct group, i);
    uint64_t state = m->state;
    for (uint32_t h = 0; h < g->count; h++) {
      add_end(f, g, h, true, state);
      add_end(f, g, h, false, state);
    }
  }
  for (uint32_t w = 0; w < m->world; w++) {
    struct mk_slice *s = &m->slices[w];
    if (s->streams.count) qsort(s->streams.at, s->streams.count, sizeof(struct rsp_stream), by_order);
  }
}

// ---- the summary ---------------------------------------------------------------------------------------------------

static void count_group(struct mk *m, const struct group *g) {
  const struct rsp_rank *ranks = m->ranks.at;
  struct rsp_summary *s = &m->summary;
  for (uint32_t h = 0; h < g->count; h++) {
    const struct hop *x = &g->hop[h];
    if (x->src == x->dst)
      s->local_bytes += g->bytes;
    else if (ranks[x->src].domain == ranks[x->dst].domain)
      s->nvlink_bytes += g->bytes;
    else
      s->network_bytes += g->bytes;
    for (size_t i = 0; i < g->items.count; i++) {
      s->elements++;
      s->bytes += rsp_dtype_bytes(MK_AT(g->items, struct item, i)->end[h + 1].dtype);
    }
  }
}

// 1 wanted and 2 held in the domain, 4 held anywhere.
static unsigned marks(struct mk *m, uint32_t domain, uint32_t tensor, uint64_t index) {
  unsigned mark = 0;
  for (uint32_t w = 0; w < m->world; w++) {
    const struct rsp_rank *r = MK_AT(m->ranks, struct rsp_rank, w);
    for (uint32_t gid = 0; gid < m->buffers.count; gid++) {
      bool train = MK_AT(m->buffers, struct rsp_buffer, gid)->side == RSP_TRAIN, held;
      struct mk_elem *elems;
      uint64_t count = mk_elements(m, gid, train ? r->train_rank : r->infer_rank, &elems, &held);
      for (uint64_t i = 0; i < count; i++) {
        if (elems[i].kind || elems[i].tensor != tensor || elems[i].index != index) continue;
        if (train) mark |= 4;
        if (r->domain == domain) mark |= train ? 2 : 1;
      }
      free(elems);
    }
  }
  return mark;
}

static void summarize(struct flows *f) {
  struct mk *m = f->m;
  struct rsp_summary *s = &m->summary;
  for (size_t i = 0; i < f->groups.count; i++) count_group(m, MK_AT(f->groups, struct group, i));
  for (uint32_t t = 0; t < m->tensors.count; t++) {
    const struct rsp_tensor *x = MK_AT(m->tensors, struct rsp_tensor, t);
    bool delivered = false;
    for (uint64_t i = 0; i < x->elems; i++) {
      for (uint32_t domain = 0; domain < 2; domain++) {
        unsigned mark = marks(m, domain, t, i);
        if ((mark & 5) == 5) delivered = true;
        if (mark == 5) s->network_minimum += rsp_dtype_bytes(x->dtype);
      }
    }
    s->tensors += delivered;
  }
  s->wanted_bytes = s->bytes;
  s->deliveries = s->elements;
}

void mk_flows(struct mk *m) {
  struct flows f = {.m = m, .lots = 1 + (uint32_t)mk_draw(m, 2), .relays = mk_draw(m, 5), .direct = mk_draw(m, 5)};
  m->rounds = 1;
  for (uint32_t t = 0; t < m->tensors.count; t++) {
    for (uint64_t i = 0; i < MK_AT(m->tensors, struct rsp_tensor, t)->elems; i++) deliver(&f, t, i);
  }
  for (uint32_t w = 0; w < m->world; w++) mk_tables(m, w);
  add_streams(&f);
  summarize(&f);
  for (size_t i = 0; i < f.groups.count; i++) free(MK_AT(f.groups, struct group, i)->items.at);
  free(f.groups.at);
}
