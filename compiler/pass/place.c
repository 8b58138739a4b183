/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a resolved layout. Out: its placement. Buffers are sorted into classes by a key that spells the value tree
 * with slots for tensors; everything that costs is done once per class.
 */
#include "compiler/pass/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/place_value.h"
#include "plans/format.h"

struct classes {
  RSC_VEC(struct rsc_class);
};
struct shapes {
  RSC_VEC(struct rsc_shape);
};
struct rankmaps {
  RSC_VEC(struct rsc_rankmap);
};
struct ranksets {
  RSC_VEC(struct rsc_rankset);
};
struct families {
  RSC_VEC(struct rsc_family);
};
struct mentions {
  RSC_VEC(int32_t); /* tensor indices in tree order */
};
struct slots {
  RSC_VEC(struct rsc_slot);
};

struct placer {
  struct rsc_arena *arena, *scratch;
  struct rsc_diag *diag;
  const struct rsc_layout *layout;
  int64_t pieces; /* of a class, at most */
  struct rsc_keys *class_keys, *shape_keys, *family_keys, *rankmap_keys, *rankset_keys;
  struct rsc_keys *failed; /* statements that had an error */
  struct classes classes;
  struct shapes shapes;
  struct rankmaps rankmaps;
  struct ranksets ranksets;
  struct families families;
  struct rsc_key key; /* reused */
};

/* ---- class keys ---- */

static void key_list(struct placer *p, const int64_t *list, int64_t len) {
  rsc_key_int(p->scratch, &p->key, list ? len : -1);
  if (list) rsc_key_add(p->scratch, &p->key, list, (size_t)len * sizeof *list);
}

static void key_cuts(struct placer *p, const struct rsc_cut *cuts, int32_t count) {
  rsc_key_int(p->scratch, &p->key, count);
  for (int32_t i = 0; i < count; i++) {
    int64_t head[3] = {cuts[i].rule, cuts[i].axis, cuts[i].arg};
    rsc_key_add(p->scratch, &p->key, head, sizeof head);
    key_list(p, cuts[i].list, cuts[i].list_len);
    rsc_key_int(p->scratch, &p->key, cuts[i].share_count);
    for (int64_t s = 0; s < cuts[i].share_count; s++) {
      rsc_key_int(p->scratch, &p->key, cuts[i].shares[s].k);
      key_list(p, cuts[i].shares[s].groups, cuts[i].shares[s].group_count);
    }
  }
}

static void key_value(struct placer *p, const struct rsc_value *v, struct mentions *mentions) {
  int64_t head[7] = {v->kind, v->child_count, v->dim_count, v->k, v->lo, v->hi, v->perm_len};
  rsc_key_add(p->scratch, &p->key, head, sizeof head);
  rsc_key_add(p->scratch, &p->key, &v->constant, sizeof v->constant);
  if (v->kind == RSC_VALUE_TENSOR) {
    const struct rsc_tensor *t = &p->layout->tensors[v->tensor];
    rsc_key_int(p->scratch, &p->key, t->dtype);
    key_list(p, t->dims, t->ndim);
    *RSC_PUSH(p->scratch, mentions) = v->tensor;
  }
  for (int32_t i = 0; i < v->dim_count; i++) {
    const struct rsc_dim *d = &v->dims[i];
    int64_t dim[4] = {d->kind, d->padded, d->size, d->pad_to};
    rsc_key_add(p->scratch, &p->key, dim, sizeof dim);
    key_cuts(p, d->cuts, d->cut_count);
  }
  key_cuts(p, v->cuts, v->cut_count);
  key_list(p, v->perm, v->perm_len);
  for (int64_t i = 0; i < v->child_count; i++) key_value(p, v->children[i], mentions);
}

/* ---- slots: what stands above each mention ---- */

struct above {
  int32_t cuts;
  uint8_t op;
  float constant;
  bool cast, replica, twice;
};

