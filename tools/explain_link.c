// SPDX-License-Identifier: Apache-2.0
//
// In: a plan and a link. Out: the tensors that fill it, one by one and by the pattern of their names.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/explain.h"
#include "tools/plan_json.h"
#include "tools/plan_text.h"

enum { MOST_TENSORS = 100, MOST_PATTERNS = 20, MOST_PEERS = 12 };

struct asked_link {
  enum { PAIR, NIC, NVLINK } kind;
  uint32_t from, to; // of a pair; a rank's link: from
  char name[160];
};

struct row {
  uint64_t bytes;
  uint32_t tensor;
};

struct fill {
  struct explain *e;
  const struct asked_link *link;
  bool in;         // of a rank's link
  uint64_t *bytes; // per tensor
  uint64_t *peers; // per rank
  uint64_t total;
};

static void found(void *user, uint32_t tensor, uint32_t gid, uint64_t bytes) {
  struct fill *f = user;
  (void)gid;
  f->bytes[tensor] += bytes;
}

// Streams that use the link: what a relay carries is told from where it was first sent.
static void fill_stream(struct fill *f, uint32_t rank, const struct rsp_stream *s) {
  uint32_t root = rank, peer = s->peer;
  if (s->dir == RSP_DIR_IN) {
    uint32_t out = f->e->ranks[rank].other[(uint64_t)(s - f->e->ranks[rank].program.streams)];
    if (out == RSP_NO_STREAM) return;
    root = s->peer;
    s = &f->e->ranks[root].program.streams[out];
  }
  f->peers[peer] += s->bytes;
  f->total += s->bytes;
  s = explain_root(f->e, &root, s);
  if (s) explain_stream(f->e, root, s, NULL, found, f);
}

static bool uses(const struct fill *f, uint32_t rank, const struct rsp_stream *s) {
  if (f->link->kind == PAIR) return s->dir == RSP_DIR_OUT && s->peer == f->link->to;
  if (s->dir != (f->in ? RSP_DIR_IN : RSP_DIR_OUT) || s->peer == rank) return false;
  return (plan_link_of(f->e->plan, rank, s->peer) == PLAN_NETWORK) == (f->link->kind == NIC);
}

static void fill_link(struct fill *f) {
  const struct rsp_program *p = &f->e->ranks[f->link->from].program;
  f->bytes = calloc((size_t)f->e->plan->tensor_count + 1, sizeof *f->bytes);
  f->peers = calloc(f->e->plan->header->world, sizeof *f->peers);
  if (!f->bytes || !f->peers) abort();
  for (uint64_t i = 0; i < p->slice->streams.count; i++) {
    const struct rsp_stream *s = &p->streams[i];
    if (uses(f, f->link->from, s)) fill_stream(f, f->link->from, s);
    bool copy = f->link->kind == PAIR && f->link->from == f->link->to && s->dir == RSP_DIR_SELF_SRC;
    if (!copy) continue;
    f->total += s->bytes;
    explain_stream(f->e, f->link->from, s, NULL, found, f);
  }
}

static int by_bytes(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static struct row *sorted(const uint64_t *bytes, uint64_t count, size_t *rows) {
  struct row *at = calloc((size_t)count + 1, sizeof *at);
  if (!at) abort();
  *rows = 0;
  for (uint64_t i = 0; i < count; i++)
    if (bytes[i]) at[(*rows)++] = (struct row){bytes[i], (uint32_t)i};
  if (*rows) qsort(at, *rows, sizeof *at, by_bytes);
  return at;
}

// ---- patterns ------------------------------------------------------------------------------------------------------

struct pattern {
  char *text; // the name with * for each number
  uint64_t tensors, bytes;
};

static char *pattern_of(const struct rsp_plan *plan, uint32_t tensor) {
  struct rsp_str name = plan->tensors[tensor].name;
  char *text = malloc((size_t)name.len + 1);
  size_t n = 0;
  if (!text) abort();
  for (uint64_t i = 0; i < name.len; i++) {
    char c = plan->strings[name.off + i];
    bool digit = c >= '0' && c <= '9', part = i && (plan->strings[name.off + i - 1] == '.');
    if (digit && n && text[n - 1] == '*') continue;
    text[n++] = digit && (part || !i) ? '*' : c;
  }
  text[n] = 0;
  return text;
}

static int by_text(const void *a, const void *b) {
  return strcmp(((const struct pattern *)a)->text, ((const struct pattern *)b)->text);
}
static int by_weight(const void *a, const void *b) {
  const struct pattern *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : strcmp(x->text, y->text);
}

static struct pattern *patterns_of(const struct rsp_plan *plan, const struct row *rows, size_t count, size_t *out) {
  struct pattern *at = calloc(count + 1, sizeof *at);
  if (!at) abort();
  for (size_t i = 0; i < count; i++) at[i] = (struct pattern){pattern_of(plan, rows[i].tensor), 1, rows[i].bytes};
  if (count) qsort(at, count, sizeof *at, by_text);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (kept && !strcmp(at[kept - 1].text, at[i].text)) {
      at[kept - 1].tensors++;
      at[kept - 1].bytes += at[i].bytes;
      free(at[i].text);
    } else {
      at[kept++] = at[i];
    }
  }
  if (kept) qsort(at, kept, sizeof *at, by_weight);
  *out = kept;
  return at;
}

