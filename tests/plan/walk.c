// SPDX-License-Identifier: Apache-2.0
//
// In: a plan that the reader accepted. Out: a sum over all that it refers to, or an abort where something that the
// rules promise does not hold.
#include "tests/plan/walk.h"

#include <stdlib.h>

static uint64_t text(const char *table, struct rsp_str s) {
  return s.len ? (unsigned char)table[s.off] + (uint64_t)(unsigned char)table[s.off + s.len - 1] : 0;
}

static void must(bool holds) {
  if (!holds) abort();
}

static uint64_t walk_spec(const struct rsp_plan *p) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < p->tensor_count; i++) sum += text(p->strings, p->tensors[i].name);
  for (uint32_t r = 0; r < p->header->world; r++) sum += text(p->strings, p->ranks[r].host);
  for (uint64_t i = 0; i < p->buffer_count; i++) {
    const struct rsp_buffer *b = &p->buffers[i];
    const struct rsp_class *k = &p->classes[b->klass];
    sum += text(p->strings, b->name) + text(p->strings, p->files[b->file]);
    for (uint32_t s = 0; s < k->slot_count; s++) sum += p->tensors[p->slots[b->slots + s]].elems;
  }
  for (uint64_t c = 0; c < p->class_count; c++)
    for (uint64_t e = 0; e < p->classes[c].entry_count; e++) {
      const struct rsp_entry *entry = &p->entries[p->classes[c].entries + e];
      for (uint32_t d = 0; d < entry->ndim; d++) sum += p->dims[entry->dims + d];
      for (uint64_t i = 0; i < entry->piece_count; i++) {
        const struct rsp_piece *piece = &p->pieces[entry->pieces + i];
        for (uint32_t l = 0; l < piece->loop_count; l++) sum += p->ploops[piece->loops + l].count;
      }
    }
  return sum;
}

// Every run of a descriptor lies inside its buffer: by counting, not by extremes as the verifier does it.
static uint64_t walk_desc(const struct rsp_program *p, const struct rsp_desc *d, uint64_t *budget) {
  must(d->shape < p->slice->shapes.count);
  const struct rsp_shape *sh = rsp_shape_of(p, d);
  const struct rsp_loop *loops = p->loops + sh->loops;
  uint64_t k[64] = {0}, width = rsp_dtype_bytes(sh->buf_dtype), runs = 0;
  for (;;) {
    if (!*budget) return runs;
    --*budget;
    int64_t off = (int64_t)d->off, ref = d->ref;
    for (uint32_t i = 0; i < sh->loop_count; i++) {
      off += (int64_t)k[i] * loops[i].off_step;
      ref += (int64_t)k[i] * loops[i].ref_step;
    }
    must(ref >= 0 && ref <= UINT32_MAX);
    const struct rsp_sbuffer *b = rsp_program_buffer(p, (uint32_t)ref);
    must(b && b->dtype == sh->buf_dtype && off >= 0 && (uint64_t)off <= b->bytes);
    must(sh->run <= (b->bytes - (uint64_t)off) / width && (uint64_t)off % width == 0);
    runs++;
    uint32_t i = sh->loop_count;
    while (i > 0 && ++k[i - 1] == loops[i - 1].count) k[--i] = 0;
    if (!i) return runs;
  }
}

// A relay has what it sends from another stream, so that only its numbers can be looked at.
static void walk_relay(const struct rsp_header *header, const struct rsp_program *p, const struct rsp_stream *s) {
  must((header->features & RSP_FEATURE_RELAY) && s->dir == RSP_DIR_OUT && s->relay < p->slice->streams.count);
  const struct rsp_stream *in = &p->streams[s->relay];
  must(in->dir == RSP_DIR_IN && in->relay == RSP_NO_STREAM && in->kind == s->kind && in->part_count > 0);
  must(!s->part_count && !s->slots && s->bytes == in->bytes && rsp_stream_rounds(s) == rsp_stream_rounds(in));
  for (uint64_t i = 0; i < rsp_stream_rounds(s) && i < 100; i++)
    must(s->round0 + i * s->step == in->round0 + i * in->step + 1);
}

static void walk_stream(const struct rsp_header *header, const struct rsp_program *p, const struct rsp_stream *s,
                        uint64_t *budget) {
  uint64_t bytes = 0;
  must(s->peer < header->world && s->bytes > 0);
  must(s->round0 + (rsp_stream_rounds(s) - 1) * s->step < header->rounds);
  for (uint64_t k = 0; k < s->part_count && *budget; k++, --*budget) {
    const struct rsp_part *part = &p->parts[s->parts + k];
    bytes += (part->hi - part->lo) * p->bodies[part->body].wire_bytes;
  }
  if (s->relay != RSP_NO_STREAM)
    walk_relay(header, p, s);
  else
    must(!*budget || bytes == s->bytes);
  if (s->slots) {
    uint64_t message = s->bytes < s->quantum ? s->bytes : s->quantum;
    must(s->stage_off + (s->slots - 1) * s->slot_stride + message <= p->slice->staging);
  }
}

static uint64_t walk_slice(const struct rsp_header *header, const struct rsp_program *p, uint64_t *budget) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < p->slice->buffers.count; i++) {
    const struct rsp_sbuffer *b = &p->buffers[i];
    sum += text(p->names, b->name) + text(p->names, p->files[b->file]);
    for (uint32_t d = 0; d < b->ndim; d++) sum += p->dims[b->dims + d];
  }
  for (uint64_t i = 0; i < p->slice->zeros.count; i++) must(rsp_program_buffer(p, p->zeros[i].gid) != NULL);
  for (uint64_t i = 0; i < p->slice->bodies.count; i++)
    for (uint64_t k = 0; k < p->bodies[i].desc_count; k++)
      sum += walk_desc(p, &p->descs[p->bodies[i].descs + k], budget);
  for (uint64_t i = 0; i < p->slice->streams.count; i++) walk_stream(header, p, &p->streams[i], budget);
  return sum;
}

uint64_t walk_plan(const struct rsp_plan *plan, uint64_t budget) {
  uint64_t sum = walk_spec(plan);
  for (uint32_t r = 0; r < plan->header->world; r++) {
    struct rsp_program program;
    rsp_program_of(plan, r, &program);
    sum += walk_slice(plan->header, &program, &budget);
  }
  return sum;
}

uint64_t walk_rank(const struct rsp_rank_view *view, uint64_t budget) {
  return walk_slice(&view->header, &view->program, &budget);
}
