/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the specification. Out: the fewest bytes that must cross the network: for each NVLink domain, the distinct
 * elements that its inference ranks want and none of its training ranks holds, in the tensor's dtype. Domains with the
 * same profiles are counted once; tensors with the same sets of pieces too.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/verify/context.h"

struct minimum {
  struct rspv *v;
  struct rspv_table domain_table, count_table;
  uint64_t *domain_bytes, *counts;
  size_t domain_count, domain_capacity, count_count, count_capacity;
  struct rspv_writes **piece_sets; /* by piece: the stretches of the tensor that it is; nest: their numbers */
  size_t *piece_set_count;
};

struct sets {
  struct rspv_writes *at; /* gid: a tensor */
  size_t count, capacity;
};

static int by_tensor(const void *a, const void *b) {
  const struct rspv_writes *x = a, *y = b;
  if (x->gid != y->gid) return x->gid < y->gid ? -1 : 1;
  return x->nest < y->nest ? -1 : x->nest > y->nest;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void sort_unique(struct sets *s) {
  if (s->count) qsort(s->at, s->count, sizeof *s->at, by_tensor);
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (!kept || by_tensor(&s->at[kept - 1], &s->at[i])) s->at[kept++] = s->at[i];
  }
  s->count = kept;
}

/* The tensor elements of a piece, as numbers of stretches. */
static void make_piece_set(struct minimum *m, uint32_t piece, const struct rspv_lattice *lattice) {
  struct rspv *v = m->v;
  struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
  struct rspv_nest *n = rspv_nest_new(&v->work, lattice->digits);
  size_t capacity = 0;
  n->base[RSPV_DST] = lattice->value;
  for (uint32_t i = 0; i < lattice->digits; i++) {
    memset(&n->axis[i], 0, sizeof n->axis[i]);
    n->axis[i].count = lattice->digit[i].count;
    n->axis[i].step[RSPV_DST] = lattice->digit[i].weight;
  }
  rspv_nest_writes(v, 0, n, &m->piece_sets[piece], &m->piece_set_count[piece], &capacity);
  rspv_arena_release(&v->work.arena, mark);
}

static void add_entry(struct minimum *m, uint32_t gid, uint32_t entry, struct sets *out) {
  struct rspv *v = m->v;
  const struct rspv_space *space = &v->entries[entry].space;
  for (uint32_t i = 0; i < space->count; i++) {
    uint32_t piece = space->id[i], slot = v->plan->pieces[piece].slot;
    if (slot >= RSP_SLOT_GAP) continue;
    if (!m->piece_sets[piece]) make_piece_set(m, piece, &space->at[i]);
    for (size_t k = 0; k < m->piece_set_count[piece]; k++) {
      struct rspv_writes w = {rspv_tensor_of(v, gid, slot), m->piece_sets[piece][k].nest};
      RSPV_PUSH(out->at, out->count, out->capacity, w);
    }
  }
}

static void add_profile(struct minimum *m, uint32_t side, uint32_t profile, struct sets *out) {
  struct rspv *v = m->v;
  for (uint64_t gid = 0; gid < v->plan->buffer_count; gid++) {
    if (v->plan->buffers[gid].side != side) continue;
    uint32_t entry = rspv_entry_of(v, profile, (uint32_t)gid);
    if (entry != RSPV_NONE) add_entry(m, (uint32_t)gid, entry, out);
  }
}

/* All training pieces of a tensor, wherever they are. */
static void add_holders(struct minimum *m, uint32_t tensor, struct sets *out) {
  struct rspv *v = m->v;
  rspv_holders(v);
  for (uint64_t h = v->holder_start[tensor]; h < v->holder_start[tensor + 1]; h++) {
    const struct rsp_buffer *b = &v->plan->buffers[v->holder_gid[h]];
    const struct rsp_rankmap *map = &v->plan->rankmaps[b->rankmap];
    for (uint64_t i = 0; i < map->count; i++) {
      uint32_t entry = (uint32_t)v->plan->classes[b->klass].entries + v->plan->holds[map->holds + i].entry;
      struct sets one = {0};
      add_entry(m, v->holder_gid[h], entry, &one);
      for (size_t k = 0; k < one.count; k++) {
        if (one.at[k].gid == tensor) RSPV_PUSH(out->at, out->count, out->capacity, one.at[k]);
      }
      free(one.at);
    }
  }
  sort_unique(out);
}

