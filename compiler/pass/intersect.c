/* SPDX-License-Identifier: Apache-2.0
 *
 * In: pairs whose coverage is proved. Out: flows in groups. Templates and the buckets they fall into are found once
 * per way of placing a tensor (a *binding*); each tensor then only adds its gids and offsets to the buckets.
 */
#include "compiler/pass/intersect.h"

#include <inttypes.h>
#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/base/seed.h"
#include "plans/format.h"

struct items {
  RSC_VEC(int64_t);
};

/* Stamps of one template among the same ranks with the same conversions. */
struct bucket {
  const struct rsc_template *template;
  enum rsp_dtype wire;
  struct rsc_end *ends;
  int32_t words;
  struct items items;
};

struct bucket_list {
  RSC_VEC(int32_t);
};

struct open_group {
  struct rsc_group group;
  struct bucket_list buckets;
};

struct binding {
  const int32_t *bucket_of; /* per template of the set */
};

struct buckets {
  RSC_VEC(struct bucket);
};
struct open_groups {
  RSC_VEC(struct open_group);
};
struct sets {
  RSC_VEC(struct rsc_templates);
};
struct bindings {
  RSC_VEC(struct binding);
};

struct intersector {
  struct rsc_arena *arena, *scratch;
  const struct rsc_pairs *pairs;
  int64_t direct_min;
  struct rsc_keys *set_keys, *binding_keys, *bucket_keys, *group_keys;
  struct sets sets;
  struct bindings bindings;
  struct buckets buckets;
  struct open_groups groups;
  struct rsc_flows *flows;
  struct rsc_key key;
  struct {
    RSC_VEC(int32_t);
  } families[2]; /* of the tensor at hand */
};

static struct rsc_mention mention_of(const struct rsc_paired_tensor *t, struct rsc_meeting end) {
  return t->by_side[end.wants ? RSC_INFER : RSC_TRAIN].at[end.mention];
}

static struct rsc_end end_of(const struct intersector *x, struct rsc_mention m) {
  const struct rsc_slot *slot = rsc_slot_of(x->pairs, m);
  return (struct rsc_end){rsc_class_of(x->pairs, m.gid)->dtype, slot->op, slot->constant};
}

static int32_t rankset_of(const struct intersector *x, struct rsc_mention m, int32_t occurrence) {
  return rsc_rankmap_of(x->pairs, m.gid)->rankset_of[rsc_slot_of(x->pairs, m)->occurrences[occurrence].entries];
}

static void key_end(struct intersector *x, struct rsc_end end) {
  int32_t words[3] = {(int32_t)end.dtype, end.op, 0};
  memcpy(&words[2], &end.constant, sizeof end.constant);
  rsc_key_add(x->scratch, &x->key, words, sizeof words);
}

/* ---- templates ---- */

static int32_t template_set(struct intersector *x, const struct rsc_paired_tensor *t) {
  struct rsc_meeting_families f;
  x->key.len = 0;
  for (int side = 0; side < 2; side++) {
    x->families[side].len = 0;
    for (int32_t m = 0; m < t->by_side[side].count; m++)
      *RSC_PUSH(x->scratch, &x->families[side]) = rsc_slot_of(x->pairs, t->by_side[side].at[m])->family;
    f.placement[side] = x->pairs->placement[side];
    f.families[side] = x->families[side].at;
    f.counts[side] = t->by_side[side].count;
    rsc_key_int(x->scratch, &x->key, f.counts[side]);
    rsc_key_add(x->scratch, &x->key, f.families[side], (size_t)f.counts[side] * sizeof *f.families[side]);
  }
  bool fresh;
  int32_t id = rsc_keys_id(x->set_keys, x->key.at, x->key.len, &fresh);
  if (fresh) *RSC_PUSH(x->scratch, &x->sets) = rsc_overlap(x->scratch, &f, &x->flows->intersections);
  return id;
}

/* ---- buckets and groups ---- */

static int32_t group_of(struct intersector *x, const struct rsc_paired_tensor *t, const struct rsc_template *tp,
                        bool direct) {
  uint32_t wire_bytes = (uint32_t)rsp_dtype_bytes(t->tensor->dtype);
  int32_t ends = tp->wants + tp->holds, *ranksets = RSC_ARRAY(x->arena, int32_t, ends);
  for (int32_t k = 0; k < ends; k++) ranksets[k] = rankset_of(x, mention_of(t, tp->ends[k]), tp->ends[k].occurrence);
  x->key.len = 0;
  rsc_key_int(x->scratch, &x->key, tp->wants);
  rsc_key_int(x->scratch, &x->key, wire_bytes * 2 + direct);
  rsc_key_add(x->scratch, &x->key, ranksets, (size_t)ends * sizeof *ranksets);
  bool fresh;
  int32_t id = rsc_keys_id(x->group_keys, x->key.at, x->key.len, &fresh);
  if (fresh)
    *RSC_PUSH(x->scratch, &x->groups) = (struct open_group){.group = {.wants = tp->wants,
                                                                      .holds = tp->holds,
                                                                      .ranksets = ranksets,
                                                                      .wire_bytes = wire_bytes,
                                                                      .direct = direct,
                                                                      .min_run = INT64_MAX}};
  return id;
}

