/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a class and the pins of a buffer. Out: which ranks hold which of its entries, and the set of ranks that holds
 * each set of entries.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/place_impl.h"

struct held {
  int64_t rank;
  int32_t entry;
};

static int by_rank(const void *a, const void *b) {
  int64_t x = ((const struct held *)a)->rank, y = ((const struct held *)b)->rank;
  return x < y ? -1 : x > y;
}

static int32_t intern_rankset(struct placer *p, const int64_t *ranks, int64_t count) {
  bool fresh;
  int32_t id = rsc_keys_id(p->rankset_keys, ranks, (size_t)count * sizeof *ranks, &fresh);
  if (fresh) *RSC_PUSH(p->arena, &p->ranksets) = (struct rsc_rankset){rsc_keys_bytes(p->rankset_keys, id, NULL), count};
  return id;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* The ranks that hold an entry of each entry set of the class. */
static const int32_t *make_ranksets(struct placer *p, const struct rsc_class *c, const struct held *held,
                                    int64_t count) {
  int64_t *start = RSC_ARRAY(p->scratch, int64_t, c->entry_count + 2), *at = start + 1;
  int64_t *by_entry = RSC_ARRAY(p->scratch, int64_t, count), *some = RSC_ARRAY(p->scratch, int64_t, count);
  int32_t *sets = RSC_ARRAY(p->arena, int32_t, c->entry_set_count);
  for (int64_t i = 0; i < count; i++) at[held[i].entry + 1]++;
  for (int32_t e = 0; e < c->entry_count; e++) at[e + 1] += at[e];
  for (int64_t i = 0; i < count; i++) by_entry[at[held[i].entry]++] = held[i].rank; /* now start[e] begins entry e */
  for (int32_t s = 0; s < c->entry_set_count; s++) {
    const struct rsc_entry_set *set = &c->entry_sets[s];
    int64_t found = 0;
    for (int32_t i = 0; i < set->count; i++)
      for (int64_t k = start[set->at[i]]; k < start[set->at[i] + 1]; k++) some[found++] = by_entry[k];
    if (set->count > 1) qsort(some, (size_t)found, sizeof *some, by_value);
    sets[s] = intern_rankset(p, some, found);
  }
  return sets;
}

static struct rsc_rankmap make_rankmap(struct placer *p, const struct rsc_class *c, const int64_t *pins) {
  const struct rsc_mesh *mesh = &p->layout->meshes[c->mesh];
  struct held *held = RSC_ARRAY(p->scratch, struct held, mesh->rank_count);
  int64_t *coords = RSC_ARRAY(p->scratch, int64_t, mesh->axis_count), count = 0;
  for (int64_t at = 0; at < mesh->rank_count; at++) {
    int64_t rest = at, index = 0;
    bool in = true;
    for (int32_t a = mesh->axis_count; a-- > 0;) {
      coords[a] = rest % mesh->axes[a].size;
      rest /= mesh->axes[a].size;
      in &= pins[a] < 0 || pins[a] == coords[a];
    }
    if (!in) continue;
    for (int32_t i = 0; i < c->cut_axis_count; i++)
      index = index * mesh->axes[c->cut_axes[i]].size + coords[c->cut_axes[i]];
    held[count++] = (struct held){mesh->ranks[at], c->entry_of[index]};
  }
  qsort(held, (size_t)count, sizeof *held, by_rank);
  int64_t *ranks = RSC_ARRAY(p->arena, int64_t, count);
  int32_t *entries = RSC_ARRAY(p->arena, int32_t, count);
  for (int64_t i = 0; i < count; i++) {
    ranks[i] = held[i].rank;
    entries[i] = held[i].entry;
  }
  return (struct rsc_rankmap){ranks, entries, count, make_ranksets(p, c, held, count)};
}

int32_t rsc_place_rankmap(struct placer *p, int32_t klass, const int64_t *pins) {
  const struct rsc_class *c = &p->classes.at[klass];
  p->key.len = 0;
  rsc_key_int(p->scratch, &p->key, klass);
  rsc_key_add(p->scratch, &p->key, pins, (size_t)p->layout->meshes[c->mesh].axis_count * sizeof *pins);
  bool fresh;
  int32_t id = rsc_keys_id(p->rankmap_keys, p->key.at, p->key.len, &fresh);
  if (fresh) *RSC_PUSH(p->arena, &p->rankmaps) = make_rankmap(p, c, pins);
  return id;
}