/* Elements in one of the first `count` stretches and in none of the others. */
static uint64_t count_distinct(struct rspv *v, const struct rspv_writes *wanted, size_t count,
                               const struct rspv_writes *held, size_t held_count) {
  if (count == 1 && !held_count) return v->stretches[wanted[0].nest].volume;
  uint64_t total = 0;
  for (size_t i = 0; i < count && v->work.left; i++) {
    struct rspv_mark mark = rspv_arena_mark(&v->work.arena);
    struct rspv_lattice *at = rspv_alloc(&v->work.arena, (held_count + i) * sizeof *at);
    uint32_t *id = rspv_alloc(&v->work.arena, (held_count + i) * sizeof *id);
    memset(id, 0, (held_count + i) * sizeof *id);
    for (size_t k = 0; k < held_count; k++) at[k] = v->stretches[held[k].nest];
    for (size_t k = 0; k < i; k++) at[held_count + k] = v->stretches[wanted[k].nest];
    struct rspv_space space;
    rspv_space_make(&v->work.arena, &space, (uint32_t)(held_count + i), at, id);
    const struct rspv_lattice *mine = &v->stretches[wanted[i].nest];
    struct rspv_nest *n = rspv_nest_new(&v->work, mine->digits);
    n->base[RSPV_DST] = mine->base;
    for (uint32_t d = 0; d < mine->digits; d++) {
      memset(&n->axis[d], 0, sizeof n->axis[d]);
      n->axis[d].count = mine->digit[d].count;
      n->axis[d].step[RSPV_DST] = mine->digit[d].step;
    }
    struct rspv_nests missing;
    rspv_nests_init(&missing);
    rspv_resolve(&v->work, &space, n, RSPV_DST, RSPV_VAL, NULL, &missing);
    for (const struct rspv_nest *x = missing.first; x; x = x->next) total += rspv_nest_volume(x);
    rspv_arena_release(&v->work.arena, mark);
  }
  return total;
}

static uint64_t distinct(struct minimum *m, const struct rspv_writes *wanted, size_t count,
                         const struct rspv_writes *held, size_t held_count) {
  uint64_t *words = rspv_xmalloc((count + held_count + 1) * sizeof *words);
  uint32_t n = 0;
  words[n++] = count;
  for (size_t i = 0; i < count; i++) words[n++] = wanted[i].nest;
  for (size_t i = 0; i < held_count; i++) words[n++] = held[i].nest;
  bool fresh;
  uint32_t number = rspv_intern(&m->count_table, words, n, &fresh);
  free(words);
  if (fresh) {
    uint64_t value = count_distinct(m->v, wanted, count, held, held_count);
    RSPV_PUSH(m->counts, m->count_count, m->count_capacity, value);
  }
  return m->counts[number];
}

/* What a domain with these inference and training profiles must take in, in bytes. */
static uint64_t domain_intake(struct minimum *m, const uint32_t *infer, size_t infer_count, const uint32_t *train,
                              size_t train_count) {
  struct rspv *v = m->v;
  struct sets wanted = {0}, held = {0};
  uint64_t bytes = 0;
  for (size_t i = 0; i < infer_count; i++) add_profile(m, RSP_INFER, infer[i], &wanted);
  for (size_t i = 0; i < train_count; i++) add_profile(m, RSP_TRAIN, train[i], &held);
  sort_unique(&wanted);
  sort_unique(&held);
  size_t h = 0;
  for (size_t i = 0, end; i < wanted.count; i = end) {
    uint32_t tensor = wanted.at[i].gid;
    for (end = i; end < wanted.count && wanted.at[end].gid == tensor; end++) continue;
    while (h < held.count && held.at[h].gid < tensor) h++;
    size_t held_end = h;
    while (held_end < held.count && held.at[held_end].gid == tensor) held_end++;
    uint64_t elems = distinct(m, wanted.at + i, end - i, held.at + h, held_end - h);
    if (v->plan->tensors[tensor].flags & RSP_TENSOR_SKIP_TRAIN) { /* what nobody holds is not taken in either */
      struct sets all = {0};
      add_holders(m, tensor, &all);
      elems -= distinct(m, wanted.at + i, end - i, all.at, all.count);
      free(all.at);
    }
    bytes += elems * rsp_dtype_bytes(v->plan->tensors[tensor].dtype);
  }
  free(wanted.at);
  free(held.at);
  return bytes;
}