static void walk_slots(struct placer *p, const struct rsc_value *v, struct above above, struct slots *out, bool *ok) {
  above.cuts += v->cut_count;
  for (int32_t i = 0; i < v->dim_count; i++) above.cuts += v->dims[i].cut_count;
  switch (v->kind) {
  case RSC_VALUE_CAST:
    above.cast = true;
    break;
  case RSC_VALUE_REPLICA:
    above.replica = true;
    break;
  case RSC_VALUE_NEG_EXP:
  case RSC_VALUE_ADD:
    if (above.op != RSP_OP_COPY && !above.twice) {
      rsc_error(p->diag, RSC_OP_TWICE, v->span, "an element would go through two of neg_exp and add");
      above.twice = true;
      *ok = false;
    }
    above.op = v->kind == RSC_VALUE_ADD ? RSP_OP_ADD : RSP_OP_NEG_EXP;
    above.constant = (float)v->constant;
    break;
  case RSC_VALUE_TENSOR:
    *RSC_PUSH(p->arena, out) = (struct rsc_slot){.op = above.op,
                                                 .cast = above.cast,
                                                 .replica = above.replica,
                                                 .cuts = above.cuts,
                                                 .constant = above.constant,
                                                 .span = v->span};
    break;
  default:
    break;
  }
  for (int64_t i = 0; i < v->child_count; i++) walk_slots(p, v->children[i], above, out, ok);
}

static bool converts(enum rsp_dtype from, enum rsp_dtype to) {
  bool to_ok = to == RSP_F16 || to == RSP_BF16 || to == RSP_F32 || to == RSP_F64;
  return from == to || (to_ok && rsp_dtype_is_float(from));
}

static bool op_dtype(enum rsp_dtype d) {
  return d == RSP_F16 || d == RSP_BF16 || d == RSP_F32;
}

/* The rules of dtypes for one mention; data flows buffer to tensor in training, tensor to buffer in inference. */
static bool check_slot(struct placer *p, const struct rsc_buffer *b, enum rsp_dtype buffer, const struct rsc_slot *slot,
                       const struct rsc_tensor *t) {
  bool train = p->layout->side == RSC_TRAIN;
  if (slot->op != RSP_OP_COPY && !(op_dtype(buffer) && op_dtype(t->dtype))) {
    rsc_error(p->diag, RSC_OP_DTYPE, slot->span,
              "neg_exp and add work on f16, bf16 and f32; tensor '%s' is %s, the buffer %s", t->name,
              rsp_dtype_word(t->dtype), rsp_dtype_word(buffer));
    return false;
  }
  if (slot->cast && b->dtype == RSP_DTYPE_NONE) {
    rsc_error(p->diag, RSC_CAST_UNSTATED, slot->span, "cast needs the buffer's dtype: write  buffer \"%s\" f32 = ...",
              b->name);
    return false;
  }
  if (buffer == t->dtype) return true;
  if (!slot->cast) {
    rsc_error(p->diag, RSC_DTYPE_DIFFERS, slot->span,
              "buffer '%s' is %s, but tensor '%s' is %s; write cast(...) to convert", b->name, rsp_dtype_word(buffer),
              t->name, rsp_dtype_word(t->dtype));
    return false;
  }
  enum rsp_dtype from = train ? buffer : t->dtype, to = train ? t->dtype : buffer;
  if (converts(from, to)) return true;
  rsc_error(p->diag, RSC_CAST_REFUSED, slot->span,
            "no cast from %s to %s: data flows from the %s here, and only f16, bf16, f32 and f64 can be made "
            "(quantising needs scales that no layout states)",
            rsp_dtype_word(from), rsp_dtype_word(to), train ? "buffer to the tensor" : "tensor to the buffer");
  return false;
}

/* The buffer's dtype, stated or its tensors'. */
static enum rsp_dtype buffer_dtype(const struct placer *p, const struct rsc_buffer *b, const struct mentions *m) {
  if (b->dtype != RSP_DTYPE_NONE || m->len == 0) return b->dtype;
  return p->layout->tensors[m->at[0]].dtype;
}

/* ---- entries ---- */

static void find_cut_axes(const struct rsc_cut *cuts, int32_t count, bool *axes, bool *shared) {
  for (int32_t i = 0; i < count; i++) {
    axes[cuts[i].axis] = true;
    *shared |= cuts[i].shares != NULL;
  }
}