static bool moves_bits(struct rsc_end end, enum rsp_dtype wire) {
  return end.dtype == wire && end.op == RSP_OP_COPY;
}

static void key_class(struct intersector *x, struct rsc_mention m) {
  rsc_key_int(x->scratch, &x->key, rsc_placed(x->pairs, m.gid)->klass);
}

static int32_t bucket_of(struct intersector *x, const struct rsc_paired_tensor *t, int32_t set, int32_t index) {
  const struct rsc_template *tp = &x->sets.at[set].at[index];
  enum rsp_dtype wire = t->tensor->dtype;
  int32_t count = tp->wants + tp->holds;
  struct rsc_end *ends = RSC_ARRAY(x->arena, struct rsc_end, count);
  bool bits = true;
  for (int32_t k = 0; k < count; k++) {
    ends[k] = end_of(x, mention_of(t, tp->ends[k]));
    bits &= moves_bits(ends[k], wire);
  }
  bool direct = bits && tp->run * (int64_t)rsp_dtype_bytes(wire) >= x->direct_min;
  int32_t group = group_of(x, t, tp, direct);
  x->key.len = 0;
  int32_t head[4] = {group, set, index, (int32_t)wire};
  rsc_key_add(x->scratch, &x->key, head, sizeof head);
  for (int32_t k = 0; k < count; k++) {
    key_end(x, ends[k]);
    key_class(x, mention_of(t, tp->ends[k])); /* stamps of one pair of classes follow one pattern and fold well */
  }
  bool fresh;
  int32_t id = rsc_keys_id(x->bucket_keys, x->key.at, x->key.len, &fresh);
  if (!fresh) return id;
  *RSC_PUSH(x->scratch, &x->buckets) = (struct bucket){.template = tp, .wire = wire, .ends = ends, .words = 2 * count};
  *RSC_PUSH(x->scratch, &x->groups.at[group].buckets) = id;
  return id;
}

static void key_mention(struct intersector *x, struct rsc_mention m) {
  const struct rsc_slot *slot = rsc_slot_of(x->pairs, m);
  key_end(x, end_of(x, m));
  key_class(x, m);
  for (int32_t o = 0; o < slot->occurrence_count; o++) {
    int32_t set = rankset_of(x, m, o);
    rsc_key_add(x->scratch, &x->key, &set, sizeof set);
  }
}

static const struct binding *binding_of(struct intersector *x, const struct rsc_paired_tensor *t, int32_t set) {
  x->key.len = 0;
  int32_t head[2] = {set, (int32_t)t->tensor->dtype};
  rsc_key_add(x->scratch, &x->key, head, sizeof head);
  for (int side = 0; side < 2; side++)
    for (int32_t m = 0; m < t->by_side[side].count; m++) key_mention(x, t->by_side[side].at[m]);
  bool fresh;
  int32_t id = rsc_keys_id(x->binding_keys, x->key.at, x->key.len, &fresh);
  if (fresh) {
    int32_t count = (int32_t)x->sets.at[set].len;
    int32_t *of = RSC_ARRAY(x->scratch, int32_t, count);
    for (int32_t i = 0; i < count; i++) of[i] = bucket_of(x, t, set, i);
    *RSC_PUSH(x->scratch, &x->bindings) = (struct binding){of};
  }
  return &x->bindings.at[id];
}

/* ---- stamping ---- */

static void stamp(struct intersector *x, const struct rsc_paired_tensor *t, struct bucket *b) {
  const struct rsc_template *tp = b->template;
  RSC_RESERVE(x->scratch, &b->items, b->items.len + (size_t)b->words);
  int64_t *item = b->items.at + b->items.len;
  b->items.len += (size_t)b->words;
  for (int32_t k = 0; k < tp->wants + tp->holds; k++) {
    struct rsc_mention m = mention_of(t, tp->ends[k]);
    int64_t base = rsc_slot_of(x->pairs, m)->occurrences[tp->ends[k].occurrence].base;
    item[2 * k] = m.gid;
    item[2 * k + 1] = (base + tp->nest.base[RSC_F_POS + k]) * (int64_t)rsp_dtype_bytes(b->ends[k].dtype);
  }
}