static size_t unique_numbers(uint32_t *at, size_t count) {
  size_t kept = 0;
  if (count) qsort(at, count, sizeof *at, by_number);
  for (size_t i = 0; i < count; i++) {
    if (!kept || at[kept - 1] != at[i]) at[kept++] = at[i];
  }
  return kept;
}

static uint64_t domain_bytes(struct minimum *m, const uint32_t *ranks, size_t count) {
  struct rspv *v = m->v;
  uint32_t *profiles[2];
  size_t counts[2] = {0, 0};
  for (uint32_t side = 0; side < 2; side++) {
    profiles[side] = rspv_xmalloc(count * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++) {
      uint32_t p = v->profile[side][ranks[i]];
      if (p != RSPV_NONE) profiles[side][counts[side]++] = p;
    }
    counts[side] = unique_numbers(profiles[side], counts[side]);
  }
  uint64_t *words = rspv_xmalloc((counts[0] + counts[1] + 1) * sizeof *words);
  uint32_t n = 0;
  for (uint32_t side = 0; side < 2; side++) {
    for (size_t i = 0; i < counts[side]; i++) words[n++] = profiles[side][i];
  }
  bool fresh;
  uint32_t number = rspv_intern(&m->domain_table, words, n, &fresh);
  if (fresh) {
    uint64_t bytes = domain_intake(m, profiles[RSP_INFER], counts[RSP_INFER], profiles[RSP_TRAIN], counts[RSP_TRAIN]);
    RSPV_PUSH(m->domain_bytes, m->domain_count, m->domain_capacity, bytes);
  }
  free(words);
  free(profiles[0]);
  free(profiles[1]);
  return m->domain_bytes[number];
}

struct member {
  uint32_t domain, rank;
};

static int by_domain(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  if (x->domain != y->domain) return x->domain < y->domain ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void sum_domains(struct minimum *m) {
  struct rspv *v = m->v;
  uint32_t world = v->plan->header->world;
  struct member *members = rspv_xmalloc(world * sizeof *members);
  uint32_t *ranks = rspv_xmalloc(world * sizeof *ranks);
  for (uint32_t r = 0; r < world; r++) members[r] = (struct member){v->plan->ranks[r].domain, r};
  qsort(members, world, sizeof *members, by_domain);
  for (uint32_t i = 0, end; i < world; i = end) {
    for (end = i; end < world && members[end].domain == members[i].domain; end++) ranks[end - i] = members[end].rank;
    v->report->network_minimum += domain_bytes(m, ranks, end - i);
  }
  free(members);
  free(ranks);
}

void rspv_minimum(struct rspv *v) {
  struct minimum m = {.v = v};
  uint64_t pieces = v->plan->header->sections[RSP_SEC_PIECES].count;
  rspv_table_init(&m.domain_table, &v->arena);
  rspv_table_init(&m.count_table, &v->arena);
  m.piece_sets = rspv_xcalloc(pieces, sizeof *m.piece_sets);
  m.piece_set_count = rspv_xcalloc(pieces, sizeof *m.piece_set_count);
  sum_domains(&m);
  rspv_spent(v, RSPV_SUMMARY, RSPV_NOWHERE);
  for (uint64_t i = 0; i < pieces; i++) free(m.piece_sets[i]);
  free(m.piece_sets);
  free(m.piece_set_count);
  rspv_table_free(&m.domain_table);
  rspv_table_free(&m.count_table);
  free(m.domain_bytes);
  free(m.counts);
}
