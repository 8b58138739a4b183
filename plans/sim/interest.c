/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the specification and the ranks. Out: what each domain must take in, what each rank must get, and what each group
 * of holders must send. Tensors whose pieces lie alike are divided into atoms once; those that the same ranks hold and
 * want too are counted once.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/sim/bound_impl.h"

/* A buffer that has something of a tensor. */
struct place {
  uint32_t tensor, gid, slot;
};

/* Ranks of one entry in a rankmap. */
struct span {
  const uint32_t *ranks; /* world */
  size_t count;
};

struct maker {
  const struct rsp_plan *plan;
  struct rspm_interest *out;
  uint32_t *world_of[2];
  uint32_t **map_ranks; /* per rankmap: world ranks by entry */
  size_t **map_starts;  /* per rankmap: where each entry's begin; one more */
  uint64_t *map_entries;
  uint64_t *slot_base;  /* per class: number of its first slot */
  size_t **slot_pieces; /* per slot of a class: pieces, as pairs (entry in class, piece) */
  size_t *slot_piece_count;
  struct place *places;
  size_t place_count;
  struct rspm_keys geometries, patterns;
  struct rspm_atoms *atoms; /* per geometry */
  bool *good;
  uint32_t *tag_buffer, *tag_entry; /* of the geometry at hand */
  /* marks of the atom at hand */
  uint32_t stamp, *rank_holds, *rank_wants, *domain_holds, *domain_wants;
  uint32_t *domain_gives;                    /* some of it hold the atom and others want it */
  uint32_t *by_domain;                       /* ranks, those of a domain together */
  bool *domain_serves;                       /* it has inference ranks */
  struct rspm_keys holder_keys, wanter_keys; /* lists of struct who */
  uint32_t *holder_groups;                   /* or UINT32_MAX */
  double *wanter_bytes;
  size_t share_capacity, holder_capacity, wanter_capacity;
  uint32_t *scratch;
};

/* ---- what lies where ---- */

static void index_ranks(struct maker *m) {
  const struct rsp_plan *plan = m->plan;
  uint32_t worlds[2] = {plan->header->train_world, plan->header->infer_world};
  for (int side = 0; side < 2; side++) m->world_of[side] = rspm_alloc(worlds[side], sizeof(uint32_t));
  for (uint32_t r = 0; r < plan->header->world; r++) {
    if (plan->ranks[r].train_rank != RSP_NO_RANK) m->world_of[RSP_TRAIN][plan->ranks[r].train_rank] = r;
    if (plan->ranks[r].infer_rank != RSP_NO_RANK) m->world_of[RSP_INFER][plan->ranks[r].infer_rank] = r;
  }
}

/* A domain is numbered as it first comes; the plan's own numbers may be anything. */
static void number_domains(struct maker *m) {
  struct rspm_keys keys = {0};
  m->out->domain_of = rspm_alloc(m->plan->header->world, sizeof(uint32_t));
  for (uint32_t r = 0; r < m->plan->header->world; r++)
    m->out->domain_of[r] = rspm_key(&keys, &m->plan->ranks[r].domain, sizeof(uint32_t), NULL);
  m->out->domains = (uint32_t)keys.count;
  rspm_keys_free(&keys);
}

/* The ranks of each domain, ascending: counted, then placed. */
static void sort_by_domain(struct maker *m) {
  uint32_t world = m->plan->header->world, *starts = rspm_alloc((size_t)m->out->domains + 1, sizeof *starts);
  m->by_domain = rspm_alloc(world, sizeof *m->by_domain);
  for (uint32_t r = 0; r < world; r++) starts[m->out->domain_of[r] + 1]++;
  for (uint32_t d = 0; d < m->out->domains; d++) starts[d + 1] += starts[d];
  for (uint32_t r = 0; r < world; r++) m->by_domain[starts[m->out->domain_of[r]]++] = r;
  free(starts);
}

