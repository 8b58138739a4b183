// SPDX-License-Identifier: Apache-2.0
//
// In: the tiny plan. Out: its tables, to be changed by named mutants, and whether such a mutant is refused as it
// should.
#include "tests/verify/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/verify/mutants.h"

struct rsp_stream *tagged(struct tiny *t, uint32_t rank, uint32_t dir, uint32_t peer, uint32_t kind, uint32_t tag) {
  for (uint64_t i = 0; i < t->slices[rank].stream_count; i++) {
    struct rsp_stream *s = &t->slice[rank].streams[i];
    if (s->dir == dir && s->peer == peer && s->kind == kind && s->tag == tag) return s;
  }
  abort();
}

struct rsp_part *part(struct tiny *t, uint32_t rank, const struct rsp_stream *s) {
  return &t->slice[rank].parts[s->parts];
}

struct rsp_desc *desc(struct tiny *t, uint32_t rank, const struct rsp_stream *s) {
  struct tiny_slice *x = &t->slice[rank];
  return &x->descs[x->bodies[part(t, rank, s)->body].descs];
}

// The descriptor's shape and loop, in rows of its own from here on.
struct rsp_shape *shape(struct tiny *t, uint32_t rank, const struct rsp_desc *d) {
  struct tiny_slice *x = &t->slice[rank];
  struct rsp_slice_tables *n = &t->slices[rank];
  struct rsp_shape old[8];
  memcpy(old, x->shapes, sizeof old);
  for (uint32_t i = 0; i < n->desc_count; i++) { // one for each descriptor
    x->shapes[i] = old[x->descs[i].shape];
    x->descs[i].shape = i;
  }
  n->shape_count = n->desc_count;
  struct rsp_shape *s = &x->shapes[d->shape];
  x->loops[n->loop_count] = s->loop_count ? x->loops[s->loops] : (struct rsp_loop){1, 0, 0};
  s->loops = n->loop_count++;
  return s;
}

void drop_stream(struct tiny *t, uint32_t rank, const struct rsp_stream *s) {
  struct tiny_slice *x = &t->slice[rank];
  uint64_t at = (uint64_t)(s - x->streams), left = --t->slices[rank].stream_count - at;
  memmove(&x->streams[at], &x->streams[at + 1], left * sizeof *s);
}

void more_rounds(struct tiny *t) {
  t->global.rounds = 4;
  for (int r = 0; r < TINY_WORLD; r++) t->slices[r].rounds = 4;
}

static void line_of(const void *bytes, size_t size, const struct rspv_report *report, enum rspv_kind kind, char *text,
                    size_t room) {
  struct rsp_plan plan;
  struct rsp_error error;
  memset(text, 0, room);
  FILE *out = fmemopen(text, room - 1, "w");
  if (!out || rsp_open_memory(bytes, size, &plan, &error) != RSP_OK) abort();
  rspv_print_violation(&plan, report, kind, out);
  fclose(out);
  rsp_close(&plan);
}

bool expect(const char *name, void *bytes, size_t size, enum rspv_kind kind, const char *says) {
  struct rspv_report report;
  const char *why = "";
  char line[1024];
  enum verdict verdict = judge_mutant(bytes, size, &report, &why);
  if (verdict == REFUSED_BY_STRUCTURE && kind == RSPV_KINDS) {
    struct rsp_plan plan;
    struct rsp_error error;
    if (rsp_open_memory(bytes, size, &plan, &error) != RSP_OK && strstr(rsp_rule_sentence(error.rule), says))
      return true;
    fprintf(stderr, "%s: expected \"%s\" in rule %d: %s\n", name, says, error.rule, error.text);
    return false;
  }
  if (verdict != REFUSED_BY_PROOF || kind == RSPV_KINDS) {
    static const char *const words[] = {"refused by structure", "refused by a proof", "still right",
                                        "accepted but wrong"};
    fprintf(stderr, "%s: %s %s\n", name, words[verdict], why);
    return false;
  }
  if (!report.violations[kind].count) {
    fprintf(stderr, "%s: not refused by %s\n", name, rspv_kind_word(kind));
    return false;
  }
  line_of(bytes, size, &report, kind, line, sizeof line);
  if (strstr(line, says)) return true;
  fprintf(stderr, "%s: expected \"%s\" in: %s", name, says, line);
  return false;
}
