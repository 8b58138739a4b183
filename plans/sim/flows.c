/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a plan's programs, one after the other. Out: its streams as flows between ranks, each once: the sender's stream
 * joined with the receiver's, which stand in the same order at both ends.
 */
#include <stdlib.h>

#include "plans/sim/impl.h"

/* What the parts of a stream come to: bytes in the buffers, and runs. */
struct weight {
  double buffer_bytes, runs;
};

/* What a receiver adds to a flow. */
struct arrival {
  uint32_t src, kind, tag;
  bool moves;             /* has bytes */
  float messages, unpack; /* as in struct rspm_flow */
};

struct rsp_sim_streams {
  uint32_t world;
  const struct rsp_rank *ranks;
  struct rspm_flows flows; /* by source */
  struct arrival *arrivals;
  size_t arrival_count, arrival_capacity;
  size_t *starts; /* per rank: its first arrival, one more */
  struct {
    uint32_t kind, tag;
  } * sent; /* per flow, to find its arrival */
  size_t sent_capacity;
  struct weight *bodies; /* per element, of the program at hand */
  size_t body_room;
};

static double elems_of(const struct rsp_program *p, const struct rsp_shape *shape) {
  double elems = (double)shape->run;
  for (uint32_t i = 0; i < shape->loop_count; i++) elems *= (double)p->loops[shape->loops + i].count;
  return elems;
}

static void weigh_bodies(struct rsp_sim_streams *s, const struct rsp_program *p) {
  size_t count = (size_t)p->slice->bodies.count;
  if (count > s->body_room) {
    free(s->bodies);
    s->bodies = rspm_alloc(count, sizeof *s->bodies);
    s->body_room = count;
  }
  for (size_t i = 0; i < count; i++) {
    const struct rsp_body *body = &p->bodies[i];
    struct weight *w = &s->bodies[i];
    *w = (struct weight){0, 0};
    for (uint64_t k = 0; k < body->desc_count; k++) {
      const struct rsp_shape *shape = &p->shapes[p->descs[body->descs + k].shape];
      double elems = elems_of(p, shape);
      w->buffer_bytes += elems * (double)rsp_dtype_bytes(shape->buf_dtype);
      w->runs += elems / (double)shape->run;
    }
    w->buffer_bytes /= body->elems ? (double)body->elems : 1;
    w->runs /= body->elems ? (double)body->elems : 1;
  }
}

/* Of a whole stream. Bodies are taken as even: a part has its share of the body's runs and bytes. */
static struct weight weigh(const struct weight *bodies, const struct rsp_program *p, const struct rsp_stream *s) {
  struct weight sum = {0, 0};
  for (uint64_t i = 0; i < s->part_count; i++) {
    const struct rsp_part *part = &p->parts[s->parts + i];
    double elems = (double)(part->hi - part->lo);
    double runs = elems * bodies[part->body].runs;
    sum.buffer_bytes += elems * bodies[part->body].buffer_bytes;
    sum.runs += runs > 1 ? runs : 1;
  }
  return sum;
}

static struct rspm_flow flow_of(const struct rsp_stream *s, uint32_t src, uint32_t dst) {
  uint64_t rounds = rsp_stream_rounds(s);
  return (struct rspm_flow){.src = src,
                            .dst = dst,
                            .round0 = s->round0,
                            .step = s->step,
                            .rounds = (uint32_t)rounds,
                            .messages = 1,
                            .quantum = (double)s->quantum,
                            .last = (double)(s->bytes - (rounds - 1) * s->quantum)};
}

/* Runs that the rounds' edges cut count twice. */
static float messages_of(const struct rsp_stream *s, double runs) {
  double rounds = (double)rsp_stream_rounds(s), run = (double)s->bytes / runs, q = (double)s->quantum;
  double whole = (double)(uint64_t)(q / run) * run;
  double cut = whole > 0 && q - whole < 1e-6 * q ? 0 : rounds - 1;
  return (float)((runs + cut) / rounds < 1 ? 1 : (runs + cut) / rounds);
}

/* Bytes read and written per byte on the wire: the buffer's and the staging's. */
static float per_byte(const struct rsp_stream *s, struct weight w) {
  return (float)(1 + w.buffer_bytes / (double)s->bytes);
}

static void push(struct rsp_sim_streams *all, struct rspm_flow flow, const struct rsp_stream *s) {
  struct rspm_flows *flows = &all->flows;
  flows->at = rspm_grow(flows->at, flows->count, &flows->capacity, sizeof *flows->at);
  all->sent = rspm_grow(all->sent, flows->count, &all->sent_capacity, sizeof *all->sent);
  all->sent[flows->count].kind = s->kind;
  all->sent[flows->count].tag = s->tag;
  flows->at[flows->count++] = flow;
}

