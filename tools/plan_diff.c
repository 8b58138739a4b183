// SPDX-License-Identifier: Apache-2.0
//
// In: two opened plans. Out: what changes: merges of both meanings, each sorted in the same way.
#include "tools/plan_diff.h"

#include <stdlib.h>
#include <string.h>

// `at` with room for one more than count, or NULL without memory; then `at` is as it was.
static void *grown(void *at, size_t count, size_t size) {
  if (count & (count - 1)) return at; // grows at powers of two
  return realloc(at, (count ? count * 2 : 1) * size);
}

// Needs a `void *more` at hand.
#define ROOM(at, count) ((more = grown((at), (count), sizeof *(at))) ? ((at) = more, true) : false)

static bool same_text(const struct rsp_plan *a, struct rsp_str x, const struct rsp_plan *b, struct rsp_str y) {
  return plan_compare_names(a->strings + x.off, x.len, b->strings + y.off, y.len) == 0;
}

static bool same_dims(const uint64_t *a, uint32_t a_ndim, const uint64_t *b, uint32_t b_ndim) {
  return a_ndim == b_ndim && (!a_ndim || memcmp(a, b, a_ndim * sizeof *a) == 0);
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

static bool push_rank(struct plan_diff *d, const struct rsp_rank *old_rank, const struct rsp_rank *new_rank) {
  void *more;
  if (!ROOM(d->ranks, d->rank_count)) return false;
  enum plan_change change = !old_rank ? PLAN_ADDED : !new_rank ? PLAN_REMOVED : PLAN_CHANGED;
  d->ranks[d->rank_count++] = (struct plan_rank_change){change, old_rank, new_rank};
  return true;
}

static bool same_seat(const struct plan_diff *d, const struct rsp_rank *a, const struct rsp_rank *b) {
  return a->gpu == b->gpu && same_text(d->old_plan, a->host, d->new_plan, b->host) &&
         same_text(d->old_plan, a->domain_name, d->new_plan, b->domain_name);
}

static bool diff_ranks(struct plan_diff *d, const struct plan_meaning *a, const struct plan_meaning *b) {
  uint32_t i = 0, j = 0, a_world = d->old_plan->header->world, b_world = d->new_plan->header->world;
  while (i < a_world || j < b_world) {
    int order = i == a_world ? 1 : j == b_world ? -1 : plan_compare_who(a->seats[i].who, b->seats[j].who);
    const struct rsp_rank *x = order <= 0 ? &d->old_plan->ranks[a->seats[i++].world_rank] : NULL;
    const struct rsp_rank *y = order >= 0 ? &d->new_plan->ranks[b->seats[j++].world_rank] : NULL;
    if (x && y && same_seat(d, x, y)) continue;
    if (!push_rank(d, x, y)) return false;
  }
  return true;
}

// ---- tensors -------------------------------------------------------------------------------------------------------

struct named {
  const struct rsp_plan *plan;
  const struct rsp_tensor *tensor;
};

static int compare_tensors(const void *a, const void *b) {
  const struct named *x = a, *y = b;
  return plan_compare_names(x->plan->strings + x->tensor->name.off, x->tensor->name.len,
                            y->plan->strings + y->tensor->name.off, y->tensor->name.len);
}

static struct named *sort_tensors(const struct rsp_plan *plan) {
  struct named *list = calloc((size_t)plan->tensor_count + 1, sizeof *list);
  for (uint64_t i = 0; list && i < plan->tensor_count; i++) list[i] = (struct named){plan, &plan->tensors[i]};
  if (list && plan->tensor_count) qsort(list, (size_t)plan->tensor_count, sizeof *list, compare_tensors);
  return list;
}

static bool same_tensor(const struct named *a, const struct named *b) {
  const struct rsp_tensor *x = a->tensor, *y = b->tensor;
  return x->dtype == y->dtype && x->flags == y->flags &&
         same_dims(a->plan->dims + x->dims, x->ndim, b->plan->dims + y->dims, y->ndim);
}

static bool merge_tensors(struct plan_diff *d, const struct named *a, const struct named *b) {
  void *more;
  uint64_t i = 0, j = 0, a_count = d->old_plan->tensor_count, b_count = d->new_plan->tensor_count;
  while (i < a_count || j < b_count) {
    int order = i == a_count ? 1 : j == b_count ? -1 : compare_tensors(&a[i], &b[j]);
    const struct named *x = order <= 0 ? &a[i++] : NULL, *y = order >= 0 ? &b[j++] : NULL;
    if (x && y && same_tensor(x, y)) continue;
    if (!ROOM(d->tensors, d->tensor_count)) return false;
    d->tensors[d->tensor_count++] = (struct plan_tensor_change){
        .change = !x   ? PLAN_ADDED
                  : !y ? PLAN_REMOVED
                       : PLAN_CHANGED,
        .old_tensor = x ? x->tensor : NULL,
        .new_tensor = y ? y->tensor : NULL,
    };
  }
  return true;
}

static bool diff_tensors(struct plan_diff *d) {
  struct named *a = sort_tensors(d->old_plan), *b = sort_tensors(d->new_plan);
  bool good = a && b && merge_tensors(d, a, b);
  free(a);
  free(b);
  return good;
}

// ---- buffers -------------------------------------------------------------------------------------------------------

static int compare_rows(const struct plan_row *x, const struct plan_row *y) {
  if (x->side != y->side) return x->side < y->side ? -1 : 1;
  int order = plan_compare_names(x->name, x->name_len, y->name, y->name_len);
  return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

// Ranks of an uneven cut have shapes of their own.
static bool same_shape(const struct plan_row *x, const struct plan_row *y) {
  return !x || !y ? x == y : x->dtype == y->dtype && same_dims(x->dims, x->ndim, y->dims, y->ndim);
}

static bool same_kind(const struct plan_buffer_change *a, const struct plan_buffer_change *b) {
  const struct plan_row *x = a->old_row ? a->old_row : a->new_row, *y = b->old_row ? b->old_row : b->new_row;
  return a->change == b->change && a->dtype == b->dtype && a->shape == b->shape && a->elements == b->elements &&
         same_shape(a->old_row, b->old_row) && same_shape(a->new_row, b->new_row) && x->side == y->side &&
         plan_compare_names(x->name, x->name_len, y->name, y->name_len) == 0;
}

// Joins the change to that of the rank before, where it is the same.
static bool push_buffer(struct plan_diff *d, const struct plan_buffer_change *change, uint32_t rank) {
  void *more;
  struct plan_buffer_change *last = d->buffer_count ? &d->buffers[d->buffer_count - 1] : NULL;
  if (!last || !same_kind(last, change)) {
    if (!ROOM(d->buffers, d->buffer_count)) return false;
    last = &d->buffers[d->buffer_count++];
    *last = *change;
  }
  if (!ROOM(last->ranks, (size_t)last->rank_count)) return false;
  last->ranks[last->rank_count++] = rank;
  return true;
}

static bool diff_buffers(struct plan_diff *d, const struct plan_meaning *a, const struct plan_meaning *b) {
  size_t i = 0, j = 0;
  while (i < a->row_count || j < b->row_count) {
    int order = i == a->row_count ? 1 : j == b->row_count ? -1 : compare_rows(&a->rows[i], &b->rows[j]);
    struct plan_buffer_change c = {.old_row = order <= 0 ? &a->rows[i++] : NULL,
                                   .new_row = order >= 0 ? &b->rows[j++] : NULL};
    const struct plan_row *x = c.old_row, *y = c.new_row;
    c.change = !x ? PLAN_ADDED : !y ? PLAN_REMOVED : PLAN_CHANGED;
    if (x && y) {
      c.dtype = x->dtype != y->dtype;
      c.shape = !same_dims(x->dims, x->ndim, y->dims, y->ndim);
      c.elements = !plan_print_same(x->elements, y->elements);
      if (!c.dtype && !c.shape && !c.elements) continue;
    }
    if (!push_buffer(d, &c, x ? x->rank : y->rank)) return false;
  }
  return true;
}

// ---- routes --------------------------------------------------------------------------------------------------------

static int compare_pairs(const struct plan_route *x, const struct plan_route *y) {
  int order = plan_compare_who(x->from, y->from);
  return order ? order : plan_compare_who(x->to, y->to);
}

// The routes of one pair of processes: streams of two kinds at two ends.
struct pair {
  const struct plan_route *first;
  size_t count;
  uint64_t bytes;
  struct plan_print elements[2];
};

static struct pair next_pair(const struct plan_meaning *m, size_t *at) {
  struct pair p = {.first = &m->routes[*at]};
  while (*at < m->route_count && compare_pairs(p.first, &m->routes[*at]) == 0) {
    const struct plan_route *r = &m->routes[(*at)++];
    p.elements[r->end] = plan_print_add(p.elements[r->end], r->elements);
    // A stream counts where it starts; one that only its receiver knows counts there.
    if (r->end == p.first->end) p.bytes += r->bytes;
    p.count++;
  }
  return p;
}

static bool same_way(const struct pair *a, const struct pair *b) {
  if (a->first->link != b->first->link || a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (a->first[i].kind != b->first[i].kind || a->first[i].bytes != b->first[i].bytes) return false;
  return true;
}

static bool same_schedule(const struct pair *a, const struct pair *b) {
  for (size_t i = 0; i < a->count; i++) {
    const struct plan_route *x = &a->first[i], *y = &b->first[i];
    if (x->quantum != y->quantum || x->round0 != y->round0 || x->step != y->step) return false;
  }
  return true;
}

static bool push_route(struct plan_diff *d, const struct pair *a, const struct pair *b) {
  void *more;
  struct plan_route_change c = {.change = !a ? PLAN_ADDED : !b ? PLAN_REMOVED : PLAN_CHANGED};
  if (a && b) {
    c.elements = !plan_print_same(a->elements[0], b->elements[0]) || !plan_print_same(a->elements[1], b->elements[1]);
    c.way = !same_way(a, b);
    if (!c.elements && !c.way) {
      d->reschedules += !same_schedule(a, b);
      return true;
    }
  }
  c.from = (a ? a : b)->first->from;
  c.to = (a ? a : b)->first->to;
  c.old_link = (a ? a : b)->first->link;
  c.new_link = (b ? b : a)->first->link;
  c.old_bytes = a ? a->bytes : 0;
  c.new_bytes = b ? b->bytes : 0;
  if (!ROOM(d->routes, d->route_count)) return false;
  d->routes[d->route_count++] = c;
  return true;
}

static bool diff_routes(struct plan_diff *d, const struct plan_meaning *a, const struct plan_meaning *b) {
  size_t i = 0, j = 0;
  while (i < a->route_count || j < b->route_count) {
    int order = i == a->route_count ? 1 : j == b->route_count ? -1 : compare_pairs(&a->routes[i], &b->routes[j]);
    struct pair x, y;
    if (order <= 0) x = next_pair(a, &i);
    if (order >= 0) y = next_pair(b, &j);
    if (!push_route(d, order <= 0 ? &x : NULL, order >= 0 ? &y : NULL)) return false;
  }
  return true;
}

// ---- all -----------------------------------------------------------------------------------------------------------

void plan_diff_figures(const struct plan_diff *d, struct plan_figure out[PLAN_FIGURES]) {
  const struct rsp_summary *a = d->old_plan->summary, *b = d->new_plan->summary;
  const struct rsp_header *h = d->old_plan->header, *g = d->new_plan->header;
  const struct plan_figure all[PLAN_FIGURES] = {
      {"bytes", "wanted", a->wanted_bytes, b->wanted_bytes},
      {"bytes", "local", a->local_bytes, b->local_bytes},
      {"bytes", "nvlink", a->nvlink_bytes, b->nvlink_bytes},
      {"bytes", "network", a->network_bytes, b->network_bytes},
      {"bytes", "network_minimum", a->network_minimum, b->network_minimum},
      {"schedule", "rounds", h->rounds, g->rounds},
      {"schedule", "chunk", h->chunk, g->chunk},
      {"limits", "max_ops", h->max_ops, g->max_ops},
      {"limits", "max_peers", h->max_peers, g->max_peers},
      {"limits", "staging", h->staging_limit, g->staging_limit},
      {"world", "train", h->train_world, g->train_world},
      {"world", "infer", h->infer_world, g->infer_world},
  };
  memcpy(out, all, sizeof all);
}

static bool same_rates(const struct rsp_summary *a, const struct rsp_summary *b) {
  return memcmp(&a->nvlink_bandwidth, &b->nvlink_bandwidth,
                sizeof *a - offsetof(struct rsp_summary, nvlink_bandwidth)) == 0;
}

static uint64_t count_kind(const struct rsp_plan *p, uint32_t kind) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < p->input_count; i++) n += p->inputs[i].kind == kind;
  return n;
}

static bool same_inputs(const struct rsp_plan *a, const struct rsp_plan *b) {
  for (uint32_t kind = RSP_INPUT_TRAIN; kind <= RSP_INPUT_OPTIONS; kind++)
    if (count_kind(a, kind) != count_kind(b, kind)) return false;
  // Equal counts of ascending kinds: the rows stand opposite each other.
  for (uint64_t i = 0; i < a->input_count; i++)
    if (memcmp(a->inputs[i].digest, b->inputs[i].digest, 16) != 0) return false;
  return true;
}

bool plan_diff_of(const struct rsp_plan *old_plan, const struct rsp_plan *new_plan, struct plan_diff *d) {
  *d = (struct plan_diff){.old_plan = old_plan, .new_plan = new_plan};
  struct plan_figure figures[PLAN_FIGURES];
  plan_diff_figures(d, figures);
  for (unsigned i = 0; i < PLAN_FIGURES; i++) {
    bool differs = figures[i].old_value != figures[i].new_value;
    *(strcmp(figures[i].group, "bytes") == 0 ? &d->figures : &d->limits) |= differs;
  }
  d->rates = !same_rates(old_plan->summary, new_plan->summary);
  d->inputs = !same_inputs(old_plan, new_plan);
  struct plan_meaning a, b = {0};
  bool good = plan_meaning_of(old_plan, &a) && plan_meaning_of(new_plan, &b);
  good = good && diff_ranks(d, &a, &b) && diff_tensors(d) && diff_buffers(d, &a, &b) && diff_routes(d, &a, &b);
  // Changes keep rows that live in the meanings.
  d->old_meaning = a;
  d->new_meaning = b;
  if (!good) plan_diff_free(d);
  return good;
}

void plan_diff_free(struct plan_diff *d) {
  for (size_t i = 0; i < d->buffer_count; i++) free(d->buffers[i].ranks);
  free(d->ranks);
  free(d->tensors);
  free(d->buffers);
  free(d->routes);
  plan_meaning_free(&d->old_meaning);
  plan_meaning_free(&d->new_meaning);
  *d = (struct plan_diff){0};
}

bool plan_diff_same(const struct plan_diff *d) {
  return !d->rank_count && !d->tensor_count && !d->buffer_count && !d->route_count && !d->reschedules && !d->figures &&
         !d->limits && !d->rates;
}