// ---- answers -------------------------------------------------------------------------------------------------------

static enum rsp_sim_link sim_link(const struct fill *f) {
  if (f->link->kind == NIC) return f->in ? RSP_SIM_NIC_IN : RSP_SIM_NIC_OUT;
  return f->in ? RSP_SIM_NVLINK_IN : RSP_SIM_NVLINK_OUT;
}

static double share(const struct fill *f, uint64_t bytes) {
  return f->total ? (double)bytes / (double)f->total : 0;
}

static void print_fill(const struct fill *f) {
  const struct rsp_plan *plan = f->e->plan;
  size_t rows, patterns, peers;
  char bytes[32], name[32];
  struct row *tensors = sorted(f->bytes, plan->tensor_count, &rows),
             *from = sorted(f->peers, plan->header->world, &peers);
  struct pattern *at = patterns_of(plan, tensors, rows, &patterns);
  printf("%s%s: %s of %zu tensor%s", f->link->name,
         f->link->kind == PAIR ? ""
         : f->in               ? ", in"
                               : ", out",
         cli_bytes((double)f->total, bytes), rows, rsp_plural(rows));
  if (f->link->kind != PAIR)
    printf(", busy %.1f %% of the simulated time", f->e->sim.busy[sim_link(f)][f->link->from] * 100);
  printf("\n");
  for (size_t i = 0; i < patterns; i++) {
    if (i < MOST_PATTERNS)
      printf("  %9s %5.1f %%  %s (%" PRIu64 " tensor%s)\n", cli_bytes((double)at[i].bytes, bytes),
             share(f, at[i].bytes) * 100, at[i].text, at[i].tensors, rsp_plural(at[i].tensors));
    free(at[i].text);
  }
  if (patterns > MOST_PATTERNS)
    printf("  and %zu kind%s of tensors more\n", patterns - MOST_PATTERNS, rsp_plural(patterns - MOST_PATTERNS));
  for (size_t i = 0; i < peers && i < MOST_PEERS && f->link->kind != PAIR; i++)
    printf("%s%s %s",
           i       ? ", "
           : f->in ? "  from "
                   : "  to ",
           explain_rank_text(plan, from[i].tensor, f->in ? RSP_TRAIN : RSP_INFER, name),
           cli_bytes((double)from[i].bytes, bytes));
  if (peers > MOST_PEERS) printf(", %zu more", peers - MOST_PEERS);
  if (peers && f->link->kind != PAIR) printf("\n");
  free(at);
  free(tensors);
  free(from);
}

