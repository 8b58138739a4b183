// SPDX-License-Identifier: Apache-2.0
//
// In: bytes of a plan. Out: their digests, in place for rsp_reseal. Assumes a little-endian machine, as the file is.
#include "plans/seal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "plans/plan.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are read in place: little-endian machines only");

// The file is these structs: a compiler that lays them out otherwise must not build this.
_Static_assert(sizeof(struct rsp_header) == 120 + 48 * RSP_SECTION_COUNT, "header");
_Static_assert(sizeof(struct rsp_input) == 40 && sizeof(struct rsp_tensor) == 48, "input, tensor");
_Static_assert(sizeof(struct rsp_rank) == 48 && sizeof(struct rsp_class) == 24, "rank, class");
_Static_assert(sizeof(struct rsp_entry) == 40 && sizeof(struct rsp_piece) == 48, "entry, piece");
_Static_assert(sizeof(struct rsp_ploop) == 24 && sizeof(struct rsp_buffer) == 56, "ploop, buffer");
_Static_assert(sizeof(struct rsp_rankmap) == 16 && sizeof(struct rsp_hold) == 8, "rankmap, hold");
_Static_assert(sizeof(struct rsp_summary) == 136 && sizeof(struct rsp_dirent) == 80, "summary, dirent");
_Static_assert(sizeof(struct rsp_slice) == 40 + 16 * RSP_TABLE_COUNT, "slice");
_Static_assert(sizeof(struct rsp_sbuffer) == 64 && sizeof(struct rsp_zero) == 32, "sbuffer, zero");
_Static_assert(sizeof(struct rsp_zloop) == 16 && sizeof(struct rsp_body) == 32, "zloop, body");
_Static_assert(sizeof(struct rsp_desc) == 16 && sizeof(struct rsp_shape) == 40 && sizeof(struct rsp_loop) == 24,
               "desc, loop");
_Static_assert(sizeof(struct rsp_stream) == 80 && sizeof(struct rsp_part) == 24, "stream, part");

void rsp_digest(const void *bytes, size_t size, uint8_t out[16]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(size ? bytes : "", size));
  memcpy(out, canonical.digest, 16);
}

void rsp_header_id(const struct rsp_header *header, uint8_t out[16]) {
  struct rsp_header copy = *header;
  memset(copy.plan_id, 0, sizeof copy.plan_id);
  rsp_digest(&copy, sizeof copy, out);
}

uint64_t rsp_dirent_seal(const struct rsp_dirent *entry, uint32_t world_rank) {
  return XXH3_64bits_withSeed(entry, offsetof(struct rsp_dirent, check), world_rank);
}

static const struct {
  const char *name;
  size_t bytes;
} sections[RSP_SECTION_COUNT] = {
    [RSP_SEC_STRINGS] = {"strings", 1},
    [RSP_SEC_INPUTS] = {"inputs", sizeof(struct rsp_input)},
    [RSP_SEC_FILES] = {"files", sizeof(struct rsp_str)},
    [RSP_SEC_TENSORS] = {"tensors", sizeof(struct rsp_tensor)},
    [RSP_SEC_DIMS] = {"dims", sizeof(uint64_t)},
    [RSP_SEC_RANKS] = {"ranks", sizeof(struct rsp_rank)},
    [RSP_SEC_CLASSES] = {"classes", sizeof(struct rsp_class)},
    [RSP_SEC_ENTRIES] = {"entries", sizeof(struct rsp_entry)},
    [RSP_SEC_PIECES] = {"pieces", sizeof(struct rsp_piece)},
    [RSP_SEC_PLOOPS] = {"ploops", sizeof(struct rsp_ploop)},
    [RSP_SEC_BUFFERS] = {"buffers", sizeof(struct rsp_buffer)},
    [RSP_SEC_SLOTS] = {"slots", sizeof(uint32_t)},
    [RSP_SEC_RANKMAPS] = {"rankmaps", sizeof(struct rsp_rankmap)},
    [RSP_SEC_HOLDS] = {"holds", sizeof(struct rsp_hold)},
    [RSP_SEC_SUMMARY] = {"summary", sizeof(struct rsp_summary)},
    [RSP_SEC_DIRECTORY] = {"directory", sizeof(struct rsp_dirent)},
};

