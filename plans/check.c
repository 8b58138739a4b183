// SPDX-License-Identifier: Apache-2.0
//
// In: bytes that may be anything. Out: yes, or the first rule of header, sections and directory that they break.
#include "plans/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void rsp_report(const struct rsp_check *check, enum rsp_rule rule, const void *at, const char *format, ...) {
  struct rsp_error *e = check->error;
  e->rule = (int)rule;
  e->offset = check->base + (uint64_t)((const unsigned char *)at - check->bytes);
  int n = snprintf(e->text, sizeof e->text, "rule %d at byte %llu: %s", e->rule, (unsigned long long)e->offset,
                   rsp_rule_sentence(e->rule));
  if (!format || n < 0 || (size_t)n + 3 >= sizeof e->text) return;
  n += snprintf(e->text + n, sizeof e->text - (size_t)n, "; ");
  va_list args;
  va_start(args, format);
  vsnprintf(e->text + n, sizeof e->text - (size_t)n, format, args);
  va_end(args);
}

bool rsp_no_memory(const struct rsp_check *check) {
  *check->error = (struct rsp_error){0};
  snprintf(check->error->text, sizeof check->error->text, "out of memory while the plan is checked");
  return false;
}

enum rsp_status rsp_status_of(bool good, const struct rsp_error *error) {
  if (good) return RSP_OK;
  return error->rule ? RSP_INVALID : RSP_TROUBLE;
}

// The magic as copies in text mode leave it: CRLF made LF, LF made CRLF, the eighth bit stripped, read as Latin-1 and
// written as UTF-8, or replaced.
static bool mangled_by_text(const unsigned char *at) {
  static const char stripped[] = "\tRESHARD", utf8[] = "\302\211RESHARD", replaced[] = "\357\277\275RESHARD";
  if (!memcmp(at, stripped, 8) || !memcmp(at, utf8, 9) || !memcmp(at, replaced, 10)) return true;
  if (memcmp(at, "\211RESHARD", 8) != 0) return false;
  return !memcmp(at + 8, "\n\032\n", 3) || !memcmp(at + 8, "\r\r\n\032\r\n", 6) || !memcmp(at + 8, "\r\n\032\r\n", 5) ||
         !memcmp(at + 8, "\r\032\r", 3);
}

bool rsp_check_magic(const struct rsp_check *check, uint64_t size) {
  static const uint8_t magic[16] = RSP_MAGIC;
  if (size < sizeof magic) return rsp_broken(check, RSP_RULE_FILE_SHORT, check->bytes, "%u bytes", (unsigned)size);
  if (memcmp(check->bytes, magic, sizeof magic) != 0) {
    if (mangled_by_text(check->bytes))
      return rsp_broken(check, RSP_RULE_MAGIC_TEXT, check->bytes, "copy the plan as binary");
    return rsp_broken(check, RSP_RULE_MAGIC, check->bytes, "this is not a plan");
  }
  if (size < sizeof(struct rsp_header))
    return rsp_broken(check, RSP_RULE_FILE_SHORT, check->bytes, "%u bytes of %u", (unsigned)size,
                      (unsigned)sizeof(struct rsp_header));
  return true;
}

static bool check_fields(const struct rsp_check *check, const struct rsp_header *h, uint64_t file_bytes) {
  const uint64_t known = RSP_FEATURE_RELAY;
  if (h->compat < 1 || h->version < h->compat || h->compat > RSP_VERSION)
    return rsp_broken(check, RSP_RULE_VERSION, &h->version, "version %u, compat %u, this reader %u", h->version,
                      h->compat, RSP_VERSION);
  if (h->features & ~known)
    return rsp_broken(check, RSP_RULE_FEATURES, &h->features, "unknown bits %llx",
                      (unsigned long long)(h->features & ~known));
  if (h->section_count != RSP_SECTION_COUNT)
    return rsp_broken(check, RSP_RULE_SECTION_COUNT, &h->section_count, "%u", h->section_count);
  if (h->file_bytes != file_bytes)
    return rsp_broken(check, RSP_RULE_FILE_BYTES, &h->file_bytes, "%llu said, %llu there: truncated or extended",
                      (unsigned long long)h->file_bytes, (unsigned long long)file_bytes);
  if (h->reserved0 || h->reserved[0] || h->reserved[1])
    return rsp_broken(check, RSP_RULE_HEADER_RESERVED, &h->reserved0, NULL);
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++)
    if (h->sections[s].reserved) return rsp_broken(check, RSP_RULE_HEADER_RESERVED, &h->sections[s].reserved, NULL);
  return true;
}

