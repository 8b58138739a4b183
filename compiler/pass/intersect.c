/* SPDX-License-Identifier: Apache-2.0
 *
 * In: pairs whose coverage is proved. Out: flows in groups. Templates and the buckets they fall into are found once
 * per way of placing a tensor (a *binding*), the loops over a bucket's tensors once per list of bindings and pattern of
 * their steps.
 */
#include "compiler/pass/intersect.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/base/keys.h"
#include "compiler/base/seed.h"
#include "compiler/pass/pair.h"
#include "plans/format.h"

/* Stamps of one template among the same ranks with the same conversions. */
struct bucket {
  const struct rsc_template *template;
  enum rsp_dtype wire;
  struct rsc_end *ends;
  int32_t group;
  struct rsc_key bindings; /* int32_t each: whose tensors are stamped here */
};

struct bucket_list {
  RSC_VEC(int32_t);
};

struct open_group {
  struct rsc_group group;
  struct bucket_list buckets;
};

/* Tensors that are placed alike: their flows differ in buffers and offsets only. */
struct binding {
  int32_t set;
  const int32_t *bucket_of; /* per template of the set */
  struct {
    RSC_VEC(int32_t);
  } tensors;
};

/* A slot's meaning without its tensor and position. */
struct slot_kinds {
  const int32_t *of; /* per slot of the class */
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
  struct rsc_diag *diag;
  const struct rsc_pairs *pairs;
  int64_t pieces, direct_min;
  uint64_t seed_bug;
  struct rsc_keys *set_keys, *binding_keys, *bucket_keys, *group_keys;
  struct slot_kinds *kinds[2]; /* per side and class */
  struct sets sets;
  struct bindings bindings;
  struct buckets buckets;
  struct open_groups groups;
  struct rsc_keys *series_keys; /* lists of bindings */
  struct {
    RSC_VEC(const struct rsc_series *);
  } series;
  struct rsc_folder *folder;
  struct rsc_flows *flows;
  bool spent; /* the templates of some tensor were too many */
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
  if (!fresh) return id;
  struct rsc_budget budget = rsc_overlap_budget(x->pairs, t, x->pieces);
  struct rsc_templates templates = rsc_overlap(x->scratch, &f, &budget, &x->flows->intersections);
  if (rsc_budget_spent(&budget)) {
    rsc_overlap_spent(x->diag, x->pairs, t);
    x->spent = true;
    templates.len = 0;
  }
  *RSC_PUSH(x->scratch, &x->sets) = templates;
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
  *RSC_PUSH(x->scratch, &x->buckets) = (struct bucket){.template = tp, .wire = wire, .ends = ends, .group = group};
  *RSC_PUSH(x->scratch, &x->groups.at[group].buckets) = id;
  return id;
}

/* ---- bindings ---- */

static void number_slots(struct intersector *x, enum rsc_side side) {
  const struct rsc_placement *p = x->pairs->placement[side];
  struct rsc_keys *keys = rsc_keys_new(x->scratch);
  x->kinds[side] = RSC_ARRAY(x->scratch, struct slot_kinds, p->class_count);
  for (int32_t c = 0; c < p->class_count; c++) {
    int32_t *of = RSC_ARRAY(x->scratch, int32_t, p->classes[c].slot_count);
    for (int32_t s = 0; s < p->classes[c].slot_count; s++) {
      const struct rsc_slot *slot = &p->classes[c].slots[s];
      x->key.len = 0;
      int32_t head[2] = {c, slot->family};
      rsc_key_add(x->scratch, &x->key, head, sizeof head);
      key_end(x, (struct rsc_end){p->classes[c].dtype, slot->op, slot->constant});
      for (int32_t o = 0; o < slot->occurrence_count; o++)
        rsc_key_add(x->scratch, &x->key, &slot->occurrences[o].entries, sizeof slot->occurrences[o].entries);
      of[s] = rsc_keys_id(keys, x->key.at, x->key.len, NULL);
    }
    x->kinds[side][c].of = of;
  }
}

static void bind(struct intersector *x, const struct rsc_paired_tensor *t, struct binding *binding, int32_t id) {
  binding->set = template_set(x, t);
  int32_t count = (int32_t)x->sets.at[binding->set].len, *of = RSC_ARRAY(x->scratch, int32_t, count);
  for (int32_t i = 0; i < count; i++) {
    of[i] = bucket_of(x, t, binding->set, i);
    rsc_key_add(x->scratch, &x->buckets.at[of[i]].bindings, &id, sizeof id);
  }
  binding->bucket_of = of;
}

