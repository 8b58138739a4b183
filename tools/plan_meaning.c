// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: its meaning in an order of its own.
#include "tools/plan_meaning.h"

#include <stdlib.h>
#include <string.h>

int plan_compare_names(const char *a, uint64_t a_len, const char *b, uint64_t b_len) {
  uint64_t len = a_len < b_len ? a_len : b_len;
  int order = len ? memcmp(a, b, (size_t)len) : 0;
  return order ? order : (a_len > b_len) - (a_len < b_len);
}

int plan_compare_who(struct plan_who a, struct plan_who b) {
  if (a.train_rank != b.train_rank) return a.train_rank < b.train_rank ? -1 : 1;
  return (a.infer_rank > b.infer_rank) - (a.infer_rank < b.infer_rank);
}

static int compare_rows(const void *a, const void *b) {
  const struct plan_row *x = a, *y = b;
  if (x->side != y->side) return x->side < y->side ? -1 : 1;
  int order = plan_compare_names(x->name, x->name_len, y->name, y->name_len);
  return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static int compare_routes(const void *a, const void *b) {
  const struct plan_route *x = a, *y = b;
  int order = plan_compare_who(x->from, y->from);
  if (!order) order = plan_compare_who(x->to, y->to);
  if (order) return order;
  const uint64_t a_words[] = {x->end, x->kind, x->bytes, x->round0, x->quantum, x->step};
  const uint64_t b_words[] = {y->end, y->kind, y->bytes, y->round0, y->quantum, y->step};
  for (size_t i = 0; !order && i < sizeof a_words / sizeof a_words[0]; i++)
    order = (a_words[i] > b_words[i]) - (a_words[i] < b_words[i]);
  return order;
}

// The elements of a piece, whatever its tensor: where each is in the buffer and in the tensor, and by which op.
static struct plan_print print_piece(const struct rsp_plan *plan, const struct rsp_piece *piece) {
  struct plan_print print = plan_print_at((int64_t)piece->b0, (int64_t)piece->t0);
  for (uint32_t i = 0; i < piece->loop_count; i++) {
    const struct rsp_ploop *l = &plan->ploops[piece->loops + i];
    print = plan_print_mul(print, plan_print_sum(plan_print_at((int64_t)l->b_step, (int64_t)l->t_step), l->count));
  }
  return plan_print_mul(print, plan_print_hash(&piece->constant, sizeof piece->constant, piece->op));
}

struct prints {
  const struct rsp_plan *plan;
  struct plan_print *pieces, *tensors, pad, gap;
  struct plan_print *entries; /* of the buffer at hand */
};

static void free_prints(struct prints *p) {
  free(p->pieces);
  free(p->tensors);
  free(p->entries);
}

static bool make_prints(const struct rsp_plan *plan, struct prints *p) {
  uint64_t pieces = plan->header->sections[RSP_SEC_PIECES].count, most = 0;
  for (uint64_t c = 0; c < plan->class_count; c++)
    if (plan->classes[c].entry_count > most) most = plan->classes[c].entry_count;
  *p = (struct prints){.plan = plan,
                       .pieces = calloc((size_t)pieces + 1, sizeof *p->pieces),
                       .tensors = calloc((size_t)plan->tensor_count + 1, sizeof *p->tensors),
                       .entries = calloc((size_t)most + 1, sizeof *p->entries),
                       .pad = plan_print_hash("", 0, 1),
                       .gap = plan_print_hash("", 0, 2)};
  if (!p->pieces || !p->tensors || !p->entries) {
    free_prints(p);
    return false;
  }
  for (uint64_t i = 0; i < pieces; i++) p->pieces[i] = print_piece(plan, &plan->pieces[i]);
  for (uint64_t i = 0; i < plan->tensor_count; i++) {
    const struct rsp_str *name = &plan->tensors[i].name;
    p->tensors[i] = plan_print_hash(plan->strings + name->off, (size_t)name->len, 3);
  }
  return true;
}

static struct plan_print print_entry(const struct prints *p, const struct rsp_buffer *b,
                                     const struct rsp_entry *entry) {
  struct plan_print sum = {{0}};
  for (uint64_t i = entry->pieces; i < entry->pieces + entry->piece_count; i++) {
    uint32_t slot = p->plan->pieces[i].slot;
    struct plan_print what = slot == RSP_SLOT_PAD   ? p->pad
                             : slot == RSP_SLOT_GAP ? p->gap
                                                    : p->tensors[p->plan->slots[b->slots + slot]];
    sum = plan_print_add(sum, plan_print_mul(p->pieces[i], what));
  }
  return sum;
}

static void add_rows(struct plan_meaning *m, const struct prints *p, const struct rsp_buffer *b) {
  const struct rsp_plan *plan = p->plan;
  const struct rsp_class *k = &plan->classes[b->klass];
  const struct rsp_rankmap *map = &plan->rankmaps[b->rankmap];
  for (uint64_t e = 0; e < k->entry_count; e++) p->entries[e] = print_entry(p, b, &plan->entries[k->entries + e]);
  for (uint64_t i = map->holds; i < map->holds + map->count; i++) {
    const struct rsp_hold *hold = &plan->holds[i];
    const struct rsp_entry *entry = &plan->entries[k->entries + hold->entry];
    m->rows[m->row_count++] = (struct plan_row){.name = plan->strings + b->name.off,
                                                .name_len = b->name.len,
                                                .side = b->side,
                                                .rank = hold->rank,
                                                .dtype = b->dtype,
                                                .ndim = entry->ndim,
                                                .dims = plan->dims + entry->dims,
                                                .elements = p->entries[hold->entry]};
  }
}

static bool add_all_rows(struct plan_meaning *m) {
  const struct rsp_plan *plan = m->plan;
  struct prints prints;
  uint64_t count = 0;
  for (uint64_t i = 0; i < plan->buffer_count; i++) count += plan->rankmaps[plan->buffers[i].rankmap].count;
  m->rows = calloc((size_t)count + 1, sizeof *m->rows);
  if (!m->rows || !make_prints(plan, &prints)) return false;
  for (uint64_t i = 0; i < plan->buffer_count; i++) add_rows(m, &prints, &plan->buffers[i]);
  free_prints(&prints);
  if (m->row_count) qsort(m->rows, m->row_count, sizeof *m->rows, compare_rows);
  return true;
}

static int compare_seats(const void *a, const void *b) {
  const struct plan_seat *x = a, *y = b;
  return plan_compare_who(x->who, y->who);
}

static bool add_seats(struct plan_meaning *m) {
  uint32_t world = m->plan->header->world;
  m->seats = calloc(world, sizeof *m->seats);
  for (uint32_t r = 0; m->seats && r < world; r++)
    m->seats[r] = (struct plan_seat){{m->plan->ranks[r].train_rank, m->plan->ranks[r].infer_rank}, r};
  if (m->seats) qsort(m->seats, world, sizeof *m->seats, compare_seats);
  return m->seats != NULL;
}

bool plan_meaning_of(const struct rsp_plan *plan, struct plan_meaning *m) {
  *m = (struct plan_meaning){.plan = plan};
  bool good = add_all_rows(m) && add_seats(m) && plan_routes_of(plan, &m->routes, &m->route_count);
  if (!good)
    plan_meaning_free(m);
  else if (m->route_count)
    qsort(m->routes, m->route_count, sizeof *m->routes, compare_routes);
  return good;
}

void plan_meaning_free(struct plan_meaning *m) {
  free(m->rows);
  free(m->routes);
  free(m->seats);
  *m = (struct plan_meaning){0};
}