static const struct {
  const char *name;
  size_t bytes;
} tables[RSP_TABLE_COUNT] = {
    {"names", 1},
    {"files", sizeof(struct rsp_str)},
    {"buffers", sizeof(struct rsp_sbuffer)},
    {"dims", sizeof(uint64_t)},
    {"zeros", sizeof(struct rsp_zero)},
    {"zloops", sizeof(struct rsp_zloop)},
    {"bodies", sizeof(struct rsp_body)},
    {"descs", sizeof(struct rsp_desc)},
    {"shapes", sizeof(struct rsp_shape)},
    {"loops", sizeof(struct rsp_loop)},
    {"streams", sizeof(struct rsp_stream)},
    {"parts", sizeof(struct rsp_part)},
};

size_t rsp_record_bytes(enum rsp_section_kind kind) {
  return sections[kind].bytes;
}
const char *rsp_section_name(enum rsp_section_kind kind) {
  return sections[kind].name;
}
size_t rsp_table_record_bytes(unsigned table) {
  return tables[table].bytes;
}
const char *rsp_table_name(unsigned table) {
  return tables[table].name;
}
const struct rsp_table *rsp_slice_tables_of(const struct rsp_slice *slice) {
  return &slice->names;
}

static bool inside(uint64_t off, uint64_t bytes, uint64_t size) {
  return off <= size && bytes <= size - off;
}

const struct rsp_dirent *rsp_block_of(const struct rsp_blocks *blocks, const struct rsp_dirent *entry) {
  uint64_t lo = 0, hi = blocks->count;
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (blocks->at[mid]->held_off < entry->held_off)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == blocks->count) return NULL;
  const struct rsp_dirent *found = blocks->at[lo];
  return found->held_off == entry->held_off && found->held_bytes == entry->held_bytes ? found : NULL;
}

// The bytes may be anything: what does not stand in order is read again.
static void seal_block(const unsigned char *base, struct rsp_blocks *blocks, struct rsp_dirent *entry) {
  const struct rsp_dirent *known = rsp_block_of(blocks, entry);
  if (known) {
    memcpy(entry->held_digest, known->held_digest, sizeof entry->held_digest);
    return;
  }
  rsp_digest(base + entry->held_off, entry->held_bytes, entry->held_digest);
  if (blocks->at && (!blocks->count || blocks->at[blocks->count - 1]->held_off < entry->held_off))
    blocks->at[blocks->count++] = entry;
}

bool rsp_reseal(void *bytes, size_t size) {
  if (size < sizeof(struct rsp_header) || (uintptr_t)bytes % 8) return false;
  unsigned char *base = bytes;
  struct rsp_header *header = bytes;
  const struct rsp_section *place = &header->sections[RSP_SEC_DIRECTORY];
  uint64_t rows = place->bytes / sizeof(struct rsp_dirent);
  if (place->off % 8 || place->off < sizeof *header || !inside(place->off, place->bytes, size)) return false;
  struct rsp_dirent *directory = (void *)(base + place->off);
  struct rsp_blocks blocks = {malloc((size_t)rows * sizeof *blocks.at), 0}; // without it every block is read again
  for (uint64_t r = 0; r < rows; r++) {
    struct rsp_dirent *entry = &directory[r];
    if (!inside(entry->off, entry->bytes, size) || !inside(entry->held_off, entry->held_bytes, size)) {
      free(blocks.at);
      return false;
    }
    rsp_digest(base + entry->off, entry->bytes, entry->digest);
    seal_block(base, &blocks, entry);
    entry->check = rsp_dirent_seal(entry, (uint32_t)r);
  }
  free(blocks.at);
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++) {
    struct rsp_section *section = &header->sections[s];
    if (!inside(section->off, section->bytes, size)) return false;
    rsp_digest(base + section->off, section->bytes, section->digest);
  }
  rsp_header_id(header, header->plan_id);
  return true;
}