static void walk_cut_axes(const struct rsc_value *v, bool *axes, bool *shared) {
  for (int32_t i = 0; i < v->dim_count; i++) find_cut_axes(v->dims[i].cuts, v->dims[i].cut_count, axes, shared);
  find_cut_axes(v->cuts, v->cut_count, axes, shared);
  for (int64_t i = 0; i < v->child_count; i++) walk_cut_axes(v->children[i], axes, shared);
}

static int by_position(const void *a, const void *b) {
  int64_t x = ((const struct rsc_piece *)a)->nest.base[RSC_F_POS],
          y = ((const struct rsc_piece *)b)->nest.base[RSC_F_POS];
  return x < y ? -1 : x > y;
}

static void key_nest(struct placer *p, const struct rsc_nest *n, int64_t base) {
  int64_t head[3] = {n->loop_count, n->base[RSC_F_TENSOR], n->base[RSC_F_POS] - base};
  rsc_key_add(p->scratch, &p->key, head, sizeof head);
  for (int32_t i = 0; i < n->loop_count; i++) {
    int64_t loop[3] = {rsc_nest_count(n, i), rsc_nest_step(n, i, RSC_F_TENSOR), rsc_nest_step(n, i, RSC_F_POS)};
    rsc_key_add(p->scratch, &p->key, loop, sizeof loop);
  }
}

static void describe_where(struct placer *p, const struct rsc_class *c, const int64_t *coords, char *text,
                           size_t size) {
  const struct rsc_mesh *mesh = &p->layout->meshes[c->mesh];
  size_t at = 0;
  text[0] = 0;
  for (int32_t i = 0; i < c->cut_axis_count && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%s = %" PRId64, i ? ", " : " at ", mesh->axes[c->cut_axes[i]].name,
                           coords[c->cut_axes[i]]);
}

/* The number of the entry equal to this one; a new one is copied out of scratch. */
static int32_t intern_entry(struct placer *p, struct rsc_keys *keys, struct rsc_local *local,
                            struct rsc_entry *entries) {
  if (local->pieces.len) qsort(local->pieces.at, local->pieces.len, sizeof *local->pieces.at, by_position);
  p->key.len = 0;
  key_list(p, local->dims, local->ndim);
  for (size_t i = 0; i < local->pieces.len; i++) {
    rsc_key_int(p->scratch, &p->key, local->pieces.at[i].slot);
    key_nest(p, &local->pieces.at[i].nest, 0);
  }
  bool fresh;
  int32_t id = rsc_keys_id(keys, p->key.at, p->key.len, &fresh);
  if (!fresh) return id;
  struct rsc_entry *e = &entries[id];
  e->ndim = local->ndim;
  int64_t *dims = RSC_ARRAY(p->arena, int64_t, local->ndim);
  if (local->ndim) memcpy(dims, local->dims, (size_t)local->ndim * sizeof *dims);
  e->dims = dims;
  e->elems = rsc_local_elems(local);
  RSC_RESERVE(p->arena, &e->pieces, local->pieces.len);
  for (size_t i = 0; i < local->pieces.len; i++)
    e->pieces.at[e->pieces.len++] =
        (struct rsc_piece){rsc_nest_copy(p->arena, &local->pieces.at[i].nest, 3), local->pieces.at[i].slot};
  return id;
}

static bool make_entries(struct placer *p, struct rsc_class *c, const struct rsc_buffer *b) {
  const struct rsc_mesh *mesh = &p->layout->meshes[c->mesh];
  int64_t total = 1, *coords = RSC_ARRAY(p->scratch, int64_t, mesh->axis_count);
  for (int32_t i = 0; i < c->cut_axis_count; i++) total *= mesh->axes[c->cut_axes[i]].size;
  int32_t *entry_of = RSC_ARRAY(p->arena, int32_t, total);
  struct rsc_entry *entries = RSC_ARRAY(p->arena, struct rsc_entry, total);
  struct rsc_keys *keys = rsc_keys_new(p->scratch);
  struct rsc_budget budget = {p->pieces};
  char where[256];
  for (int64_t at = 0; at < total; at++) {
    int64_t rest = at;
    for (int32_t i = c->cut_axis_count; i-- > 0;) {
      coords[c->cut_axes[i]] = rest % mesh->axes[c->cut_axes[i]].size;
      rest /= mesh->axes[c->cut_axes[i]].size;
    }
    describe_where(p, c, coords, where, sizeof where);
    struct rsc_arena *temp = rsc_arena_new();
    struct rsc_place_context cx = {temp, p->diag, p->layout, mesh, coords, where, &budget};
    struct rsc_local local;
    int32_t mention = 0;
    bool ok = rsc_place_value(&cx, b->value, &mention, &local);
    if (ok) entry_of[at] = intern_entry(p, keys, &local, entries);
    rsc_arena_free(temp);
    if (!ok) return false;
  }
  c->entry_of = entry_of;
  c->entries = entries;
  c->entry_count = rsc_keys_count(keys);
  return true;
}

