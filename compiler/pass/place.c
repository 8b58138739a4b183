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

#include "compiler/pass/place_impl.h"
#include "compiler/pass/place_value.h"
#include "plans/format.h"

struct mentions {
  RSC_VEC(int32_t); /* tensor indices in tree order */
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
    rsc_place_key_nest(p, &local->pieces.at[i].nest, 0);
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

static bool make_class(struct placer *p, const struct rsc_buffer *b, const struct mentions *mentions,
                       struct rsc_class *c) {
  struct slots slots = {0};
  bool ok = true, *axes = RSC_ARRAY(p->scratch, bool, p->layout->meshes[b->mesh].axis_count);
  rsc_place_slots(p, b->value, &slots, &ok);
  c->mesh = b->mesh;
  c->dtype = buffer_dtype(p, b, mentions);
  c->slots = slots.at;
  c->slot_count = (int32_t)slots.len;
  if (c->dtype == RSP_DTYPE_NONE) {
    rsc_error(p->diag, RSC_GAP_DTYPE, b->span, "buffer '%s' holds no tensor: state its dtype", b->name);
    return false;
  }
  for (int32_t s = 0; s < c->slot_count; s++)
    ok &= rsc_place_check_slot(p, b, c->dtype, &slots.at[s], &p->layout->tensors[mentions->at[s]]);
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
  rsc_place_occurrences(p, c, slots.at);
  return true;
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
  placed.rankmap = rsc_place_rankmap(p, placed.klass, b->pins);
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
