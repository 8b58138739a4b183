// SPDX-License-Identifier: Apache-2.0
//
// In: what changes. Out: the JSON object of `reshard diff --json`.
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/plan_diff.h"
#include "tools/plan_json.h"

static void set(json_t *object, const char *key, uint64_t value) {
  json_object_set_new(object, key, plan_json_u64(value));
}

// {"added": [], "removed": [], "changed": []}, and the list for a change.
static json_t *changes(void) {
  return json_pack("{s:[],s:[],s:[]}", "added", "removed", "changed");
}
static json_t *list_of(json_t *object, enum plan_change change) {
  static const char *const words[] = {"added", "removed", "changed"};
  return json_object_get(object, words[change]);
}

static json_t *plan_json(const struct rsp_plan *plan) {
  json_t *o = json_object();
  json_object_set_new(o, "plan_id", plan_json_id(plan->header->plan_id));
  set(o, "world", plan->header->world);
  json_object_set_new(
      o, "seconds",
      json_pack("{s:f,s:f}", "bound", plan->summary->bound_seconds, "makespan", plan->summary->makespan_seconds));
  return o;
}

static json_t *input_json(const struct rsp_plan *plan, const struct rsp_input *in) {
  if (!in) return json_null();
  json_t *o = json_object();
  json_object_set_new(o, "name", plan_json_str(plan->strings, in->name));
  json_object_set_new(o, "digest", plan_json_id(in->digest));
  return o;
}

static json_t *inputs_json(const struct rsp_plan *a, const struct rsp_plan *b) {
  static const char *const kinds[] = {"?", "train", "infer", "model", "cluster", "options"};
  json_t *list = json_array();
  uint64_t i = 0, j = 0;
  while (i < a->input_count || j < b->input_count) {
    const struct rsp_input *x = i < a->input_count ? &a->inputs[i] : NULL;
    const struct rsp_input *y = j < b->input_count ? &b->inputs[j] : NULL;
    if (x && y && x->kind != y->kind) *(x->kind < y->kind ? &y : &x) = NULL; // kinds ascend
    i += x != NULL;
    j += y != NULL;
    if (x && y && memcmp(x->digest, y->digest, sizeof x->digest) == 0) continue;
    json_t *row = json_object();
    json_object_set_new(row, "kind", json_string(kinds[(x ? x : y)->kind]));
    json_object_set_new(row, "old", input_json(a, x));
    json_object_set_new(row, "new", input_json(b, y));
    json_array_append_new(list, row);
  }
  return list;
}

static void set_who(json_t *o, struct plan_who who) {
  json_object_set_new(o, "train_rank", plan_json_rank(who.train_rank));
  json_object_set_new(o, "infer_rank", plan_json_rank(who.infer_rank));
}

static json_t *seat_json(const struct rsp_plan *plan, const struct rsp_rank *r) {
  if (!r) return json_null();
  json_t *o = json_object();
  json_object_set_new(o, "host", plan_json_str(plan->strings, r->host));
  set(o, "gpu", r->gpu);
  json_object_set_new(o, "domain", plan_json_str(plan->strings, r->domain_name));
  return o;
}

static json_t *ranks_json(const struct plan_diff *d) {
  json_t *o = changes();
  for (size_t i = 0; i < d->rank_count; i++) {
    const struct plan_rank_change *c = &d->ranks[i];
    const struct rsp_rank *r = c->new_rank ? c->new_rank : c->old_rank;
    json_t *row = json_object();
    set_who(row, (struct plan_who){r->train_rank, r->infer_rank});
    json_object_set_new(row, "old", seat_json(d->old_plan, c->old_rank));
    json_object_set_new(row, "new", seat_json(d->new_plan, c->new_rank));
    json_array_append_new(list_of(o, c->change), row);
  }
  return o;
}

static json_t *tensor_json(const struct rsp_plan *plan, const struct rsp_tensor *t) {
  if (!t) return json_null();
  json_t *o = json_object();
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(t->dtype)));
  json_object_set_new(o, "shape", plan_json_dims(plan->dims + t->dims, t->ndim));
  json_object_set_new(o, "skip_train", json_boolean(t->flags & RSP_TENSOR_SKIP_TRAIN));
  json_object_set_new(o, "skip_infer", json_boolean(t->flags & RSP_TENSOR_SKIP_INFER));
  return o;
}