/* All users of a rankmap are of one side. */
static void index_rankmap(struct maker *m, uint32_t map, uint32_t side) {
  const struct rsp_rankmap *rm = &m->plan->rankmaps[map];
  const struct rsp_hold *holds = m->plan->holds + rm->holds;
  uint64_t entries = 0;
  if (m->map_starts[map]) return;
  for (uint64_t i = 0; i < rm->count; i++)
    if (holds[i].entry >= entries) entries = holds[i].entry + 1u;
  size_t *starts = rspm_alloc((size_t)entries + 2, sizeof *starts);
  for (uint64_t i = 0; i < rm->count; i++) starts[holds[i].entry + 2]++;
  for (uint64_t e = 2; e < entries + 2; e++) starts[e] += starts[e - 1];
  m->map_ranks[map] = rspm_alloc((size_t)rm->count, sizeof(uint32_t));
  for (uint64_t i = 0; i < rm->count; i++)
    m->map_ranks[map][starts[holds[i].entry + 1]++] = m->world_of[side][holds[i].rank];
  m->map_starts[map] = starts;
  m->map_entries[map] = entries;
}

static void index_slots(struct maker *m) {
  const struct rsp_plan *plan = m->plan;
  uint64_t slots = 0;
  m->slot_base = rspm_alloc((size_t)plan->class_count, sizeof *m->slot_base);
  for (uint64_t c = 0; c < plan->class_count; slots += plan->classes[c++].slot_count) m->slot_base[c] = slots;
  m->slot_pieces = rspm_alloc((size_t)slots, sizeof *m->slot_pieces);
  m->slot_piece_count = rspm_alloc((size_t)slots, sizeof *m->slot_piece_count);
  size_t *capacity = rspm_alloc((size_t)slots, sizeof *capacity);
  for (uint64_t c = 0; c < plan->class_count; c++)
    for (uint64_t e = 0; e < plan->classes[c].entry_count; e++) {
      const struct rsp_entry *entry = &plan->entries[plan->classes[c].entries + e];
      for (uint64_t i = 0; i < entry->piece_count; i++) {
        const struct rsp_piece *piece = &plan->pieces[entry->pieces + i];
        if (piece->slot >= RSP_SLOT_GAP) continue;
        uint64_t s = m->slot_base[c] + piece->slot;
        m->slot_pieces[s] = rspm_grow(m->slot_pieces[s], 2 * m->slot_piece_count[s] + 1, &capacity[s], sizeof(size_t));
        m->slot_pieces[s][2 * m->slot_piece_count[s]] = (size_t)e;
        m->slot_pieces[s][2 * m->slot_piece_count[s]++ + 1] = (size_t)(entry->pieces + i);
      }
    }
  free(capacity);
}

/* Places by tensor, in the order of buffers: counted, then filled. */
static void index_places(struct maker *m) {
  const struct rsp_plan *plan = m->plan;
  size_t *starts = rspm_alloc((size_t)plan->tensor_count + 1, sizeof *starts);
  for (uint64_t g = 0; g < plan->buffer_count; g++) {
    const struct rsp_buffer *b = &plan->buffers[g];
    for (uint32_t s = 0; s < plan->classes[b->klass].slot_count; s++) starts[plan->slots[b->slots + s] + 1]++;
  }
  for (uint64_t t = 0; t < plan->tensor_count; t++) starts[t + 1] += starts[t];
  m->place_count = starts[plan->tensor_count];
  m->places = rspm_alloc(m->place_count, sizeof *m->places);
  for (uint64_t g = 0; g < plan->buffer_count; g++) {
    const struct rsp_buffer *b = &plan->buffers[g];
    index_rankmap(m, b->rankmap, b->side);
    for (uint32_t s = 0; s < plan->classes[b->klass].slot_count; s++) {
      uint32_t t = plan->slots[b->slots + s];
      m->places[starts[t]++] = (struct place){t, (uint32_t)g, s};
    }
  }
  free(starts);
}

/* ---- one kind of tensor ---- */

/* Tags count the entries of the buffers, buffer after buffer. */
static uint32_t number_tags(struct maker *m, const struct place *places, size_t count) {
  uint32_t tags = 0;
  for (size_t i = 0; i < count; i++) {
    const struct rsp_buffer *b = &m->plan->buffers[places[i].gid];
    tags += (uint32_t)m->plan->classes[b->klass].entry_count;
  }
  m->tag_buffer = realloc(m->tag_buffer, (tags + 1) * sizeof *m->tag_buffer);
  m->tag_entry = realloc(m->tag_entry, (tags + 1) * sizeof *m->tag_entry);
  if (!m->tag_buffer || !m->tag_entry) abort();
  uint32_t at = 0;
  for (size_t i = 0; i < count; i++) {
    const struct rsp_buffer *b = &m->plan->buffers[places[i].gid];
    for (uint32_t e = 0; e < m->plan->classes[b->klass].entry_count; e++) {
      m->tag_buffer[at] = (uint32_t)i;
      m->tag_entry[at++] = e;
    }
  }
  return tags;
}

