// SPDX-License-Identifier: Apache-2.0
//
// Out: a plan that breaks one rule, made from the tiny plan by a line of bad.def.
#include "tests/plan/bad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plans/rules.h"
#include "plans/seal.h"

static const struct rsp_ploop many_ploops[100] = {{8, 1, 1}};

static struct rsp_dirent *directory_of(struct rsp_header *h) {
  return (void *)((unsigned char *)h + h->sections[RSP_SEC_DIRECTORY].off);
}

static struct rsp_slice *slice_of(struct rsp_header *h, unsigned rank) {
  return (void *)((unsigned char *)h + directory_of(h)[rank].off);
}

static unsigned char *held_of(struct rsp_header *h, unsigned rank) {
  return (unsigned char *)h + directory_of(h)[rank].held_off;
}

// The rank now has the holdings block of another, and the tables in it.
static void share(struct rsp_header *h, unsigned rank, unsigned with) {
  directory_of(h)[rank].held_off = directory_of(h)[with].held_off;
  directory_of(h)[rank].held_bytes = directory_of(h)[with].held_bytes;
  memcpy(&slice_of(h, rank)->names, &slice_of(h, with)->names, RSP_HELD_COUNT * sizeof(struct rsp_table));
}

static void reseal_header(struct rsp_header *h) {
  rsp_header_id(h, h->plan_id);
}

static void reseal_sections(struct rsp_header *h) {
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++)
    rsp_digest((unsigned char *)h + h->sections[s].off, h->sections[s].bytes, h->sections[s].digest);
  reseal_header(h);
}

static void reseal_directory(struct rsp_header *h) {
  for (unsigned r = 0; r < h->world; r++) directory_of(h)[r].check = rsp_dirent_seal(&directory_of(h)[r], r);
  reseal_sections(h);
}

// Rank 0 loses buffer "b" and the stream that reads it; what is left is sound.
static void drop_last_buffer(struct rsp_slice_tables *t) {
  t->buffer_count--;
  t->body_count--;
  t->desc_count--;
  t->shape_count--;
  t->stream_count--;
  t->part_count--;
}

// Many rows whose names are all one long string.
static void many_names(struct tiny *t) {
  static char names[8192];
  static struct rsp_sbuffer rows[64];
  memset(names, 'n', sizeof names);
  for (uint32_t i = 0; i < 64; i++) rows[i] = (struct rsp_sbuffer){.name = {0, sizeof names}, .gid = i};
  t->slices[0].names = names;
  t->slices[0].names_bytes = sizeof names;
  t->slices[0].buffers = rows;
  t->slices[0].buffer_count = 64;
}

// So many ranks with one block so long that reading it for each is far more than reading the file.
static void many_shares(struct tiny *t) {
  enum { RANKS = 2048 };
  static char names[16 << 20];
  static struct rsp_rank ranks[RANKS];
  static struct rsp_slice_tables slices[RANKS];
  for (uint32_t r = 0; r < RANKS; r++)
    slices[r] = (struct rsp_slice_tables){.world_rank = r, .names = names, .names_bytes = sizeof names};
  t->instead = slices;
  t->global.world = t->global.infer_world = RANKS;
  t->global.sections[RSP_SEC_RANKS] = ranks;
  t->global.counts[RSP_SEC_RANKS] = RANKS;
}

#define BAD_TABLES(RULE, id, ...)                                                                                      \
  static void tables_##RULE##_##id(struct tiny *t) {                                                                   \
    __VA_ARGS__;                                                                                                       \
  }
#define BAD_BYTES(RULE, id, ...)                                                                                       \
  static void bytes_##RULE##_##id(unsigned char *b, struct rsp_header *h, size_t *size) {                              \
    (void)b, (void)h, (void)size;                                                                                      \
    __VA_ARGS__;                                                                                                       \
  }
#define BAD_RAW(RULE, id, ...) BAD_BYTES(RULE, id, __VA_ARGS__)
#include "tests/plan/bad.def"
#undef BAD_TABLES
#undef BAD_BYTES
#undef BAD_RAW

const struct bad bad_plans[] = {
#define BAD_TABLES(RULE, id, ...) {#RULE "/" #id, RSP_RULE_##RULE, tables_##RULE##_##id, NULL, false},
#define BAD_BYTES(RULE, id, ...) {#RULE "/" #id, RSP_RULE_##RULE, NULL, bytes_##RULE##_##id, true},
#define BAD_RAW(RULE, id, ...) {#RULE "/" #id, RSP_RULE_##RULE, NULL, bytes_##RULE##_##id, false},
#include "tests/plan/bad.def"
};
const size_t bad_count = sizeof bad_plans / sizeof bad_plans[0];

unsigned char *bad_build(const struct bad *bad, size_t *size) {
  struct tiny *t = malloc(sizeof *t);
  void *bytes = NULL;
  if (!t) return NULL;
  tiny_init(t);
  if (bad->tables) bad->tables(t);
  bool good = tiny_build(t, &bytes, size);
  free(t);
  // Room for the mutations that extend the file.
  unsigned char *roomy = good ? calloc(1, *size + 16) : NULL;
  if (roomy) memcpy(roomy, bytes, *size);
  free(bytes);
  if (roomy && bad->bytes) bad->bytes(roomy, (void *)roomy, size);
  if (roomy && bad->reseal) rsp_reseal(roomy, *size);
  return roomy;
}
