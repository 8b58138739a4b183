/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a layout. Out: its stable text form, close to the language: a line per tensor, mesh, buffer and skip.
 */
#include <inttypes.h>

#include "compiler/pass/resolve.h"

struct printer {
  const struct rsc_layout *layout;
  const struct rsc_mesh *mesh; /* of the buffer being printed */
  FILE *out;
};

static void print_name(FILE *out, const char *name) {
  fputc('"', out);
  for (; *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 32 || c == 127)
      fprintf(out, "\\x%02X", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

static void print_list(FILE *out, const int64_t *list, int64_t len) {
  fputc('[', out);
  for (int64_t i = 0; i < len; i++) fprintf(out, "%s%" PRId64, i ? ", " : "", list[i]);
  fputc(']', out);
}

static void print_share(FILE *out, const struct rsc_share *share) {
  if (share->k)
    fprintf(out, "%" PRId64, share->k);
  else
    print_list(out, share->groups, share->group_count);
}

static void print_cut(const struct printer *p, const struct rsc_cut *cut) {
  FILE *out = p->out;
  fprintf(out, " @%s", p->mesh->axes[cut->axis].name);
  switch (cut->rule) {
  case RSC_CUT_EVEN:
    break;
  case RSC_CUT_CHUNK:
    fputs(":chunk", out);
    break;
  case RSC_CUT_BALANCED:
    fputs(":balanced", out);
    break;
  case RSC_CUT_SIZES:
    fputc(':', out);
    print_list(out, cut->list, cut->list_len);
    break;
  case RSC_CUT_CYCLIC:
    fprintf(out, ":cyclic(%" PRId64 ")", cut->arg);
    break;
  case RSC_CUT_PADDED:
    fprintf(out, ":padded(%" PRId64 ")", cut->arg);
    break;
  case RSC_CUT_SHARE:
    fputs(":share(", out);
    print_share(out, cut->shares);
    fputc(')', out);
    break;
  case RSC_CUT_EACH:
    fputs(":each(", out);
    print_list(out, cut->list, cut->list_len);
    for (int64_t i = 0; i < cut->share_count; i++) {
      fputs(i ? ", " : ", [", out);
      print_share(out, &cut->shares[i]);
    }
    fputs(cut->share_count ? "])" : ")", out);
    break;
  }
}

static void print_cuts(const struct printer *p, const struct rsc_cut *cuts, int32_t count) {
  for (int32_t i = 0; i < count; i++) print_cut(p, &cuts[i]);
}

static void print_dims(const struct printer *p, const struct rsc_dim *dims, int32_t count) {
  FILE *out = p->out;
  for (int32_t i = 0; i < count; i++) {
    const struct rsc_dim *d = &dims[i];
    if (i) fputs(", ", out);
    if (d->padded) fputs("pad(", out);
    if (d->kind == RSC_DIM_SIZE)
      fprintf(out, "%" PRId64, d->size);
    else
      fputs(d->kind == RSC_DIM_KEEP ? "_" : "..", out);
    if (d->padded) fprintf(out, ", %" PRId64 ")", d->pad_to);
    print_cuts(p, d->cuts, d->cut_count);
  }
}

static void print_value(const struct printer *p, const struct rsc_value *v);

static void print_children(const struct printer *p, const struct rsc_value *v, const char *before) {
  for (int64_t i = 0; i < v->child_count; i++) {
    if (i || *before) fputs(i ? ", " : before, p->out);
    print_value(p, v->children[i]);
  }
}

static void print_call(const struct printer *p, const struct rsc_value *v, const char *word) {
  fprintf(p->out, "%s(", word);
  print_children(p, v, "");
}

static void print_value(const struct printer *p, const struct rsc_value *v) {
  FILE *out = p->out;
  switch (v->kind) {
  case RSC_VALUE_TENSOR:
    print_name(out, p->layout->tensors[v->tensor].name);
    return;
  case RSC_VALUE_VIEW:
    print_value(p, v->children[0]);
    fputc('[', out);
    print_dims(p, v->dims, v->dim_count);
    fputc(']', out);
    return;
  case RSC_VALUE_GAP:
    fputs("gap(", out);
    print_dims(p, v->dims, v->dim_count);
    break;
  case RSC_VALUE_CAT:
    fprintf(out, "cat(%" PRId64, v->k);
    print_children(p, v, ", ");
    break;
  case RSC_VALUE_STACK:
    print_call(p, v, "stack");
    if (v->cut_count) fputc(';', out);
    print_cuts(p, v->cuts, v->cut_count);
    break;
  case RSC_VALUE_SLICE:
    print_call(p, v, "slice");
    fprintf(out, ", %" PRId64 ", %" PRId64 ", %" PRId64, v->k, v->lo, v->hi);
    break;
  case RSC_VALUE_PERMUTE:
    print_call(p, v, "permute");
    for (int32_t i = 0; i < v->perm_len; i++) fprintf(out, ", %" PRId64, v->perm[i]);
    break;
  case RSC_VALUE_ADD:
    print_call(p, v, "add");
    fprintf(out, ", %.9g", v->constant);
    break;
  case RSC_VALUE_CAST:
    print_call(p, v, "cast");
    break;
  case RSC_VALUE_NEG_EXP:
    print_call(p, v, "neg_exp");
    break;
  case RSC_VALUE_REPLICA:
    print_call(p, v, "replica");
    break;
  }
  fputc(')', out);
}

/* Runs of consecutive ranks as lo..hi. */
static void print_mesh(const struct rsc_mesh *mesh, FILE *out) {
  fprintf(out, "mesh %s [", mesh->name);
  for (int32_t i = 0; i < mesh->axis_count; i++)
    fprintf(out, "%s%s: %" PRId64, i ? ", " : "", mesh->axes[i].name, mesh->axes[i].size);
  fputs("] ranks", out);
  for (int64_t i = 0, end; i < mesh->rank_count; i = end) {
    for (end = i + 1; end < mesh->rank_count && mesh->ranks[end] == mesh->ranks[end - 1] + 1;) end++;
    fprintf(out, "%s %" PRId64, i ? "," : "", mesh->ranks[i]);
    if (end > i + 1) fprintf(out, "..%" PRId64, mesh->ranks[end - 1] + 1);
  }
  fputc('\n', out);
}

static void print_buffer(const struct rsc_layout *layout, const struct rsc_buffer *b, FILE *out) {
  struct printer p = {layout, &layout->meshes[b->mesh], out};
  bool pinned = false;
  fputs("buffer ", out);
  print_name(out, b->name);
  fprintf(out, " on %s", p.mesh->name);
  for (int32_t i = 0; i < p.mesh->axis_count; i++) {
    if (b->pins[i] < 0) continue;
    fprintf(out, "%s%s = %" PRId64, pinned ? ", " : "[", p.mesh->axes[i].name, b->pins[i]);
    pinned = true;
  }
  if (pinned) fputc(']', out);
  if (b->dtype) fprintf(out, " %s", rsp_dtype_word(b->dtype));
  fputs(" = ", out);
  print_value(&p, b->value);
  fprintf(out, " @%u:%u%s%s\n", b->span.line, b->span.col, *b->loop_values ? " " : "", b->loop_values);
}

void rsc_layout_print(const struct rsc_layout *layout, FILE *out) {
  fprintf(out, "layout %s world %" PRId64 "\n", layout->side == RSC_TRAIN ? "train" : "infer", layout->world);
  for (int64_t i = 0; i < layout->tensor_count; i++) {
    fputs("tensor ", out);
    print_name(out, layout->tensors[i].name);
    fprintf(out, " %s ", rsp_dtype_word(layout->tensors[i].dtype));
    print_list(out, layout->tensors[i].dims, layout->tensors[i].ndim);
    fputc('\n', out);
  }
  for (int32_t i = 0; i < layout->mesh_count; i++) print_mesh(&layout->meshes[i], out);
  for (int64_t i = 0; i < layout->buffer_count; i++) print_buffer(layout, &layout->buffers[i], out);
  for (int64_t i = 0; i < layout->skip_count; i++) {
    fputs("skip ", out);
    print_name(out, layout->skips[i].glob);
    fputc('\n', out);
  }
}