static void divide(struct maker *m, const struct place *places, size_t count, uint32_t geometry) {
  const struct rsp_plan *plan = m->plan;
  const struct rsp_tensor *t = &plan->tensors[places[0].tensor];
  struct rspm_items items = {0};
  uint32_t first = 0;
  for (size_t i = 0; i < count; i++) {
    const struct rsp_class *c = &plan->classes[plan->buffers[places[i].gid].klass];
    uint64_t s = m->slot_base[plan->buffers[places[i].gid].klass] + places[i].slot;
    for (size_t k = 0; k < m->slot_piece_count[s]; k++) {
      const struct rsp_piece *piece = &plan->pieces[m->slot_pieces[s][2 * k + 1]];
      rspm_items_add(&items, first + (uint32_t)m->slot_pieces[s][2 * k], piece->t0, plan->ploops + piece->loops,
                     piece->loop_count);
    }
    first += (uint32_t)c->entry_count;
  }
  m->good[geometry] = t->elems && rspm_atoms_of(&items, plan->dims + t->dims, t->ndim, &m->atoms[geometry]);
  if (!m->good[geometry] && t->elems) m->out->exact = false;
  rspm_items_free(&items);
}

/* Ranks that have an atom: those of an entry of a rankmap. */
struct who {
  uint32_t map, entry;
};

static struct span ranks_of(const struct maker *m, struct who w) {
  const size_t *starts = m->map_starts[w.map];
  if (w.entry >= m->map_entries[w.map]) return (struct span){NULL, 0};
  /* After filling, starts[e + 1] is where entry e ends, and starts[e] where it begins. */
  return (struct span){m->map_ranks[w.map] + starts[w.entry], starts[w.entry + 1] - starts[w.entry]};
}

/* The atom's holders or wanters, without those that no rank is. Returns how many. */
static size_t list_who(struct maker *m, const struct place *places, const struct rspm_atom *atom, uint32_t side,
                       struct who *out) {
  size_t n = 0;
  for (uint32_t i = 0; i < atom->count; i++) {
    const struct rsp_buffer *b = &m->plan->buffers[places[m->tag_buffer[atom->tags[i]]].gid];
    struct who w = {b->rankmap, m->tag_entry[atom->tags[i]]};
    if (b->side == side && ranks_of(m, w).count) out[n++] = w;
  }
  return n;
}

/* Whether ranks of both sides are in a domain of theirs. */
static bool mark_holders(struct maker *m, const struct who *who, size_t count) {
  bool mixed = false;
  for (size_t i = 0; i < count; i++) {
    struct span s = ranks_of(m, who[i]);
    for (size_t k = 0; k < s.count; k++) {
      uint32_t domain = m->out->domain_of[s.ranks[k]];
      m->out->active[s.ranks[k]] = true;
      m->rank_holds[s.ranks[k]] = m->stamp;
      m->domain_holds[domain] = m->stamp;
      mixed |= m->domain_serves[domain];
    }
  }
  return mixed;
}

/* Counts what the wanters need; whether a domain takes it in from outside. */
static bool mark_wanters(struct maker *m, const struct who *who, size_t count, double bytes) {
  struct rspm_interest *out = m->out;
  bool outside = false;
  for (size_t i = 0; i < count; i++) {
    struct span s = ranks_of(m, who[i]);
    for (size_t k = 0; k < s.count; k++) {
      uint32_t r = s.ranks[k], domain = m->out->domain_of[r];
      out->active[r] = true;
      out->memory[r] += bytes; /* every buffer's copy is written */
      if (m->rank_wants[r] == m->stamp) continue;
      m->rank_wants[r] = m->stamp;
      if (m->rank_holds[r] == m->stamp) {
        out->memory[r] += bytes; /* read to be copied */
        continue;
      }
      out->need[r] += bytes;
      if (m->domain_holds[domain] == m->stamp || m->domain_wants[domain] == m->stamp) {
        out->copies[domain] += bytes;
        if (m->domain_holds[domain] == m->stamp) m->domain_gives[domain] = m->stamp;
      } else {
        out->ingest[domain] += bytes;
        outside = true;
      }
      m->domain_wants[domain] = m->stamp;
    }
  }
  return outside;
}

