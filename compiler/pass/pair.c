/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the placements of both sides. Out: tensors and buffers in canonical order, joined by tensor name.
 */
#include "compiler/pass/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/glob.h"
#include "compiler/base/keys.h"
#include "compiler/base/names.h"
#include "plans/words.h"

static bool digit(char c) {
  return c >= '0' && c <= '9';
}

static size_t count_digits(const char *at) {
  size_t n = 0;
  while (digit(at[n])) n++;
  return n;
}

int rsc_natural_compare(const char *a, const char *b) {
  const char *x = a, *y = b;
  while (*x && *x == *y) x++, y++;
  while (x > a && digit(x[-1])) x--, y--; /* a number is compared whole */
  while (*x && *y) {
    if (digit(*x) && digit(*y)) {
      while (*x == '0' && digit(x[1])) x++;
      while (*y == '0' && digit(y[1])) y++;
      size_t n = count_digits(x), m = count_digits(y);
      int c = n != m ? (n < m ? -1 : 1) : memcmp(x, y, n);
      if (c) return c;
      x += n;
      y += m;
    } else {
      if (*x != *y) return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
      x++;
      y++;
    }
  }
  if (*x || *y) return *x ? 1 : -1;
  return strcmp(a, b);
}

/* ---- canonical order of buffers ---- */

struct order {
  int32_t buffer, ranks; /* `ranks`: position of its set of ranks among all sets */
  const char *name;
};

static int by_ranks_and_name(const void *a, const void *b) {
  const struct order *x = a, *y = b;
  if (x->ranks != y->ranks) return x->ranks < y->ranks ? -1 : 1;
  int c = rsc_natural_compare(x->name, y->name);
  return c ? c : (x->buffer < y->buffer ? -1 : 1);
}

struct rank_list {
  const int64_t *ranks;
  int64_t count;
  int32_t id;
};

static int by_rank_list(const void *a, const void *b) {
  const struct rank_list *x = a, *y = b;
  for (int64_t i = 0; i < x->count && i < y->count; i++)
    if (x->ranks[i] != y->ranks[i]) return x->ranks[i] < y->ranks[i] ? -1 : 1;
  return x->count < y->count ? -1 : x->count > y->count;
}

/* For each rank map, the position of its list of ranks in lexicographic order. */
static int32_t *rank_order(struct rsc_arena *arena, const struct rsc_placement *p) {
  struct rsc_keys *keys = rsc_keys_new(arena);
  struct rank_list *lists = RSC_ARRAY(arena, struct rank_list, p->rankmap_count);
  int32_t *id_of = RSC_ARRAY(arena, int32_t, p->rankmap_count), *order = RSC_ARRAY(arena, int32_t, p->rankmap_count);
  for (int32_t i = 0; i < p->rankmap_count; i++) {
    const struct rsc_rankmap *m = &p->rankmaps[i];
    id_of[i] = rsc_keys_id(keys, m->ranks, (size_t)m->count * sizeof *m->ranks, NULL);
    lists[id_of[i]] = (struct rank_list){m->ranks, m->count, id_of[i]};
  }
  int32_t distinct = rsc_keys_count(keys);
  qsort(lists, (size_t)distinct, sizeof *lists, by_rank_list);
  for (int32_t i = 0; i < distinct; i++) order[lists[i].id] = i;
  for (int32_t i = 0; i < p->rankmap_count; i++) id_of[i] = order[id_of[i]];
  return id_of;
}

static void order_buffers(const struct rsc_placement *p, struct rsc_gid *out) {
  int64_t count = p->layout->buffer_count;
  struct rsc_arena *scratch = rsc_arena_new();
  int32_t *ranks = rank_order(scratch, p);
  struct order *order = RSC_ARRAY(scratch, struct order, count);
  for (int64_t i = 0; i < count; i++)
    order[i] = (struct order){(int32_t)i, ranks[p->buffers[i].rankmap], p->layout->buffers[i].name};
  qsort(order, (size_t)count, sizeof *order, by_ranks_and_name);
  for (int64_t i = 0; i < count; i++) out[i] = (struct rsc_gid){p->layout->side, order[i].buffer};
  rsc_arena_free(scratch);
}

/* ---- tensors ---- */

struct pairer {
  struct rsc_arena *arena, *scratch;
  struct rsc_diag *diag;
  struct rsc_pairs *pairs;
  struct rsc_keys *names, *said; /* said: declarations that were reported */
};

static const char *dims_text(struct rsc_arena *arena, const struct rsc_tensor *t) {
  char text[8 * 24 + 4];
  int at = snprintf(text, sizeof text, "[");
  for (int32_t i = 0; i < t->ndim && i < 8; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRId64, i ? ", " : "", t->dims[i]);
  at += snprintf(text + at, sizeof text - (size_t)at, "]");
  return rsc_arena_strdup(arena, text, (size_t)at);
}

