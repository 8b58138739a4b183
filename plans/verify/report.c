/* SPDX-License-Identifier: Apache-2.0
 *
 * In: violations as the proofs find them. Out: the first of each kind, the count of all, and one line of text.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "plans/verify/context.h"

const char *rspv_kind_word(enum rspv_kind kind) {
  static const char *const words[RSPV_KINDS] = {"specification", "cover",   "provenance", "matching",
                                                "progress",      "hazards", "bounds",     "summary"};
  return (unsigned)kind < RSPV_KINDS ? words[kind] : "?";
}

void rspv_report_add(struct rspv *v, enum rspv_kind kind, struct rspv_place place, const char *format, ...) {
  struct rspv_violation *slot = &v->report->violations[kind];
  if (slot->count++) return;
  slot->tensor = place.tensor;
  slot->buffer = place.buffer;
  slot->lo = place.lo;
  slot->hi = place.hi;
  slot->rank = place.rank;
  slot->peer = place.peer;
  slot->round = place.round;
  va_list args;
  va_start(args, format);
  vsnprintf(slot->what, sizeof slot->what, format, args);
  va_end(args);
}

bool rspv_spent(struct rspv *v, enum rspv_kind kind, struct rspv_place place) {
  if (v->work.left) return false;
  if (!v->report->violations[kind].count)
    rspv_report_add(v, kind, place, "too irregular to prove: its loops fall into more pieces than a plan needs");
  return true;
}

void rspv_place_range(struct rspv_place *place, uint32_t tensor, const struct rspv_nest *nest, enum rspv_func f) {
  int64_t lo, hi;
  rspv_nest_range(nest, f, &lo, &hi);
  place->tensor = tensor;
  place->lo = (uint64_t)lo;
  place->hi = (uint64_t)hi + 1;
}

/* Indices of a flat position, most significant first. */
static void unflatten(const uint64_t *dims, uint32_t ndim, uint64_t flat, uint64_t *index) {
  for (uint32_t i = ndim; i-- > 0;) {
    index[i] = dims[i] ? flat % dims[i] : 0;
    flat = dims[i] ? flat / dims[i] : 0;
  }
}

static size_t add_text(char *text, size_t size, size_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static size_t add_text(char *text, size_t size, size_t at, const char *format, ...) {
  if (at >= size) return at;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text + at, size - at, format, args);
  va_end(args);
  return at + (n > 0 ? (size_t)n : 0);
}

void rspv_range_text(const uint64_t *dims, uint32_t ndim, uint64_t lo, uint64_t hi, char *text, size_t size) {
  uint64_t a[8] = {0}, b[8] = {0};
  size_t at = 0;
  bool box = true;
  if (ndim > 8) ndim = 8;
  unflatten(dims, ndim, lo, a);
  unflatten(dims, ndim, hi > lo ? hi - 1 : lo, b);
  for (uint32_t i = 0; i < ndim; i++) box &= a[i] <= b[i];
  for (int end = 0; end < 1 + !box; end++) { /* a box, or its first and last element where it is none */
    const uint64_t *x = end ? b : a;
    if (end) at = add_text(text, size, at, "..");
    for (uint32_t i = 0; i < ndim; i++) {
      at = add_text(text, size, at, "%s%" PRIu64, i ? ", " : "[", x[i]);
      if (box && b[i] > a[i]) at = add_text(text, size, at, ":%" PRIu64, b[i] + 1);
    }
    at = add_text(text, size, at, ndim ? "]" : "[]");
  }
}

static void print_str(const struct rsp_plan *plan, struct rsp_str s, FILE *out) {
  fprintf(out, "\"%.*s\"", (int)(s.len > 400 ? 400 : s.len), plan->strings + s.off);
}

static void print_rank(const struct rsp_plan *plan, const char *lead, uint32_t rank, FILE *out) {
  if (rank == RSPV_NONE) return;
  const struct rsp_rank *r = &plan->ranks[rank];
  fprintf(out, "%s rank %u (", lead, rank);
  if (r->train_rank != RSP_NO_RANK) fprintf(out, "train %u", r->train_rank);
  if (r->infer_rank != RSP_NO_RANK) fprintf(out, "%sinfer %u", r->train_rank != RSP_NO_RANK ? ", " : "", r->infer_rank);
  fputs(")", out);
}

static void print_range(const struct rsp_plan *plan, const struct rspv_violation *x, FILE *out) {
  char text[256];
  if (x->tensor != RSPV_NONE) {
    const struct rsp_tensor *t = &plan->tensors[x->tensor];
    fputs(" tensor ", out);
    print_str(plan, t->name, out);
    if (x->hi > x->lo) {
      rspv_range_text(plan->dims + t->dims, t->ndim, x->lo, x->hi, text, sizeof text);
      fprintf(out, " %s (flat %" PRIu64 ":%" PRIu64 ")", text, x->lo, x->hi);
    }
  } else if (x->buffer != RSPV_NONE && x->hi > x->lo) {
    fprintf(out, " local elements %" PRIu64 ":%" PRIu64, x->lo, x->hi);
  }
  if (x->buffer != RSPV_NONE) {
    const struct rsp_buffer *b = &plan->buffers[x->buffer];
    struct rsp_str file = plan->files[b->file];
    fprintf(out, "%s %s buffer ", x->tensor != RSPV_NONE || x->hi > x->lo ? "," : "",
            b->side == RSP_TRAIN ? "training" : "inference");
    print_str(plan, b->name, out);
    fprintf(out, " (%.*s:%u)", (int)(file.len > 400 ? 400 : file.len), plan->strings + file.off, b->line);
  }
}

void rspv_print_violation(const struct rsp_plan *plan, const struct rspv_report *report, enum rspv_kind kind,
                          FILE *out) {
  const struct rspv_violation *x = &report->violations[kind];
  bool where = x->tensor != RSPV_NONE || x->buffer != RSPV_NONE;
  fprintf(out, "%s: %s%s", rspv_kind_word(kind), x->what, where ? ":" : "");
  print_range(plan, x, out);
  print_rank(plan, ", on", x->rank, out);
  print_rank(plan, ", peer", x->peer, out);
  if (x->round != RSPV_NONE) fprintf(out, ", round %u", x->round);
  if (x->count > 1) fprintf(out, " (and %" PRIu64 " more)", x->count - 1);
  fputc('\n', out);
}