static bool check_places(const struct rsp_check *check, const struct rsp_header *h) {
  uint64_t at = sizeof *h, bytes;
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++) {
    const struct rsp_section *row = &h->sections[s];
    const char *name = rsp_section_name((enum rsp_section_kind)s);
    if (__builtin_mul_overflow(row->count, (uint64_t)rsp_record_bytes((enum rsp_section_kind)s), &bytes) ||
        bytes != row->bytes)
      return rsp_broken(check, RSP_RULE_SECTION_SIZE, row, "section %s", name);
    at = rsp_align_up(at, 8);
    if (row->off != at || row->off > h->file_bytes || row->bytes > h->file_bytes - row->off)
      return rsp_broken(check, RSP_RULE_SECTION_PLACE, row, "section %s", name);
    at += row->bytes;
  }
  return true;
}

bool rsp_check_header(const struct rsp_check *check, uint64_t file_bytes) {
  const struct rsp_header *h = (const void *)check->bytes;
  if (!check_fields(check, h, file_bytes)) return false;
  uint8_t id[16];
  rsp_header_id(h, id);
  if (memcmp(id, h->plan_id, sizeof id) != 0) return rsp_broken(check, RSP_RULE_PLAN_ID, h->plan_id, NULL);
  uint64_t sum = (uint64_t)h->train_world + h->infer_world;
  if (!h->train_world || !h->infer_world || h->world < h->train_world || h->world < h->infer_world || h->world > sum)
    return rsp_broken(check, RSP_RULE_WORLD, &h->world, "world %u, train %u, infer %u", h->world, h->train_world,
                      h->infer_world);
  if (!h->max_ops) return rsp_broken(check, RSP_RULE_LIMITS, &h->max_ops, NULL);
  if (!check_places(check, h)) return false;
  const enum rsp_section_kind per_rank[] = {RSP_SEC_RANKS, RSP_SEC_DIRECTORY};
  for (unsigned i = 0; i < 2; i++)
    if (h->sections[per_rank[i]].count != h->world)
      return rsp_broken(check, RSP_RULE_SECTION_ROWS, &h->sections[per_rank[i]].count, "section %s",
                        rsp_section_name(per_rank[i]));
  if (h->sections[RSP_SEC_SUMMARY].count != 1)
    return rsp_broken(check, RSP_RULE_SECTION_ROWS, &h->sections[RSP_SEC_SUMMARY].count, "section summary");
  return true;
}

bool rsp_check_dirent(const struct rsp_check *check, const struct rsp_header *header, const struct rsp_dirent *at,
                      uint32_t world_rank) {
  if (at->check != rsp_dirent_seal(at, world_rank))
    return rsp_broken(check, RSP_RULE_DIRENT_CHECK, at, "rank %u", world_rank);
  const struct rsp_section *last = &header->sections[RSP_SEC_DIRECTORY];
  if (at->off % RSP_PAGE || at->off < last->off + last->bytes || !rsp_inside(at->off, at->bytes, header->file_bytes) ||
      at->bytes < sizeof(struct rsp_slice))
    return rsp_broken(check, RSP_RULE_SLICE_PLACE, at, "rank %u", world_rank);
  bool none = !at->held_bytes && !at->held_off; // it holds nothing
  if (!none && (!at->held_bytes || at->held_off % 8 || at->held_off < last->off + last->bytes ||
                !rsp_inside(at->held_off, at->held_bytes, at->off)))
    return rsp_broken(check, RSP_RULE_HELD_PLACE, at, "rank %u", world_rank);
  return true;
}

static bool check_zero(const struct rsp_check *check, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; i++)
    if (check->bytes[i]) return rsp_broken(check, RSP_RULE_SECTION_PADDING, check->bytes + i, NULL);
  return true;
}

