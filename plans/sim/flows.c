/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a plan's programs. Out: its streams as flows between ranks, each once: the sender's stream joined with the
 * receiver's, which stand in the same order at both ends.
 */
#include <stdlib.h>

#include "plans/sim/impl.h"

/* What the parts of a stream come to: bytes in the buffers, and runs. */
struct weight {
  double buffer_bytes, runs;
};

struct side {
  struct rsp_program program;
  uint64_t next;         /* the first incoming stream that is not joined yet */
  struct weight *bodies; /* per element */
};

static double elems_of(const struct rsp_program *p, const struct rsp_shape *shape) {
  double elems = (double)shape->run;
  for (uint32_t i = 0; i < shape->loop_count; i++) elems *= (double)p->loops[shape->loops + i].count;
  return elems;
}

static void open_side(const struct rsp_plan *plan, uint32_t rank, struct side *side) {
  struct rsp_program *p = &side->program;
  rsp_program_of(plan, rank, p);
  while (side->next < p->slice->streams.count && p->streams[side->next].dir == RSP_DIR_OUT) side->next++;
  side->bodies = rspm_alloc(p->slice->bodies.count, sizeof *side->bodies);
  for (uint64_t i = 0; i < p->slice->bodies.count; i++) {
    const struct rsp_body *body = &p->bodies[i];
    struct weight *w = &side->bodies[i];
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
static struct weight weigh(const struct side *side, const struct rsp_stream *s) {
  struct weight sum = {0, 0};
  for (uint64_t i = 0; i < s->part_count; i++) {
    const struct rsp_part *part = &side->program.parts[s->parts + i];
    double elems = (double)(part->hi - part->lo);
    double runs = elems * side->bodies[part->body].runs;
    sum.buffer_bytes += elems * side->bodies[part->body].buffer_bytes;
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

static void push(struct rspm_flows *flows, struct rspm_flow flow) {
  flows->at = rspm_grow(flows->at, flows->count, &flows->capacity, sizeof *flows->at);
  flows->at[flows->count++] = flow;
}

/* Both ends keep one order, so it is the next; a plan that is not right may have none. */
static const struct rsp_stream *receiver_of(struct side *to, uint32_t from, const struct rsp_stream *s) {
  const struct rsp_stream *in = &to->program.streams[to->next];
  if (to->next == to->program.slice->streams.count || in->dir != RSP_DIR_IN) return NULL;
  if (in->peer != from || in->kind != s->kind || in->tag != s->tag || !in->bytes) return NULL;
  to->next++;
  return in;
}

static void add_out(const struct rsp_plan *plan, struct side *sides, uint32_t rank, const struct rsp_stream *s,
                    struct rspm_flows *flows) {
  struct side *from = &sides[rank], *to = &sides[s->peer];
  const struct rsp_stream *in = receiver_of(to, rank, s);
  struct rspm_flow f = flow_of(s, rank, s->peer);
  f.way = rank == s->peer                                           ? RSPM_SELF
          : plan->ranks[rank].domain == plan->ranks[s->peer].domain ? RSPM_NVLINK
                                                                    : RSPM_NETWORK;
  if (!s->bytes) return;
  if (s->kind == RSP_KIND_DIRECT) {
    if (in) f.messages = messages_of(in, weigh(to, in).runs);
  } else {
    if (s->relay == RSP_NO_STREAM) f.pack = per_byte(s, weigh(from, s));
    if (in) f.unpack = per_byte(in, weigh(to, in));
  }
  push(flows, f);
}

/* A rank's copies to itself, charged where they happen: with the unpack of their round. */
static void add_self(struct side *side, uint32_t rank, const struct rsp_stream *src, const struct rsp_stream *dst,
                     struct rspm_flows *flows) {
  if (!dst->bytes) return;
  struct rspm_flow f = flow_of(dst, rank, rank);
  f.way = RSPM_COPY;
  f.messages = 0;
  f.unpack = (float)((weigh(side, src).buffer_bytes + weigh(side, dst).buffer_bytes) / (double)dst->bytes);
  push(flows, f);
}

static void add_rank(const struct rsp_plan *plan, struct side *sides, uint32_t rank, struct rspm_flows *flows) {
  const struct rsp_program *p = &sides[rank].program;
  const struct rsp_stream *source = NULL;
  for (uint64_t i = 0; i < p->slice->streams.count; i++) {
    const struct rsp_stream *s = &p->streams[i];
    if (s->dir == RSP_DIR_OUT) add_out(plan, sides, rank, s, flows);
    if (s->dir == RSP_DIR_SELF_SRC) source = s;
    if (s->dir == RSP_DIR_SELF_DST && source) add_self(&sides[rank], rank, source, s, flows);
  }
}

void rspm_flows_of(const struct rsp_plan *plan, struct rspm_flows *flows) {
  uint32_t world = plan->header->world;
  struct side *sides = rspm_alloc(world, sizeof *sides);
  for (uint32_t r = 0; r < world; r++) open_side(plan, r, &sides[r]);
  for (uint32_t r = 0; r < world; r++) add_rank(plan, sides, r, flows);
  for (uint32_t r = 0; r < world; r++) free(sides[r].bodies);
  free(sides);
}