/* ---- shapes ---- */

static int32_t intern_shape(struct placer *p, const struct rsc_entry *e, int32_t slot, int64_t base) {
  p->key.len = 0;
  for (size_t i = 0; i < e->pieces.len; i++)
    if (e->pieces.at[i].slot == slot) key_nest(p, &e->pieces.at[i].nest, base);
  bool fresh;
  int32_t id = rsc_keys_id(p->shape_keys, p->key.at, p->key.len, &fresh);
  if (!fresh) return id;
  struct rsc_shape shape = {.t_min = INT64_MAX, .t_max = -1};
  for (size_t i = 0; i < e->pieces.len; i++) {
    if (e->pieces.at[i].slot != slot) continue;
    struct rsc_nest n = rsc_nest_copy(p->arena, &e->pieces.at[i].nest, 3);
    n.base[RSC_F_POS] -= base;
    rsc_nest_normalize(&n, RSC_F_TENSOR);
    int64_t lo = n.base[RSC_F_TENSOR], hi = lo + rsc_nest_extent(&n, RSC_F_TENSOR);
    if (lo < shape.t_min) shape.t_min = lo;
    if (hi > shape.t_max) shape.t_max = hi;
    shape.elems += rsc_nest_elems(&n);
    *RSC_PUSH(p->arena, &shape.nests) = n;
  }
  *RSC_PUSH(p->arena, &p->shapes) = shape;
  return id;
}

static int32_t intern_family(struct placer *p, const struct rsc_occurrence *list, int32_t count, bool shared) {
  p->key.len = 0;
  rsc_key_int(p->scratch, &p->key, shared);
  for (int32_t i = 0; i < count; i++) rsc_key_int(p->scratch, &p->key, list[i].shape);
  bool fresh;
  int32_t id = rsc_keys_id(p->family_keys, p->key.at, p->key.len, &fresh);
  if (!fresh) return id;
  int32_t *shapes = RSC_ARRAY(p->arena, int32_t, count);
  for (int32_t i = 0; i < count; i++) shapes[i] = list[i].shape;
  *RSC_PUSH(p->arena, &p->families) = (struct rsc_family){shapes, count, shared};
  return id;
}

/* An occurrence while its entries are being collected. */
struct open_occurrence {
  int32_t shape;
  int64_t base;
  struct {
    RSC_VEC(int32_t);
  } entries;
};

struct open_occurrences {
  RSC_VEC(struct open_occurrence);
};

static void add_occurrence(struct placer *p, struct open_occurrences *list, int32_t entry, int32_t shape,
                           int64_t base) {
  struct open_occurrence *o = NULL;
  for (size_t i = list->len; i-- > 0 && !o;) /* copies stand in neighbouring entries: the search is short */
    if (list->at[i].shape == shape && list->at[i].base == base) o = &list->at[i];
  if (!o) {
    o = RSC_PUSH(p->scratch, list);
    *o = (struct open_occurrence){.shape = shape, .base = base};
  }
  *RSC_PUSH(p->scratch, &o->entries) = entry;
}

/* Numbers the sets of entries of a class. */
struct entry_sets {
  struct rsc_keys *keys;
  RSC_VEC(struct rsc_entry_set);
};

static int32_t intern_entries(struct placer *p, struct entry_sets *sets, const int32_t *at, size_t count) {
  bool fresh;
  int32_t id = rsc_keys_id(sets->keys, at, count * sizeof *at, &fresh);
  if (fresh) {
    int32_t *copy = RSC_ARRAY(p->arena, int32_t, count);
    memcpy(copy, at, count * sizeof *at);
    *RSC_PUSH(p->arena, sets) = (struct rsc_entry_set){copy, (int32_t)count};
  }
  return id;
}