static bool check_sections(const struct rsp_check *check, const struct rsp_header *h, uint64_t *end) {
  uint64_t at = sizeof *h;
  uint8_t digest[16];
  for (unsigned s = 0; s < RSP_SECTION_COUNT; s++) {
    const struct rsp_section *row = &h->sections[s];
    if (!check_zero(check, at, row->off)) return false;
    rsp_digest(check->bytes + row->off, row->bytes, digest);
    if (memcmp(digest, row->digest, sizeof digest) != 0)
      return rsp_broken(check, RSP_RULE_SECTION_DIGEST, row->digest, "section %s",
                        rsp_section_name((enum rsp_section_kind)s));
    at = row->off + row->bytes;
  }
  *end = at;
  return true;
}

// The block of an entry: one that is known, with the same digest, or the next one, from *at on.
static bool check_block(const struct rsp_check *check, struct rsp_blocks *blocks, const struct rsp_dirent *entry,
                        uint32_t rank, uint64_t *at) {
  const struct rsp_dirent *known = rsp_block_of(blocks, entry);
  uint8_t digest[16];
  if (!entry->held_bytes) {
    rsp_digest(check->bytes, 0, digest);
    return memcmp(digest, entry->held_digest, sizeof digest) == 0 ||
           rsp_broken(check, RSP_RULE_HELD_DIGEST, entry->held_digest, "rank %u", rank);
  }
  if (known)
    return memcmp(known->held_digest, entry->held_digest, sizeof digest) == 0 ||
           rsp_broken(check, RSP_RULE_HELD_DIGEST, entry->held_digest, "rank %u", rank);
  if (entry->held_off != rsp_align_up(*at, 8)) return rsp_broken(check, RSP_RULE_HELD_PLACE, entry, "rank %u", rank);
  if (!check_zero(check, *at, entry->held_off)) return false;
  rsp_digest(check->bytes + entry->held_off, entry->held_bytes, digest);
  if (memcmp(digest, entry->held_digest, sizeof digest) != 0)
    return rsp_broken(check, RSP_RULE_HELD_DIGEST, entry->held_digest, "rank %u", rank);
  blocks->at[blocks->count++] = entry; // after all others, none of which is empty
  *at = entry->held_off + entry->held_bytes;
  return true;
}

// A block is read for each rank that has it: what that costs in all is bounded by the file's size.
static bool check_holdings(const struct rsp_check *check, const struct rsp_header *h,
                           const struct rsp_dirent *directory, uint64_t *at) {
  struct rsp_blocks blocks = {calloc((size_t)h->world, sizeof *blocks.at), 0};
  bool good = blocks.at || rsp_no_memory(check);
  uint64_t read = 0;
  for (uint32_t r = 0; r < h->world && good; r++) {
    good = rsp_check_dirent(check, h, &directory[r], r) && check_block(check, &blocks, &directory[r], r, at);
    read += good ? directory[r].held_bytes : 0;
    if (good && read > h->file_bytes * RSP_MAX_SHARING)
      good = rsp_broken(check, RSP_RULE_HELD_WORK, &directory[r], "rank %u", r);
  }
  free(blocks.at);
  return good;
}

bool rsp_check_cover(const struct rsp_check *check, uint64_t file_bytes) {
  const struct rsp_header *h = (const void *)check->bytes;
  const struct rsp_dirent *directory = (const void *)(check->bytes + h->sections[RSP_SEC_DIRECTORY].off);
  uint64_t at;
  uint8_t digest[16];
  if (!check_sections(check, h, &at) || !check_holdings(check, h, directory, &at)) return false;
  for (uint32_t r = 0; r < h->world; r++) {
    const struct rsp_dirent *entry = &directory[r];
    if (entry->off != rsp_align_up(at, RSP_PAGE)) return rsp_broken(check, RSP_RULE_SLICE_PLACE, entry, "rank %u", r);
    if (!check_zero(check, at, entry->off)) return false;
    rsp_digest(check->bytes + entry->off, entry->bytes, digest);
    if (memcmp(digest, entry->digest, sizeof digest) != 0)
      return rsp_broken(check, RSP_RULE_SLICE_DIGEST, entry->digest, "rank %u", r);
    at = entry->off + entry->bytes;
  }
  if (at != file_bytes)
    return rsp_broken(check, RSP_RULE_SLICE_PLACE, &directory[h->world - 1], "the file goes on after the last slice");
  return true;
}