static uint32_t group_of(struct rspm_groups *groups, const uint32_t *ranks, size_t count) {
  bool fresh;
  uint32_t key = rspm_key(&groups->keys, ranks, count * sizeof *ranks, &fresh);
  groups->at = rspm_grow(groups->at, key, &groups->capacity, sizeof *groups->at);
  if (fresh) groups->at[groups->count++] = (struct rspm_group){.rank_count = count, .last_kind = UINT32_MAX};
  return key;
}

/* The group of ranks that can be the first to send the atom over the network: holders, and in their domains those who
 * want it. */
static uint32_t find_group(struct maker *m) {
  size_t n = 0;
  for (uint32_t r = 0; r < m->plan->header->world; r++) {
    bool first = m->rank_wants[r] == m->stamp && m->domain_holds[m->out->domain_of[r]] == m->stamp;
    if (m->rank_holds[r] == m->stamp || first) m->scratch[n++] = r;
  }
  return group_of(&m->out->outward, m->scratch, n);
}

/* In each domain that holds the atom and wants it elsewhere too, only the holders can be the first to send it over
 * NVLink. */
static void count_inward(struct maker *m, double bytes) {
  uint32_t world = m->plan->header->world, domain;
  for (uint32_t i = 0, next; i < world; i = next) {
    size_t n = 0;
    domain = m->out->domain_of[m->by_domain[i]];
    for (next = i; next < world && m->out->domain_of[m->by_domain[next]] == domain; next++)
      if (m->rank_holds[m->by_domain[next]] == m->stamp) m->scratch[n++] = m->by_domain[next];
    if (m->domain_gives[domain] != m->stamp) continue;
    uint32_t group = group_of(&m->out->inward, m->scratch, n);
    m->out->inward.at[group].bytes += bytes;
  }
}

/* Holders in domains that serve nobody: their group, found once. */
static bool is_apart(struct maker *m, const struct who *who, size_t count, uint32_t *group) {
  bool fresh;
  uint32_t key = rspm_key(&m->holder_keys, who, count * sizeof *who, &fresh);
  m->holder_groups = rspm_grow(m->holder_groups, key, &m->holder_capacity, sizeof *m->holder_groups);
  if (fresh) {
    m->stamp++;
    m->holder_groups[key] = mark_holders(m, who, count) ? UINT32_MAX : find_group(m);
  }
  *group = m->holder_groups[key];
  return *group != UINT32_MAX;
}

/* With holders apart, what wanters need depends on them alone: added up, and counted at the end. */
static void put_off(struct maker *m, const struct who *who, size_t count, double bytes) {
  bool fresh;
  uint32_t key = rspm_key(&m->wanter_keys, who, count * sizeof *who, &fresh);
  m->wanter_bytes = rspm_grow(m->wanter_bytes, key, &m->wanter_capacity, sizeof *m->wanter_bytes);
  if (fresh) m->wanter_bytes[key] = 0;
  m->wanter_bytes[key] += bytes;
}

static void count_wanters(struct maker *m) {
  for (uint32_t k = 0; k < m->wanter_keys.count; k++) {
    size_t len;
    const struct who *who = rspm_key_bytes(&m->wanter_keys, k, &len);
    m->stamp++;
    mark_wanters(m, who, len / sizeof *who, m->wanter_bytes[k]);
  }
}

