// SPDX-License-Identifier: Apache-2.0
//
// In: an opened plan and what to show. Out: the page that a person reads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/plan_show.h"
#include "tools/plan_text.h"

enum { MOST_ROWS = 32 }; // more ranks than these are summed up, more rows of a rank are left to --json

static void show_inputs(const struct rsp_plan *plan) {
  static const char *const kinds[] = {"?", "train", "infer", "model", "cluster", "options"};
  for (uint64_t i = 0; i < plan->input_count; i++) {
    const struct rsp_input *in = &plan->inputs[i];
    char digest[33];
    rsp_id_text(in->digest, digest);
    printf("  %-9s  %.8s%s", kinds[in->kind], digest, in->name.len ? "  " : "");
    plan_text_str(stdout, plan->strings, in->name);
    fputc('\n', stdout);
  }
}

static uint32_t count_domains(const struct rsp_plan *plan) {
  uint32_t domains = 0;
  for (uint32_t r = 0; r < plan->header->world; r++)
    if (plan->ranks[r].domain >= domains) domains = plan->ranks[r].domain + 1;
  return domains;
}

static void show_world(const struct rsp_plan *plan) {
  const struct rsp_header *h = plan->header;
  uint64_t both = (uint64_t)h->train_world + h->infer_world - h->world;
  char staging[32];
  printf("  %-9s  %u process%s: %u training and %u inference rank%s", "world", h->world, h->world == 1 ? "" : "es",
         h->train_world, h->infer_world, rsp_plural(h->infer_world));
  if (both) printf(", %llu with both roles", (unsigned long long)both);
  printf("; %u NVLink domain%s\n", count_domains(plan), rsp_plural(count_domains(plan)));
  printf("  %-9s  %u; at most %u operations per rank and round, %s of staging\n", "rounds", h->rounds, h->max_ops,
         cli_bytes((double)h->staging_limit, staging));
}

static void show_link(const char *word, uint64_t bytes, uint64_t all, const char *note) {
  static const char bar[] = "##############################";
  char text[32];
  double share = all ? (double)bytes / (double)all : 0;
  int length = (int)(share * 30 + 0.5);
  printf("  %-9s  %10s  %5.1f %%", word, cli_bytes((double)bytes, text), share * 100);
  if (length) printf("  %.*s", length, bar);
  printf("%s\n", note);
}

static void show_bytes(const struct rsp_plan *plan) {
  const struct rsp_summary *s = plan->summary;
  uint64_t all = s->local_bytes + s->nvlink_bytes + s->network_bytes;
  char bytes[32], minimum[32], note[80];
  printf("  %-9s  %llu of %llu delivered; %llu element%s, %s wanted\n\n", "tensors", (unsigned long long)s->tensors,
         (unsigned long long)plan->tensor_count, (unsigned long long)s->elements, rsp_plural(s->elements),
         cli_bytes((double)s->bytes, bytes));
  show_link("local", s->local_bytes, all, "");
  show_link("NVLink", s->nvlink_bytes, all, "");
  if (s->network_minimum)
    snprintf(note, sizeof note, "  (%.3f x the minimum, %s)", (double)s->network_bytes / (double)s->network_minimum,
             cli_bytes((double)s->network_minimum, minimum));
  else
    snprintf(note, sizeof note, "  (the minimum is 0 B)");
  show_link("network", s->network_bytes, all, note);
  char bound[32], makespan[32];
  printf("\n  %-9s  bound %s, makespan %s simulated by the planner", "time", cli_duration(s->bound_seconds, bound),
         cli_duration(s->makespan_seconds, makespan));
  if (s->bound_seconds > 0) printf(", ratio %.3f", s->makespan_seconds / s->bound_seconds);
  printf("\n\n");
}

// ---- ranks ---------------------------------------------------------------------------------------------------------

enum { COLUMNS = 10 };
static const char *const titles[COLUMNS] = {"net out", "net in",   "nvl out", "nvl in", "local",
                                            "staging", "messages", "ops",     "slice",  "held"};
static const bool is_bytes[COLUMNS] = {true, true, true, true, true, true, false, false, true, true};

static void columns_of(const struct plan_facts *f, double out[COLUMNS]) {
  const uint64_t values[COLUMNS] = {f->network_out, f->network_in, f->nvlink_out, f->nvlink_in,
                                    f->local,       f->staging,    f->messages,   f->messages + f->copies,
                                    f->slice_bytes, f->held_bytes};
  for (unsigned i = 0; i < COLUMNS; i++) out[i] = (double)values[i];
}