static json_t *tensors_json(const struct plan_diff *d) {
  json_t *o = changes();
  for (size_t i = 0; i < d->tensor_count; i++) {
    const struct plan_tensor_change *c = &d->tensors[i];
    json_t *row = json_object();
    json_object_set_new(row, "name",
                        c->old_tensor ? plan_json_str(d->old_plan->strings, c->old_tensor->name)
                                      : plan_json_str(d->new_plan->strings, c->new_tensor->name));
    json_object_set_new(row, "old", tensor_json(d->old_plan, c->old_tensor));
    json_object_set_new(row, "new", tensor_json(d->new_plan, c->new_tensor));
    json_array_append_new(list_of(o, c->change), row);
  }
  return o;
}

static json_t *row_json(const struct plan_row *r) {
  if (!r) return json_null();
  json_t *o = json_object();
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(r->dtype)));
  json_object_set_new(o, "shape", plan_json_dims(r->dims, r->ndim));
  return o;
}

static json_t *buffers_json(const struct plan_diff *d) {
  json_t *o = changes();
  for (size_t i = 0; i < d->buffer_count; i++) {
    const struct plan_buffer_change *c = &d->buffers[i];
    const struct plan_row *r = c->new_row ? c->new_row : c->old_row;
    json_t *row = json_object(), *ranks = json_array(), *what = json_array();
    json_object_set_new(row, "side", json_string(r->side == RSP_TRAIN ? "train" : "infer"));
    json_object_set_new(row, "name", plan_json_str(r->name, (struct rsp_str){0, r->name_len}));
    for (uint64_t k = 0; k < c->rank_count; k++) json_array_append_new(ranks, json_integer(c->ranks[k]));
    json_object_set_new(row, "ranks", ranks);
    if (c->dtype) json_array_append_new(what, json_string("dtype"));
    if (c->shape) json_array_append_new(what, json_string("shape"));
    if (c->elements) json_array_append_new(what, json_string("elements"));
    json_object_set_new(row, "what", what);
    json_object_set_new(row, "old", row_json(c->old_row));
    json_object_set_new(row, "new", row_json(c->new_row));
    json_array_append_new(list_of(o, c->change), row);
  }
  return o;
}

static json_t *end_json(bool there, enum plan_link link, uint64_t bytes) {
  if (!there) return json_null();
  json_t *o = json_object();
  json_object_set_new(o, "link", json_string(plan_link_word(link)));
  set(o, "bytes", bytes);
  return o;
}

static json_t *routes_json(const struct plan_diff *d) {
  json_t *o = changes();
  for (size_t i = 0; i < d->route_count; i++) {
    const struct plan_route_change *c = &d->routes[i];
    json_t *row = json_object(), *from = json_object(), *to = json_object();
    set_who(from, c->from);
    set_who(to, c->to);
    json_object_set_new(row, "from", from);
    json_object_set_new(row, "to", to);
    json_object_set_new(row, "old", end_json(c->change != PLAN_ADDED, c->old_link, c->old_bytes));
    json_object_set_new(row, "new", end_json(c->change != PLAN_REMOVED, c->new_link, c->new_bytes));
    json_object_set_new(row, "elements", json_boolean(c->elements || c->change != PLAN_CHANGED));
    json_array_append_new(list_of(o, c->change), row);
  }
  return o;
}

// {"bytes": {"network": {"old": 1, "new": 2}, ...}, "schedule": ..., "limits": ..., "world": ...}
static void set_figures(json_t *o, const struct plan_diff *d) {
  struct plan_figure figures[PLAN_FIGURES];
  plan_diff_figures(d, figures);
  for (unsigned i = 0; i < PLAN_FIGURES; i++) {
    json_t *group = json_object_get(o, figures[i].group);
    if (!group) json_object_set_new(o, figures[i].group, group = json_object());
    json_t *pair = json_object();
    set(pair, "old", figures[i].old_value);
    set(pair, "new", figures[i].new_value);
    json_object_set_new(group, figures[i].name, pair);
  }
  set(json_object_get(o, "schedule"), "rescheduled_pairs", d->reschedules);
}

int plan_diff_json(const char *program, const struct plan_diff *d) {
  bool same = plan_diff_same(d);
  json_t *o = json_object();
  json_object_set_new(o, "same", json_boolean(same));
  json_object_set_new(o, "old", plan_json(d->old_plan));
  json_object_set_new(o, "new", plan_json(d->new_plan));
  json_object_set_new(o, "inputs", inputs_json(d->old_plan, d->new_plan));
  json_object_set_new(o, "ranks", ranks_json(d));
  json_object_set_new(o, "tensors", tensors_json(d));
  json_object_set_new(o, "buffers", buffers_json(d));
  json_object_set_new(o, "routes", routes_json(d));
  set_figures(o, d);
  json_object_set_new(o, "rates_changed", json_boolean(d->rates));
  return plan_json_write(program, o, same ? CLI_YES : CLI_NO);
}