static void count_atom(struct maker *m, const struct place *places, const struct rspm_atom *atom, uint64_t tensors,
                       uint32_t kind) {
  const struct rsp_tensor *t = &m->plan->tensors[places[0].tensor];
  double each = (double)atom->elems * (double)rsp_dtype_bytes(t->dtype), bytes = each * (double)tensors;
  struct who *who = rspm_alloc(2 * (size_t)atom->count, sizeof *who), *wanters = who + atom->count;
  size_t holds = list_who(m, places, atom, RSP_TRAIN, who), wants = list_who(m, places, atom, RSP_INFER, wanters);
  uint32_t group = UINT32_MAX;
  bool outside = wants > 0;
  if (!holds) {
    free(who);
    return;
  }
  if (is_apart(m, who, holds, &group)) {
    if (wants) put_off(m, wanters, wants, bytes);
  } else {
    m->stamp++;
    mark_holders(m, who, holds);
    outside = mark_wanters(m, wanters, wants, bytes);
    count_inward(m, bytes);
    if (outside) group = find_group(m);
  }
  free(who);
  if (!outside) return;
  struct rspm_group *g = &m->out->outward.at[group];
  g->bytes += bytes;
  if (g->last_kind != kind) {
    m->out->shares = rspm_grow(m->out->shares, m->out->share_count, &m->share_capacity, sizeof *m->out->shares);
    m->out->shares[m->out->share_count++] = (struct rspm_share){kind, group, tensors};
  }
  g->last_kind = kind;
  if (each > g->example_bytes) {
    g->example_bytes = each;
    g->example = places[0].tensor;
  }
}

static void count_pattern(struct maker *m, const struct place *places, const struct rspm_atoms *atoms, uint64_t tensors,
                          uint32_t kind) {
  for (size_t i = 0; i < atoms->count; i++) count_atom(m, places, &atoms->at[i], tensors, kind);
}

/* ---- all tensors ---- */

static size_t end_of(const struct maker *m, size_t from) {
  size_t to = from;
  while (to < m->place_count && m->places[to].tensor == m->places[from].tensor) to++;
  return to;
}

static uint32_t key_of_geometry(struct maker *m, const struct place *places, size_t count, uint64_t *words,
                                bool *fresh) {
  const struct rsp_tensor *t = &m->plan->tensors[places[0].tensor];
  size_t n = 0;
  words[n++] = t->ndim;
  for (uint32_t i = 0; i < t->ndim; i++) words[n++] = m->plan->dims[t->dims + i];
  for (size_t i = 0; i < count; i++) {
    uint32_t klass = m->plan->buffers[places[i].gid].klass;
    words[n++] = (uint64_t)klass << 32 | places[i].slot;
  }
  return rspm_key(&m->geometries, words, n * sizeof *words, fresh);
}

static void sort_patterns(struct maker *m) {
  size_t first_count = 0, capacity = 0, pattern_capacity = 0, good_capacity = 0;
  size_t *firsts = NULL;
  uint64_t *tensors = NULL, *words = NULL;
  size_t word_room = 0;
  uint32_t *geometry_of = NULL;
  size_t geometry_capacity = 0;
  for (size_t i = 0, next; i < m->place_count; i = next) {
    next = end_of(m, i);
    const struct rsp_tensor *t = &m->plan->tensors[m->places[i].tensor];
    size_t need = 2 * (next - i) + t->ndim + 4;
    if (need > word_room) {
      word_room = need * 2;
      words = realloc(words, word_room * sizeof *words);
      if (!words) abort();
    }
    bool fresh;
    uint32_t geometry = key_of_geometry(m, &m->places[i], next - i, words, &fresh);
    m->atoms = rspm_grow(m->atoms, geometry, &capacity, sizeof *m->atoms);
    m->good = rspm_grow(m->good, geometry, &good_capacity, sizeof *m->good);
    if (fresh) divide(m, &m->places[i], next - i, geometry);
    size_t n = 0;
    words[n++] = geometry;
    words[n++] = t->dtype;
    for (size_t k = i; k < next; k++) words[n++] = m->plan->buffers[m->places[k].gid].rankmap;
    uint32_t pattern = rspm_key(&m->patterns, words, n * sizeof *words, &fresh);
    firsts = rspm_grow(firsts, pattern, &first_count, sizeof *firsts);
    tensors = rspm_grow(tensors, pattern, &pattern_capacity, sizeof *tensors);
    geometry_of = rspm_grow(geometry_of, pattern, &geometry_capacity, sizeof *geometry_of);
    if (fresh) {
      firsts[pattern] = i;
      tensors[pattern] = 0;
      geometry_of[pattern] = geometry;
    }
    tensors[pattern]++;
  }
  for (uint32_t p = 0; p < m->patterns.count; p++) {
    const struct place *places = &m->places[firsts[p]];
    if (!m->good[geometry_of[p]]) continue;
    number_tags(m, places, end_of(m, firsts[p]) - firsts[p]);
    count_pattern(m, places, &m->atoms[geometry_of[p]], tensors[p], p);
  }
  count_wanters(m);
  free(firsts);
  free(tensors);
  free(geometry_of);
  free(words);
}

