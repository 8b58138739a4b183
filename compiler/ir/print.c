/* SPDX-License-Identifier: Apache-2.0
 *
 * Stable text of the forms between passes, for --dump and golden tests. Lists that run with the size of a model show
 * a line per class, group or stream, not per tensor.
 */
#include <inttypes.h>

#include "compiler/pass/intersect.h"
#include "compiler/pass/route.h"
#include "compiler/pass/schedule.h"

static void print_nest(const struct rsc_nest *n, FILE *out) {
  fprintf(out, "t %" PRId64 " b %" PRId64, n->base[RSC_F_TENSOR], n->base[RSC_F_POS]);
  for (int32_t i = 0; i < n->loop_count; i++)
    fprintf(out, " (%" PRId64 ": t+%" PRId64 " b+%" PRId64 ")", rsc_nest_count(n, i), rsc_nest_step(n, i, RSC_F_TENSOR),
            rsc_nest_step(n, i, RSC_F_POS));
}

static void print_entry(const struct rsc_entry *e, int32_t number, FILE *out) {
  fprintf(out, "  entry %d [", number);
  for (int32_t i = 0; i < e->ndim; i++) fprintf(out, "%s%" PRId64, i ? ", " : "", e->dims[i]);
  fprintf(out, "]\n");
  for (size_t i = 0; i < e->pieces.len; i++) {
    const struct rsc_piece *p = &e->pieces.at[i];
    if (p->slot >= 0)
      fprintf(out, "    slot %d ", p->slot);
    else
      fprintf(out, "    %s ", p->slot == RSC_SLOT_PAD ? "pad" : "gap");
    print_nest(&p->nest, out);
    fprintf(out, "\n");
  }
}

void rsc_placement_print(const struct rsc_placement *p, FILE *out) {
  fprintf(out, "placement %s\n", p->layout->side == RSC_TRAIN ? "train" : "infer");
  for (int32_t c = 0; c < p->class_count; c++) {
    const struct rsc_class *k = &p->classes[c];
    fprintf(out, "class %d mesh %s %s slots %d\n", c, p->layout->meshes[k->mesh].name, rsp_dtype_word(k->dtype),
            k->slot_count);
    for (int32_t e = 0; e < k->entry_count; e++) print_entry(&k->entries[e], e, out);
  }
  for (int64_t i = 0; i < p->layout->buffer_count; i++) {
    fprintf(out, "buffer \"%s\" class %d map %d:", p->layout->buffers[i].name, p->buffers[i].klass,
            p->buffers[i].rankmap);
    for (int32_t s = 0; s < p->classes[p->buffers[i].klass].slot_count; s++)
      fprintf(out, " \"%s\"", p->layout->tensors[p->buffers[i].slots[s]].name);
    fprintf(out, "\n");
  }
  for (int32_t m = 0; m < p->rankmap_count; m++) {
    fprintf(out, "map %d:", m);
    for (int64_t i = 0; i < p->rankmaps[m].count; i++)
      fprintf(out, " %" PRId64 "=%d", p->rankmaps[m].ranks[i], p->rankmaps[m].entries[i]);
    fprintf(out, "\n");
  }
}

static void print_desc(const struct rsc_flow_desc *d, const struct rsc_group *g, FILE *out) {
  int32_t ends = g->wants + g->holds, words = 2 * ends;
  fprintf(out, "  %s run %" PRId64, rsp_dtype_word(d->wire), d->run);
  for (int32_t e = 0; e < ends; e++)
    fprintf(out, " %s gid %" PRId64 " off %" PRId64, e < g->wants ? "to" : "from", d->base[2 * e], d->base[2 * e + 1]);
  for (int32_t i = 0; i < d->loop_count; i++) {
    const int64_t *loop = d->loops + i * (1 + words);
    fprintf(out, " (%" PRId64 ":", loop[0]);
    for (int32_t w = 0; w < words; w++) fprintf(out, " %+" PRId64, loop[1 + w]);
    fprintf(out, ")");
  }
  fprintf(out, "\n");
}

void rsc_flows_print(const struct rsc_flows *f, FILE *out) {
  fprintf(out, "flows %" PRId64 " groups %d descriptors %" PRId64 "\n", f->flow_count, f->group_count, f->desc_count);
  for (int32_t g = 0; g < f->group_count; g++) {
    const struct rsc_group *k = &f->groups[g];
    fprintf(out, "group %d", g);
    for (int32_t e = 0; e < k->wants + k->holds; e++)
      fprintf(out, " %s %d", e < k->wants ? "to" : "from", k->ranksets[e]);
    fprintf(out, " elems %" PRId64 " x %u %s\n", k->elems, k->wire_bytes, k->direct ? "direct" : "staged");
    for (size_t i = 0; i < k->descs.len; i++) print_desc(&k->descs.at[i], k, out);
  }
}

static void print_stream(const struct rsc_stream *s, FILE *out) {
  fprintf(out, "stream %" PRId64 " -> %" PRId64 " %s #%d %" PRId64 " bytes", s->src, s->dst,
          s->direct ? "direct" : "staged", s->tag, s->bytes);
  if (s->parent >= 0) fprintf(out, ", passing on stream %" PRId64, s->parent);
  fprintf(out, ":");
  for (size_t k = 0; k < s->parts.len; k++) {
    const struct rsc_part *p = &s->parts.at[k];
    fprintf(out, " group %d/%d:%d [%" PRId64 ", %" PRId64 ")", p->group, p->src_end, p->dst_end, p->lo, p->hi);
  }
}

void rsc_routes_print(const struct rsc_routes *r, FILE *out) {
  fprintf(out, "routes local %" PRId64 " nvlink %" PRId64 " network %" PRId64 "\n", r->link_bytes[0], r->link_bytes[1],
          r->link_bytes[2]);
  for (int64_t i = 0; i < r->stream_count; i++) {
    print_stream(&r->streams[i], out);
    fprintf(out, "\n");
  }
}

void rsc_rounds_print(const struct rsc_routes *r, const struct rsc_rounds *rounds, FILE *out) {
  fprintf(out, "rounds %" PRId64 " chunk %" PRId64 "\n", rounds->rounds, rounds->chunk);
  for (int64_t i = 0; i < r->stream_count; i++) {
    const struct rsc_timing *t = &rounds->timings[i];
    print_stream(&r->streams[i], out);
    fprintf(out,
            " quantum %" PRId64 " rounds %" PRId64 " step %" PRId64 " staging %" PRId64 "/%" PRId64 "x%d -> %" PRId64
            "/%" PRId64 "x%d\n",
            t->quantum, t->round0, t->step, t->at_src.off, t->at_src.stride, t->at_src.slots, t->at_dst.off,
            t->at_dst.stride, t->at_dst.slots);
  }
}
