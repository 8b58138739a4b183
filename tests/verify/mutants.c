// SPDX-License-Identifier: Apache-2.0
//
// In: bytes of a changed plan. Out: who refuses it, or that it is still right. See mutants.h.
#include "tests/verify/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verify/replay.h"

enum verdict judge_mutant(void *bytes, size_t size, struct rspv_report *report, const char **why) {
  struct rsp_plan plan;
  struct rsp_error error;
  enum verdict verdict = REFUSED_BY_PROOF;
  if (!rsp_reseal(bytes, size)) return REFUSED_BY_STRUCTURE;
  if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) return REFUSED_BY_STRUCTURE;
  if (rspv_verify(&plan, report)) {
    *why = replay(&plan);
    verdict = *why ? ACCEPTED_BUT_WRONG : EQUIVALENT;
  }
  rsp_close(&plan);
  return verdict;
}

static void add(struct region **list, size_t *count, const char *name, uint32_t rank, size_t off, size_t record,
                size_t rows) {
  *list = realloc(*list, (*count + 1) * sizeof **list);
  if (!*list) abort();
  struct region *r = &(*list)[(*count)++];
  snprintf(r->name, sizeof r->name, rank == UINT32_MAX ? "%s" : "%s of %u", name, rank);
  r->off = off;
  r->record = record;
  r->count = rows;
}

size_t list_regions(const void *bytes, struct region **regions) {
  static const struct {
    const char *name;
    enum rsp_section_kind kind;
    size_t record;
  } sections[] = {{"tensors", RSP_SEC_TENSORS, sizeof(struct rsp_tensor)},
                  {"dims", RSP_SEC_DIMS, 8},
                  {"ranks", RSP_SEC_RANKS, sizeof(struct rsp_rank)},
                  {"classes", RSP_SEC_CLASSES, sizeof(struct rsp_class)},
                  {"entries", RSP_SEC_ENTRIES, sizeof(struct rsp_entry)},
                  {"pieces", RSP_SEC_PIECES, sizeof(struct rsp_piece)},
                  {"ploops", RSP_SEC_PLOOPS, sizeof(struct rsp_ploop)},
                  {"buffers", RSP_SEC_BUFFERS, sizeof(struct rsp_buffer)},
                  {"slots", RSP_SEC_SLOTS, 4},
                  {"rankmaps", RSP_SEC_RANKMAPS, sizeof(struct rsp_rankmap)},
                  {"holds", RSP_SEC_HOLDS, sizeof(struct rsp_hold)},
                  {"summary", RSP_SEC_SUMMARY, sizeof(struct rsp_summary)}};
  const struct rsp_header *h = bytes;
  size_t count = 0;
  *regions = NULL;
  for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
    const struct rsp_section *s = &h->sections[sections[i].kind];
    add(regions, &count, sections[i].name, UINT32_MAX, s->off, sections[i].record, s->count);
  }
  const struct rsp_dirent *directory = (const void *)((const char *)bytes + h->sections[RSP_SEC_DIRECTORY].off);
  for (uint32_t r = 0; r < h->world; r++) {
    size_t at = directory[r].off;
    const struct rsp_slice *s = (const void *)((const char *)bytes + at);
    add(regions, &count, "slice", r, at, sizeof *s, 1);
    add(regions, &count, "sbuffers", r, at + s->buffers.off, sizeof(struct rsp_sbuffer), s->buffers.count);
    add(regions, &count, "sdims", r, at + s->dims.off, 8, s->dims.count);
    add(regions, &count, "zeros", r, at + s->zeros.off, sizeof(struct rsp_zero), s->zeros.count);
    add(regions, &count, "zloops", r, at + s->zloops.off, sizeof(struct rsp_zloop), s->zloops.count);
    add(regions, &count, "bodies", r, at + s->bodies.off, sizeof(struct rsp_body), s->bodies.count);
    add(regions, &count, "descs", r, at + s->descs.off, sizeof(struct rsp_desc), s->descs.count);
    add(regions, &count, "shapes", r, at + s->shapes.off, sizeof(struct rsp_shape), s->shapes.count);
    add(regions, &count, "loops", r, at + s->loops.off, sizeof(struct rsp_loop), s->loops.count);
    add(regions, &count, "streams", r, at + s->streams.off, sizeof(struct rsp_stream), s->streams.count);
    add(regions, &count, "parts", r, at + s->parts.off, sizeof(struct rsp_part), s->parts.count);
  }
  return count;
}