static void bind_tensor(struct intersector *x, int32_t tensor) {
  const struct rsc_paired_tensor *t = &x->pairs->tensors[tensor];
  x->key.len = 0;
  int32_t head[3] = {(int32_t)t->tensor->dtype, t->by_side[RSC_TRAIN].count, t->by_side[RSC_INFER].count};
  rsc_key_add(x->scratch, &x->key, head, sizeof head);
  for (int side = 0; side < 2; side++)
    for (int32_t m = 0; m < t->by_side[side].count; m++) {
      struct rsc_mention mention = t->by_side[side].at[m];
      const struct rsc_placed_buffer *placed = rsc_placed(x->pairs, mention.gid);
      int32_t words[2] = {x->kinds[side][placed->klass].of[mention.slot], placed->rankmap};
      rsc_key_add(x->scratch, &x->key, words, sizeof words);
    }
  bool fresh;
  int32_t id = rsc_keys_id(x->binding_keys, x->key.at, x->key.len, &fresh);
  if (fresh) {
    struct binding binding = {0};
    bind(x, t, &binding, id);
    *RSC_PUSH(x->scratch, &x->bindings) = binding;
  }
  *RSC_PUSH(x->scratch, &x->bindings.at[id].tensors) = tensor;
}

/* What the inference side receives for the tensors of a binding. */
static void count_delivered(struct intersector *x, const struct binding *binding) {
  const struct rsc_paired_tensor *t = &x->pairs->tensors[binding->tensors.at[0]];
  int64_t elems = 0, tensors = (int64_t)binding->tensors.len;
  for (size_t i = 0; i < x->sets.at[binding->set].len; i++) {
    const struct bucket *b = &x->buckets.at[binding->bucket_of[i]];
    const struct rsc_template *tp = b->template;
    for (int32_t k = 0; k < tp->wants; k++) {
      int32_t ranks = rankset_of(x, mention_of(t, tp->ends[k]), tp->ends[k].occurrence);
      int64_t copies = tp->elems * x->pairs->placement[RSC_INFER]->ranksets[ranks].count;
      elems += copies;
      x->flows->delivered_bytes += tensors * copies * (int64_t)rsp_dtype_bytes(b->ends[k].dtype);
    }
  }
  x->flows->delivered_elems += tensors * elems;
  x->flows->delivered_tensors += elems > 0 ? tensors : 0;
}

/* ---- descriptors ---- */

/* Each end's buffer and byte offset for one tensor. */
static void stamp(const struct intersector *x, const struct bucket *b, int32_t tensor, int64_t *words) {
  const struct rsc_template *tp = b->template;
  const struct rsc_paired_tensor *t = &x->pairs->tensors[tensor];
  for (int32_t k = 0; k < tp->wants + tp->holds; k++) {
    struct rsc_mention m = mention_of(t, tp->ends[k]);
    int64_t base = rsc_slot_of(x->pairs, m)->occurrences[tp->ends[k].occurrence].base;
    words[2 * k] = m.gid;
    words[2 * k + 1] = (base + tp->nest.base[RSC_F_POS + k]) * (int64_t)rsp_dtype_bytes(b->ends[k].dtype);
  }
}

static bool is_seeded(const struct intersector *x, const struct bucket *b, uint64_t bug) {
  return x->seed_bug == bug && b == &x->buckets.at[x->buckets.len / 2];
}

/* The first holder's bytes are taken from a place beside. */
static void shift(const struct bucket *b, int64_t *base) {
  int32_t k = b->template->wants;
  int64_t size = (int64_t)rsp_dtype_bytes(b->ends[k].dtype), *off = &base[2 * k + 1];
  *off += *off ? -size : size;
}

/* Tensors in nested loops, the template's loops inside: a descriptor. */
static struct rsc_flow_desc describe(struct intersector *x, const struct bucket *b, const struct rsc_series *series,
                                     const struct rsc_tensor_loops *outer) {
  const struct rsc_template *tp = b->template;
  int32_t ends = tp->wants + tp->holds, words = 2 * ends, inner = tp->nest.loop_count - (tp->run > 1);
  struct rsc_flow_desc d = {.run = tp->run, .elems = tp->elems, .wire = b->wire, .ends = b->ends};
  d.loop_count = outer->loop_count + inner;
  d.order = (int32_t)(b - x->buckets.at);
  int64_t *base = RSC_ARRAY(x->arena, int64_t, words);
  int64_t *loops = RSC_ARRAY(x->arena, int64_t, (size_t)d.loop_count * (size_t)(1 + words));
  stamp(x, b, series->tensors[outer->first], base);
  int64_t distance = 1; /* in tensors, from one turn of the loop to the next */
  for (int32_t i = outer->loop_count; i-- > 0;) {
    int64_t *loop = loops + i * (1 + words);
    loop[0] = outer->counts[i];
    stamp(x, b, series->tensors[outer->first + distance], loop + 1);
    for (int32_t w = 0; w < words; w++) loop[1 + w] -= base[w];
    distance *= outer->counts[i];
  }
  d.elems *= distance;
  for (int32_t i = 0; i < inner; i++) {
    int64_t *loop = loops + (outer->loop_count + i) * (1 + words);
    loop[0] = rsc_nest_count(&tp->nest, i);
    for (int32_t e = 0; e < ends; e++)
      loop[1 + 2 * e + 1] = rsc_nest_step(&tp->nest, i, RSC_F_POS + e) * (int64_t)rsp_dtype_bytes(b->ends[e].dtype);
  }
  if (!outer->first && is_seeded(x, b, RSC_SEED_INTERSECT_SHIFT)) shift(b, base);
  d.base = base;
  d.loops = loops;
  return d;
}