static void close_slot(struct placer *p, struct entry_sets *sets, struct rsc_slot *slot,
                       const struct open_occurrences *list) {
  struct rsc_occurrence *kept = RSC_ARRAY(p->arena, struct rsc_occurrence, list->len);
  for (size_t i = 0; i < list->len; i++) {
    const struct open_occurrence *o = &list->at[i];
    kept[i] = (struct rsc_occurrence){intern_entries(p, sets, o->entries.at, o->entries.len), o->shape, o->base};
  }
  slot->occurrences = kept;
  slot->occurrence_count = (int32_t)list->len;
  slot->family = intern_family(p, kept, slot->occurrence_count, slot->shared);
}

/* Occurrences of every slot, in entry order: one pass over the pieces finds the first position of each slot. */
static void make_occurrences(struct placer *p, struct rsc_class *c, struct rsc_slot *slots) {
  struct open_occurrences *lists = RSC_ARRAY(p->scratch, struct open_occurrences, c->slot_count);
  int32_t *last = RSC_ARRAY(p->scratch, int32_t, c->slot_count); /* entry + 1 */
  for (int32_t e = 0; e < c->entry_count; e++) {
    const struct rsc_entry *entry = &c->entries[e];
    for (size_t i = 0; i < entry->pieces.len; i++) {
      int32_t s = entry->pieces.at[i].slot;
      if (s < 0 || last[s] == e + 1) continue;
      last[s] = e + 1;
      int64_t base = entry->pieces.at[i].nest.base[RSC_F_POS];
      add_occurrence(p, &lists[s], e, intern_shape(p, entry, s, base), base);
    }
  }
  struct entry_sets sets = {.keys = rsc_keys_new(p->scratch)};
  for (int32_t s = 0; s < c->slot_count; s++) close_slot(p, &sets, &slots[s], &lists[s]);
  c->entry_sets = sets.at;
  c->entry_set_count = (int32_t)sets.len;
}

static bool make_class(struct placer *p, const struct rsc_buffer *b, const struct mentions *mentions,
                       struct rsc_class *c) {
  struct slots slots = {0};
  bool ok = true, *axes = RSC_ARRAY(p->scratch, bool, p->layout->meshes[b->mesh].axis_count);
  walk_slots(p, b->value, (struct above){0}, &slots, &ok);
  c->mesh = b->mesh;
  c->dtype = buffer_dtype(p, b, mentions);
  c->slots = slots.at;
  c->slot_count = (int32_t)slots.len;
  if (c->dtype == RSP_DTYPE_NONE) {
    rsc_error(p->diag, RSC_GAP_DTYPE, b->span, "buffer '%s' holds no tensor: state its dtype", b->name);
    return false;
  }
  for (int32_t s = 0; s < c->slot_count; s++)
    ok &= check_slot(p, b, c->dtype, &slots.at[s], &p->layout->tensors[mentions->at[s]]);
  if (!ok) return false;
  bool shared = false;
  walk_cut_axes(b->value, axes, &shared);
  int32_t *cut_axes = RSC_ARRAY(p->arena, int32_t, p->layout->meshes[b->mesh].axis_count);
  for (int32_t a = 0; a < p->layout->meshes[b->mesh].axis_count; a++)
    if (axes[a]) cut_axes[c->cut_axis_count++] = a;
  /* An axis cuts once on a way: a mention that fewer axes cut than its class is copied along the others. */
  for (int32_t s = 0; s < c->slot_count; s++) slots.at[s].shared = shared || slots.at[s].cuts < c->cut_axis_count;
  c->cut_axes = cut_axes;
  if (!make_entries(p, c, b)) return false;
  make_occurrences(p, c, slots.at);
  return true;
}

/* ---- rank maps ---- */

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

static int32_t rankmap_of(struct placer *p, int32_t klass, const int64_t *pins) {
  const struct rsc_class *c = &p->classes.at[klass];
  p->key.len = 0;
  rsc_key_int(p->scratch, &p->key, klass);
  rsc_key_add(p->scratch, &p->key, pins, (size_t)p->layout->meshes[c->mesh].axis_count * sizeof *pins);
  bool fresh;
  int32_t id = rsc_keys_id(p->rankmap_keys, p->key.at, p->key.len, &fresh);
  if (fresh) *RSC_PUSH(p->arena, &p->rankmaps) = make_rankmap(p, c, pins);
  return id;
}

