/* SPDX-License-Identifier: Apache-2.0
 *
 * In: pairs and a cluster. Out: the network minimum. Tensors placed alike over the same ranks are counted once; for
 * each of these, NVLink domains that want and hold alike are counted once.
 */
#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/pass/route.h"

struct domains {
  const int32_t *at;
  int32_t count;
};

struct minimum {
  struct rsc_arena *scratch, *parts; /* parts: of the shape at hand */
  const struct rsc_pairs *pairs;
  const struct rsc_cluster *cluster;
  int64_t *intersections;
  struct domains *of_set[2]; /* per side and rank set: the domains its ranks live in, ascending */
};

struct shape_list {
  RSC_VEC(int32_t);
};

static struct domains find_domains(struct minimum *m, enum rsc_side side, const struct rsc_rankset *set) {
  bool *seen = RSC_ARRAY(m->scratch, bool, m->cluster->domain_count);
  const int64_t *world = side == RSC_TRAIN ? m->cluster->world_of_train : m->cluster->world_of_infer;
  int32_t count = 0, *at = RSC_ARRAY(m->scratch, int32_t, set->count);
  for (int64_t i = 0; i < set->count; i++) {
    int32_t d = m->cluster->hosts[m->cluster->processes[world[set->ranks[i]]].host].domain;
    if (!seen[d]) at[count++] = d;
    seen[d] = true;
  }
  return (struct domains){at, count};
}

/* parts := parts minus shape; `rest` is kept for its memory. */
static void subtract(struct minimum *m, struct rsc_nests *parts, struct rsc_nests *rest,
                     const struct rsc_shape *shape) {
  struct rsc_budget unbounded = {INT64_MAX}; /* intersect has been through these within its own */
  for (size_t q = 0; q < shape->nests.len; q++) {
    rest->len = 0;
    int64_t lo = shape->nests.at[q].base[RSC_F_TENSOR];
    int64_t hi = lo + rsc_nest_extent(&shape->nests.at[q], RSC_F_TENSOR);
    for (size_t i = 0; i < parts->len; i++) {
      int64_t first = parts->at[i].base[RSC_F_TENSOR];
      if (first > hi || first + rsc_nest_extent(&parts->at[i], RSC_F_TENSOR) < lo) {
        *RSC_PUSH(m->parts, rest) = parts->at[i];
        continue;
      }
      ++*m->intersections;
      rsc_nest_split(m->parts, &parts->at[i], &shape->nests.at[q], 3, &unbounded, NULL, rest);
    }
    struct rsc_nests left = *rest;
    *rest = *parts;
    *parts = left;
  }
}

/* Elements of the union of `wanted` that are not in the union of `held`. */
static int64_t count_missing(struct minimum *m, const struct shape_list *wanted, const struct shape_list *held) {
  const struct rsc_shape *want = m->pairs->placement[RSC_INFER]->shapes;
  const struct rsc_shape *hold = m->pairs->placement[RSC_TRAIN]->shapes;
  int64_t elems = 0;
  for (size_t w = 0; w < wanted->len; w++) {
    const struct rsc_shape *shape = &want[wanted->at[w]];
    rsc_arena_reset(m->parts);
    struct rsc_nests parts = {0}, rest = {0};
    for (size_t i = 0; i < shape->nests.len; i++)
      *RSC_PUSH(m->parts, &parts) = rsc_nest_copy(m->parts, &shape->nests.at[i], 4);
    for (size_t k = 0; k < w && parts.len; k++) {
      const struct rsc_shape *before = &want[wanted->at[k]];
      if (before->t_max >= shape->t_min && before->t_min <= shape->t_max) subtract(m, &parts, &rest, before);
    }
    for (size_t k = 0; k < held->len && parts.len; k++) {
      const struct rsc_shape *has = &hold[held->at[k]];
      if (has->t_max >= shape->t_min && has->t_min <= shape->t_max) subtract(m, &parts, &rest, has);
    }
    for (size_t i = 0; i < parts.len; i++) elems += rsc_nest_elems(&parts.at[i]);
  }
  return elems;
}

/* Adds each occurrence's shape to the lists of the domains where a rank holds it; equal shapes of one list once. */
static void spread(struct minimum *m, const struct rsc_mentions *mentions, enum rsc_side side,
                   struct shape_list *lists) {
  for (int32_t i = 0; i < mentions->count; i++) {
    const struct rsc_slot *slot = rsc_slot_of(m->pairs, mentions->at[i]);
    const struct rsc_rankmap *map = rsc_rankmap_of(m->pairs, mentions->at[i].gid);
    for (int32_t o = 0; o < slot->occurrence_count; o++) {
      int32_t shape = slot->occurrences[o].shape;
      struct domains d = m->of_set[side][map->rankset_of[slot->occurrences[o].entries]];
      for (int32_t k = 0; k < d.count; k++) {
        struct shape_list *list = &lists[d.at[k]];
        bool seen = false;
        for (size_t j = 0; j < list->len && !seen; j++) seen = list->at[j] == shape;
        if (!seen) *RSC_PUSH(m->scratch, list) = shape;
      }
    }
  }
}

