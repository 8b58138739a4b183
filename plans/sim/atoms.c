/* SPDX-License-Identifier: Apache-2.0
 *
 * In: pieces of a tensor with tags. Out: the tensor's elements by the set of tags that they have.
 *
 * The tensor is swept dimension by dimension, outermost first. A piece becomes, for each stretch of the dimension's
 * index, a piece of what lies below; stretches with the same pieces below are one case, swept once.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/sim/bound_impl.h"

enum { MOST_PARTS = 1 << 22 };

/* ---- keys ---- */

static uint64_t hash_bytes(const void *bytes, size_t len) {
  const unsigned char *b = bytes;
  uint64_t h = 0xcbf29ce484222325ull ^ len;
  for (; len >= 4; len -= 4, b += 4) {
    uint32_t w;
    memcpy(&w, b, 4);
    h = (h ^ w) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  for (; len; len--, b++) h = (h ^ *b) * 0x100000001b3ull;
  return h ^ (h >> 32);
}

static void grow_slots(struct rspm_keys *k) {
  free(k->slots);
  k->slot_count = k->slot_count ? k->slot_count * 2 : 64;
  k->slots = rspm_alloc(k->slot_count, sizeof *k->slots);
  for (size_t i = 0; i < k->count; i++) {
    size_t s = hash_bytes(k->bytes + k->rows[i].at, k->rows[i].len) & (k->slot_count - 1);
    while (k->slots[s]) s = (s + 1) & (k->slot_count - 1);
    k->slots[s] = (uint32_t)i + 1;
  }
}

uint32_t rspm_key(struct rspm_keys *k, const void *bytes, size_t len, bool *fresh) {
  if (k->count * 2 >= k->slot_count) grow_slots(k);
  size_t s = hash_bytes(bytes, len) & (k->slot_count - 1);
  for (; k->slots[s]; s = (s + 1) & (k->slot_count - 1)) {
    uint32_t i = k->slots[s] - 1;
    if (k->rows[i].len != len || (len && memcmp(k->bytes + k->rows[i].at, bytes, len))) continue;
    if (fresh) *fresh = false;
    return i;
  }
  while (k->used + len > k->room) {
    k->room = k->room ? k->room * 2 : 256;
    k->bytes = realloc(k->bytes, k->room);
    if (!k->bytes) abort();
  }
  if (len) memcpy(k->bytes + k->used, bytes, len);
  k->rows = rspm_grow(k->rows, k->count, &k->capacity, sizeof *k->rows);
  k->rows[k->count].at = k->used;
  k->rows[k->count].len = len;
  k->used += len;
  k->slots[s] = (uint32_t)++k->count;
  if (fresh) *fresh = true;
  return (uint32_t)k->count - 1;
}

const void *rspm_key_bytes(const struct rspm_keys *k, uint32_t key, size_t *len) {
  if (len) *len = k->rows[key].len;
  return k->bytes + k->rows[key].at;
}

void rspm_keys_free(struct rspm_keys *k) {
  free(k->bytes);
  free(k->rows);
  free(k->slots);
  *k = (struct rspm_keys){.bytes = NULL};
}

/* ---- items ---- */

static int by_step_down(const void *a, const void *b) {
  const struct rspm_loop *x = a, *y = b;
  return x->step != y->step ? (x->step > y->step ? -1 : 1) : (x->count < y->count ? -1 : x->count > y->count);
}

/* Sorts the loops, drops those that stand still and joins those that go on where the next one ends. */
static uint32_t tidy(struct rspm_loop *loops, uint32_t count) {
  uint32_t kept = 0;
  if (count) qsort(loops, count, sizeof *loops, by_step_down);
  for (uint32_t i = 0; i < count; i++) {
    if (loops[i].count < 2 || !loops[i].step) continue;
    if (kept && loops[kept - 1].step == loops[i].step * loops[i].count) {
      loops[kept - 1] = (struct rspm_loop){loops[kept - 1].count * loops[i].count, loops[i].step};
    } else {
      loops[kept++] = loops[i];
    }
  }
  return kept;
}

/* Takes `loops` (room for two more) over. */
static void push(struct rspm_items *items, uint32_t tag, uint64_t base, struct rspm_loop *loops, uint32_t count) {
  items->at = rspm_grow(items->at, items->count, &items->capacity, sizeof *items->at);
  items->at[items->count++] =
      (struct rspm_item){.base = base, .tag = tag, .loop_count = tidy(loops, count), .loops = loops};
}

void rspm_items_add(struct rspm_items *items, uint32_t tag, uint64_t base, const struct rsp_ploop *loops,
                    uint32_t loop_count) {
  struct rspm_loop *mine = rspm_alloc(loop_count + 1, sizeof *mine);
  for (uint32_t i = 0; i < loop_count; i++) mine[i] = (struct rspm_loop){loops[i].count, loops[i].t_step};
  push(items, tag, base, mine, loop_count);
}

void rspm_items_free(struct rspm_items *items) {
  for (size_t i = 0; i < items->count; i++) free(items->at[i].loops);
  free(items->at);
  *items = (struct rspm_items){.at = NULL};
}

/* ---- the sweep ---- */

/* A stretch of the dimension's index, of one piece with one part below. */
struct stretch {
  uint64_t lo, hi;
  uint32_t tag, below;
};

struct sweep {
  const uint64_t *strides;
  uint32_t levels;
  size_t parts; /* made so far */
  struct rspm_keys tags;
  uint64_t *elems; /* per key of tags */
  size_t elem_capacity;
};

struct level {
  struct sweep *sweep;
  uint64_t stride;
  struct rspm_keys below; /* base and loops of parts below */
  struct stretch *at;
  size_t count, capacity;
};

static void add_stretch(struct level *l, const struct rspm_item *item, uint64_t index, uint64_t length,
                        uint32_t below) {
  l->at = rspm_grow(l->at, l->count, &l->capacity, sizeof *l->at);
  l->at[l->count++] = (struct stretch){index, index + length, item->tag, below};
  l->sweep->parts++;
}

/* The item's outer loops (steps that are multiples of the stride) give stretches; the inner ones are the part below. */
static void add_clean(struct level *l, const struct rspm_item *item, uint32_t outer) {
  size_t inner = item->loop_count - outer;
  uint64_t key[2 * 64 + 1];
  key[0] = item->base % l->stride;
  for (size_t i = 0; i < inner && i < 64; i++) {
    key[1 + 2 * i] = item->loops[outer + i].count;
    key[2 + 2 * i] = item->loops[outer + i].step;
  }
  uint32_t below = rspm_key(&l->below, key, (1 + 2 * inner) * sizeof *key, NULL);
  uint64_t length = 1, turn[64] = {0};
  if (outer && item->loops[outer - 1].step == l->stride) length = item->loops[--outer].count;
  for (uint64_t index = item->base / l->stride; l->sweep->parts < MOST_PARTS;) {
    add_stretch(l, item, index, length, below);
    uint32_t i = outer;
    while (i-- > 0) {
      uint64_t step = item->loops[i].step / l->stride;
      if (++turn[i] < item->loops[i].count) {
        index += step;
        break;
      }
      index -= (item->loops[i].count - 1) * step;
      turn[i] = 0;
    }
    if (i == UINT32_MAX) return;
  }
}

static void add_item(struct level *l, const struct rspm_item *item);

/* The same with loop `i` turning `count` times from its turn `first`, as `rows` times `count`. */
static void add_part(struct level *l, const struct rspm_item *item, uint32_t i, uint64_t first, uint64_t rows,
                     uint64_t count) {
  if (!rows || !count) return;
  struct rspm_loop loops[66];
  memcpy(loops, item->loops, item->loop_count * sizeof *loops);
  loops[i].count = count;
  uint32_t n = item->loop_count;
  if (rows > 1) loops[n++] = (struct rspm_loop){rows, item->loops[i].step * count};
  struct rspm_item part = {.base = item->base + first * item->loops[i].step, .tag = item->tag, .loops = loops};
  part.loop_count = 0;
  /* Not joined again: what was split stays split. */
  qsort(loops, n, sizeof *loops, by_step_down);
  for (uint32_t k = 0; k < n; k++)
    if (loops[k].count > 1) loops[part.loop_count++] = loops[k];
  l->sweep->parts++;
  add_item(l, &part);
}

/* A loop that runs over the end of a row: the first row's rest, whole rows, the last row's beginning. */
static void split_rows(struct level *l, const struct rspm_item *item, uint32_t i) {
  uint64_t step = item->loops[i].step, count = item->loops[i].count, per = l->stride / step;
  uint64_t left = l->stride - item->base % l->stride, head = (left + step - 1) / step % per;
  if (head > count) head = count;
  uint64_t rows = (count - head) / per, tail = count - head - rows * per;
  if (head == count || per == count) head = count - 1, rows = 0, tail = 1; /* an inner loop runs over the end */
  add_part(l, item, i, 0, 1, head);
  add_part(l, item, i, head, rows, per);
  add_part(l, item, i, head + rows * per, 1, tail);
}

static void add_item(struct level *l, const struct rspm_item *item) {
  if (l->sweep->parts >= MOST_PARTS || item->loop_count > 60) {
    l->sweep->parts = MOST_PARTS;
    return;
  }
  uint32_t outer = 0, i = 0;
  uint64_t span = item->base % l->stride;
  while (outer < item->loop_count && item->loops[outer].step % l->stride == 0) outer++;
  for (i = outer; i < item->loop_count; i++) span += (item->loops[i].count - 1) * item->loops[i].step;
  if (span < l->stride) {
    add_clean(l, item, outer);
    return;
  }
  uint64_t step = item->loops[outer].step;
  if (step < l->stride && l->stride % step == 0 && step * item->loops[outer].count > step) {
    split_rows(l, item, outer);
  } else { /* no multiple of the row: turn by turn */
    for (uint64_t k = 0; k < item->loops[outer].count && l->sweep->parts < MOST_PARTS; k++)
      add_part(l, item, outer, k, 1, 1);
  }
}

static int by_lo(const void *a, const void *b) {
  const struct stretch *x = a, *y = b;
  return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static int by_u64(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void sweep_level(struct sweep *sweep, const struct rspm_items *items, uint32_t level, uint64_t times);

static void count_elems(struct sweep *sweep, const uint64_t *pairs, size_t n, uint64_t elems) {
  uint32_t *tags = rspm_alloc(n, sizeof *tags);
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t tag = (uint32_t)(pairs[i] >> 32);
    if (!kept || tags[kept - 1] != tag) tags[kept++] = tag;
  }
  bool fresh;
  uint32_t key = rspm_key(&sweep->tags, tags, kept * sizeof *tags, &fresh);
  sweep->elems = rspm_grow(sweep->elems, key, &sweep->elem_capacity, sizeof *sweep->elems);
  if (fresh) sweep->elems[key] = 0;
  sweep->elems[key] += elems;
  free(tags);
}

/* One case: these tags with these parts below, on `times` indices. */
static void sweep_case(struct level *l, uint32_t level, const uint64_t *pairs, size_t n, uint64_t times) {
  if (l->stride == 1) {
    count_elems(l->sweep, pairs, n, times);
    return;
  }
  struct rspm_items items = {0};
  for (size_t i = 0; i < n; i++) {
    size_t len;
    const uint64_t *key = rspm_key_bytes(&l->below, (uint32_t)pairs[i], &len);
    uint32_t count = (uint32_t)((len / sizeof *key - 1) / 2);
    struct rspm_loop *loops = rspm_alloc(count + 1, sizeof *loops);
    for (uint32_t k = 0; k < count; k++) {
      uint64_t two[2];
      memcpy(two, key + 1 + 2 * k, sizeof two);
      loops[k] = (struct rspm_loop){two[0], two[1]};
    }
    uint64_t base;
    memcpy(&base, key, sizeof base);
    push(&items, (uint32_t)(pairs[i] >> 32), base, loops, count);
  }
  sweep_level(l->sweep, &items, level + 1, times);
  rspm_items_free(&items);
}

/* Where stretches begin and end, the set of those in progress changes. */
static void sweep_stretches(struct level *l, uint32_t level, uint64_t times) {
  struct rspm_keys cases = {0};
  uint64_t *lengths = NULL, *edges = rspm_alloc(l->count * 2, sizeof *edges);
  size_t length_capacity = 0, edge_count = 0, active = 0, next = 0;
  uint64_t *pairs = rspm_alloc(l->count, sizeof *pairs);
  struct stretch **open = rspm_alloc(l->count, sizeof *open);
  if (l->count) qsort(l->at, l->count, sizeof *l->at, by_lo);
  for (size_t i = 0; i < l->count; i++) edges[edge_count++] = l->at[i].lo, edges[edge_count++] = l->at[i].hi;
  if (edge_count) qsort(edges, edge_count, sizeof *edges, by_u64);
  for (size_t e = 0; e + 1 < edge_count; e++) {
    if (edges[e] == edges[e + 1]) continue;
    size_t kept = 0;
    for (size_t i = 0; i < active; i++)
      if (open[i]->hi > edges[e]) open[kept++] = open[i];
    active = kept;
    while (next < l->count && l->at[next].lo <= edges[e]) open[active++] = &l->at[next++];
    if (!active) continue;
    for (size_t i = 0; i < active; i++) pairs[i] = (uint64_t)open[i]->tag << 32 | open[i]->below;
    qsort(pairs, active, sizeof *pairs, by_u64);
    bool fresh;
    uint32_t key = rspm_key(&cases, pairs, active * sizeof *pairs, &fresh);
    lengths = rspm_grow(lengths, key, &length_capacity, sizeof *lengths);
    if (fresh) lengths[key] = 0;
    lengths[key] += edges[e + 1] - edges[e];
  }
  for (uint32_t k = 0; k < cases.count && l->sweep->parts < MOST_PARTS; k++) {
    size_t len;
    const void *bytes = rspm_key_bytes(&cases, k, &len);
    memcpy(pairs, bytes, len);
    sweep_case(l, level, pairs, len / sizeof *pairs, lengths[k] * times);
  }
  free(lengths);
  free(edges);
  free(pairs);
  free(open);
  rspm_keys_free(&cases);
}

static void sweep_level(struct sweep *sweep, const struct rspm_items *items, uint32_t level, uint64_t times) {
  struct level l = {.sweep = sweep, .stride = level < sweep->levels ? sweep->strides[level] : 1};
  for (size_t i = 0; i < items->count; i++) add_item(&l, &items->at[i]);
  if (sweep->parts < MOST_PARTS) sweep_stretches(&l, level, times);
  free(l.at);
  rspm_keys_free(&l.below);
}

bool rspm_atoms_of(const struct rspm_items *items, const uint64_t *dims, uint32_t ndim, struct rspm_atoms *atoms) {
  uint64_t *strides = rspm_alloc(ndim + 1, sizeof *strides), stride = 1;
  for (uint32_t i = ndim; i-- > 0; stride *= dims[i]) strides[i] = stride;
  struct sweep sweep = {.strides = strides, .levels = ndim};
  *atoms = (struct rspm_atoms){.at = NULL};
  sweep_level(&sweep, items, 0, 1);
  bool good = sweep.parts < MOST_PARTS;
  if (good) {
    atoms->keys = sweep.tags;
    atoms->count = sweep.tags.count;
    atoms->at = rspm_alloc(atoms->count, sizeof *atoms->at);
    for (uint32_t k = 0; k < atoms->count; k++) {
      size_t len;
      const uint32_t *tags = rspm_key_bytes(&atoms->keys, k, &len);
      atoms->at[k] = (struct rspm_atom){tags, (uint32_t)(len / sizeof *tags), sweep.elems[k]};
    }
  } else {
    rspm_keys_free(&sweep.tags);
  }
  free(sweep.elems);
  free(strides);
  return good;
}

void rspm_atoms_free(struct rspm_atoms *atoms) {
  free(atoms->at);
  rspm_keys_free(&atoms->keys);
}