/* ---- the pass ---- */

/* Ends the message of a buffer that failed: which one it is, where a function's body alone would not tell, and the
 * loop. Its statement is not reported again. */
static void note_failure(struct placer *p, const struct rsc_buffer *b, const int64_t *statement, size_t size) {
  struct rsc_span last = rsc_diag_last(p->diag);
  if (last.file != b->span.file || last.line < b->span.line) /* functions stand before their uses */
    rsc_note(p->diag, b->span, "in buffer '%s'", b->name);
  if (*b->loop_values) rsc_note(p->diag, (struct rsc_span){.file = -1}, "in the loop at %s", b->loop_values);
  rsc_keys_id(p->failed, statement, size, NULL);
}

static struct rsc_placed_buffer place_buffer(struct placer *p, const struct rsc_buffer *b) {
  struct mentions mentions = {0};
  int64_t statement[3] = {b->span.file, b->span.line, b->span.col};
  if (rsc_keys_count(p->failed) && rsc_keys_find(p->failed, statement, sizeof statement) >= 0)
    return (struct rsc_placed_buffer){.klass = -1, .rankmap = -1};
  p->key.len = 0;
  rsc_key_int(p->scratch, &p->key, b->mesh);
  rsc_key_int(p->scratch, &p->key, b->dtype);
  key_value(p, b->value, &mentions);
  bool fresh;
  struct rsc_placed_buffer placed = {.klass = rsc_keys_id(p->class_keys, p->key.at, p->key.len, &fresh), .rankmap = -1};
  if (fresh) *RSC_PUSH(p->arena, &p->classes) = (struct rsc_class){.entry_count = -1};
  struct rsc_class *klass = &p->classes.at[placed.klass];
  if (klass->entry_count < 0) { /* new, or to be refused for another statement, too */
    struct rsc_class made = {0};
    if (make_class(p, b, &mentions, &made)) {
      *klass = made;
    } else {
      note_failure(p, b, statement, sizeof statement);
      return placed;
    }
  }
  int32_t *slots = RSC_ARRAY(p->arena, int32_t, mentions.len);
  if (mentions.len) memcpy(slots, mentions.at, mentions.len * sizeof *slots);
  placed.slots = slots;
  placed.rankmap = rankmap_of(p, placed.klass, b->pins);
  return placed;
}

const struct rsc_placement *rsc_place(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_layout *layout,
                                      int64_t pieces) {
  struct rsc_arena *scratch = rsc_arena_new();
  struct placer p = {.arena = arena, .scratch = scratch, .diag = diag, .layout = layout, .pieces = pieces};
  p.class_keys = rsc_keys_new(scratch);
  p.failed = rsc_keys_new(scratch);
  p.shape_keys = rsc_keys_new(scratch);
  p.family_keys = rsc_keys_new(scratch);
  p.rankmap_keys = rsc_keys_new(scratch);
  p.rankset_keys = rsc_keys_new(arena); /* rank sets point into its bytes */
  size_t before = rsc_diag_errors(diag);
  struct rsc_placed_buffer *buffers = RSC_ARRAY(arena, struct rsc_placed_buffer, layout->buffer_count);
  for (int64_t i = 0; i < layout->buffer_count; i++) buffers[i] = place_buffer(&p, &layout->buffers[i]);
  struct rsc_placement *out = RSC_NEW(arena, struct rsc_placement);
  *out = (struct rsc_placement){.layout = layout,
                                .classes = p.classes.at,
                                .class_count = (int32_t)p.classes.len,
                                .buffers = buffers,
                                .shapes = p.shapes.at,
                                .shape_count = (int32_t)p.shapes.len,
                                .rankmaps = p.rankmaps.at,
                                .rankmap_count = (int32_t)p.rankmaps.len,
                                .ranksets = p.ranksets.at,
                                .rankset_count = (int32_t)p.ranksets.len,
                                .families = p.families.at,
                                .family_count = rsc_keys_count(p.family_keys)};
  rsc_arena_free(scratch);
  return rsc_diag_errors(diag) == before ? out : NULL;
}
