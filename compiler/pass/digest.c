/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of the inputs by what they mean, so that a plan belongs to every spelling of the same layouts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compiler/pass/lower.h"

/* Values are few bytes each: they are gathered, so that the hash has long stretches to work on. */
struct hasher {
  XXH3_state_t *state;
  bool begun; /* the state has taken something */
  size_t used;
  unsigned char bytes[8192];
};

static void open_hasher(struct hasher *h) {
  h->state = XXH3_createState();
  if (!h->state) rsc_oom(0);
  h->begun = false;
  h->used = 0;
}

static void flush(struct hasher *h) {
  if (!h->begun) XXH3_128bits_reset(h->state);
  h->begun = true;
  XXH3_128bits_update(h->state, h->bytes, h->used);
  h->used = 0;
}

/* The hash of what was put; the next begins anew. */
static XXH128_hash_t take_hash(struct hasher *h) {
  bool short_one = !h->begun;
  if (!short_one) flush(h);
  XXH128_hash_t hash = short_one ? XXH3_128bits(h->bytes, h->used) : XXH3_128bits_digest(h->state);
  h->begun = false;
  h->used = 0;
  return hash;
}

static void close_hasher(struct hasher *h) {
  XXH3_freeState(h->state);
}

static void put_hash(struct hasher *h, const XXH128_canonical_t *hash) {
  if (sizeof h->bytes - h->used < sizeof *hash) flush(h);
  memcpy(h->bytes + h->used, hash, sizeof *hash);
  h->used += sizeof *hash;
}

static void put(struct hasher *h, const void *bytes, size_t len) {
  const unsigned char *from = bytes;
  while (len) {
    if (h->used == sizeof h->bytes) flush(h);
    size_t room = sizeof h->bytes - h->used, n = len < room ? len : room;
    memcpy(h->bytes + h->used, from, n);
    h->used += n;
    from += n;
    len -= n;
  }
}

static void put_int(struct hasher *h, int64_t v) {
  if (sizeof h->bytes - h->used < sizeof v) flush(h);
  memcpy(h->bytes + h->used, &v, sizeof v); /* little-endian, as plans are: plans/seal.c refuses other machines */
  h->used += sizeof v;
}

static void put_text(struct hasher *h, const char *text) {
  size_t len = strlen(text);
  put_int(h, (int64_t)len);
  put(h, text, len);
}

/* What one entry holds, tensors by name. */
static XXH128_hash_t entry_digest(struct hasher *state, const struct rsc_layout *layout, const struct rsc_class *c,
                                  const struct rsc_entry *e, const int32_t *tensors) {
  put_int(state, e->ndim);
  for (int32_t i = 0; i < e->ndim; i++) put_int(state, e->dims[i]);
  for (size_t k = 0; k < e->pieces.len; k++) {
    const struct rsc_piece *p = &e->pieces.at[k];
    put_int(state, p->slot < 0 ? p->slot : 0);
    if (p->slot >= 0) {
      const struct rsc_slot *slot = &c->slots[p->slot];
      put_text(state, layout->tensors[tensors[p->slot]].name);
      put_int(state, slot->op * 2 + slot->replica);
      int32_t bits;
      memcpy(&bits, &slot->constant, sizeof bits);
      put_int(state, bits);
    }
    put_int(state, p->nest.base[RSC_F_TENSOR]);
    put_int(state, p->nest.base[RSC_F_POS]);
    put_int(state, p->nest.loop_count);
    for (int32_t i = 0; i < p->nest.loop_count; i++) {
      put_int(state, rsc_nest_count(&p->nest, i));
      put_int(state, rsc_nest_step(&p->nest, i, RSC_F_TENSOR));
      put_int(state, rsc_nest_step(&p->nest, i, RSC_F_POS));
    }
  }
  return take_hash(state);
}

static void put_tensor(struct hasher *state, const struct rsc_paired_tensor *t, enum rsc_side side) {
  put_text(state, t->tensor->name);
  put_int(state, t->tensor->dtype);
  put_int(state, t->tensor->ndim);
  for (int32_t i = 0; i < t->tensor->ndim; i++) put_int(state, t->tensor->dims[i]);
  put_int(state, side == RSC_TRAIN ? t->skip_train : t->skip_infer);
}

void rsc_side_digest(const struct rsc_pairs *pairs, enum rsc_side side, uint8_t digest[16]) {
  const struct rsc_layout *layout = pairs->placement[side]->layout;
  struct hasher outer, nested, *state = &outer, *inner = &nested;
  open_hasher(state);
  open_hasher(inner);
  put_int(state, layout->world);
  for (int32_t i = 0; i < pairs->tensor_count; i++)
    if (pairs->tensors[i].by_side[side].count || pairs->tensors[i].skip_train || pairs->tensors[i].skip_infer)
      put_tensor(state, &pairs->tensors[i], side);
  XXH128_canonical_t *of = NULL;
  int32_t room = 0;
  for (int32_t g = 0; g < pairs->gid_count; g++) {
    if (pairs->gids[g].side != side) continue;
    const struct rsc_class *c = rsc_class_of(pairs, g);
    const struct rsc_rankmap *m = rsc_rankmap_of(pairs, g);
    put_text(state, rsc_buffer_of(pairs, g)->name);
    put_int(state, c->dtype);
    if (c->entry_count > room) {
      room = c->entry_count;
      of = realloc(of, (size_t)room * sizeof *of);
      if (!of) rsc_oom((size_t)room * sizeof *of);
    }
    for (int32_t e = 0; e < c->entry_count; e++)
      XXH128_canonicalFromHash(&of[e], entry_digest(inner, layout, c, &c->entries[e], rsc_placed(pairs, g)->slots));
    for (int64_t i = 0; i < m->count; i++) {
      put_int(state, m->ranks[i]);
      put_hash(state, &of[m->entries[i]]);
    }
  }
  free(of);
  close_hasher(inner);
  XXH128_canonicalFromHash((XXH128_canonical_t *)digest, take_hash(state));
  close_hasher(state);
}

void rsc_cluster_digest(const struct rsc_cluster *c, uint8_t digest[16]) {
  struct hasher hasher, *state = &hasher;
  open_hasher(state);
  const double rates[6] = {c->links.nvlink_bandwidth, c->links.nvlink_latency,   c->links.network_bandwidth,
                           c->links.network_latency,  c->links.memory_bandwidth, c->links.issue_seconds};
  put(state, rates, sizeof rates);
  for (int64_t i = 0; i < c->host_count; i++) {
    put_text(state, c->hosts[i].name);
    put_int(state, c->hosts[i].gpus);
    put_int(state, c->hosts[i].nics);
    put_text(state, c->domains[c->hosts[i].domain].name);
  }
  for (int64_t r = 0; r < c->world; r++) {
    put_int(state, c->processes[r].host);
    put_int(state, c->processes[r].gpu);
    put_int(state, c->processes[r].train_rank);
    put_int(state, c->processes[r].infer_rank);
  }
  XXH128_canonicalFromHash((XXH128_canonical_t *)digest, take_hash(state));
  close_hasher(state);
}

void rsc_options_digest(const struct rsc_plan_limits *limits, uint8_t digest[16]) {
  struct hasher hasher, *state = &hasher;
  open_hasher(state);
  put_int(state, limits->staging);
  put_int(state, limits->chunk);
  put_int(state, limits->max_ops);
  put_int(state, limits->max_peers);
  XXH128_canonicalFromHash((XXH128_canonical_t *)digest, take_hash(state));
  close_hasher(state);
}