static void close_maker(struct maker *m) {
  for (uint64_t i = 0; i < m->plan->rankmap_count; i++) {
    free(m->map_ranks[i]);
    free(m->map_starts[i]);
  }
  uint64_t slots = 0;
  for (uint64_t c = 0; c < m->plan->class_count; c++) slots += m->plan->classes[c].slot_count;
  for (uint64_t s = 0; s < slots; s++) free(m->slot_pieces[s]);
  for (size_t g = 0; g < m->geometries.count; g++)
    if (m->good[g]) rspm_atoms_free(&m->atoms[g]);
  rspm_keys_free(&m->geometries);
  rspm_keys_free(&m->patterns);
  rspm_keys_free(&m->holder_keys);
  rspm_keys_free(&m->wanter_keys);
  void *all[] = {m->map_ranks,        m->map_starts,   m->map_entries, m->slot_base,     m->slot_pieces,
                 m->slot_piece_count, m->places,       m->atoms,       m->good,          m->tag_buffer,
                 m->tag_entry,        m->rank_holds,   m->rank_wants,  m->domain_holds,  m->domain_wants,
                 m->domain_serves,    m->domain_gives, m->by_domain,   m->holder_groups, m->wanter_bytes,
                 m->scratch,          m->world_of[0],  m->world_of[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

void rspm_interest_of(const struct rsp_plan *plan, struct rspm_interest *out) {
  uint32_t world = plan->header->world;
  struct maker m = {.plan = plan, .out = out};
  *out = (struct rspm_interest){.exact = true};
  index_ranks(&m);
  number_domains(&m);
  m.map_ranks = rspm_alloc((size_t)plan->rankmap_count, sizeof *m.map_ranks);
  m.map_starts = rspm_alloc((size_t)plan->rankmap_count, sizeof *m.map_starts);
  m.map_entries = rspm_alloc((size_t)plan->rankmap_count, sizeof *m.map_entries);
  index_slots(&m);
  index_places(&m);
  out->ingest = rspm_alloc(out->domains, sizeof(double));
  out->copies = rspm_alloc(out->domains, sizeof(double));
  out->need = rspm_alloc(world, sizeof(double));
  out->memory = rspm_alloc(world, sizeof(double));
  out->active = rspm_alloc(world, sizeof(bool));
  m.rank_holds = rspm_alloc(world, sizeof(uint32_t));
  m.rank_wants = rspm_alloc(world, sizeof(uint32_t));
  m.domain_holds = rspm_alloc(out->domains, sizeof(uint32_t));
  m.domain_wants = rspm_alloc(out->domains, sizeof(uint32_t));
  m.domain_gives = rspm_alloc(out->domains, sizeof(uint32_t));
  sort_by_domain(&m);
  m.scratch = rspm_alloc(world, sizeof(uint32_t));
  m.domain_serves = rspm_alloc(out->domains, sizeof(bool));
  for (uint32_t r = 0; r < world; r++)
    if (plan->ranks[r].infer_rank != RSP_NO_RANK) m.domain_serves[out->domain_of[r]] = true;
  sort_patterns(&m);
  struct rspm_groups *lists[2] = {&out->outward, &out->inward};
  for (int i = 0; i < 2; i++)
    for (size_t g = 0; g < lists[i]->count; g++)
      lists[i]->at[g].ranks = rspm_key_bytes(&lists[i]->keys, (uint32_t)g, NULL);
  close_maker(&m);
}

void rspm_interest_free(struct rspm_interest *i) {
  void *all[] = {i->domain_of, i->ingest,     i->copies,    i->need,  i->memory,
                 i->active,    i->outward.at, i->inward.at, i->shares};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
  rspm_keys_free(&i->outward.keys);
  rspm_keys_free(&i->inward.keys);
}
