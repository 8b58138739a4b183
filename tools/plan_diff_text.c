// SPDX-License-Identifier: Apache-2.0
//
// In: what changes. Out: the page that a person reads: + new, - gone, ~ changed.
#include <stdio.h>
#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/plan_diff.h"
#include "tools/plan_text.h"

enum { MOST_ROWS = 20 };

struct page {
  const struct plan_diff *d;
  bool colour;
};

static void begin(const struct page *page, enum plan_change change) {
  static const char signs[] = "+-~";
  static const char *const colours[] = {"\033[32m", "\033[31m", "\033[33m"};
  if (page->colour)
    printf("  %s%c\033[0m ", colours[change], signs[change]);
  else
    printf("  %c ", signs[change]);
}

// Says how many rows are left out; true if row i is to be shown.
static bool shown(size_t i, size_t count) {
  if (i < MOST_ROWS) return true;
  if (i == MOST_ROWS) printf("    and %zu more; --json lists all\n", count - i);
  return false;
}

static const char *who_text(struct plan_who who, char text[64]) {
  if (who.train_rank != RSP_NO_RANK && who.infer_rank != RSP_NO_RANK)
    snprintf(text, 64, "train %u + infer %u", who.train_rank, who.infer_rank);
  else if (who.train_rank != RSP_NO_RANK)
    snprintf(text, 64, "train %u", who.train_rank);
  else
    snprintf(text, 64, "infer %u", who.infer_rank);
  return text;
}

static void show_input(const struct rsp_plan *plan, const struct rsp_input *in) {
  char digest[33];
  rsp_id_text(in->digest, digest);
  if (in->name.len) plan_text_str(stdout, plan->strings, in->name);
  printf("%s%.8s", in->name.len ? " " : "", digest);
}

static void show_inputs(const struct page *page) {
  static const char *const kinds[] = {"?", "train", "infer", "model", "cluster", "options"};
  const struct rsp_plan *a = page->d->old_plan, *b = page->d->new_plan;
  if (!page->d->inputs) return;
  printf("inputs\n");
  uint64_t i = 0, j = 0;
  while (i < a->input_count || j < b->input_count) {
    const struct rsp_input *x = i < a->input_count ? &a->inputs[i] : NULL;
    const struct rsp_input *y = j < b->input_count ? &b->inputs[j] : NULL;
    if (x && y && x->kind != y->kind) *(x->kind < y->kind ? &y : &x) = NULL; // kinds ascend
    i += x != NULL;
    j += y != NULL;
    if (x && y && memcmp(x->digest, y->digest, sizeof x->digest) == 0) continue;
    begin(page, !x ? PLAN_ADDED : !y ? PLAN_REMOVED : PLAN_CHANGED);
    printf("%-8s ", kinds[(x ? x : y)->kind]);
    if (x) show_input(a, x);
    if (x && y) fputs(" -> ", stdout);
    if (y) show_input(b, y);
    fputc('\n', stdout);
  }
  fputc('\n', stdout);
}

static void show_seat(const struct rsp_plan *plan, const struct rsp_rank *r) {
  plan_text_str(stdout, plan->strings, r->host);
  printf(":%u in ", r->gpu);
  plan_text_str(stdout, plan->strings, r->domain_name);
}

static void show_ranks(const struct page *page) {
  const struct plan_diff *d = page->d;
  if (d->rank_count) printf("ranks\n");
  for (size_t i = 0; i < d->rank_count && shown(i, d->rank_count); i++) {
    const struct plan_rank_change *c = &d->ranks[i];
    const struct rsp_rank *r = c->new_rank ? c->new_rank : c->old_rank;
    char text[64];
    begin(page, c->change);
    printf("%-20s ", who_text((struct plan_who){r->train_rank, r->infer_rank}, text));
    if (c->old_rank) show_seat(d->old_plan, c->old_rank);
    if (c->old_rank && c->new_rank) fputs(" -> ", stdout);
    if (c->new_rank) show_seat(d->new_plan, c->new_rank);
    fputc('\n', stdout);
  }
  if (d->rank_count) fputc('\n', stdout);
}

static void show_shape(const struct rsp_plan *plan, const struct rsp_tensor *t) {
  printf(" %s", rsp_dtype_word(t->dtype));
  plan_text_dims(stdout, plan->dims + t->dims, t->ndim);
  if (t->flags & RSP_TENSOR_SKIP_TRAIN) fputs(" skipped by train", stdout);
  if (t->flags & RSP_TENSOR_SKIP_INFER) fputs(" skipped by infer", stdout);
}

static void show_tensors(const struct page *page) {
  const struct plan_diff *d = page->d;
  if (d->tensor_count) printf("tensors\n");
  for (size_t i = 0; i < d->tensor_count && shown(i, d->tensor_count); i++) {
    const struct plan_tensor_change *c = &d->tensors[i];
    begin(page, c->change);
    if (c->old_tensor)
      plan_text_str(stdout, d->old_plan->strings, c->old_tensor->name);
    else
      plan_text_str(stdout, d->new_plan->strings, c->new_tensor->name);
    if (c->old_tensor) show_shape(d->old_plan, c->old_tensor);
    if (c->old_tensor && c->new_tensor) fputs(" ->", stdout);
    if (c->new_tensor) show_shape(d->new_plan, c->new_tensor);
    fputc('\n', stdout);
  }
  if (d->tensor_count) fputc('\n', stdout);
}

