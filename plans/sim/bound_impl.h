/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the bound. In order:
 *   atoms.c     a tensor's pieces -> its elements by who has them
 *   interest.c  tensors with their holders and wanters -> what domains, ranks and groups of holders must move
 *   egress.c    the group of holders that needs longest to send one copy of what only it has
 *   bound.c     the terms and the largest
 *   words.c     ranks, hosts and bytes in words
 */
#ifndef RSP_SIM_BOUND_IMPL_H
#define RSP_SIM_BOUND_IMPL_H

#include "plans/sim/impl.h"

/* Numbers for byte strings, in order of first use. */
struct rspm_keys {
  unsigned char *bytes;
  size_t used, room;
  struct {
    size_t at, len;
  } * rows;
  size_t count, capacity;
  uint32_t *slots;
  size_t slot_count;
};
uint32_t rspm_key(struct rspm_keys *keys, const void *bytes, size_t len, bool *fresh);
const void *rspm_key_bytes(const struct rspm_keys *keys, uint32_t key, size_t *len);
void rspm_keys_free(struct rspm_keys *keys);

/* ---- atoms ---- */

struct rspm_loop {
  uint64_t count, step;
};
/* Elements base + sum k_i * step_i of a tensor, and whose they are. Loops from the largest step, none of one turn. */
struct rspm_item {
  uint64_t base;
  uint32_t tag, loop_count;
  struct rspm_loop *loops; /* owned */
};
struct rspm_items {
  struct rspm_item *at;
  size_t count, capacity;
};
/* Adds a piece in the order of its own loops. */
void rspm_items_add(struct rspm_items *items, uint32_t tag, uint64_t base, const struct rsp_ploop *loops,
                    uint32_t loop_count);
void rspm_items_free(struct rspm_items *items);

/* Elements with the same tags. */
struct rspm_atom {
  const uint32_t *tags; /* ascending */
  uint32_t count;
  uint64_t elems;
};
struct rspm_atoms {
  struct rspm_atom *at;
  size_t count;
  struct rspm_keys keys; /* owns the tags */
};
/* False if the pieces fall into too many parts to be told apart: then there are no atoms. */
bool rspm_atoms_of(const struct rspm_items *items, const uint64_t *dims, uint32_t ndim, struct rspm_atoms *atoms);
void rspm_atoms_free(struct rspm_atoms *atoms);

/* ---- interest ---- */

/* What only these ranks can be the first to send. */
struct rspm_group {
  const uint32_t *ranks; /* world, ascending */
  size_t rank_count;
  double bytes;
  uint32_t example; /* the tensor that has most of it */
  double example_bytes;
  uint32_t last_kind;
};

struct rspm_groups {
  struct rspm_group *at;
  size_t count, capacity;
  struct rspm_keys keys; /* owns the ranks */
};

/* Tensors of one kind that have something in a group. By kind. */
struct rspm_share {
  uint32_t kind, group;
  uint64_t tensors; /* of the kind */
};

struct rspm_interest {
  uint32_t domains;
  uint32_t *domain_of; /* per rank: its domain's number, below `domains` */
  double *ingest;      /* per domain: bytes that it must take in */
  double *copies;      /* per domain: bytes that must come over NVLink, if the network brings no more than it must */
  double *need;        /* per rank: bytes that it wants and does not hold */
  double *memory;      /* per rank: bytes that it must write, and read to copy or to send */
  bool *active;        /* per rank: holds or wants something */
  struct rspm_groups outward; /* over the network */
  struct rspm_groups inward;  /* over NVLink, to others of their domain that want it */
  struct rspm_share *shares;
  size_t share_count;
  bool exact; /* false: some tensors were too finely cut and are left out, so the bound is too low */
};
void rspm_interest_of(const struct rsp_plan *plan, struct rspm_interest *interest);
void rspm_interest_free(struct rspm_interest *interest);

/* The set of ranks whose own bytes take longest at its rate: inside[rank] says who is in; returns seconds. */
double rspm_egress(const struct rspm_groups *groups, const double *rates, uint32_t world, bool *inside, double *bytes);

/* "ranks 112-127" of the side, and "(16 GPUs of t14, t15)". */
void rspm_ranks_text(const struct rsp_plan *plan, const bool *inside, char *text, size_t size);

#endif
