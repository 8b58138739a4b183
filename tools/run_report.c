// SPDX-License-Identifier: Apache-2.0
//
// run_report: in: figures. Out: a table, or one JSON object on a line of its own.

#include "tools/run_report.h"
#include "plans/words.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/run_names.h"

// Below this many bytes delivered, the time of a replay is that of starting it.
#define RATIO_LEAST_BYTES 16000000

static int ascending(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return a < b ? -1 : a > b;
}

double run_median(const double *values, uint32_t count) {
  if (!count) return 0;
  double *sorted = malloc(count * sizeof *sorted);
  if (!sorted) return values[0];
  memcpy(sorted, values, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, ascending);
  double middle = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
  free(sorted);
  return middle;
}

static double gigabytes_per_second(uint64_t bytes, double seconds) {
  return seconds > 0 ? (double)bytes / seconds / 1e9 : 0;
}

// "12 345 678": digits in groups, for counts that are read aloud.
static const char *grouped(uint64_t number, char out[32]) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRIu64, number), at = 0;
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) out[at++] = ',';
    out[at++] = digits[i];
  }
  out[at] = '\0';
  return out;
}

static const char *seconds_text(double seconds, char out[32]) {
  if (seconds >= 1)
    snprintf(out, 32, "%.2f s", seconds);
  else if (seconds >= 1e-3)
    snprintf(out, 32, "%.1f ms", seconds * 1e3);
  else
    snprintf(out, 32, "%.1f us", seconds * 1e6);
  return out;
}

// What the numbers of one table are drawn from.
struct figures {
  uint64_t payload, copied; /* bytes delivered by a refit; bytes of the plain copy */
  double refit, memcpy, refit_rate, memcpy_rate;
  bool comparable; /* there are times of both, and they are those of copying */
};

static struct figures figures_of(const struct run_report *r) {
  struct figures f = {.payload = r->plan->summary->wanted_bytes, .copied = r->memory->side[RSP_INFER].arena_bytes};
  f.refit = run_median(r->refits, r->refit_count);
  f.memcpy = run_median(r->memcpys, r->memcpy_count);
  f.refit_rate = gigabytes_per_second(f.payload, f.refit);
  f.memcpy_rate = gigabytes_per_second(f.copied, f.memcpy);
  f.comparable = r->memcpy_count && f.memcpy_rate > 0 && f.refit > 0 && f.payload >= RATIO_LEAST_BYTES;
  return f;
}

static void row(FILE *out, const char *label, const char *figure, const char *note) {
  fprintf(out, "  %-10s %10s%s%s\n", label, figure, *note ? "   " : "", note);
}

static void verdict_row(FILE *out, const char *figure, bool good, const char *note) {
  const char *colour = !cli_colour(out) ? "" : good ? "\033[32m" : "\033[31m";
  fprintf(out, "  %-10s %s%10s%s   %s\n", "checked", colour, figure, *colour ? "\033[0m" : "", note);
}

static void print_wanted(const struct run_report *r, FILE *out) {
  const struct run_side *train = &r->memory->side[RSP_TRAIN], *infer = &r->memory->side[RSP_INFER];
  char figure[32], note[128], one[32], other[32];
  snprintf(note, sizeof note, "in %s training and %s inference buffers", grouped(train->total_slots, one),
           grouped(infer->total_slots, other));
  row(out, "tensors", grouped(r->plan->summary->tensors, figure), note);
  snprintf(note, sizeof note, "of the %s in inference buffers; the training side holds %s",
           cli_bytes((double)infer->bytes, one), cli_bytes((double)train->bytes, other));
  row(out, "wanted", cli_bytes((double)r->plan->summary->wanted_bytes, figure), note);
}

static void print_moved(const struct run_report *r, FILE *out) {
  const struct rsp_summary *s = r->plan->summary;
  char figure[32], note[128], network[32], nvlink[32], local[32];
  double moved = (double)s->network_bytes + (double)s->nvlink_bytes + (double)s->local_bytes;
  snprintf(note, sizeof note, "%s over the network, %s over NVLink, %s within a rank",
           cli_bytes((double)s->network_bytes, network), cli_bytes((double)s->nvlink_bytes, nvlink),
           cli_bytes((double)s->local_bytes, local));
  row(out, "moved", cli_bytes(moved, figure), note);
  snprintf(note, sizeof note, "over the network");
  if (s->network_minimum)
    snprintf(note, sizeof note, "over the network, of which the plan takes %.3f",
             (double)s->network_bytes / (double)s->network_minimum);
  row(out, "minimum", cli_bytes((double)s->network_minimum, figure), note);
}

