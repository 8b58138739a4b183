// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan and what to show. Out: the JSON object of `reshard show --json`.
#include <stdlib.h>

#include "tools/cli/cli.h"
#include "tools/plan_json.h"
#include "tools/plan_show.h"

static void set(json_t *object, const char *key, uint64_t value) {
  json_object_set_new(object, key, plan_json_u64(value));
}

static json_t *inputs_json(const struct rsp_plan *plan) {
  static const char *const kinds[] = {"?", "train", "infer", "model", "cluster", "options"};
  json_t *list = json_array();
  for (uint64_t i = 0; i < plan->input_count; i++) {
    json_t *row = json_object();
    json_object_set_new(row, "kind", json_string(kinds[plan->inputs[i].kind]));
    json_object_set_new(row, "name", plan_json_str(plan->strings, plan->inputs[i].name));
    json_object_set_new(row, "digest", plan_json_id(plan->inputs[i].digest));
    json_array_append_new(list, row);
  }
  return list;
}

static json_t *coverage_json(const struct rsp_summary *s) {
  json_t *o = json_object();
  set(o, "tensors", s->tensors);
  set(o, "elements", s->elements);
  set(o, "bytes", s->bytes);
  set(o, "deliveries", s->deliveries);
  return o;
}

static json_t *bytes_json(const struct rsp_summary *s) {
  json_t *o = json_object();
  set(o, "wanted", s->wanted_bytes);
  set(o, "local", s->local_bytes);
  set(o, "nvlink", s->nvlink_bytes);
  set(o, "network", s->network_bytes);
  set(o, "network_minimum", s->network_minimum);
  return o;
}

static json_t *limits_json(const struct rsp_header *h) {
  json_t *o = json_object();
  set(o, "max_ops", h->max_ops);
  set(o, "max_peers", h->max_peers);
  set(o, "staging", h->staging_limit);
  set(o, "chunk", h->chunk);
  return o;
}

static json_t *links_json(const struct rsp_summary *s) {
  json_t *o = json_object();
  json_object_set_new(o, "nvlink_bandwidth", json_real(s->nvlink_bandwidth));
  json_object_set_new(o, "nvlink_latency", json_real(s->nvlink_latency));
  json_object_set_new(o, "network_bandwidth", json_real(s->network_bandwidth));
  json_object_set_new(o, "network_latency", json_real(s->network_latency));
  json_object_set_new(o, "memory_bandwidth", json_real(s->memory_bandwidth));
  json_object_set_new(o, "issue_seconds", json_real(s->issue_seconds));
  return o;
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

static json_t *desc_json(const struct rsp_program *p, const struct rsp_desc *d, uint64_t lo, uint64_t hi) {
  json_t *o = json_object(), *loops = json_array();
  const struct rsp_shape *sh = rsp_shape_of(p, d);
  json_object_set_new(o, "buffer", plan_json_str(p->names, rsp_program_buffer(p, d->ref)->name));
  set(o, "gid", d->ref);
  set(o, "offset", d->off);
  set(o, "run", sh->run);
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(sh->buf_dtype)));
  for (uint32_t i = 0; i < sh->loop_count; i++) {
    const struct rsp_loop *l = &p->loops[sh->loops + i];
    json_t *row = json_object();
    set(row, "count", l->count);
    json_object_set_new(row, "gid_step", json_integer(l->ref_step));
    json_object_set_new(row, "stride", json_integer(l->off_step));
    json_array_append_new(loops, row);
  }
  json_object_set_new(o, "loops", loops);
  json_object_set_new(o, "elements", json_pack("[I,I]", (json_int_t)lo, (json_int_t)hi));
  return o;
}

// Where a message is read or written: a byte of staging, or one of a buffer.
static json_t *place_json(const struct rsp_program *p, const struct plan_op *op) {
  json_t *o = json_object();
  if (!op->desc) {
    set(o, "staging", op->staging);
    return o;
  }
  uint32_t gid;
  uint64_t off;
  plan_desc_at(p, op->desc, op->lo, &gid, &off);
  json_object_set_new(o, "buffer", plan_json_str(p->names, rsp_program_buffer(p, gid)->name));
  set(o, "gid", gid);
  set(o, "offset", off);
  return o;
}

// From whom a relay has what it sends.
static void relay_json(json_t *o, const struct rsp_program *p, const struct rsp_stream *s) {
  if (s->relay != RSP_NO_STREAM) set(o, "relay", plan_stream_from(p, s)->peer);
}