static bool agree(const struct rsc_tensor *a, const struct rsc_tensor *b) {
  return a->dtype == b->dtype && a->ndim == b->ndim &&
         (!a->ndim || !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims));
}

/* A declaration in a loop is reported once. */
static bool is_news(struct pairer *p, struct rsc_span span) {
  int64_t place[3] = {span.file, span.line, span.col};
  bool fresh;
  rsc_keys_id(p->said, place, sizeof place, &fresh);
  return fresh;
}

/* Every tensor either side declares, by name: candidates[k].tensor is NULL where no declaration was seen yet. */
static void merge_side(struct pairer *p, enum rsc_side side, const struct rsc_tensor **merged, int32_t *id_of) {
  const struct rsc_layout *layout = p->pairs->placement[side]->layout;
  for (int64_t i = 0; i < layout->tensor_count; i++) {
    const struct rsc_tensor *t = &layout->tensors[i];
    bool fresh;
    int32_t id = id_of[i] = rsc_keys_id(p->names, t->name, strlen(t->name), &fresh);
    if (fresh) {
      merged[id] = t;
    } else if (!agree(merged[id], t) && is_news(p, t->span)) {
      rsc_error(p->diag, RSC_TENSOR_DISAGREES, t->span, "tensor '%s' is %s %s here, but %s %s on the training side",
                t->name, rsp_dtype_word(t->dtype), dims_text(p->scratch, t), rsp_dtype_word(merged[id]->dtype),
                dims_text(p->scratch, merged[id]));
      rsc_note(p->diag, merged[id]->span,
               "the training side declares it here; where one side pads, write the real "
               "extent on both and pad(_, n) in the view that is padded");
    }
  }
}

static void match_skips(struct pairer *p, const struct rsc_tensor *const *merged, int32_t count, enum rsc_side side,
                        bool *skipped) {
  const struct rsc_layout *layout = p->pairs->placement[side]->layout;
  for (int64_t s = 0; s < layout->skip_count; s++) {
    bool used = false;
    for (int32_t i = 0; i < count; i++)
      if (rsc_glob_match(layout->skips[s].glob, merged[i]->name)) skipped[i] = used = true;
    if (!used)
      rsc_warning(p->diag, RSC_SKIP_UNUSED, layout->skips[s].span, "skip '%s' matches no tensor of either side",
                  layout->skips[s].glob);
  }
}

struct tensor_order {
  const char *name;
  int32_t id;
};

static int by_name(const void *a, const void *b) {
  return rsc_natural_compare(((const struct tensor_order *)a)->name, ((const struct tensor_order *)b)->name);
}

/* Mentions by merged tensor, in gid order: count, then fill. */
static void collect_mentions(struct pairer *p, enum rsc_side side, const int32_t *id_of, int32_t count,
                             struct rsc_mentions *out) {
  const struct rsc_pairs *pairs = p->pairs;
  int32_t lo = side == RSC_TRAIN ? 0 : pairs->train_gids, hi = side == RSC_TRAIN ? pairs->train_gids : pairs->gid_count;
  int64_t *start = RSC_ARRAY(p->scratch, int64_t, count + 1);
  for (int32_t g = lo; g < hi; g++)
    for (int32_t s = 0; s < rsc_class_of(pairs, g)->slot_count; s++) start[id_of[rsc_placed(pairs, g)->slots[s]] + 1]++;
  for (int32_t i = 0; i < count; i++) start[i + 1] += start[i];
  struct rsc_mention *all = RSC_ARRAY(p->arena, struct rsc_mention, start[count]);
  for (int32_t i = 0; i < count; i++)
    out[i] = (struct rsc_mentions){all + start[i], (int32_t)(start[i + 1] - start[i])};
  for (int32_t g = lo; g < hi; g++)
    for (int32_t s = 0; s < rsc_class_of(pairs, g)->slot_count; s++)
      all[start[id_of[rsc_placed(pairs, g)->slots[s]]]++] = (struct rsc_mention){g, s};
}

