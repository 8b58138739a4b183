// SPDX-License-Identifier: Apache-2.0
//
// In: a specification. Out: its programs: every wanted element is given a sender, element by element; neighbours
// become runs, runs become loops; each pair of ranks gets streams with a schedule and staging of its own.
#include <stdlib.h>
#include <string.h>

#include "tests/verify/maker.h"

struct end {
  int64_t ref, off; // gid and byte; of a relay, the number of a link and a byte of it
  uint32_t dtype, op;
  float constant;
  bool relay;
};

struct item { // an element, a run, or a loop of them
  struct end src, dst;
  uint32_t tensor, wire;
  uint64_t index, run;
  uint32_t loops;
  struct {
    uint64_t count;
    int64_t src_ref, src_off, dst_ref, dst_off;
  } loop[3]; // innermost first
};

struct link {
  uint32_t src, dst, kind;
  struct mk_buf items; // struct item, one per element, in stream order
  uint64_t bytes, quantum;
  uint32_t round0, step, last;
  bool read_again;
  int64_t index; // of the incoming stream at dst
};

struct flows {
  struct mk *m;
  struct mk_buf links;
};

static struct end end_of(const struct mk *m, uint32_t gid, uint64_t element, const struct mk_elem *e) {
  const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
  return (struct end){gid, (int64_t)(element * rsp_dtype_bytes(b->dtype)), b->dtype, e->op, e->constant, false};
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
          item->src = end_of(m, gid, i, &elems[i]);
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

static struct link *link_of(struct flows *f, uint32_t src, uint32_t dst, uint32_t kind) {
  for (size_t i = 0; i < f->links.count; i++) {
    struct link *l = MK_AT(f->links, struct link, i);
    if (l->src == src && l->dst == dst && l->kind == kind) return l;
  }
  struct link *l = mk_push(&f->links, sizeof *l);
  l->src = src;
  l->dst = dst;
  l->kind = kind;
  return l;
}

// An earlier receiver of the same domain that gets the element in a staged stream passes it on.
static bool find_relay(struct flows *f, uint32_t rank, struct item *item, uint32_t *from) {
  struct mk *m = f->m;
  for (size_t i = 0; i < f->links.count; i++) {
    struct link *l = MK_AT(f->links, struct link, i);
    if (l->dst >= rank || l->src == l->dst || l->kind != RSP_KIND_STAGED || !l->quantum) continue;
    if (MK_AT(m->ranks, struct rsp_rank, l->dst)->domain != MK_AT(m->ranks, struct rsp_rank, rank)->domain) continue;
    uint64_t byte = 0;
    for (size_t k = 0; k < l->items.count; k++) {
      const struct item *x = MK_AT(l->items, struct item, k);
      if (x->tensor == item->tensor && x->index == item->index) {
        item->src = (struct end){(int64_t)i, (int64_t)byte, x->wire, RSP_OP_COPY, 0, true};
        *from = l->dst;
        l->read_again = m->relays = true;
        return true;
      }
      byte += rsp_dtype_bytes(x->wire);
    }
  }
  return false;
}

static bool pure(const struct item *x) {
  return !x->src.relay && x->src.dtype == x->wire && x->dst.dtype == x->wire && !x->src.op && !x->dst.op;
}

static void want(struct flows *f, uint32_t rank, uint32_t gid, uint64_t element, const struct mk_elem *e, bool relay,
                 bool direct) {
  struct mk *m = f->m;
  struct item item = {.tensor = e->tensor, .index = e->index, .run = 1};
  uint32_t from;
  item.wire = MK_AT(m->tensors, struct rsp_tensor, e->tensor)->dtype;
  item.dst = end_of(m, gid, element, e);
  bool own = find_source(m, rank, e->tensor, e->index, rank + e->tensor, &item, &from);
  if (!own) return; // skipped
  if (from != rank && relay) find_relay(f, rank, &item, &from);
  uint32_t kind = direct && from != rank && pure(&item) ? RSP_KIND_DIRECT : RSP_KIND_STAGED;
  struct link *l = link_of(f, from, rank, kind);
  MK_ADD(&l->items, struct item, item);
}

static int by_wire(const void *a, const void *b) { // falling size, else as they were
  const struct item *x = a, *y = b;
  size_t p = rsp_dtype_bytes(x->wire), q = rsp_dtype_bytes(y->wire);
  if (p != q) return p > q ? -1 : 1;
  if (x->dst.ref != y->dst.ref) return x->dst.ref < y->dst.ref ? -1 : 1;
  return x->dst.off < y->dst.off ? -1 : x->dst.off > y->dst.off;
}

static void schedule(struct flows *f, struct link *l) {
  struct mk *m = f->m;
  qsort(l->items.at, l->items.count, sizeof(struct item), by_wire);
  l->bytes = 0;
  l->round0 = (uint32_t)mk_draw(m, 3);
  for (size_t i = 0; i < l->items.count; i++) {
    const struct item *x = MK_AT(l->items, struct item, i);
    l->bytes += rsp_dtype_bytes(x->wire);
    if (!x->src.relay) continue;
    uint32_t after = MK_AT(f->links, struct link, x->src.ref)->last + 2;
    if (l->round0 < after) l->round0 = after;
  }
  l->quantum = 8 * (1 + mk_draw(m, 4));
  l->step = 1 + (uint32_t)mk_draw(m, 2);
  l->last = l->round0 + (uint32_t)((l->bytes + l->quantum - 1) / l->quantum - 1) * l->step;
  if (l->last + 1 > m->rounds) m->rounds = l->last + 1;
}

static void receive(struct flows *f, uint32_t rank) {
  struct mk *m = f->m;
  bool relay = mk_draw(m, 2), direct = mk_draw(m, 2);
  uint32_t infer_rank = MK_AT(m->ranks, struct rsp_rank, rank)->infer_rank;
  size_t before = f->links.count;
  for (uint32_t gid = 0; gid < m->buffers.count; gid++) {
    const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
    struct mk_elem *elems;
    bool held;
    if (b->side != RSP_INFER) continue;
    uint64_t count = mk_elements(m, gid, infer_rank, &elems, &held);
    for (uint64_t i = 0; i < count; i++) {
      if (!elems[i].kind) want(f, rank, gid, i, &elems[i], relay, direct);
    }
    free(elems);
  }
  for (size_t i = before; i < f->links.count; i++) schedule(f, MK_AT(f->links, struct link, i));
}

// ---- runs and loops ------------------------------------------------------------------------------------------------

static bool alike(const struct item *a, const struct item *b) {
  if (a->wire != b->wire || a->run != b->run || a->loops != b->loops) return false;
  if (memcmp(a->loop, b->loop, sizeof a->loop)) return false;
  const struct end *x[2] = {&a->src, &a->dst}, *y[2] = {&b->src, &b->dst};
  for (int e = 0; e < 2; e++) {
    if (x[e]->dtype != y[e]->dtype || x[e]->op != y[e]->op || x[e]->relay != y[e]->relay) return false;
    if (memcmp(&x[e]->constant, &y[e]->constant, sizeof(float))) return false;
    if (x[e]->relay && x[e]->ref != y[e]->ref) return false;
  }
  return true;
}

static size_t join_runs(struct item *x, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    struct item *t = kept ? &x[kept - 1] : NULL;
    if (t) {
      struct item one = *t;
      one.run = 1;
      int64_t s = (int64_t)(t->run * rsp_dtype_bytes(t->src.dtype)),
              d = (int64_t)(t->run * rsp_dtype_bytes(t->dst.dtype));
      if (alike(&one, &x[i]) && t->src.ref == x[i].src.ref && t->dst.ref == x[i].dst.ref &&
          t->src.off + s == x[i].src.off && t->dst.off + d == x[i].dst.off) {
        t->run++;
        continue;
      }
    }
    x[kept++] = x[i];
  }
  return kept;
}