static void stamp_tensor(struct intersector *x, const struct rsc_paired_tensor *t) {
  int64_t elems = 0;
  int32_t set = template_set(x, t);
  const struct binding *binding = binding_of(x, t, set);
  for (size_t i = 0; i < x->sets.at[set].len; i++) {
    struct bucket *b = &x->buckets.at[binding->bucket_of[i]];
    const struct rsc_template *tp = b->template;
    stamp(x, t, b);
    for (int32_t k = 0; k < tp->wants; k++) {
      int32_t ranks = rankset_of(x, mention_of(t, tp->ends[k]), tp->ends[k].occurrence);
      int64_t copies = tp->elems * x->pairs->placement[RSC_INFER]->ranksets[ranks].count;
      elems += copies;
      x->flows->delivered_bytes += copies * (int64_t)rsp_dtype_bytes(b->ends[k].dtype);
    }
  }
  x->flows->delivered_elems += elems;
  x->flows->delivered_tensors += elems > 0;
}

/* ---- descriptors ---- */

/* One folded list of stamps, its template's loops inside: a descriptor. */
static struct rsc_flow_desc describe(struct intersector *x, const struct bucket *b, const struct rsc_fold *fold) {
  const struct rsc_template *tp = b->template;
  int32_t inner = tp->nest.loop_count - (tp->run > 1), words = b->words;
  struct rsc_flow_desc d = {.run = tp->run, .elems = tp->elems, .wire = b->wire, .ends = b->ends};
  d.loop_count = fold->loop_count + inner;
  int64_t *base = RSC_ARRAY(x->arena, int64_t, words);
  int64_t *loops = RSC_ARRAY(x->arena, int64_t, (size_t)d.loop_count * (size_t)(1 + words));
  memcpy(base, fold->base, (size_t)words * sizeof *base);
  for (int32_t i = 0; i < fold->loop_count; i++) {
    memcpy(loops + i * (1 + words), fold->loops + i * (1 + words), (size_t)(1 + words) * sizeof *loops);
    d.elems *= loops[i * (1 + words)];
  }
  for (int32_t i = 0; i < inner; i++) {
    int64_t *loop = loops + (fold->loop_count + i) * (1 + words);
    loop[0] = rsc_nest_count(&tp->nest, i);
    for (int32_t e = 0; e < tp->wants + tp->holds; e++)
      loop[1 + 2 * e + 1] = rsc_nest_step(&tp->nest, i, RSC_F_POS + e) * (int64_t)rsp_dtype_bytes(b->ends[e].dtype);
  }
  d.base = base;
  d.loops = loops;
  return d;
}

static void finish_group(struct intersector *x, struct open_group *open, struct rsc_group *out) {
  *out = open->group;
  for (size_t i = 0; i < open->buckets.len; i++) {
    struct bucket *b = &x->buckets.at[open->buckets.at[i]];
    int64_t count = (int64_t)b->items.len / b->words;
    struct rsc_folds folds = rsc_fold_items(x->scratch, b->items.at, count, b->words);
    for (size_t k = 0; k < folds.len; k++) *RSC_PUSH(x->arena, &out->descs) = describe(x, b, &folds.at[k]);
    out->elems += b->template->elems * count;
    out->flows += count;
    if (b->template->run < out->min_run) out->min_run = b->template->run;
  }
  x->flows->flow_count += out->flows;
  x->flows->desc_count += (int64_t)out->descs.len;
}

static void seed(struct intersector *x, uint64_t bug) {
  if (!x->buckets.len) return;
  struct bucket *b = &x->buckets.at[x->buckets.len / 2];
  if (bug == RSC_SEED_INTERSECT_SHIFT) {
    int32_t k = b->template->wants; /* the first holder */
    int64_t size = (int64_t)rsp_dtype_bytes(b->ends[k].dtype), *off = &b->items.at[2 * k + 1];
    *off += *off ? -size : size;
  }
  if (bug == RSC_SEED_INTERSECT_DROP) b->items.len -= (size_t)b->words;
}

const struct rsc_flows *rsc_intersect(struct rsc_arena *arena, const struct rsc_pairs *pairs, int64_t direct_min,
                                      uint64_t seed_bug) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct intersector x = {.arena = arena, .scratch = scratch, .pairs = pairs, .direct_min = direct_min};
  x.set_keys = rsc_keys_new(scratch);
  x.binding_keys = rsc_keys_new(scratch);
  x.bucket_keys = rsc_keys_new(scratch);
  x.group_keys = rsc_keys_new(scratch);
  x.flows = RSC_NEW(arena, struct rsc_flows);
  for (int32_t i = 0; i < pairs->tensor_count; i++) stamp_tensor(&x, &pairs->tensors[i]);
  seed(&x, seed_bug);
  struct rsc_group *groups = RSC_ARRAY(arena, struct rsc_group, x.groups.len);
  for (size_t g = 0; g < x.groups.len; g++) finish_group(&x, &x.groups.at[g], &groups[g]);
  x.flows->groups = groups;
  x.flows->group_count = (int32_t)x.groups.len;
  rsc_arena_free(scratch);
  return x.flows;
}