static json_t *op_json(const struct rsp_program *p, const struct plan_op *op) {
  static const char *const words[] = {"pack", "copy", "send", "receive", "unpack"};
  static const char *const ops[] = {"copy", "neg_exp", "add"};
  json_t *o = json_object();
  bool copy = op->kind == PLAN_OP_PACK || op->kind == PLAN_OP_COPY || op->kind == PLAN_OP_UNPACK;
  if (copy) json_object_set_new(o, "kind", json_string(words[op->kind]));
  set(o, "peer", op->stream->peer);
  set(o, "bytes", op->bytes);
  if (!copy) {
    json_object_set_new(o, "place", place_json(p, op));
    relay_json(o, p, op->stream);
    return o;
  }
  if (op->kind == PLAN_OP_COPY) {
    json_object_set_new(o, "from", desc_json(p, op->desc, op->lo, op->hi));
    json_object_set_new(o, "to", desc_json(p, op->to, op->to_lo, op->to_lo + (op->hi - op->lo)));
  } else {
    json_object_set_new(o, "place", desc_json(p, op->desc, op->lo, op->hi));
    set(o, "staging", op->staging);
  }
  const struct rsp_shape *sh = rsp_shape_of(p, op->to ? op->to : op->desc);
  json_object_set_new(o, "wire_dtype", json_string(rsp_dtype_word(sh->wire_dtype)));
  json_object_set_new(o, "op", json_string(ops[sh->op]));
  if (sh->op == RSP_OP_ADD) json_object_set_new(o, "constant", json_real((double)sh->constant));
  return o;
}

static json_t *rounds_json(const struct rsp_program *p) {
  struct plan_op *ops;
  size_t count;
  if (!plan_ops_of(p, &ops, &count)) return NULL;
  json_t *rounds = json_array(), *row = NULL;
  for (size_t i = 0; i < count; i++) {
    if (!i || ops[i].round != ops[i - 1].round) {
      row = json_pack("{s:i,s:[],s:[],s:[]}", "round", (int)ops[i].round, "copies", "sends", "receives");
      json_array_append_new(rounds, row);
    }
    const char *list = ops[i].kind == PLAN_OP_SEND ? "sends" : ops[i].kind == PLAN_OP_RECEIVE ? "receives" : "copies";
    json_array_append_new(json_object_get(row, list), op_json(p, &ops[i]));
  }
  free(ops);
  return rounds;
}

static json_t *stream_json(const struct plan_show *show, const struct rsp_program *p, const struct rsp_stream *s) {
  static const char *const dirs[] = {"out", "in", "self_src", "self_dst"};
  json_t *o = json_object();
  json_object_set_new(o, "dir", json_string(dirs[s->dir]));
  set(o, "peer", s->peer);
  json_object_set_new(o, "link", json_string(plan_link_word(plan_link_of(show->plan, p->slice->world_rank, s->peer))));
  json_object_set_new(o, "kind", json_string(s->kind == RSP_KIND_DIRECT ? "direct" : "staged"));
  set(o, "tag", s->tag);
  relay_json(o, p, s);
  set(o, "bytes", s->bytes);
  set(o, "quantum", s->quantum);
  set(o, "round0", s->round0);
  set(o, "step", s->step);
  set(o, "rounds", rsp_stream_rounds(s));
  if (s->slots) {
    set(o, "slots", s->slots);
    set(o, "staging", s->stage_off);
    set(o, "slot_stride", s->slot_stride);
  }
  return o;
}

static json_t *buffer_json(const struct rsp_program *p, const struct rsp_sbuffer *b) {
  json_t *o = json_object();
  json_object_set_new(o, "name", plan_json_str(p->names, b->name));
  set(o, "gid", b->gid);
  json_object_set_new(o, "side", json_string(b->side == RSP_TRAIN ? "train" : "infer"));
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(b->dtype)));
  json_object_set_new(o, "shape", plan_json_dims(p->dims + b->dims, b->ndim));
  set(o, "bytes", b->bytes);
  plan_json_place(o, p->names, p->files[b->file], b->line, b->col);
  return o;
}

static void add_details(const struct plan_show *show, json_t *o, const struct rsp_program *p) {
  json_t *streams = json_array(), *buffers = json_array();
  for (uint64_t i = 0; i < p->slice->buffers.count; i++) json_array_append_new(buffers, buffer_json(p, &p->buffers[i]));
  for (uint64_t i = 0; i < p->slice->streams.count; i++)
    json_array_append_new(streams, stream_json(show, p, &p->streams[i]));
  json_object_set_new(o, "buffers", buffers);
  json_object_set_new(o, "streams", streams);
}

