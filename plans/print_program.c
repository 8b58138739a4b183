// SPDX-License-Identifier: Apache-2.0
//
// In: a rank's program. Out: its part of the canonical text form.
#include "plans/print.h"

typedef unsigned long long ull;

static void print_buffers(FILE *out, const struct rsp_program *p) {
  for (uint64_t i = 0; i < p->slice->buffers.count; i++) {
    const struct rsp_sbuffer *b = &p->buffers[i];
    fprintf(out, "  buffer %u %s ", b->gid, b->side == RSP_TRAIN ? "train" : "infer");
    rsp_print_str(out, p->names, b->name);
    fprintf(out, " %s ", rsp_dtype_word(b->dtype));
    rsp_print_dims(out, p->dims + b->dims, b->ndim);
    fprintf(out, " bytes %llu align %u at ", (ull)b->bytes, b->align);
    rsp_print_str(out, p->names, p->files[b->file]);
    fprintf(out, ":%u:%u\n", b->line, b->col);
  }
  for (uint64_t i = 0; i < p->slice->zeros.count; i++) {
    const struct rsp_zero *z = &p->zeros[i];
    fprintf(out, "  zero buffer %u off %llu bytes %llu", z->gid, (ull)z->off, (ull)z->run_bytes);
    for (uint32_t k = 0; k < z->loop_count; k++) {
      const struct rsp_zloop *l = &p->zloops[z->loops + k];
      fprintf(out, " x %llu (off %llu)", (ull)l->count, (ull)l->step);
    }
    fputc('\n', out);
  }
}

static void print_desc(FILE *out, const struct rsp_program *p, const struct rsp_desc *d) {
  const struct rsp_shape *sh = &p->shapes[d->shape];
  fprintf(out, "    buffer %u off %llu run %llu %s", d->ref, (ull)d->off, (ull)sh->run, rsp_dtype_word(sh->buf_dtype));
  if (sh->buf_dtype != sh->wire_dtype) fprintf(out, " wire %s", rsp_dtype_word(sh->wire_dtype));
  rsp_print_op(out, sh->op, sh->constant);
  for (uint32_t k = 0; k < sh->loop_count; k++) {
    const struct rsp_loop *l = &p->loops[sh->loops + k];
    fprintf(out, " x %llu (", (ull)l->count);
    if (l->ref_step) fprintf(out, "buffer %+lld ", (long long)l->ref_step);
    fprintf(out, "off %+lld)", (long long)l->off_step);
  }
  fputc('\n', out);
}

static void print_stream(FILE *out, const struct rsp_program *p, const struct rsp_stream *s) {
  static const char *const dirs[] = {"to", "from", "self-src", "self-dst"};
  fprintf(out, "  stream %llu %s %u %s bytes %llu quantum %llu round %u step %u", (ull)(s - p->streams), dirs[s->dir],
          s->peer, s->kind == RSP_KIND_DIRECT ? "direct" : "staged", (ull)s->bytes, (ull)s->quantum, s->round0,
          s->step);
  if (s->tag) fprintf(out, " tag %u", s->tag);
  if (s->relay != RSP_NO_STREAM) fprintf(out, " relays stream %u", s->relay);
  if (s->slots) fprintf(out, " staging %llu slots %u stride %llu", (ull)s->stage_off, s->slots, (ull)s->slot_stride);
  fputc('\n', out);
  for (uint64_t i = 0; i < s->part_count; i++) {
    const struct rsp_part *part = &p->parts[s->parts + i];
    fprintf(out, "    part body %llu [%llu, %llu)\n", (ull)part->body, (ull)part->lo, (ull)part->hi);
  }
}

void rsp_print_program(FILE *out, const struct rsp_program *p) {
  const struct rsp_slice *s = p->slice;
  fprintf(out, "slice %u", s->world_rank);
  rsp_print_rank(out, "train", s->train_rank);
  rsp_print_rank(out, "infer", s->infer_rank);
  fprintf(out, " rounds %u staging %llu\n", s->rounds, (ull)s->staging);
  print_buffers(out, p);
  for (uint64_t i = 0; i < s->bodies.count; i++) {
    const struct rsp_body *b = &p->bodies[i];
    fprintf(out, "  body %llu elems %llu wire_bytes %u\n", (ull)i, (ull)b->elems, b->wire_bytes);
    for (uint64_t k = 0; k < b->desc_count; k++) print_desc(out, p, &p->descs[b->descs + k]);
  }
  for (uint64_t i = 0; i < s->streams.count; i++) print_stream(out, p, &p->streams[i]);
}