/* Only what is delivered counts: an excused element has no supplier. */
static int64_t count_excused(struct minimum *m, const struct shape_list *wanted, const struct rsc_paired_tensor *t) {
  if (!t->skip_train) return 0;
  struct shape_list all = {0};
  for (int32_t i = 0; i < t->by_side[RSC_TRAIN].count; i++) {
    const struct rsc_slot *slot = rsc_slot_of(m->pairs, t->by_side[RSC_TRAIN].at[i]);
    for (int32_t o = 0; o < slot->occurrence_count; o++) *RSC_PUSH(m->scratch, &all) = slot->occurrences[o].shape;
  }
  return count_missing(m, wanted, &all);
}

/* Elements of one tensor per domain, into `elems`. Domains that want and hold alike are worked out once. */
static void tensor_minimum(struct minimum *m, const struct rsc_paired_tensor *t, int64_t *elems) {
  int64_t domains = m->cluster->domain_count;
  struct rsc_keys *memo = rsc_keys_new(m->scratch);
  int64_t *values = RSC_ARRAY(m->scratch, int64_t, domains);
  struct shape_list *wanted = RSC_ARRAY(m->scratch, struct shape_list, domains);
  struct shape_list *held = RSC_ARRAY(m->scratch, struct shape_list, domains);
  spread(m, &t->by_side[RSC_INFER], RSC_INFER, wanted);
  spread(m, &t->by_side[RSC_TRAIN], RSC_TRAIN, held);
  int32_t known = 0;
  for (int64_t d = 0; d < domains; d++) {
    if (!wanted[d].len) continue;
    struct rsc_key key = {0};
    rsc_key_int(m->scratch, &key, (int64_t)wanted[d].len);
    rsc_key_add(m->scratch, &key, wanted[d].at, wanted[d].len * sizeof *wanted[d].at);
    rsc_key_add(m->scratch, &key, held[d].at, held[d].len * sizeof *held[d].at);
    bool fresh;
    int32_t id = rsc_keys_id(memo, key.at, key.len, &fresh);
    if (fresh) values[known++] = count_missing(m, &wanted[d], &held[d]) - count_excused(m, &wanted[d], t);
    elems[d] = values[id];
  }
}

/* What makes two tensors cost the same: their families and the ranks of each occurrence. */
static void key_tensor(struct minimum *m, struct rsc_key *key, const struct rsc_paired_tensor *t) {
  key->len = 0;
  rsc_key_int(m->scratch, key, t->skip_train);
  for (int s = 0; s < 2; s++) {
    rsc_key_int(m->scratch, key, t->by_side[s].count);
    for (int32_t k = 0; k < t->by_side[s].count; k++) {
      const struct rsc_slot *slot = rsc_slot_of(m->pairs, t->by_side[s].at[k]);
      const struct rsc_rankmap *map = rsc_rankmap_of(m->pairs, t->by_side[s].at[k].gid);
      rsc_key_int(m->scratch, key, slot->family);
      for (int32_t o = 0; o < slot->occurrence_count; o++)
        rsc_key_int(m->scratch, key, map->rankset_of[slot->occurrences[o].entries]);
    }
  }
}

/* Tensors that cost the same, together. */
struct kind {
  int64_t *elems; /* per domain */
  int64_t bytes;  /* element sizes of the tensors, added up */
};

int64_t rsc_network_minimum(const struct rsc_pairs *pairs, const struct rsc_cluster *cluster, int64_t *by_domain,
                            int64_t *intersections) {
  struct minimum m = {rsc_arena_new(), rsc_arena_new(), pairs, cluster, intersections, {NULL, NULL}};
  for (int s = 0; s < 2; s++) {
    const struct rsc_placement *p = pairs->placement[s];
    m.of_set[s] = RSC_ARRAY(m.scratch, struct domains, p->rankset_count);
    for (int32_t i = 0; i < p->rankset_count; i++) m.of_set[s][i] = find_domains(&m, (enum rsc_side)s, &p->ranksets[i]);
  }
  struct rsc_keys *keys = rsc_keys_new(m.scratch);
  struct {
    RSC_VEC(struct kind);
  } kinds = {0};
  struct rsc_key key = {0};
  for (int32_t i = 0; i < pairs->tensor_count; i++) {
    const struct rsc_paired_tensor *t = &pairs->tensors[i];
    bool fresh;
    key_tensor(&m, &key, t);
    int32_t id = rsc_keys_id(keys, key.at, key.len, &fresh);
    if (fresh) {
      struct kind *k = RSC_PUSH(m.scratch, &kinds);
      *k = (struct kind){RSC_ARRAY(m.scratch, int64_t, cluster->domain_count), 0};
      tensor_minimum(&m, t, k->elems);
    }
    kinds.at[id].bytes += (int64_t)rsp_dtype_bytes(t->tensor->dtype);
  }
  int64_t total = 0;
  for (int64_t d = 0; d < cluster->domain_count; d++) {
    by_domain[d] = 0;
    for (size_t k = 0; k < kinds.len; k++) by_domain[d] += kinds.at[k].elems[d] * kinds.at[k].bytes;
    total += by_domain[d];
  }
  rsc_arena_free(m.scratch);
  rsc_arena_free(m.parts);
  return total;
}
