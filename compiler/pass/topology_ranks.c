/* SPDX-License-Identifier: Apache-2.0
 *
 * In: hosts, and what `train:` and `infer:` say. Out: the GPU of each rank, and the processes of the world.
 */
#include <stdio.h>
#include <string.h>

#include "compiler/pass/topology_impl.h"

struct selection {
  struct rsc_top *top;
  const char *side;
  uint8_t *taken; /* per GPU of the cluster */
  struct rsc_top_gpus *out;
};

static bool take(struct selection *s, struct rsc_span span, int32_t host, int32_t gpu) {
  const struct rsc_host *h = &s->top->hosts.at[host];
  uint8_t *taken = &s->taken[s->top->first_gpu.at[host] + gpu];
  if (*taken) {
    rsc_error(s->top->diag, RSC_CLUSTER_GPU_TWICE, span, "%s names GPU %d of host '%s' twice; name it once", s->side,
              (int)gpu, h->name);
    return false;
  }
  *taken = 1;
  *RSC_PUSH(s->top->arena, s->out) = (struct rsc_top_gpu){host, gpu};
  return true;
}

static bool unknown_host(const struct selection *s, struct rsc_span span, const char *name, size_t len) {
  char word[64];
  const char *near = NULL;
  snprintf(word, sizeof word, "%.*s", (int)(len > 60 ? 60 : len), name);
  for (size_t i = 0; i < s->top->hosts.len && i < 1000 && !near; i++)
    near = rsc_yaml_suggest(word, &s->top->hosts.at[i].name, 1);
  if (near)
    rsc_error(s->top->diag, RSC_CLUSTER_HOST_UNKNOWN, span,
              "%s names host '%s', which hosts does not list; did you mean '%s'?", s->side, word, near);
  else
    rsc_error(s->top->diag, RSC_CLUSTER_HOST_UNKNOWN, span,
              "%s names host '%s', which hosts does not list; add it there", s->side, word);
  return false;
}

static bool take_one(struct selection *s, struct rsc_span span, int32_t host, const char *gpu) {
  const struct rsc_host *h = &s->top->hosts.at[host];
  int64_t number;
  bool overflow, plain = gpu[strspn(gpu, "0123456789")] == '\0';
  if (!plain || !rsc_yaml_is_int(gpu, &number, &overflow)) {
    rsc_error(s->top->diag, RSC_CLUSTER_GPU_RANGE, span,
              "'%s' is no GPU; after the ':' write a number, a bracket as in [0-3], or * for all", gpu);
    return false;
  }
  if (!overflow && number < h->gpus) return take(s, span, host, (int32_t)number);
  rsc_error(s->top->diag, RSC_CLUSTER_GPU_RANGE, span, "%s names GPU %s of host '%s', which has GPUs 0 to %d", s->side,
            gpu, h->name, (int)h->gpus - 1);
  return false;
}

/* "t00" and "t00:*" are all GPUs of a host, "t00:2" is one. */
static bool take_text(struct selection *s, struct rsc_span span, const char *text) {
  const char *colon = strchr(text, ':');
  size_t len = colon ? (size_t)(colon - text) : strlen(text);
  const struct rsc_symbol *symbol = rsc_intern_find(s->top->host_names, text, len);
  if (!symbol) return unknown_host(s, span, text, len);
  int32_t host = (int32_t)symbol->id;
  if (colon && strcmp(colon, ":*") != 0) return take_one(s, span, host, colon + 1);
  for (int32_t gpu = 0; gpu < s->top->hosts.at[host].gpus; gpu++) {
    if (!take(s, span, host, gpu)) return false;
  }
  return true;
}

static bool take_pattern(struct selection *s, const struct rsc_top_pattern *pattern) {
  size_t choice[RSC_GROUPS_MAX] = {0};
  do {
    if (!take_text(s, pattern->span, rsc_top_text(s->top->arena, pattern, choice))) return false;
  } while (rsc_top_next(pattern, choice));
  return true;
}

bool rsc_top_select(struct rsc_top *top, const struct rsc_yaml *node, const char *side, struct rsc_top_gpus *out) {
  struct rsc_top_patterns patterns = {.len = 0};
  if (!rsc_top_read_patterns(top->arena, top->diag, node, side, top->max_gpus, &patterns)) return false;
  struct selection s = {.top = top, .side = side, .out = out};
  s.taken = RSC_ARRAY(top->arena, uint8_t, top->gpu_count);
  bool ok = true;
  for (size_t i = 0; i < patterns.len; i++) ok = take_pattern(&s, &patterns.at[i]) && ok;
  return ok;
}

void rsc_top_number(struct rsc_top *top, const struct rsc_top_gpus *train, const struct rsc_top_gpus *infer,
                    struct rsc_cluster *out) {
  struct rsc_process *processes = RSC_ARRAY(top->arena, struct rsc_process, out->train_world + out->infer_world);
  int64_t *world_of_train = RSC_ARRAY(top->arena, int64_t, out->train_world);
  int64_t *world_of_infer = RSC_ARRAY(top->arena, int64_t, out->infer_world);
  int64_t *on_gpu = RSC_ARRAY(top->arena, int64_t, top->gpu_count); /* world rank plus 1 */
  int64_t world = out->train_world;
  for (int64_t r = 0; r < out->train_world; r++) {
    struct rsc_top_gpu g = train->at[r];
    processes[r] = (struct rsc_process){.host = g.host, .gpu = g.gpu, .train_rank = r, .infer_rank = -1};
    on_gpu[top->first_gpu.at[g.host] + g.gpu] = r + 1;
    world_of_train[r] = r;
  }
  for (int64_t r = 0; r < out->infer_world; r++) {
    struct rsc_top_gpu g = infer->at[r];
    int64_t there = on_gpu[top->first_gpu.at[g.host] + g.gpu];
    int64_t w = there ? there - 1 : world++;
    if (!there) processes[w] = (struct rsc_process){.host = g.host, .gpu = g.gpu, .train_rank = -1};
    processes[w].infer_rank = r;
    world_of_infer[r] = w;
  }
  out->processes = processes;
  out->world = world;
  out->world_of_train = world_of_train;
  out->world_of_infer = world_of_infer;
}