static bool follows(const struct item *a, const struct item *b, const struct item *c) {
  return alike(a, c) && c->src.ref - b->src.ref == b->src.ref - a->src.ref &&
         c->src.off - b->src.off == b->src.off - a->src.off && c->dst.ref - b->dst.ref == b->dst.ref - a->dst.ref &&
         c->dst.off - b->dst.off == b->dst.off - a->dst.off;
}

static size_t join_loops(struct item *x, size_t count, uint32_t level) {
  size_t kept = 0;
  for (size_t i = 0; i < count;) {
    struct item head = x[i];
    size_t n = 1;
    if (i + 1 < count && alike(&x[i], &x[i + 1])) {
      n = 2;
      while (i + n < count && follows(&x[i + n - 2], &x[i + n - 1], &x[i + n])) n++;
      head.loop[level].count = n;
      head.loop[level].src_ref = x[i + 1].src.ref - x[i].src.ref;
      head.loop[level].src_off = x[i + 1].src.off - x[i].src.off;
      head.loop[level].dst_ref = x[i + 1].dst.ref - x[i].dst.ref;
      head.loop[level].dst_off = x[i + 1].dst.off - x[i].dst.off;
    } else {
      head.loop[level].count = 1;
    }
    head.loops = level + 1;
    x[kept++] = head;
    i += n;
  }
  return kept;
}