static void show_columns(const double values[COLUMNS]) {
  for (unsigned i = 0; i < COLUMNS; i++) {
    char text[32];
    if (values[i] == 0)
      snprintf(text, sizeof text, "-");
    else if (is_bytes[i])
      cli_bytes(values[i], text);
    else
      snprintf(text, sizeof text, "%.0f", values[i]);
    printf(" %9s", text);
  }
  fputc('\n', stdout);
}

static void show_titles(const char *first) {
  printf("  %-30s", first);
  for (unsigned i = 0; i < COLUMNS; i++) printf(" %9s", titles[i]);
  fputc('\n', stdout);
}

static void show_rank_row(const struct rsp_plan *plan, uint32_t r) {
  const struct rsp_rank *row = &plan->ranks[r];
  struct plan_facts facts;
  double values[COLUMNS];
  char roles[64] = "", place[64], number[16];
  int n = 0;
  if (row->train_rank != RSP_NO_RANK) n = snprintf(roles, sizeof roles, "train %u ", row->train_rank);
  if (row->infer_rank != RSP_NO_RANK) snprintf(roles + n, sizeof roles - (size_t)n, "infer %u", row->infer_rank);
  snprintf(place, sizeof place, "%.*s:%u", (int)(row->host.len < 12 ? row->host.len : 12),
           plan->strings + row->host.off, row->gpu);
  snprintf(number, sizeof number, "%u", r);
  plan_facts_of(plan, r, &facts);
  columns_of(&facts, values);
  printf("  %5s  %-15s %-7s", number, roles, place);
  show_columns(values);
}

static void show_sums(const struct rsp_plan *plan) {
  double least[COLUMNS], most[COLUMNS] = {0}, mean[COLUMNS] = {0}, values[COLUMNS];
  uint32_t world = plan->header->world;
  for (uint32_t r = 0; r < world; r++) {
    struct plan_facts facts;
    plan_facts_of(plan, r, &facts);
    columns_of(&facts, values);
    for (unsigned i = 0; i < COLUMNS; i++) {
      if (!r || values[i] < least[i]) least[i] = values[i];
      if (values[i] > most[i]) most[i] = values[i];
      mean[i] += values[i] / world;
    }
  }
  show_titles("per rank");
  printf("  %-30s", "least"), show_columns(least);
  printf("  %-30s", "mean"), show_columns(mean);
  printf("  %-30s", "most"), show_columns(most);
  printf("\n  One rank: --rank R. All of them: --json.\n");
}

static void show_buffer(const struct rsp_program *p, const struct rsp_sbuffer *b) {
  char text[32];
  printf("    %s  %9s  %-7s ", b->side == RSP_TRAIN ? "train" : "infer", cli_bytes((double)b->bytes, text),
         rsp_dtype_word(b->dtype));
  plan_text_str(stdout, p->names, b->name);
  plan_text_dims(stdout, p->dims + b->dims, b->ndim);
  fputs("  ", stdout);
  plan_text_place(stdout, p->names, p->files[b->file], b->line, b->col);
  fputc('\n', stdout);
}

static void show_stream(const struct plan_show *show, const struct rsp_program *p, const struct rsp_stream *s) {
  static const char *const dirs[] = {"to", "from", "self, source", "self, destination"};
  uint64_t turns = rsp_stream_rounds(s);
  char text[32], quantum[32];
  printf(s->dir <= RSP_DIR_IN ? "    %-4s" : "    %-26s", dirs[s->dir]);
  if (s->dir <= RSP_DIR_IN)
    printf(" %5u  %-7s %s", s->peer, plan_link_word(plan_link_of(show->plan, (uint32_t)show->rank, s->peer)),
           s->kind == RSP_KIND_DIRECT ? "direct" : "staged");
  printf("  %9s in %llu turn%s of %s, round%s %u", cli_bytes((double)s->bytes, text), (unsigned long long)turns,
         rsp_plural(turns), cli_bytes((double)(s->quantum < s->bytes ? s->quantum : s->bytes), quantum),
         rsp_plural(turns), s->round0);
  if (turns > 1) printf(" to %u", plan_round_of(s, turns - 1));
  if (s->step > 1 && turns > 1) printf(" by %u", s->step);
  if (s->relay != RSP_NO_STREAM) printf(", relayed from %u", plan_stream_from(p, s)->peer);
  fputc('\n', stdout);
}