static void print_rounds(const struct run_report *r, FILE *out) {
  const struct rsp_header *h = r->plan->header;
  uint64_t staging = 0;
  char figure[32], note[96];
  for (uint32_t rank = 0; rank < h->world; rank++)
    if (r->plan->directory[rank].staging > staging) staging = r->plan->directory[rank].staging;
  snprintf(note, sizeof note, "at most %s of staging on a rank", cli_bytes((double)staging, figure));
  row(out, "rounds", grouped(h->rounds, figure), note);
}

static void print_verdict(const struct run_report *r, FILE *out) {
  char figure[32], note[128];
  if (r->in) {
    row(out, "checked", "no", "the values came from files");
  } else if (r->right) {
    snprintf(note, sizeof note, "every byte of %s, under %" PRIu32 " pattern%s",
             cli_bytes((double)r->memory->side[RSP_INFER].bytes, figure), r->patterns, rsp_plural(r->patterns));
    verdict_row(out, "right", true, note);
  } else {
    snprintf(note, sizeof note, "under pattern %" PRIu32, r->mismatch_pattern + 1);
    verdict_row(out, "WRONG", false, note);
  }
}

static void print_speed(const struct run_report *r, FILE *out) {
  struct figures f = figures_of(r);
  char figure[32], note[96];
  if (!r->refit_count || f.refit <= 0) return;
  snprintf(note, sizeof note, "%.2f GB/s, median of %" PRIu32, f.refit_rate, r->refit_count);
  row(out, "replay", seconds_text(f.refit, figure), note);
  if (!r->memcpys || f.memcpy <= 0) return;
  snprintf(note, sizeof note, "%.2f GB/s, as many bytes on as many threads and processors", f.memcpy_rate);
  row(out, "memcpy", seconds_text(f.memcpy, figure), note);
  snprintf(figure, sizeof figure, "%.2f", f.refit_rate / f.memcpy_rate);
  if (f.comparable)
    row(out, "ratio", figure, "replay to memcpy, GB/s");
  else
    row(out, "ratio", "none", "under 16 MB, starting threads is most of both times");
}

void run_report_table(const struct run_report *r, FILE *out) {
  const struct rsp_header *h = r->plan->header;
  char id[33];
  rsp_id_text(h->plan_id, id);
  bool is_many = r->processes > 1;
  fprintf(out, "plan %s, %s%s%s\n", id, is_many ? "mpi, " : "", r->mode, r->verified ? ", verified" : "");
  fprintf(out, "%" PRIu32 " training and %" PRIu32 " inference rank%s as %" PRIu32 " %s%s on %u processor%s\n\n",
          h->train_world, h->infer_world, rsp_plural(h->infer_world), h->world, is_many ? "process" : "thread",
          is_many ? "es" : rsp_plural(h->world), r->processors, rsp_plural(r->processors));
  print_wanted(r, out);
  print_moved(r, out);
  print_rounds(r, out);
  if (r->in) row(out, "read", "from", r->in);
  if (r->out && r->right) row(out, "written", "to", r->out);
  print_verdict(r, out);
  if (r->right) print_speed(r, out);
  if (!r->mismatch) return;
  fputc('\n', out);
  run_mismatch_print(r->plan, r->mismatch, out);
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static json_t *name_json(const struct rsp_plan *plan, struct rsp_str name) {
  char *text = run_name_text(plan->strings, name);
  json_t *value = text ? json_string(text) : NULL;
  free(text);
  return value;
}

static json_t *index_json(uint64_t flat, const uint64_t *dims, uint32_t ndim) {
  json_t *list = json_array();
  for (uint32_t d = 0; d < ndim; d++) {
    uint64_t below = 1;
    for (uint32_t e = d + 1; e < ndim; e++) below *= dims[e];
    json_array_append_new(list, json_integer((json_int_t)(below && dims[d] ? flat / below % dims[d] : 0)));
  }
  return list;
}

static const char *wrong_word(enum run_wrong wrong) {
  static const char *const words[] = {"none", "element", "padding", "gap", "excused", "guard", "source"};
  return words[wrong];
}

static json_t *mismatch_json(const struct rsp_plan *plan, const struct run_mismatch *m) {
  if (!m) return json_null();
  const struct rsp_buffer *buffer = &plan->buffers[m->slot->gid];
  const struct rsp_entry *entry = m->slot->entry;
  char expected[24], got[24];
  snprintf(expected, sizeof expected, "0x%" PRIx64, m->expected);
  snprintf(got, sizeof got, "0x%" PRIx64, m->got);
  json_t *o = json_pack("{s:s, s:s, s:i, s:o, s:o, s:i, s:i, s:s, s:s, s:b}", "kind", wrong_word(m->wrong), "side",
                        buffer->side == RSP_TRAIN ? "train" : "infer", "rank", (int)m->slot->side_rank, "buffer",
                        name_json(plan, buffer->name), "file", name_json(plan, plan->files[buffer->file]), "line",
                        (int)buffer->line, "column", (int)buffer->col, "expected", expected, "got", got, "untouched",
                        (int)m->untouched);
  if (m->wrong == RUN_WRONG_GUARD)
    json_object_set_new(o, "byte", json_integer((json_int_t)m->b));
  else
    json_object_set_new(o, "buffer_index", index_json(m->b, plan->dims + entry->dims, entry->ndim));
  if (m->piece && m->piece->slot < RSP_SLOT_GAP) {
    const struct rsp_tensor *tensor = &plan->tensors[plan->slots[buffer->slots + m->piece->slot]];
    json_object_set_new(o, "tensor", name_json(plan, tensor->name));
    json_object_set_new(o, "tensor_index", index_json(m->t, plan->dims + tensor->dims, tensor->ndim));
  }
  return o;
}

static json_t *bytes_json(const struct run_report *r) {
  const struct rsp_summary *s = r->plan->summary;
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "wanted", (json_int_t)s->wanted_bytes, "local",
                   (json_int_t)s->local_bytes, "nvlink", (json_int_t)s->nvlink_bytes, "network",
                   (json_int_t)s->network_bytes, "network_minimum", (json_int_t)s->network_minimum, "train_buffers",
                   (json_int_t)r->memory->side[RSP_TRAIN].bytes, "infer_buffers",
                   (json_int_t)r->memory->side[RSP_INFER].bytes);
}

