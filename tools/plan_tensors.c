// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan and a glob. Out: which buffers on which ranks hold elements of the tensors that match.
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_show.h"

bool plan_name_matches(const char *glob, const char *table, struct rsp_str name) {
  char *copy = strndup(table + name.off, (size_t)name.len);
  bool matches = copy && fnmatch(glob, copy, FNM_NOESCAPE) == 0;
  free(copy);
  return matches;
}

struct homes {
  const struct rsp_plan *plan;
  const bool *matches; /* per tensor */
  struct plan_home *at;
  size_t count, capacity;
};

static struct plan_home *push(struct homes *h, uint64_t rank_room) {
  if (h->count == h->capacity) {
    size_t capacity = h->capacity ? h->capacity * 2 : 32;
    struct plan_home *at = realloc(h->at, capacity * sizeof *at);
    if (!at) return NULL;
    h->at = at;
    h->capacity = capacity;
  }
  struct plan_home *home = &h->at[h->count];
  *home = (struct plan_home){.ranks = calloc((size_t)rank_room + 1, sizeof *home->ranks)};
  if (!home->ranks) return NULL;
  h->count++;
  return home;
}

static uint64_t piece_elems(const struct rsp_plan *plan, const struct rsp_piece *piece) {
  uint64_t elems = 1;
  for (uint32_t i = 0; i < piece->loop_count; i++) elems *= plan->ploops[piece->loops + i].count;
  return elems;
}

// Elements of each slot in each entry: table[entry * slot_count + slot].
static uint64_t *count_entries(const struct rsp_plan *plan, const struct rsp_class *k) {
  uint64_t *table = calloc((size_t)(k->entry_count * k->slot_count) + 1, sizeof *table);
  for (uint64_t e = 0; table && e < k->entry_count; e++) {
    const struct rsp_entry *entry = &plan->entries[k->entries + e];
    for (uint64_t i = 0; i < entry->piece_count; i++) {
      const struct rsp_piece *piece = &plan->pieces[entry->pieces + i];
      if (piece->slot < k->slot_count) table[e * k->slot_count + piece->slot] += piece_elems(plan, piece);
    }
  }
  return table;
}

// Ranks of one buffer that hold equally many elements of the slot's tensor are one home.
static bool add_slot(struct homes *h, const struct rsp_buffer *b, uint32_t slot, const uint64_t *table) {
  const struct rsp_class *k = &h->plan->classes[b->klass];
  const struct rsp_rankmap *map = &h->plan->rankmaps[b->rankmap];
  size_t first = h->count;
  for (uint64_t i = 0; i < map->count; i++) {
    const struct rsp_hold *hold = &h->plan->holds[map->holds + i];
    uint64_t elems = table[(uint64_t)hold->entry * k->slot_count + slot];
    struct plan_home *home = NULL;
    for (size_t j = first; j < h->count && !home; j++)
      if (h->at[j].elems == elems) home = &h->at[j];
    if (!elems) continue;
    if (!home && !(home = push(h, map->count))) return false;
    home->tensor = h->plan->slots[b->slots + slot];
    home->buffer = b;
    home->elems = elems;
    home->ranks[home->rank_count++] = hold->rank;
  }
  return true;
}

static bool add_buffer(struct homes *h, const struct rsp_buffer *b) {
  uint32_t slots = h->plan->classes[b->klass].slot_count, wanted = 0;
  for (uint32_t s = 0; s < slots; s++) wanted += h->matches[h->plan->slots[b->slots + s]];
  if (!wanted) return true;
  uint64_t *table = count_entries(h->plan, &h->plan->classes[b->klass]);
  bool good = table != NULL;
  for (uint32_t s = 0; good && s < slots; s++)
    if (h->matches[h->plan->slots[b->slots + s]]) good = add_slot(h, b, s, table);
  free(table);
  return good;
}

static int compare(const void *a, const void *b) {
  const struct plan_home *x = a, *y = b;
  if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
  if (x->buffer != y->buffer) return x->buffer < y->buffer ? -1 : 1;
  return x->ranks[0] < y->ranks[0] ? -1 : x->ranks[0] > y->ranks[0];
}

void plan_homes_free(struct plan_home *homes, size_t count) {
  for (size_t i = 0; i < count; i++) free(homes[i].ranks);
  free(homes);
}

bool plan_homes_of(const struct rsp_plan *plan, const char *glob, struct plan_home **homes, size_t *count) {
  bool *matches = calloc((size_t)plan->tensor_count + 1, sizeof *matches);
  struct homes h = {.plan = plan, .matches = matches};
  bool good = matches != NULL;
  for (uint64_t i = 0; good && i < plan->tensor_count; i++)
    matches[i] = plan_name_matches(glob, plan->strings, plan->tensors[i].name);
  for (uint64_t i = 0; good && i < plan->buffer_count; i++) good = add_buffer(&h, &plan->buffers[i]);
  free(matches);
  if (!good) {
    plan_homes_free(h.at, h.count);
    return false;
  }
  if (h.count) qsort(h.at, h.count, sizeof *h.at, compare);
  *homes = h.at;
  *count = h.count;
  return true;
}
