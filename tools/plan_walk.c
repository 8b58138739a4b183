// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: its streams as fragments, and counts over them.
#include "tools/plan_walk.h"

#include "tools/cli/cli.h"

int plan_open(const char *program, const char *path, struct rsp_plan *plan) {
  struct rsp_error error;
  enum rsp_status status = rsp_open(path, plan, &error);
  if (status == RSP_OK) return CLI_YES;
  if (status == RSP_TROUBLE) return cli_trouble(program, "%s", error.text);
  cli_trouble(program, "'%s' is no valid plan: %s", path, error.text);
  return CLI_NO;
}

enum plan_link plan_link_of(const struct rsp_plan *plan, uint32_t from, uint32_t to) {
  if (from == to) return PLAN_LOCAL;
  return plan->ranks[from].domain == plan->ranks[to].domain ? PLAN_NVLINK : PLAN_NETWORK;
}

const char *plan_link_word(enum plan_link link) {
  static const char *const words[] = {"local", "nvlink", "network"};
  return words[link];
}

uint64_t plan_desc_elems(const struct rsp_program *program, const struct rsp_desc *desc) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  uint64_t elems = shape->run;
  for (uint32_t i = 0; i < shape->loop_count; i++) elems *= program->loops[shape->loops + i].count;
  return elems;
}

void plan_desc_at(const struct rsp_program *program, const struct rsp_desc *desc, uint64_t e, uint32_t *ref,
                  uint64_t *off) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  int64_t gid = desc->ref, byte = (int64_t)desc->off;
  byte += (int64_t)(e % shape->run * rsp_dtype_bytes(shape->buf_dtype));
  e /= shape->run;
  for (uint32_t i = shape->loop_count; i-- > 0;) {
    const struct rsp_loop *loop = &program->loops[shape->loops + i];
    gid += (int64_t)(e % loop->count) * loop->ref_step;
    byte += (int64_t)(e % loop->count) * loop->off_step;
    e /= loop->count;
  }
  *ref = (uint32_t)gid;
  *off = (uint64_t)byte;
}

// Calls fn for elements [lo, hi) of a descriptor, cut where turns end; returns the byte of the stream after them.
static uint64_t cut_by_turns(const struct rsp_stream *s, const struct rsp_desc *d, uint64_t lo, uint64_t hi,
                             uint64_t wire, uint64_t at, plan_fragment_fn fn, void *user) {
  while (lo < hi) {
    uint64_t turn = at / s->quantum, bytes = (hi - lo) * wire, left = s->quantum - at % s->quantum;
    if (bytes > left) bytes = left;
    struct plan_fragment f = {
        .stream = s, .desc = d, .turn = turn, .lo = lo, .hi = lo + bytes / wire, .at = at, .bytes = bytes};
    fn(user, &f);
    lo = f.hi;
    at += bytes;
  }
  return at;
}

const struct rsp_stream *plan_stream_from(const struct rsp_program *program, const struct rsp_stream *stream) {
  return stream->relay == RSP_NO_STREAM ? stream : &program->streams[stream->relay];
}

void plan_fragments(const struct rsp_program *p, const struct rsp_stream *s, plan_fragment_fn fn, void *user) {
  const struct rsp_stream *from = plan_stream_from(p, s);
  uint64_t at = 0;
  for (uint64_t i = 0; i < from->part_count; i++) {
    const struct rsp_part *part = &p->parts[from->parts + i];
    const struct rsp_body *body = &p->bodies[part->body];
    uint64_t first = 0;
    for (uint64_t k = 0; k < body->desc_count && first < part->hi; k++) {
      const struct rsp_desc *d = &p->descs[body->descs + k];
      uint64_t elems = plan_desc_elems(p, d), end = first + elems;
      uint64_t lo = part->lo > first ? part->lo : first, hi = part->hi < end ? part->hi : end;
      if (lo < hi) at = cut_by_turns(s, d, lo - first, hi - first, body->wire_bytes, at, fn, user);
      first = end;
    }
  }
}

// ---- figures of a rank ---------------------------------------------------------------------------------------------

struct count {
  const struct rsp_program *program;
  uint64_t fragments, runs;
};

static void count_fragment(void *user, const struct plan_fragment *f) {
  struct count *count = user;
  count->fragments++;
  uint64_t run = rsp_shape_of(count->program, f->desc)->run;
  count->runs += (f->hi - 1) / run - f->lo / run + 1;
}

static void add_stream(const struct rsp_plan *plan, const struct rsp_program *p, const struct rsp_stream *s,
                       struct plan_facts *facts) {
  struct count count = {p, 0, 0};
  plan_fragments(p, s, count_fragment, &count);
  if (s->dir == RSP_DIR_SELF_DST) {
    facts->local += s->bytes;
    facts->copies += count.fragments;
  }
  if (s->dir > RSP_DIR_IN) return;
  bool direct = s->kind == RSP_KIND_DIRECT;
  facts->messages += direct ? count.runs : rsp_stream_rounds(s);
  facts->copies += direct || s->relay != RSP_NO_STREAM ? 0 : count.fragments;
  if (s->peer == p->slice->world_rank) { // passed on to itself
    facts->local += s->dir == RSP_DIR_IN ? s->bytes : 0;
    return;
  }
  bool network = plan_link_of(plan, p->slice->world_rank, s->peer) == PLAN_NETWORK;
  if (s->dir == RSP_DIR_OUT)
    *(network ? &facts->network_out : &facts->nvlink_out) += s->bytes;
  else
    *(network ? &facts->network_in : &facts->nvlink_in) += s->bytes;
}

// Streams out and in both ascend by peer. A rank is no peer of itself.
static uint64_t count_peers(const struct rsp_program *p) {
  uint64_t count = p->slice->streams.count, i = 0, out = 0, peers = 0;
  while (out < count && p->streams[out].dir == RSP_DIR_OUT) out++;
  for (uint64_t j = out; i < out || (j < count && p->streams[j].dir == RSP_DIR_IN);) {
    uint64_t a = i < out ? p->streams[i].peer : UINT64_MAX;
    uint64_t b = j < count && p->streams[j].dir == RSP_DIR_IN ? p->streams[j].peer : UINT64_MAX;
    uint64_t peer = a < b ? a : b;
    while (i < out && p->streams[i].peer == peer) i++;
    while (j < count && p->streams[j].dir == RSP_DIR_IN && p->streams[j].peer == peer) j++;
    peers += peer != p->slice->world_rank;
  }
  return peers;
}

void plan_facts_of(const struct rsp_plan *plan, uint32_t world_rank, struct plan_facts *facts) {
  struct rsp_program p;
  rsp_program_of(plan, world_rank, &p);
  *facts = (struct plan_facts){.staging = p.slice->staging,
                               .slice_bytes = p.slice->bytes,
                               .held_bytes = plan->directory[world_rank].held_bytes,
                               .peers = count_peers(&p)};
  for (uint64_t i = 0; i < p.slice->streams.count; i++) add_stream(plan, &p, &p.streams[i], facts);
}
