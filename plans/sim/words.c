/* SPDX-License-Identifier: Apache-2.0
 *
 * In: sets of ranks, bytes. Out: words.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/sim/bound_impl.h"
#include "plans/words.h"

enum { MOST_RANGES = 6, MOST_HOSTS = 4 };

struct text {
  char *at;
  size_t used, size;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...) {
  if (t->used >= t->size) return;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->at + t->used, t->size - t->used, format, args);
  va_end(args);
  t->used += n > 0 ? (size_t)n : 0;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* "0-7, 16, 24-31": the longest list is cut off. */
static void add_ranges(struct text *t, const uint32_t *at, size_t count) {
  size_t ranges = 0;
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && at[end] == at[end - 1] + 1; end++) continue;
    if (ranges++ == MOST_RANGES) {
      add(t, ", ... %u", at[count - 1]);
      return;
    }
    add(t, "%s%u", i ? ", " : " ", at[i]);
    if (end - i > 1) add(t, "-%u", at[end - 1]);
  }
}

static bool add_side(struct text *t, const struct rsp_plan *plan, const bool *inside, int side, bool before) {
  uint32_t world = plan->header->world, *list = rspm_alloc(world, sizeof *list);
  size_t count = 0;
  for (uint32_t r = 0; r < world; r++) {
    const struct rsp_rank *rank = &plan->ranks[r];
    uint32_t number = side == RSP_TRAIN                 ? rank->train_rank
                      : rank->train_rank == RSP_NO_RANK ? rank->infer_rank
                                                        : RSP_NO_RANK;
    if (inside[r] && number != RSP_NO_RANK) list[count++] = number;
  }
  if (count) {
    qsort(list, count, sizeof *list, by_number);
    add(t, "%s%s rank%s", before ? " and " : "", side == RSP_TRAIN ? "training" : "inference", rsp_plural(count));
    add_ranges(t, list, count);
  }
  free(list);
  return count > 0;
}

static bool same_host(const struct rsp_plan *plan, uint32_t a, uint32_t b) {
  const struct rsp_str *x = &plan->ranks[a].host, *y = &plan->ranks[b].host;
  return x->len == y->len && !memcmp(plan->strings + x->off, plan->strings + y->off, (size_t)x->len);
}

static void add_hosts(struct text *t, const struct rsp_plan *plan, const bool *inside) {
  uint32_t shown = 0, hosts = 0, gpus = 0, last = RSP_NO_RANK;
  for (uint32_t r = 0; r < plan->header->world; r++) {
    if (!inside[r]) continue;
    gpus++;
    hosts += last == RSP_NO_RANK || !same_host(plan, last, r);
    last = r;
  }
  add(t, " (%u GPU%s of ", gpus, rsp_plural(gpus));
  last = RSP_NO_RANK;
  for (uint32_t r = 0; r < plan->header->world && shown < MOST_HOSTS; r++) {
    if (!inside[r] || (last != RSP_NO_RANK && same_host(plan, last, r))) continue;
    const struct rsp_str *name = &plan->ranks[r].host;
    add(t, "%s%.*s", shown++ ? ", " : "", (int)name->len, plan->strings + name->off);
    last = r;
  }
  if (hosts > shown) add(t, " and %u more host%s", hosts - shown, rsp_plural(hosts - shown));
  add(t, ")");
}

void rspm_ranks_text(const struct rsp_plan *plan, const bool *inside, char *text, size_t size) {
  struct text t = {text, 0, size};
  text[0] = 0;
  bool train = add_side(&t, plan, inside, RSP_TRAIN, false);
  bool infer = add_side(&t, plan, inside, RSP_INFER, train);
  if (train || infer) add_hosts(&t, plan, inside);
}