static void show_rest(uint64_t count) {
  if (count > MOST_ROWS) printf("    and %llu more; --json lists all\n", (unsigned long long)(count - MOST_ROWS));
}

static void show_rank_details(const struct plan_show *show) {
  struct rsp_program p;
  rsp_program_of(show->plan, (uint32_t)show->rank, &p);
  uint64_t buffers = p.slice->buffers.count, streams = p.slice->streams.count;
  printf("\n  %llu buffer%s\n", (unsigned long long)buffers, rsp_plural(buffers));
  for (uint64_t i = 0; i < buffers && i < MOST_ROWS; i++) show_buffer(&p, &p.buffers[i]);
  show_rest(buffers);
  printf("\n  %llu stream%s\n", (unsigned long long)streams, rsp_plural(streams));
  for (uint64_t i = 0; i < streams && i < MOST_ROWS; i++) show_stream(show, &p, &p.streams[i]);
  show_rest(streams);
}

static void show_ranks(const struct plan_show *show) {
  const struct rsp_plan *plan = show->plan;
  if (show->rank < 0 && plan->header->world > MOST_ROWS) {
    show_sums(plan);
    return;
  }
  show_titles(" rank");
  for (uint32_t r = 0; r < plan->header->world; r++)
    if (show->rank < 0 || show->rank == r) show_rank_row(plan, r);
  if (show->rank >= 0) show_rank_details(show);
}

// ---- tensors -------------------------------------------------------------------------------------------------------

static void show_tensor(const struct rsp_plan *plan, uint32_t index) {
  const struct rsp_tensor *t = &plan->tensors[index];
  char bytes[32];
  fputs("\n  ", stdout);
  plan_text_str(stdout, plan->strings, t->name);
  printf(" %s", rsp_dtype_word(t->dtype));
  plan_text_dims(stdout, plan->dims + t->dims, t->ndim);
  printf("  %s%s%s\n", cli_bytes((double)t->elems * (double)rsp_dtype_bytes(t->dtype), bytes),
         t->flags & RSP_TENSOR_SKIP_TRAIN ? ", skipped by train" : "",
         t->flags & RSP_TENSOR_SKIP_INFER ? ", skipped by infer" : "");
}

static void show_home(const struct rsp_plan *plan, const struct plan_home *home) {
  const struct rsp_buffer *b = home->buffer;
  printf("    %s  ", b->side == RSP_TRAIN ? "train" : "infer");
  plan_text_str(stdout, plan->strings, b->name);
  printf(" %s: %llu element%s on rank%s ", rsp_dtype_word(b->dtype), (unsigned long long)home->elems,
         rsp_plural(home->elems), rsp_plural(home->rank_count));
  plan_text_ranks(stdout, home->ranks, home->rank_count);
  fputs("  ", stdout);
  plan_text_place(stdout, plan->strings, plan->files[b->file], b->line, b->col);
  fputc('\n', stdout);
}

static bool show_tensors(const struct plan_show *show) {
  struct plan_home *homes;
  size_t count, next = 0, found = 0;
  if (!plan_homes_of(show->plan, show->glob, &homes, &count)) return false;
  for (uint32_t t = 0; t < show->plan->tensor_count; t++) {
    if (!plan_name_matches(show->glob, show->plan->strings, show->plan->tensors[t].name)) continue;
    found++;
    show_tensor(show->plan, t);
    for (; next < count && homes[next].tensor == t; next++) show_home(show->plan, &homes[next]);
  }
  if (!found) printf("\n  No tensor matches '%s'.\n", show->glob);
  plan_homes_free(homes, count);
  return true;
}

int plan_show_text(const struct plan_show *show) {
  char id[33];
  rsp_id_text(show->plan->header->plan_id, id);
  printf("plan %s\n\n", id);
  show_inputs(show->plan);
  show_world(show->plan);
  show_bytes(show->plan);
  show_ranks(show);
  if (show->glob && !show_tensors(show)) return cli_trouble(show->program, "out of memory");
  for (uint32_t r = 0; show->ops && r < show->plan->header->world; r++) {
    if (show->rank >= 0 && show->rank != r) continue;
    struct rsp_program p;
    rsp_program_of(show->plan, r, &p);
    plan_show_ops_text(&p);
  }
  return cli_finish(show->program, CLI_YES);
}