// ---- slices --------------------------------------------------------------------------------------------------------

static void add_desc(struct mk_slice *s, const struct flows *f, const struct item *x, bool source) {
  const struct end *e = source ? &x->src : &x->dst;
  struct rsp_desc d = {.ref = (uint32_t)e->ref, .buf_dtype = e->dtype, .wire_dtype = x->wire, .op = e->op};
  d.constant = e->constant;
  d.off = (uint64_t)e->off;
  d.run = x->run;
  d.loops = s->loops.count;
  if (e->relay) {
    d.space = RSP_SPACE_STREAM;
    d.ref = (uint32_t)MK_AT(f->links, struct link, e->ref)->index;
  }
  for (uint32_t l = x->loops; l-- > 0;) {
    if (x->loop[l].count == 1) continue;
    MK_PUSH(&s->loops, struct rsp_loop,
            {x->loop[l].count, source ? x->loop[l].src_ref : x->loop[l].dst_ref,
             source ? x->loop[l].src_off : x->loop[l].dst_off});
    d.loop_count++;
  }
  MK_ADD(&s->descs, struct rsp_desc, d);
}

// The items of one wire size as a body, and its parts.
static void add_body(struct flows *f, struct mk_slice *s, const struct item *items, size_t count, uint64_t elems,
                     uint64_t cut, bool source) {
  uint64_t body = s->bodies.count;
  MK_PUSH(&s->bodies, struct rsp_body, {s->descs.count, count, elems, (uint32_t)rsp_dtype_bytes(items[0].wire), 0});
  for (size_t i = 0; i < count; i++) add_desc(s, f, &items[i], source);
  if (cut) MK_PUSH(&s->parts, struct rsp_part, {body, 0, cut});
  MK_PUSH(&s->parts, struct rsp_part, {body, cut, elems});
}

static void add_end(struct flows *f, const struct link *l, bool source, uint64_t state) {
  struct mk *m = f->m;
  struct mk_slice *s = &m->slices[source ? l->src : l->dst];
  struct rsp_stream x = {.peer = source ? l->dst : l->src, .kind = l->kind, .parts = s->parts.count};
  m->state = state; // the same cuts at both ends
  for (size_t i = 0, end; i < l->items.count; i = end) {
    const struct item *at = MK_AT(l->items, struct item, i);
    for (end = i; end < l->items.count; end++) {
      if (rsp_dtype_bytes(MK_AT(l->items, struct item, end)->wire) != rsp_dtype_bytes(at->wire)) break;
    }
    struct item *copy = malloc((end - i) * sizeof *copy);
    memcpy(copy, at, (end - i) * sizeof *copy);
    size_t count = join_runs(copy, end - i);
    for (uint32_t level = 0; level < 3; level++) count = join_loops(copy, count, level);
    add_body(f, s, copy, count, end - i, mk_draw(m, 2) ? mk_draw(m, end - i) : 0, source);
    free(copy);
  }
  x.part_count = s->parts.count - x.parts;
  x.bytes = l->bytes;
  x.quantum = l->quantum;
  x.round0 = l->round0;
  x.step = l->step;
  x.dir = source ? RSP_DIR_OUT : RSP_DIR_IN;
  if (l->src == l->dst) {
    x.dir = source ? RSP_DIR_SELF_SRC : RSP_DIR_SELF_DST;
  } else if (l->kind == RSP_KIND_STAGED) {
    x.slots = l->step == 1 ? 2 : 1;
    if (!source && l->read_again) x.slots = (uint32_t)((l->bytes + l->quantum - 1) / l->quantum);
    x.slot_stride = l->quantum;
    x.stage_off = s->staging;
    s->staging += x.slots * x.slot_stride;
  }
  MK_ADD(&s->streams, struct rsp_stream, x);
}

