// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan. Out: its canonical text form: the specification here, the programs in print_program.c.
#include "plans/print.h"

#include <string.h>

void rsp_print_str(FILE *out, const char *table, struct rsp_str s) {
  fputc('"', out);
  for (uint64_t i = 0; i < s.len; i++) {
    unsigned char c = (unsigned char)table[s.off + i];
    if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
      fprintf(out, "\\x%02x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

void rsp_print_dims(FILE *out, const uint64_t *dims, uint32_t ndim) {
  fputc('[', out);
  for (uint32_t i = 0; i < ndim; i++) fprintf(out, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
  fputc(']', out);
}

void rsp_print_rank(FILE *out, const char *word, uint32_t rank) {
  if (rank == RSP_NO_RANK)
    fprintf(out, " %s -", word);
  else
    fprintf(out, " %s %u", word, rank);
}

void rsp_print_double(FILE *out, double value) {
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    double back;
    if (sscanf(text, "%lf", &back) == 1 && back == value) break;
  }
  for (char *c = text; *c; c++)
    if (!strchr("0123456789+-einfa", *c)) *c = '.'; // whatever this locale writes for the point
  fputs(text, out);
}

void rsp_print_op(FILE *out, uint32_t op, float constant) {
  if (op == RSP_OP_NEG_EXP) fputs(" neg_exp", out);
  if (op != RSP_OP_ADD) return;
  fputs(" add ", out);
  rsp_print_double(out, (double)constant);
}

static void print_header(FILE *out, const struct rsp_header *h) {
  char id[33];
  rsp_id_text(h->plan_id, id);
  fprintf(out, "plan version %u compat %u id %s\n", h->version, h->compat, id);
  fprintf(out, "world %u train %u infer %u rounds %u\n", h->world, h->train_world, h->infer_world, h->rounds);
  fprintf(out, "limits max_ops %u max_peers %u staging %llu chunk %llu\n", h->max_ops, h->max_peers,
          (unsigned long long)h->staging_limit, (unsigned long long)h->chunk);
  fprintf(out, "features%s\n", h->features & RSP_FEATURE_RELAY ? " relay" : " -");
}

static void print_inputs(FILE *out, const struct rsp_plan *p) {
  static const char *const kinds[] = {"?", "train", "infer", "model", "cluster", "options"};
  for (uint64_t i = 0; i < p->input_count; i++) {
    char digest[33];
    rsp_id_text(p->inputs[i].digest, digest);
    fprintf(out, "input %s ", kinds[p->inputs[i].kind]);
    rsp_print_str(out, p->strings, p->inputs[i].name);
    fprintf(out, " digest %s\n", digest);
  }
}

static void print_tensors(FILE *out, const struct rsp_plan *p) {
  for (uint64_t i = 0; i < p->tensor_count; i++) {
    const struct rsp_tensor *t = &p->tensors[i];
    fprintf(out, "tensor %llu ", (unsigned long long)i);
    rsp_print_str(out, p->strings, t->name);
    fprintf(out, " %s ", rsp_dtype_word(t->dtype));
    rsp_print_dims(out, p->dims + t->dims, t->ndim);
    fprintf(out, "%s%s\n", t->flags & RSP_TENSOR_SKIP_TRAIN ? " skip-train" : "",
            t->flags & RSP_TENSOR_SKIP_INFER ? " skip-infer" : "");
  }
}

static void print_ranks(FILE *out, const struct rsp_plan *p) {
  for (uint32_t r = 0; r < p->header->world; r++) {
    const struct rsp_rank *row = &p->ranks[r];
    fprintf(out, "rank %u", r);
    rsp_print_rank(out, "train", row->train_rank);
    rsp_print_rank(out, "infer", row->infer_rank);
    fputs(" host ", out);
    rsp_print_str(out, p->strings, row->host);
    fprintf(out, " gpu %u domain %u ", row->gpu, row->domain);
    rsp_print_str(out, p->strings, row->domain_name);
    fputc('\n', out);
  }
}

static void print_piece(FILE *out, const struct rsp_plan *p, const struct rsp_piece *piece) {
  fputs("    piece", out);
  if (piece->slot == RSP_SLOT_PAD)
    fputs(" pad", out);
  else if (piece->slot == RSP_SLOT_GAP)
    fputs(" gap", out);
  else
    fprintf(out, " slot %u t %llu", piece->slot, (unsigned long long)piece->t0);
  fprintf(out, " b %llu", (unsigned long long)piece->b0);
  for (uint32_t i = 0; i < piece->loop_count; i++) {
    const struct rsp_ploop *l = &p->ploops[piece->loops + i];
    fprintf(out, " x %llu (t %llu b %llu)", (unsigned long long)l->count, (unsigned long long)l->t_step,
            (unsigned long long)l->b_step);
  }
  rsp_print_op(out, piece->op, piece->constant);
  fputs(piece->flags & RSP_PIECE_REPLICA ? " replica\n" : "\n", out);
}

static void print_classes(FILE *out, const struct rsp_plan *p) {
  for (uint64_t c = 0; c < p->class_count; c++) {
    const struct rsp_class *k = &p->classes[c];
    fprintf(out, "class %llu slots %u\n", (unsigned long long)c, k->slot_count);
    for (uint64_t e = 0; e < k->entry_count; e++) {
      const struct rsp_entry *entry = &p->entries[k->entries + e];
      fprintf(out, "  entry %llu ", (unsigned long long)e);
      rsp_print_dims(out, p->dims + entry->dims, entry->ndim);
      fputc('\n', out);
      for (uint64_t i = 0; i < entry->piece_count; i++) print_piece(out, p, &p->pieces[entry->pieces + i]);
    }
  }
}

static void print_buffers(FILE *out, const struct rsp_plan *p) {
  for (uint64_t i = 0; i < p->buffer_count; i++) {
    const struct rsp_buffer *b = &p->buffers[i];
    fprintf(out, "buffer %llu %s ", (unsigned long long)i, b->side == RSP_TRAIN ? "train" : "infer");
    rsp_print_str(out, p->strings, b->name);
    fprintf(out, " %s class %u rankmap %u tensors", rsp_dtype_word(b->dtype), b->klass, b->rankmap);
    for (uint32_t s = 0; s < p->classes[b->klass].slot_count; s++) fprintf(out, " %u", p->slots[b->slots + s]);
    fputs(" at ", out);
    rsp_print_str(out, p->strings, p->files[b->file]);
    fprintf(out, ":%u:%u\n", b->line, b->col);
  }
  for (uint64_t m = 0; m < p->rankmap_count; m++) {
    const struct rsp_rankmap *map = &p->rankmaps[m];
    fprintf(out, "rankmap %llu", (unsigned long long)m);
    for (uint64_t i = 0; i < map->count; i++)
      fprintf(out, " %u:%u", p->holds[map->holds + i].rank, p->holds[map->holds + i].entry);
    fputc('\n', out);
  }
}

static void print_summary(FILE *out, const struct rsp_summary *s) {
  fprintf(out, "coverage tensors %llu elements %llu bytes %llu deliveries %llu\n", (unsigned long long)s->tensors,
          (unsigned long long)s->elements, (unsigned long long)s->bytes, (unsigned long long)s->deliveries);
  fprintf(out, "bytes local %llu nvlink %llu network %llu network_minimum %llu\n", (unsigned long long)s->local_bytes,
          (unsigned long long)s->nvlink_bytes, (unsigned long long)s->network_bytes,
          (unsigned long long)s->network_minimum);
  static const char *const words[] = {"seconds bound ", " makespan ", "\nlinks nvlink ", " latency ",
                                      " network ",      " latency ",  " memory ",        " issue "};
  const double values[] = {s->bound_seconds,     s->makespan_seconds, s->nvlink_bandwidth, s->nvlink_latency,
                           s->network_bandwidth, s->network_latency,  s->memory_bandwidth, s->issue_seconds};
  for (unsigned i = 0; i < 8; i++) {
    fputs(words[i], out);
    rsp_print_double(out, values[i]);
  }
  fputc('\n', out);
}

bool rsp_print(const struct rsp_plan *plan, FILE *out) {
  print_header(out, plan->header);
  print_inputs(out, plan);
  print_tensors(out, plan);
  print_ranks(out, plan);
  print_classes(out, plan);
  print_buffers(out, plan);
  print_summary(out, plan->summary);
  for (uint32_t r = 0; r < plan->header->world && !ferror(out); r++) {
    struct rsp_program program;
    rsp_program_of(plan, r, &program);
    rsp_print_program(out, &program);
  }
  return !ferror(out) && fflush(out) == 0;
}
