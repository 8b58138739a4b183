/* SPDX-License-Identifier: Apache-2.0
 *
 * In: flows. Out: the same with every group staged, in the order in which intersect would have found them so: groups
 * stand in the order of their first flows, so one that is joined to an earlier one leaves that where it is.
 */
#include "compiler/base/keys.h"
#include "compiler/pass/intersect.h"

struct groups {
  RSC_VEC(struct rsc_group);
};

static int32_t key_of(struct rsc_arena *scratch, struct rsc_keys *keys, struct rsc_key *key, const struct rsc_group *g,
                      bool *fresh) {
  int32_t head[2] = {g->wants, (int32_t)g->wire_bytes};
  key->len = 0;
  rsc_key_add(scratch, key, head, sizeof head);
  rsc_key_add(scratch, key, g->ranksets, (size_t)(g->wants + g->holds) * sizeof *g->ranksets);
  return rsc_keys_id(keys, key->at, key->len, fresh);
}

/* All descriptors of one flow list stand together in both. */
static struct rsc_flow_descs merge(struct rsc_arena *arena, const struct rsc_flow_descs *a,
                                   const struct rsc_flow_descs *b) {
  struct rsc_flow_descs out = {0};
  RSC_RESERVE(arena, &out, a->len + b->len);
  for (size_t i = 0, k = 0; i < a->len || k < b->len;) {
    bool first = k == b->len || (i < a->len && a->at[i].order < b->at[k].order);
    *RSC_PUSH(arena, &out) = first ? a->at[i++] : b->at[k++];
  }
  return out;
}

static void join(struct rsc_arena *arena, struct rsc_group *to, const struct rsc_group *from) {
  to->descs = merge(arena, &to->descs, &from->descs);
  if (from->min_run < to->min_run) to->min_run = from->min_run;
  to->elems += from->elems;
  to->flows += from->flows;
}

const struct rsc_flows *rsc_flows_packed(struct rsc_arena *arena, const struct rsc_flows *flows) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct rsc_keys *keys = rsc_keys_new(scratch);
  struct rsc_key key = {0};
  struct groups groups = {0};
  RSC_RESERVE(arena, &groups, flows->group_count);
  for (int32_t i = 0; i < flows->group_count; i++) {
    if (!flows->groups[i].descs.len) continue; /* a seeded bug's */
    bool fresh;
    int32_t id = key_of(scratch, keys, &key, &flows->groups[i], &fresh);
    if (fresh) {
      *RSC_PUSH(arena, &groups) = flows->groups[i];
      groups.at[id].direct = false;
    } else {
      join(arena, &groups.at[id], &flows->groups[i]);
    }
  }
  struct rsc_flows *packed = RSC_NEW(arena, struct rsc_flows);
  *packed = *flows;
  packed->groups = groups.at;
  packed->group_count = (int32_t)groups.len;
  rsc_arena_free(scratch);
  return packed;
}