static json_t *fill_json(const struct fill *f) {
  const struct rsp_plan *plan = f->e->plan;
  size_t rows, patterns, peers;
  struct row *tensors = sorted(f->bytes, plan->tensor_count, &rows),
             *from = sorted(f->peers, plan->header->world, &peers);
  struct pattern *at = patterns_of(plan, tensors, rows, &patterns);
  json_t *o = json_object(), *list = json_array(), *kinds = json_array(), *ends = json_array();
  json_object_set_new(o, "direction", f->link->kind == PAIR ? json_null() : json_string(f->in ? "in" : "out"));
  json_object_set_new(o, "bytes", plan_json_u64(f->total));
  json_object_set_new(o, "busy",
                      f->link->kind == PAIR ? json_null() : json_real(f->e->sim.busy[sim_link(f)][f->link->from]));
  json_object_set_new(o, "tensors", plan_json_u64(rows));
  for (size_t i = 0; i < patterns; i++) {
    struct rsp_str text = {0, strlen(at[i].text)};
    json_array_append_new(kinds, json_pack("{s:o,s:o,s:o,s:f}", "pattern", plan_json_str(at[i].text, text), "tensors",
                                           plan_json_u64(at[i].tensors), "bytes", plan_json_u64(at[i].bytes), "share",
                                           share(f, at[i].bytes)));
    free(at[i].text);
  }
  for (size_t i = 0; i < rows && i < MOST_TENSORS; i++)
    json_array_append_new(list, json_pack("{s:o,s:o,s:f}", "name",
                                          plan_json_str(plan->strings, plan->tensors[tensors[i].tensor].name), "bytes",
                                          plan_json_u64(tensors[i].bytes), "share", share(f, tensors[i].bytes)));
  for (size_t i = 0; i < peers && f->link->kind != PAIR; i++)
    json_array_append_new(ends,
                          json_pack("{s:i,s:o}", "rank", (int)from[i].tensor, "bytes", plan_json_u64(from[i].bytes)));
  json_object_set_new(o, "patterns", kinds);
  json_object_set_new(o, "largest", list);
  json_object_set_new(o, "peers", ends);
  free(at);
  free(tensors);
  free(from);
  return o;
}

// "3->17"; "nic:HOST:GPU", "nvlink:HOST:GPU". Says whether the words are meant as a link.
static bool read_words(struct explain *e, const char *words, struct asked_link *link, int *status) {
  const struct rsp_plan *plan = e->plan;
  const char *arrow = strstr(words, "->"), *colon = strrchr(words, ':');
  char number[24] = "";
  int64_t from, to, gpu;
  *status = CLI_YES;
  snprintf(link->name, sizeof link->name, "%s", words);
  if (arrow && (size_t)(arrow - words) < sizeof number) {
    memcpy(number, words, (size_t)(arrow - words));
    if (!cli_parse_number(number, 0, UINT32_MAX, &from) || !cli_parse_number(arrow + 2, 0, UINT32_MAX, &to))
      return false;
    if (from >= plan->header->world || to >= plan->header->world) {
      cli_trouble(e->program, "the plan has processes 0 to %u", plan->header->world - 1);
      *status = CLI_NO;
    }
    *link = (struct asked_link){PAIR, (uint32_t)from, (uint32_t)to, ""};
    char a[32], b[32];
    if (*status == CLI_YES)
      snprintf(link->name, sizeof link->name, "%s -> %s (%s)", explain_rank_text(plan, link->from, RSP_TRAIN, a),
               explain_rank_text(plan, link->to, RSP_INFER, b),
               plan_link_word(plan_link_of(plan, link->from, link->to)));
    return true;
  }
  size_t skip = !strncmp(words, "nic:", 4) ? 4 : !strncmp(words, "nvlink:", 7) ? 7 : 0;
  if (!skip || !colon || colon < words + skip || !cli_parse_number(colon + 1, 0, UINT32_MAX, &gpu)) return false;
  link->kind = skip == 4 ? NIC : NVLINK;
  for (uint32_t r = 0; r < plan->header->world; r++) {
    struct rsp_str host = plan->ranks[r].host;
    if (plan->ranks[r].gpu != gpu || host.len != (size_t)(colon - words) - skip ||
        memcmp(plan->strings + host.off, words + skip, (size_t)host.len))
      continue;
    link->from = r;
    return true;
  }
  cli_trouble(e->program, "no rank of the plan is on '%s'", words + skip);
  *status = CLI_NO;
  return true;
}

int explain_link(struct explain *e, const char *words, bool json, bool *is_link) {
  struct asked_link link;
  int status;
  *is_link = read_words(e, words, &link, &status);
  if (!*is_link || status != CLI_YES) return status;
  json_t *o = json_object(), *ways = json_array();
  for (int in = 0; in < (link.kind == PAIR ? 1 : 2); in++) {
    struct fill f = {.e = e, .link = &link, .in = in != 0};
    fill_link(&f);
    if (json)
      json_array_append_new(ways, fill_json(&f));
    else
      print_fill(&f);
    free(f.bytes);
    free(f.peers);
  }
  json_object_set_new(o, "schema", json_string("reshard-explain/1"));
  json_object_set_new(o, "plan_id", plan_json_id(e->plan->header->plan_id));
  json_object_set_new(o, "link", json_string(words));
  json_object_set_new(o, "ways", ways);
  if (json) return plan_json_write(e->program, o, CLI_YES);
  json_decref(o);
  return cli_finish(e->program, CLI_YES);
}