static int by_order(const void *a, const void *b) {
  const struct rsp_stream *x = a, *y = b;
  if (x->dir != y->dir) return x->dir < y->dir ? -1 : 1;
  if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
  return x->kind < y->kind ? -1 : x->kind > y->kind;
}

// Where each link's incoming stream will stand in its slice: after the outgoing ones, by peer and kind.
static void number_links(struct flows *f) {
  for (size_t i = 0; i < f->links.count; i++) {
    struct link *l = MK_AT(f->links, struct link, i);
    for (size_t k = 0; k < f->links.count; k++) {
      const struct link *x = MK_AT(f->links, struct link, k);
      if (x->src == x->dst) continue;
      if (x->src == l->dst) l->index++;
      if (x->dst == l->dst && (x->src < l->src || (x->src == l->src && x->kind < l->kind))) l->index++;
    }
  }
}

static void add_tables(struct mk *m, uint32_t rank) {
  struct mk_slice *s = &m->slices[rank];
  for (uint32_t i = 0; i < 2; i++)
    MK_ADD(&s->files, struct rsp_str, mk_string(&s->names, i ? "infer.layout" : "train.layout"));
  for (uint32_t gid = 0; gid < m->buffers.count; gid++) {
    const struct rsp_buffer *b = MK_AT(m->buffers, struct rsp_buffer, gid);
    const struct rsp_rank *r = MK_AT(m->ranks, struct rsp_rank, rank);
    struct mk_elem *elems;
    bool held;
    uint64_t count = mk_elements(m, gid, b->side == RSP_TRAIN ? r->train_rank : r->infer_rank, &elems, &held);
    if (!held) continue;
    size_t size = rsp_dtype_bytes(b->dtype);
    char name[64] = "";
    memcpy(name, (char *)m->strings.at + b->name.off, b->name.len);
    struct rsp_sbuffer x = {
        .name = mk_string(&s->names, name), .gid = gid, .side = b->side, .dtype = b->dtype, .ndim = 1};
    x.dims = s->dims.count;
    x.bytes = count * size;
    x.file = b->file;
    x.line = b->line;
    x.col = b->col;
    x.align = (uint32_t)size;
    MK_ADD(&s->dims, uint64_t, count);
    MK_ADD(&s->buffers, struct rsp_sbuffer, x);
    for (uint64_t i = 0, end; i < count && b->side == RSP_INFER; i = end) {
      for (end = i; end < count && elems[end].kind == elems[i].kind; end++) continue;
      if (elems[i].kind == RSP_SLOT_PAD)
        MK_PUSH(&s->zeros, struct rsp_zero, {gid, 0, s->zloops.count, i * size, (end - i) * size});
    }
    free(elems);
  }
}

// ---- the summary ---------------------------------------------------------------------------------------------------

static void count_link(struct mk *m, const struct link *l) {
  const struct rsp_rank *ranks = m->ranks.at;
  struct rsp_summary *s = &m->summary;
  if (l->src == l->dst)
    s->local_bytes += l->bytes;
  else if (ranks[l->src].domain == ranks[l->dst].domain)
    s->nvlink_bytes += l->bytes;
  else
    s->network_bytes += l->bytes;
  for (size_t i = 0; i < l->items.count; i++) {
    const struct item *x = MK_AT(l->items, struct item, i);
    s->elements++;
    s->bytes += rsp_dtype_bytes(x->dst.dtype);
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
  for (size_t i = 0; i < f->links.count; i++) count_link(m, MK_AT(f->links, struct link, i));
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
  struct flows f = {.m = m};
  m->rounds = 1;
  for (uint32_t w = 0; w < m->world; w++) {
    if (MK_AT(m->ranks, struct rsp_rank, w)->infer_rank != RSP_NO_RANK) receive(&f, w);
    add_tables(m, w);
  }
  number_links(&f);
  for (size_t i = 0; i < f.links.count; i++) {
    const struct link *l = MK_AT(f.links, struct link, i);
    uint64_t state = m->state;
    add_end(&f, l, true, state);
    add_end(&f, l, false, state);
  }
  summarize(&f);
  for (uint32_t w = 0; w < m->world; w++) {
    struct mk_slice *s = &m->slices[w];
    if (s->streams.count) qsort(s->streams.at, s->streams.count, sizeof(struct rsp_stream), by_order);
  }
  for (size_t i = 0; i < f.links.count; i++) free(MK_AT(f.links, struct link, i)->items.at);
  free(f.links.at);
}