/* What is declared, and neither held, nor wanted, nor skipped: moved by nobody, which a forgotten buffer is, too. */
static const char *say_forgotten(struct pairer *p, const struct rsc_tensor *const *merged, int32_t count,
                                 bool *const skipped[2], struct rsc_mentions *const mentions[2]) {
  enum { SHOWN = 3 };
  const char *names[SHOWN];
  int32_t found = 0;
  for (int32_t i = 0; i < count; i++) {
    if (mentions[0][i].count || mentions[1][i].count || skipped[0][i] || skipped[1][i]) continue;
    if (found < SHOWN) names[found] = rsc_name_shown(p->scratch, merged[i]->name, strlen(merged[i]->name), false);
    found++;
  }
  if (!found) return "";
  size_t size = 200, used;
  for (int32_t i = 0; i < found && i < SHOWN; i++) size += strlen(names[i]) + 2;
  char *text = rsc_arena_alloc(p->arena, size);
  snprintf(text, size, "%" PRId32 " of the %" PRId32 " tensor%s %s in no buffer and no skip of either layout: ", found,
           count, rsp_plural((uint64_t)count), found == 1 ? "is" : "are");
  for (int32_t i = 0; i < found && i < SHOWN; i++) {
    used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
  }
  used = strlen(text);
  if (found > SHOWN) snprintf(text + used, size - used, " and %" PRId32 " more", found - SHOWN);
  return text;
}

static void build_tensors(struct pairer *p) {
  struct rsc_pairs *pairs = p->pairs;
  int64_t declared = pairs->placement[0]->layout->tensor_count + pairs->placement[1]->layout->tensor_count;
  const struct rsc_tensor **merged = RSC_ARRAY(p->scratch, const struct rsc_tensor *, declared);
  int32_t *id_of[2];
  for (int s = 0; s < 2; s++) {
    id_of[s] = RSC_ARRAY(p->scratch, int32_t, pairs->placement[s]->layout->tensor_count);
    merge_side(p, (enum rsc_side)s, merged, id_of[s]);
  }
  int32_t count = rsc_keys_count(p->names), kept = 0;
  bool *skipped[2];
  struct rsc_mentions *mentions[2];
  for (int s = 0; s < 2; s++) {
    skipped[s] = RSC_ARRAY(p->scratch, bool, count);
    mentions[s] = RSC_ARRAY(p->scratch, struct rsc_mentions, count);
    match_skips(p, merged, count, (enum rsc_side)s, skipped[s]);
    collect_mentions(p, (enum rsc_side)s, id_of[s], count, mentions[s]);
  }
  pairs->forgotten = say_forgotten(p, merged, count, skipped, mentions);
  struct tensor_order *order = RSC_ARRAY(p->scratch, struct tensor_order, count);
  for (int32_t i = 0; i < count; i++)
    if (mentions[0][i].count || mentions[1][i].count) order[kept++] = (struct tensor_order){merged[i]->name, i};
  qsort(order, (size_t)kept, sizeof *order, by_name);
  struct rsc_paired_tensor *tensors = RSC_ARRAY(p->arena, struct rsc_paired_tensor, kept);
  int32_t *new_id = RSC_ARRAY(p->scratch, int32_t, count);
  memset(new_id, 0xff, (size_t)count * sizeof *new_id);
  for (int32_t k = 0; k < kept; k++) {
    int32_t i = order[k].id;
    new_id[i] = k;
    tensors[k] = (struct rsc_paired_tensor){
        merged[i], {mentions[0][i], mentions[1][i]}, skipped[RSC_TRAIN][i], skipped[RSC_INFER][i]};
  }
  for (int s = 0; s < 2; s++) {
    int64_t n = pairs->placement[s]->layout->tensor_count;
    int32_t *of = RSC_ARRAY(p->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++) of[i] = new_id[id_of[s][i]];
    pairs->tensor_of[s] = of;
  }
  pairs->tensors = tensors;
  pairs->tensor_count = kept;
}

const struct rsc_pairs *rsc_pair(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_placement *train,
                                 const struct rsc_placement *infer, int64_t pieces, int64_t *intersections) {
  struct rsc_pairs *pairs = RSC_NEW(arena, struct rsc_pairs);
  size_t before = rsc_diag_errors(diag);
  pairs->placement[RSC_TRAIN] = train;
  pairs->placement[RSC_INFER] = infer;
  pairs->train_gids = (int32_t)train->layout->buffer_count;
  pairs->gid_count = pairs->train_gids + (int32_t)infer->layout->buffer_count;
  struct rsc_gid *gids = RSC_ARRAY(arena, struct rsc_gid, pairs->gid_count);
  order_buffers(train, gids);
  order_buffers(infer, gids + pairs->train_gids);
  pairs->gids = gids;
  struct pairer p = {arena, rsc_arena_new(), diag, pairs, NULL, NULL};
  p.names = rsc_keys_new(p.scratch);
  p.said = rsc_keys_new(p.scratch);
  build_tensors(&p);
  rsc_arena_free(p.scratch);
  if (rsc_diag_errors(diag) == before) rsc_check_coverage(diag, pairs, pieces, intersections);
  return rsc_diag_errors(diag) == before ? pairs : NULL;
}