static json_t *speed_json(double seconds, double rate, uint64_t bytes, uint32_t count) {
  if (!count) return json_null();
  return json_pack("{s:f, s:I, s:f, s:I}", "seconds", seconds, "bytes", (json_int_t)bytes, "gigabytes_per_second", rate,
                   "samples", (json_int_t)count);
}

bool run_report_json(const struct run_report *r, FILE *out) {
  const struct rsp_header *h = r->plan->header;
  struct figures f = figures_of(r);
  char id[33];
  rsp_id_text(h->plan_id, id);
  json_t *ratio = f.comparable ? json_real(f.refit_rate / f.memcpy_rate) : json_null();
  json_t *o = json_pack("{s:s, s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "plan_id", id, "ok", (int)r->right, "backend",
                        r->backend, "mode", r->mode, "world", (json_int_t)h->world, "train_ranks",
                        (json_int_t)h->train_world, "infer_ranks", (json_int_t)h->infer_world, "rounds",
                        (json_int_t)h->rounds, "tensors", (json_int_t)r->plan->summary->tensors);
  if (!o) return false;
  json_object_set_new(o, "bytes", bytes_json(r));
  json_object_set_new(o, "processes", json_integer((json_int_t)r->processes));
  json_object_set_new(o, "threads", json_integer(r->processes > 1 ? 1 : (json_int_t)h->world));
  json_object_set_new(o, "verified", json_boolean(r->verified));
  json_object_set_new(o, "processors", json_integer((json_int_t)r->processors));
  json_object_set_new(o, "memory_bytes", json_integer((json_int_t)r->memory_bytes));
  json_object_set_new(o, "file_bytes", json_integer((json_int_t)r->file_bytes));
  json_object_set_new(o, "patterns", json_integer((json_int_t)r->patterns));
  json_object_set_new(o, "replay", speed_json(f.refit, f.refit_rate, f.payload, f.refit > 0 ? r->refit_count : 0));
  json_object_set_new(o, "memcpy", speed_json(f.memcpy, f.memcpy_rate, f.copied, r->memcpys ? r->memcpy_count : 0));
  json_object_set_new(o, "ratio", ratio);
  json_object_set_new(o, "mismatch", mismatch_json(r->plan, r->mismatch));
  bool good = json_dumpf(o, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0 && fputc('\n', out) != EOF;
  json_decref(o);
  return good;
}