static void show_row(const struct plan_row *r) {
  printf(" %s", rsp_dtype_word(r->dtype));
  plan_text_dims(stdout, r->dims, r->ndim);
}

static void show_buffers(const struct page *page) {
  const struct plan_diff *d = page->d;
  if (d->buffer_count) printf("buffers\n");
  for (size_t i = 0; i < d->buffer_count && shown(i, d->buffer_count); i++) {
    const struct plan_buffer_change *c = &d->buffers[i];
    const struct plan_row *r = c->new_row ? c->new_row : c->old_row;
    begin(page, c->change);
    printf("%s ", r->side == RSP_TRAIN ? "train" : "infer");
    plan_text_str(stdout, r->name, (struct rsp_str){0, r->name_len});
    if (c->old_row) show_row(c->old_row);
    if (c->dtype || c->shape) {
      fputs(" ->", stdout);
      show_row(c->new_row);
    } else if (!c->old_row) {
      show_row(c->new_row);
    } else if (c->elements) {
      fputs(" holds other elements", stdout);
    }
    printf(", rank%s ", rsp_plural(c->rank_count));
    plan_text_ranks(stdout, c->ranks, c->rank_count);
    fputc('\n', stdout);
  }
  if (d->buffer_count) fputc('\n', stdout);
}

static void show_routes(const struct page *page) {
  const struct plan_diff *d = page->d;
  if (d->route_count) printf("who sends to whom\n");
  for (size_t i = 0; i < d->route_count && shown(i, d->route_count); i++) {
    const struct plan_route_change *c = &d->routes[i];
    char from[64], to[64], old_bytes[32], new_bytes[32];
    begin(page, c->change);
    printf("%-20s -> %-20s ", who_text(c->from, from), who_text(c->to, to));
    if (c->change != PLAN_ADDED)
      printf("%s over %s", cli_bytes((double)c->old_bytes, old_bytes), plan_link_word(c->old_link));
    if (c->change == PLAN_ADDED ||
        (c->change == PLAN_CHANGED && (c->old_bytes != c->new_bytes || c->old_link != c->new_link)))
      printf("%s%s over %s", c->change == PLAN_ADDED ? "" : " -> ", cli_bytes((double)c->new_bytes, new_bytes),
             plan_link_word(c->new_link));
    else if (c->change == PLAN_CHANGED)
      fputs(c->elements ? ", other elements" : ", another way through memory", stdout);
    fputc('\n', stdout);
  }
  if (d->reschedules)
    printf("%s  ~ %zu pair%s of ranks exchange%s the same in other rounds or sizes\n", d->route_count ? "" : "rounds\n",
           d->reschedules, rsp_plural(d->reschedules), d->reschedules == 1 ? "s" : "");
  if (d->route_count || d->reschedules) fputc('\n', stdout);
}

static void show_figures(const struct page *page) {
  struct plan_figure figures[PLAN_FIGURES];
  const char *group = "";
  plan_diff_figures(page->d, figures);
  for (unsigned i = 0; i < PLAN_FIGURES; i++) {
    const struct plan_figure *f = &figures[i];
    if (f->old_value == f->new_value) continue;
    if (strcmp(group, f->group) != 0) printf("%s\n", group = f->group);
    begin(page, PLAN_CHANGED);
    char old_text[32], new_text[32];
    bool bytes = strcmp(f->group, "bytes") == 0 || strcmp(f->name, "staging") == 0 || strcmp(f->name, "chunk") == 0;
    snprintf(old_text, sizeof old_text, "%llu", (unsigned long long)f->old_value);
    snprintf(new_text, sizeof new_text, "%llu", (unsigned long long)f->new_value);
    if (bytes) {
      cli_bytes((double)f->old_value, old_text);
      cli_bytes((double)f->new_value, new_text);
    }
    printf("%-16s %10s -> %-10s", f->name, old_text, new_text);
    if (f->old_value) printf(" %+.1f %%", ((double)f->new_value / (double)f->old_value - 1) * 100);
    fputc('\n', stdout);
  }
}

int plan_diff_text(const char *program, const struct plan_diff *diff) {
  struct page page = {.d = diff, .colour = cli_colour(stdout)};
  bool same = plan_diff_same(diff);
  char old_id[33], new_id[33];
  rsp_id_text(diff->old_plan->header->plan_id, old_id);
  rsp_id_text(diff->new_plan->header->plan_id, new_id);
  if (strcmp(old_id, new_id) == 0) {
    printf("plan %s on both sides\n", old_id);
    return cli_finish(program, CLI_YES);
  }
  printf("- plan %s\n+ plan %s\n\n", old_id, new_id);
  show_inputs(&page);
  if (same) {
    printf("They mean the same: ranks, tensors, buffers, routes, rounds and limits.\n");
    return cli_finish(program, CLI_YES);
  }
  show_ranks(&page);
  show_tensors(&page);
  show_buffers(&page);
  show_routes(&page);
  show_figures(&page);
  if (diff->rates) printf("cluster\n"), begin(&page, PLAN_CHANGED), printf("bandwidths or latencies\n");
  return cli_finish(program, CLI_NO);
}