static void add_out(struct rsp_sim_streams *all, const struct rsp_program *p, uint32_t rank,
                    const struct rsp_stream *s) {
  struct rspm_flow f = flow_of(s, rank, s->peer);
  f.way = rank == s->peer                                         ? RSPM_SELF
          : all->ranks[rank].domain == all->ranks[s->peer].domain ? RSPM_NVLINK
                                                                  : RSPM_NETWORK;
  if (s->bytes && s->kind != RSP_KIND_DIRECT && s->relay == RSP_NO_STREAM)
    f.pack = per_byte(s, weigh(all->bodies, p, s));
  push(all, f, s);
}

static void add_in(struct rsp_sim_streams *all, const struct rsp_program *p, const struct rsp_stream *s) {
  struct arrival a = {.src = s->peer, .kind = s->kind, .tag = s->tag, .moves = s->bytes != 0};
  if (a.moves && s->kind == RSP_KIND_DIRECT) a.messages = messages_of(s, weigh(all->bodies, p, s).runs);
  if (a.moves && s->kind != RSP_KIND_DIRECT) a.unpack = per_byte(s, weigh(all->bodies, p, s));
  all->arrivals = rspm_grow(all->arrivals, all->arrival_count, &all->arrival_capacity, sizeof *all->arrivals);
  all->arrivals[all->arrival_count++] = a;
}

/* A rank's copies to itself, charged where they happen: with the unpack of their round. */
static void add_self(struct rsp_sim_streams *all, const struct rsp_program *p, uint32_t rank,
                     const struct rsp_stream *src, const struct rsp_stream *dst) {
  if (!dst->bytes) return;
  struct rspm_flow f = flow_of(dst, rank, rank);
  f.way = RSPM_COPY;
  f.messages = 0;
  f.unpack =
      (float)((weigh(all->bodies, p, src).buffer_bytes + weigh(all->bodies, p, dst).buffer_bytes) / (double)dst->bytes);
  push(all, f, dst);
}

struct rsp_sim_streams *rsp_sim_streams_new(uint32_t world, const struct rsp_rank *ranks) {
  struct rsp_sim_streams *all = rspm_alloc(1, sizeof *all);
  all->world = world;
  all->ranks = ranks;
  all->starts = rspm_alloc((size_t)world + 1, sizeof *all->starts);
  return all;
}

void rsp_sim_streams_add(struct rsp_sim_streams *all, uint32_t rank, const struct rsp_program *p) {
  const struct rsp_stream *source = NULL;
  weigh_bodies(all, p);
  for (uint64_t i = 0; i < p->slice->streams.count; i++) {
    const struct rsp_stream *s = &p->streams[i];
    if (s->dir == RSP_DIR_OUT) add_out(all, p, rank, s);
    if (s->dir == RSP_DIR_IN) add_in(all, p, s);
    if (s->dir == RSP_DIR_SELF_SRC) source = s;
    if (s->dir == RSP_DIR_SELF_DST && source) add_self(all, p, rank, source, s);
  }
  all->starts[rank + 1] = all->arrival_count;
}

void rsp_sim_streams_free(struct rsp_sim_streams *all) {
  void *parts[] = {all->flows.at, all->arrivals, all->starts, all->sent, all->bodies, all};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

/* Both ends keep one order, so it is the next; a plan that is not right may have none. */
static const struct arrival *arrival_of(const struct rsp_sim_streams *all, size_t *next, size_t flow) {
  const struct rspm_flow *f = &all->flows.at[flow];
  const struct arrival *a = &all->arrivals[*next];
  if (*next == all->starts[f->dst + 1]) return NULL;
  if (a->src != f->src || a->kind != all->sent[flow].kind || a->tag != all->sent[flow].tag || !a->moves) return NULL;
  ++*next;
  return a;
}

void rspm_flows_of(struct rsp_sim_streams *all, struct rspm_flows *out) {
  size_t *next = rspm_alloc(all->world, sizeof *next), count = 0;
  struct rspm_flow *flows = all->flows.at;
  for (uint32_t r = 0; r < all->world; r++) next[r] = all->starts[r];
  for (size_t i = 0; i < all->flows.count; i++) {
    const struct arrival *a = flows[i].way == RSPM_COPY ? NULL : arrival_of(all, &next[flows[i].dst], i);
    if (a && a->kind == RSP_KIND_DIRECT) flows[i].messages = a->messages;
    if (a && a->kind != RSP_KIND_DIRECT) flows[i].unpack = a->unpack;
    if (flows[i].rounds) flows[count++] = flows[i];
  }
  *out = (struct rspm_flows){flows, count, all->flows.capacity};
  free(next);
  all->flows.at = NULL;
  rsp_sim_streams_free(all);
}