static json_t *rank_json(const struct plan_show *show, uint32_t world_rank) {
  const struct rsp_plan *plan = show->plan;
  const struct rsp_rank *row = &plan->ranks[world_rank];
  struct plan_facts f;
  struct rsp_program p;
  plan_facts_of(plan, world_rank, &f);
  rsp_program_of(plan, world_rank, &p);
  json_t *o = json_object();
  set(o, "rank", world_rank);
  json_object_set_new(o, "train_rank", plan_json_rank(row->train_rank));
  json_object_set_new(o, "infer_rank", plan_json_rank(row->infer_rank));
  json_object_set_new(o, "host", plan_json_str(plan->strings, row->host));
  set(o, "gpu", row->gpu);
  json_object_set_new(o, "domain", plan_json_str(plan->strings, row->domain_name));
  set(o, "network_out", f.network_out);
  set(o, "network_in", f.network_in);
  set(o, "nvlink_out", f.nvlink_out);
  set(o, "nvlink_in", f.nvlink_in);
  set(o, "local", f.local);
  set(o, "messages", f.messages);
  set(o, "ops", f.messages + f.copies);
  set(o, "peers", f.peers);
  set(o, "staging", f.staging);
  set(o, "slice_bytes", f.slice_bytes);
  set(o, "held_bytes", f.held_bytes);
  if (show->rank >= 0) add_details(show, o, &p);
  if (show->ops) json_object_set_new(o, "rounds", rounds_json(&p));
  return o;
}

// ---- tensors -------------------------------------------------------------------------------------------------------

static json_t *home_json(const struct rsp_plan *plan, const struct plan_home *home) {
  json_t *o = json_object(), *ranks = json_array();
  json_object_set_new(o, "buffer", plan_json_str(plan->strings, home->buffer->name));
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(home->buffer->dtype)));
  set(o, "elements", home->elems);
  for (uint64_t i = 0; i < home->rank_count; i++) json_array_append_new(ranks, json_integer(home->ranks[i]));
  json_object_set_new(o, "ranks", ranks);
  plan_json_place(o, plan->strings, plan->files[home->buffer->file], home->buffer->line, home->buffer->col);
  return o;
}

static json_t *tensor_json(const struct rsp_plan *plan, uint32_t index) {
  const struct rsp_tensor *t = &plan->tensors[index];
  json_t *o = json_object();
  json_object_set_new(o, "name", plan_json_str(plan->strings, t->name));
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(t->dtype)));
  json_object_set_new(o, "shape", plan_json_dims(plan->dims + t->dims, t->ndim));
  set(o, "elements", t->elems);
  json_object_set_new(o, "skip_train", json_boolean(t->flags & RSP_TENSOR_SKIP_TRAIN));
  json_object_set_new(o, "skip_infer", json_boolean(t->flags & RSP_TENSOR_SKIP_INFER));
  json_object_set_new(o, "train", json_array());
  json_object_set_new(o, "infer", json_array());
  return o;
}

static json_t *tensors_json(const struct plan_show *show) {
  const struct rsp_plan *plan = show->plan;
  struct plan_home *homes;
  size_t count, next = 0;
  if (!plan_homes_of(plan, show->glob, &homes, &count)) return NULL;
  json_t *list = json_array();
  for (uint32_t t = 0; t < plan->tensor_count; t++) {
    if (!plan_name_matches(show->glob, plan->strings, plan->tensors[t].name)) continue;
    json_t *row = tensor_json(plan, t);
    for (; next < count && homes[next].tensor == t; next++) {
      const char *side = homes[next].buffer->side == RSP_TRAIN ? "train" : "infer";
      json_array_append_new(json_object_get(row, side), home_json(plan, &homes[next]));
    }
    json_array_append_new(list, row);
  }
  plan_homes_free(homes, count);
  return list;
}

int plan_show_json(const struct plan_show *show) {
  const struct rsp_plan *plan = show->plan;
  json_t *o = json_object(), *seconds = json_object(), *ranks = json_array();
  json_object_set_new(o, "plan_id", plan_json_id(plan->header->plan_id));
  set(o, "version", plan->header->version);
  json_object_set_new(o, "inputs", inputs_json(plan));
  set(o, "world", plan->header->world);
  set(o, "train_world", plan->header->train_world);
  set(o, "infer_world", plan->header->infer_world);
  set(o, "rounds", plan->header->rounds);
  set(o, "tensors", plan->tensor_count);
  set(o, "buffers", plan->buffer_count);
  json_object_set_new(o, "coverage", coverage_json(plan->summary));
  json_object_set_new(o, "bytes", bytes_json(plan->summary));
  json_object_set_new(seconds, "bound", json_real(plan->summary->bound_seconds));
  json_object_set_new(seconds, "makespan", json_real(plan->summary->makespan_seconds));
  json_object_set_new(o, "seconds", seconds);
  json_object_set_new(o, "limits", limits_json(plan->header));
  json_object_set_new(o, "links", links_json(plan->summary));
  set(o, "file_bytes", plan->header->file_bytes);
  for (uint32_t r = 0; r < plan->header->world; r++)
    if (show->rank < 0 || show->rank == r) json_array_append_new(ranks, rank_json(show, r));
  json_object_set_new(o, "ranks", ranks);
  if (show->glob) json_object_set_new(o, "tensor_list", tensors_json(show));
  return plan_json_write(show->program, o, CLI_YES);
}
