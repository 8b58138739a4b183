// SPDX-License-Identifier: Apache-2.0
//
// In: flows. Out: a plan with their streams.
#include "tests/sim/made.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 160, MOST_FLOWS = 2048 };

struct tables {
  struct rsp_stream streams[MOST];
  struct rsp_part parts[MOST];
  struct rsp_body bodies[MOST];
  struct rsp_desc descs[MOST];
  struct rsp_shape shapes[MOST];
  struct rsp_loop loops[MOST];
  uint64_t count;
  uint32_t index_of[MOST_FLOWS]; /* of a flow's incoming stream */
};

static uint64_t rounds_of(const struct flow *f) {
  return (f->bytes + f->quantum - 1) / f->quantum;
}

static void add(struct tables *t, const struct flow *f, uint32_t dir, const struct tables *all) {
  uint64_t i = t->count++;
  bool relay = dir == RSP_DIR_OUT && f->relay_of;
  uint64_t run = f->run ? f->run : f->bytes;
  (void)all;
  t->shapes[i] = (struct rsp_shape){.buf_dtype = dir == RSP_DIR_OUT && f->src_dtype ? f->src_dtype : RSP_U8,
                                    .wire_dtype = RSP_U8,
                                    .run = run,
                                    .loops = i,
                                    .loop_count = 1};
  t->loops[i] = (struct rsp_loop){f->bytes / run, 0, 0};
  t->descs[i] = (struct rsp_desc){(uint32_t)i, 0, 0};
  t->bodies[i] = (struct rsp_body){i, 1, f->bytes, 1, 0};
  t->parts[i] = (struct rsp_part){i, 0, f->bytes};
  t->streams[i] = (struct rsp_stream){.peer = dir == RSP_DIR_OUT || dir == RSP_DIR_SELF_SRC ? f->dst : f->src,
                                      .dir = dir,
                                      .kind = f->run ? RSP_KIND_DIRECT : RSP_KIND_STAGED,
                                      .relay = relay ? t->index_of[f->relay_of - 1] : RSP_NO_STREAM,
                                      .slots = f->run || f->copy || relay ? 0 : 1,
                                      .parts = relay ? 0 : i,
                                      .part_count = !relay,
                                      .bytes = f->bytes,
                                      .quantum = f->quantum,
                                      .round0 = f->round0,
                                      .step = f->step ? f->step : 1};
}

// Streams of a rank stand by direction; indices of incoming ones are known before the relays that need them.
static void fill(struct tables *t, uint32_t rank, const struct flow *flows, size_t count) {
  uint32_t out = 0, in = 0;
  for (size_t i = 0; i < count; i++) out += flows[i].src == rank && !flows[i].copy;
  for (size_t i = 0; i < count; i++)
    if (flows[i].dst == rank && !flows[i].copy) t->index_of[i] = out + in++;
  for (uint32_t dir = RSP_DIR_OUT; dir <= RSP_DIR_SELF_DST; dir++)
    for (size_t i = 0; i < count; i++) {
      bool mine = dir == RSP_DIR_OUT || dir == RSP_DIR_SELF_SRC ? flows[i].src == rank : flows[i].dst == rank;
      if (mine && flows[i].copy == (dir >= RSP_DIR_SELF_SRC)) add(t, &flows[i], dir, t);
    }
}

void make(struct made *made, uint32_t world, const uint32_t *domains, const struct flow *flows, size_t count) {
  struct tables *tables = calloc(world, sizeof *tables);
  struct rsp_slice_tables *slices = calloc(world, sizeof *slices);
  struct rsp_rank *ranks = calloc(world, sizeof *ranks);
  struct rsp_summary summary = {.nvlink_bandwidth = NVLINK,
                                .nvlink_latency = NV_LATENCY,
                                .network_bandwidth = NIC,
                                .network_latency = NET_LATENCY,
                                .memory_bandwidth = MEMORY,
                                .issue_seconds = ISSUE};
  struct rsp_global_tables global = {.world = world, .train_world = world, .max_ops = 1024};
  if (!tables || !slices || !ranks) abort();
  for (size_t i = 0; i < count; i++) {
    uint64_t end = flows[i].round0 + (rounds_of(&flows[i]) - 1) * (flows[i].step ? flows[i].step : 1) + 1;
    if (end > global.rounds) global.rounds = (uint32_t)end;
  }
  for (uint32_t r = 0; r < world; r++) {
    struct tables *t = &tables[r];
    fill(t, r, flows, count);
    ranks[r] = (struct rsp_rank){.train_rank = r, .infer_rank = RSP_NO_RANK, .domain = domains[r]};
    slices[r] = (struct rsp_slice_tables){.world_rank = r,
                                          .train_rank = r,
                                          .infer_rank = RSP_NO_RANK,
                                          .rounds = global.rounds,
                                          .bodies = t->bodies,
                                          .body_count = t->count,
                                          .descs = t->descs,
                                          .desc_count = t->count,
                                          .shapes = t->shapes,
                                          .shape_count = t->count,
                                          .loops = t->loops,
                                          .loop_count = t->count,
                                          .streams = t->streams,
                                          .stream_count = t->count,
                                          .parts = t->parts,
                                          .part_count = t->count};
  }
  global.sections[RSP_SEC_RANKS] = ranks;
  global.counts[RSP_SEC_RANKS] = world;
  global.sections[RSP_SEC_SUMMARY] = &summary;
  global.counts[RSP_SEC_SUMMARY] = 1;
  if (!rsp_build(&global, slices, &made->bytes, &made->size)) abort();
  rsp_view_built(made->bytes, made->size, &made->plan);
  free(tables);
  free(slices);
  free(ranks);
}

void unmake(struct made *made) {
  free(made->bytes);
}
