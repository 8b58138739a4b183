/* SPDX-License-Identifier: Apache-2.0
 *
 * In: an element of a buffer of a rank that is wrong. Out: the round in which it is last delivered. Only reports need
 * it, so it walks through everything that the rank receives.
 */
#include "plans/verify/context.h"

struct search {
  struct rspv *v;
  uint32_t gid;
  int64_t element;
  const struct rsp_stream *stream;
  uint32_t round;
};

/* SRC is the byte of the stream, DST the element of the buffer. */
static bool visit_search(void *context, const struct rspv_visit *visit) {
  struct search *s = context;
  if (visit->ref[1] != (int64_t)s->gid) return true;
  struct rspv_lattice point = {.base = s->element, .last = s->element, .volume = 1};
  struct rspv_nests in;
  rspv_nests_init(&in);
  rspv_split(&s->v->work, visit->nest, RSPV_DST, &point, RSPV_VAL, &in, NULL);
  for (const struct rspv_nest *n = in.first; n; n = n->next) {
    int64_t first, last;
    rspv_nest_range(n, RSPV_SRC, &first, &last);
    uint32_t round = rspv_round_of(s->stream, (uint64_t)last);
    if (s->round == RSPV_NONE || round > s->round) s->round = round;
  }
  return true;
}

static void search_part(struct search *s, const struct rspv_body *body, const struct rsp_part *part, uint64_t at) {
  uint64_t begin = 0;
  int64_t wire = (int64_t)body->wire_bytes;
  struct rspv_form form;
  for (uint64_t i = 0; i < body->desc_count && begin < part->hi; i++) {
    if (!rspv_form_make(&form, NULL, body, i)) return;
    uint64_t end = begin + form.elems, from = part->lo > begin ? part->lo : begin, to = part->hi < end ? part->hi : end;
    rspv_place_in_stream(&form, 0, (int64_t)at + ((int64_t)begin - (int64_t)part->lo) * wire, wire);
    if (from < to) rspv_form_visit(s->v, &form, from - begin, to - begin, visit_search, s);
    begin = end;
  }
}

uint32_t rspv_locate(struct rspv *v, uint32_t rank, uint32_t gid, uint64_t element) {
  const struct rsp_program *program = &v->programs[rank];
  struct search s = {.v = v, .gid = gid, .element = (int64_t)element, .round = RSPV_NONE};
  for (uint64_t i = 0; i < program->slice->streams.count; i++) {
    s.stream = &program->streams[i];
    if (s.stream->dir != RSP_DIR_IN && s.stream->dir != RSP_DIR_SELF_DST) continue;
    uint64_t at = 0;
    for (uint64_t p = 0; p < s.stream->part_count; p++) {
      const struct rsp_part *part = &program->parts[s.stream->parts + p];
      const struct rspv_body *body = &v->bodies[v->body_of[rank][part->body]];
      search_part(&s, body, part, at);
      at += (part->hi - part->lo) * body->wire_bytes;
    }
  }
  return s.round;
}