static int by_number(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The tensors of several bindings, ascending. */
static const int32_t *join_tensors(struct intersector *x, const int32_t *bindings, size_t count, int32_t *joined) {
  size_t len = 0, at = 0;
  for (size_t i = 0; i < count; i++) len += x->bindings.at[bindings[i]].tensors.len;
  *joined = (int32_t)len;
  if (count == 1) return x->bindings.at[bindings[0]].tensors.at;
  int32_t *tensors = RSC_ARRAY(x->scratch, int32_t, len);
  for (size_t i = 0; i < count; i++) {
    const struct binding *b = &x->bindings.at[bindings[i]];
    memcpy(tensors + at, b->tensors.at, b->tensors.len * sizeof *tensors);
    at += b->tensors.len;
  }
  qsort(tensors, len, sizeof *tensors, by_number);
  return tensors;
}

/* The tensors that a bucket's template is stamped on. */
static const struct rsc_series *series_of(struct intersector *x, const struct bucket *b) {
  bool fresh;
  int32_t id = rsc_keys_id(x->series_keys, b->bindings.at, b->bindings.len, &fresh);
  if (fresh) {
    const int32_t *bindings = (const void *)b->bindings.at;
    int32_t count;
    const int32_t *tensors = join_tensors(x, bindings, b->bindings.len / sizeof *bindings, &count);
    *RSC_PUSH(x->scratch, &x->series) = rsc_series_new(x->folder, tensors, count);
  }
  return x->series.at[id];
}

static void finish_bucket(struct intersector *x, int32_t bucket, struct rsc_group *out) {
  const struct bucket *b = &x->buckets.at[bucket];
  const struct rsc_series *series = series_of(x, b);
  if (b->template->run < out->min_run) out->min_run = b->template->run;
  if (is_seeded(x, b, RSC_SEED_INTERSECT_DROP)) {
    if (series->count == 1) return;
    series = rsc_series_new(x->folder, series->tensors, series->count - 1);
  }
  size_t count;
  const struct rsc_tensor_loops *loops = rsc_series_fold(x->folder, series, b->template, &count);
  for (size_t i = 0; i < count; i++) *RSC_PUSH(x->arena, &out->descs) = describe(x, b, series, &loops[i]);
  out->elems += b->template->elems * series->count;
  out->flows += series->count;
}

static void finish_group(struct intersector *x, struct open_group *open, struct rsc_group *out) {
  *out = open->group;
  for (size_t i = 0; i < open->buckets.len; i++) finish_bucket(x, open->buckets.at[i], out);
  x->flows->flow_count += out->flows;
  x->flows->desc_count += (int64_t)out->descs.len;
}

const struct rsc_flows *rsc_intersect(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_pairs *pairs,
                                      int64_t pieces, int64_t direct_min, uint64_t seed_bug) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct intersector x = {.arena = arena, .scratch = scratch, .diag = diag, .pairs = pairs, .pieces = pieces};
  x.direct_min = direct_min;
  x.seed_bug = seed_bug;
  x.set_keys = rsc_keys_new(scratch);
  x.binding_keys = rsc_keys_new(scratch);
  x.bucket_keys = rsc_keys_new(scratch);
  x.group_keys = rsc_keys_new(scratch);
  x.series_keys = rsc_keys_new(scratch);
  x.folder = rsc_folder_new(scratch, pairs);
  x.flows = RSC_NEW(arena, struct rsc_flows);
  for (int side = 0; side < 2; side++) number_slots(&x, (enum rsc_side)side);
  for (int32_t i = 0; i < pairs->tensor_count; i++) bind_tensor(&x, i);
  for (size_t i = 0; i < x.bindings.len; i++) count_delivered(&x, &x.bindings.at[i]);
  struct rsc_group *groups = RSC_ARRAY(arena, struct rsc_group, x.groups.len);
  for (size_t g = 0; g < x.groups.len; g++) finish_group(&x, &x.groups.at[g], &groups[g]);
  x.flows->groups = groups;
  x.flows->group_count = (int32_t)x.groups.len;
  rsc_folder_end(x.folder);
  rsc_arena_free(scratch);
  return x.spent ? NULL : x.flows;
}
