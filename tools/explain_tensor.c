// SPDX-License-Identifier: Apache-2.0
//
// In: a plan and the name of a tensor. Out: who holds it, who wants it, by which way each piece goes, and why from that
// sender: the others that could have sent it, what they send in all, and what the choice was bound by.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/names.h"
#include "plans/words.h"
#include "tools/cli/cli.h"
#include "tools/explain.h"
#include "tools/plan_json.h"
#include "tools/plan_show.h"
#include "tools/plan_text.h"

enum { MOST_TENSORS = 16, MOST_WAYS = 12, MOST_CANDIDATES = 8 };

// Bytes of one tensor that one stream with parts of its own moves from one buffer.
struct way {
  uint32_t tensor, gid, rank;
  uint64_t stream, bytes;
};

struct ways {
  struct way *at;
  size_t count, capacity, first; // `first` of the stream at hand
  uint32_t rank;
  uint64_t stream;
};

struct asked {
  struct explain *e;
  bool *only;
  uint64_t matched;
  struct plan_home *homes;
  size_t home_count;
  struct ways ways;
  uint32_t *world_of_train;
};

static void found(void *user, uint32_t tensor, uint32_t gid, uint64_t bytes) {
  struct ways *w = user;
  for (size_t i = w->count; i-- > w->first;)
    if (w->at[i].tensor == tensor && w->at[i].gid == gid) {
      w->at[i].bytes += bytes;
      return;
    }
  if (w->count == w->capacity) {
    w->capacity = w->capacity ? w->capacity * 2 : 64;
    w->at = realloc(w->at, w->capacity * sizeof *w->at);
    if (!w->at) abort();
  }
  w->at[w->count++] = (struct way){tensor, gid, w->rank, w->stream, bytes};
}

static int by_tensor(const void *a, const void *b) {
  const struct way *x = a, *y = b;
  if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static void find_ways(struct asked *a) {
  struct ways *w = &a->ways;
  for (uint32_t r = 0; r < a->e->plan->header->world; r++) {
    const struct rsp_program *p = &a->e->ranks[r].program;
    for (uint64_t i = 0; i < p->slice->streams.count; i++) {
      const struct rsp_stream *s = &p->streams[i];
      if (!((s->dir == RSP_DIR_OUT && s->relay == RSP_NO_STREAM) || s->dir == RSP_DIR_SELF_SRC)) continue;
      w->rank = r;
      w->stream = i;
      w->first = w->count;
      explain_stream(a->e, r, s, a->only, found, w);
    }
  }
  if (w->count) qsort(w->at, w->count, sizeof *w->at, by_tensor);
}

// ---- why -----------------------------------------------------------------------------------------------------------

struct why {
  uint32_t *ranks; // candidates, the sender among them
  size_t count;
  char words[1000];
};

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

// Who holds the same part: ranks with the sender's entry of the buffer, and those that have the whole tensor elsewhere.
static void find_candidates(const struct asked *a, const struct way *way, struct why *why) {
  const struct rsp_plan *plan = a->e->plan;
  const struct rsp_buffer *b = &plan->buffers[way->gid];
  const struct rsp_rankmap *map = &plan->rankmaps[b->rankmap];
  uint32_t entry = 0;
  size_t room = (size_t)map->count + 1, n = 0;
  for (size_t i = 0; i < a->home_count; i++) room += (size_t)a->homes[i].rank_count;
  why->ranks = calloc(room, sizeof *why->ranks);
  if (!why->ranks) abort();
  for (uint64_t i = 0; i < map->count; i++)
    if (plan->holds[map->holds + i].rank == plan->ranks[way->rank].train_rank)
      entry = plan->holds[map->holds + i].entry;
  for (uint64_t i = 0; i < map->count; i++)
    if (plan->holds[map->holds + i].entry == entry)
      why->ranks[n++] = a->world_of_train[plan->holds[map->holds + i].rank];
  for (size_t i = 0; i < a->home_count; i++) {
    const struct plan_home *h = &a->homes[i];
    if (h->tensor != way->tensor || h->buffer->side != RSP_TRAIN || h->elems < plan->tensors[way->tensor].elems)
      continue;
    for (uint64_t k = 0; k < h->rank_count; k++) why->ranks[n++] = a->world_of_train[h->ranks[k]];
  }
  qsort(why->ranks, n, sizeof *why->ranks, by_number);
  for (size_t i = 0; i < n; i++)
    if (!why->count || why->ranks[why->count - 1] != why->ranks[i]) why->ranks[why->count++] = why->ranks[i];
}

static double sent(const struct asked *a, uint32_t rank) {
  return a->e->sim.bytes[RSP_SIM_NIC_OUT][rank];
}

// Whether what came in is passed on to another domain, at once or further on.
static bool goes_on(const struct asked *a, uint32_t rank, uint32_t in) {
  const struct explain_rank *r = &a->e->ranks[rank];
  for (uint64_t i = 0; i < r->program.slice->streams.count && in != RSP_NO_STREAM; i++) {
    const struct rsp_stream *s = &r->program.streams[i];
    if (s->dir != RSP_DIR_OUT || s->relay != in) continue;
    if (plan_link_of(a->e->plan, rank, s->peer) == PLAN_NETWORK || goes_on(a, s->peer, r->other[i])) return true;
  }
  return false;
}

// Why a domain passes it on, instead of another copy from those who hold it.
static void add_onward(const struct asked *a, const struct way *way, uint32_t peer, struct why *why) {
  const struct explain_rank *r = &a->e->ranks[way->rank];
  double lo = 1, hi = 0;
  if (r->program.streams[way->stream].dir != RSP_DIR_OUT || !goes_on(a, peer, r->other[way->stream])) return;
  for (size_t i = 0; i < why->count; i++) {
    double busy = a->e->sim.busy[RSP_SIM_NIC_OUT][why->ranks[i]];
    if (busy < lo) lo = busy;
    if (busy > hi) hi = busy;
  }
  size_t used = strlen(why->words);
  snprintf(why->words + used, sizeof why->words - used,
           "; domains pass it on to one another, so that it leaves them once: their NICs are busy %.0f to %.0f %% of "
           "the time",
           lo * 100, hi * 100);
}

// Why from this one, of those that could: what bound the choice.
static void find_why(const struct asked *a, const struct way *way, uint32_t peer, struct why *why) {
  const struct rsp_plan *plan = a->e->plan;
  char me[32], bytes[32], least[32], most[32];
  double lo = -1, hi = 0, mine = sent(a, way->rank);
  *why = (struct why){.ranks = NULL};
  find_candidates(a, way, why);
  for (size_t i = 0; i < why->count; i++) {
    double x = sent(a, why->ranks[i]);
    if (lo < 0 || x < lo) lo = x;
    if (x > hi) hi = x;
  }
  explain_rank_text(plan, way->rank, RSP_TRAIN, me);
  cli_bytes(mine, bytes);
  cli_bytes(lo, least);
  cli_bytes(hi, most);
  if (peer == way->rank)
    snprintf(why->words, sizeof why->words, "%s holds it and wants it: a copy in its own memory", me);
  else if (plan->ranks[peer].domain == plan->ranks[way->rank].domain)
    snprintf(why->words, sizeof why->words,
             "%s holds it inside the receiver's NVLink domain: nothing has to cross the network", me);
  else if (why->count == 1)
    snprintf(why->words, sizeof why->words, "no other rank holds this part");
  else if (hi - lo <= 0.02 * hi)
    snprintf(
        why->words, sizeof why->words,
        "the %zu ranks that hold it send %s to %s each over the network: their loads are level, no other choice would "
        "relieve the busiest",
        why->count, least, most);
  else if (mine <= lo * 1.02)
    snprintf(why->words, sizeof why->words,
             "of the %zu ranks that hold it it sends least over the network: %s, others up to %s", why->count, bytes,
             most);
  else
    snprintf(why->words, sizeof why->words,
             "it sends %s over the network, the %zu ranks that hold it send %s to %s; its NIC is busy %.0f %% of the "
             "time, and "
             "what binds the plan is %s: %s",
             bytes, why->count, least, most, a->e->sim.busy[RSP_SIM_NIC_OUT][way->rank] * 100,
             rsp_bound_word(a->e->bound.term), a->e->bound.words);
  add_onward(a, way, peer, why);
}

// ---- text ----------------------------------------------------------------------------------------------------------

static void print_homes(const struct asked *a, uint32_t tensor, uint32_t side) {
  const struct rsp_plan *plan = a->e->plan;
  char bytes[32];
  for (size_t i = 0; i < a->home_count; i++) {
    const struct plan_home *h = &a->homes[i];
    if (h->tensor != tensor || h->buffer->side != side) continue;
    uint64_t size = h->elems * rsp_dtype_bytes(plan->tensors[tensor].dtype);
    printf("    %-9s each: %s ", cli_bytes((double)size, bytes), side == RSP_TRAIN ? "train" : "infer");
    plan_text_ranks(stdout, h->ranks, h->rank_count);
    printf(", buffer ");
    plan_text_str(stdout, plan->strings, h->buffer->name);
    printf(" (");
    plan_text_place(stdout, plan->strings, plan->files[h->buffer->file], h->buffer->line, h->buffer->col);
    printf(")\n");
  }
}

static const char *hop_word(const struct rsp_plan *plan, uint32_t from, uint32_t to) {
  return plan_link_of(plan, from, to) == PLAN_NETWORK ? "network" : from == to ? "local" : "NVLink";
}

// What a rank passes on of an incoming stream; NVLink hops that end there share a line.
static void print_onward(const struct asked *a, uint32_t rank, uint32_t in, int depth) {
  const struct rsp_plan *plan = a->e->plan;
  const struct explain_rank *r = &a->e->ranks[rank];
  char name[32];
  bool open = false;
  for (int pass = 0; pass < 2 && in != RSP_NO_STREAM; pass++)
    for (uint64_t i = 0; i < r->program.slice->streams.count && r->program.streams[i].dir == RSP_DIR_OUT; i++) {
      const struct rsp_stream *s = &r->program.streams[i];
      if (s->relay != in) continue;
      bool network = plan_link_of(plan, rank, s->peer) == PLAN_NETWORK;
      if (network != (pass == 1)) continue;
      if (!network) {
        if (open)
          printf(", %s", explain_rank_text(plan, s->peer, RSP_INFER, name));
        else
          printf("%*s    then over NVLink to %s", 6 + 2 * depth, "", explain_rank_text(plan, s->peer, RSP_INFER, name));
        open = true;
        continue;
      }
      if (open) printf("\n");
      open = false;
      printf("%*s    then over the network to %s\n", 6 + 2 * depth, "",
             explain_rank_text(plan, s->peer, RSP_INFER, name));
      print_onward(a, s->peer, r->other[i], depth + 1);
    }
  if (open) printf("\n");
}

static uint32_t receiver_of(const struct asked *a, const struct way *way) {
  const struct rsp_stream *s = &a->e->ranks[way->rank].program.streams[way->stream];
  return s->dir == RSP_DIR_SELF_SRC ? way->rank : s->peer;
}

static void print_way(const struct asked *a, const struct way *way) {
  const struct rsp_plan *plan = a->e->plan;
  const struct explain_rank *r = &a->e->ranks[way->rank];
  const struct rsp_stream *s = &r->program.streams[way->stream];
  char from[32], to[32], bytes[32];
  uint32_t peer = receiver_of(a, way);
  uint64_t last = s->round0 + (rsp_stream_rounds(s) - 1) * s->step;
  printf("    %-9s %s -> %s, %s, ", cli_bytes((double)way->bytes, bytes),
         explain_rank_text(plan, way->rank, RSP_TRAIN, from), explain_rank_text(plan, peer, RSP_INFER, to),
         hop_word(plan, way->rank, peer));
  if (last == s->round0)
    printf("round %" PRIu64 "\n", last);
  else
    printf("rounds %u to %" PRIu64 "\n", s->round0, last);
  if (s->dir == RSP_DIR_OUT) print_onward(a, peer, r->other[way->stream], 0);
}

static void print_why(const struct asked *a, const struct way *way, const struct why *why) {
  char name[32], bytes[32];
  printf("      why %s: %s\n", explain_rank_text(a->e->plan, way->rank, RSP_TRAIN, name), why->words);
  for (size_t i = 0; i < why->count && why->count > 1 && i < MOST_CANDIDATES; i++)
    printf("%s%s %s", i ? ", " : "        who could, and sends over the network in all: ",
           explain_rank_text(a->e->plan, why->ranks[i], RSP_TRAIN, name), cli_bytes(sent(a, why->ranks[i]), bytes));
  if (why->count > MOST_CANDIDATES) printf(", %zu more", why->count - MOST_CANDIDATES);
  if (why->count > 1) printf("\n");
}

// Ways from one sender for one reason stand together, the reason below them.
static void print_ways(const struct asked *a, uint32_t tensor) {
  const struct way *last = NULL;
  struct why why = {.ranks = NULL};
  size_t ways = 0;
  for (size_t i = 0; i < a->ways.count; i++) {
    const struct way *way = &a->ways.at[i];
    if (way->tensor != tensor || ways++ >= MOST_WAYS) continue;
    struct why here;
    find_why(a, way, receiver_of(a, way), &here);
    if (last && (last->rank != way->rank || strcmp(here.words, why.words))) print_why(a, last, &why);
    free(why.ranks);
    why = here;
    last = way;
    print_way(a, way);
  }
  if (last) print_why(a, last, &why);
  free(why.ranks);
  if (ways > MOST_WAYS)
    printf("    and %zu way%s more; --json lists all\n", ways - MOST_WAYS, rsp_plural(ways - MOST_WAYS));
  if (!ways) printf("    none: nobody wants it, or nobody supplies it\n");
}

static void print_tensor(const struct asked *a, uint32_t tensor) {
  const struct rsp_plan *plan = a->e->plan;
  const struct rsp_tensor *t = &plan->tensors[tensor];
  char bytes[32];
  plan_text_str(stdout, plan->strings, t->name);
  printf(" %s", rsp_dtype_word(t->dtype));
  plan_text_dims(stdout, plan->dims + t->dims, t->ndim);
  printf(", %s\n  held\n", cli_bytes((double)(t->elems * rsp_dtype_bytes(t->dtype)), bytes));
  print_homes(a, tensor, RSP_TRAIN);
  printf("  wanted\n");
  print_homes(a, tensor, RSP_INFER);
  printf("  ways\n");
  print_ways(a, tensor);
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static json_t *homes_json(const struct asked *a, uint32_t tensor, uint32_t side) {
  const struct rsp_plan *plan = a->e->plan;
  json_t *list = json_array();
  for (size_t i = 0; i < a->home_count; i++) {
    const struct plan_home *h = &a->homes[i];
    if (h->tensor != tensor || h->buffer->side != side) continue;
    json_t *o = json_object(), *ranks = json_array();
    json_object_set_new(o, "buffer", plan_json_str(plan->strings, h->buffer->name));
    json_object_set_new(o, "elements", plan_json_u64(h->elems));
    for (uint64_t k = 0; k < h->rank_count; k++) json_array_append_new(ranks, json_integer(h->ranks[k]));
    json_object_set_new(o, "ranks", ranks);
    plan_json_place(o, plan->strings, plan->files[h->buffer->file], h->buffer->line, h->buffer->col);
    json_array_append_new(list, o);
  }
  return list;
}

static void hops_json(const struct asked *a, json_t *hops, uint32_t rank, uint32_t in) {
  const struct explain_rank *r = &a->e->ranks[rank];
  for (uint64_t i = 0; i < r->program.slice->streams.count && in != RSP_NO_STREAM; i++) {
    const struct rsp_stream *s = &r->program.streams[i];
    if (s->dir != RSP_DIR_OUT || s->relay != in) continue;
    json_array_append_new(hops, json_pack("{s:i,s:i,s:s}", "from", (int)rank, "to", (int)s->peer, "link",
                                          plan_link_word(plan_link_of(a->e->plan, rank, s->peer))));
    hops_json(a, hops, s->peer, r->other[i]);
  }
}

static json_t *way_json(const struct asked *a, const struct way *way) {
  const struct explain_rank *r = &a->e->ranks[way->rank];
  const struct rsp_stream *s = &r->program.streams[way->stream];
  uint32_t peer = receiver_of(a, way);
  json_t *o = json_object(), *hops = json_array(), *candidates = json_array();
  struct why why;
  json_object_set_new(o, "bytes", plan_json_u64(way->bytes));
  json_object_set_new(o, "sender", plan_json_u64(way->rank));
  json_object_set_new(o, "buffer", plan_json_str(a->e->plan->strings, a->e->plan->buffers[way->gid].name));
  json_object_set_new(o, "kind",
                      json_string(s->dir == RSP_DIR_SELF_SRC   ? "copy"
                                  : s->kind == RSP_KIND_DIRECT ? "direct"
                                                               : "staged"));
  json_object_set_new(o, "first_round", plan_json_u64(s->round0));
  json_object_set_new(o, "last_round", plan_json_u64(s->round0 + (rsp_stream_rounds(s) - 1) * s->step));
  json_array_append_new(hops, json_pack("{s:i,s:i,s:s}", "from", (int)way->rank, "to", (int)peer, "link",
                                        plan_link_word(plan_link_of(a->e->plan, way->rank, peer))));
  if (s->dir == RSP_DIR_OUT) hops_json(a, hops, peer, r->other[way->stream]);
  json_object_set_new(o, "hops", hops);
  find_why(a, way, peer, &why);
  for (size_t i = 0; i < why.count; i++)
    json_array_append_new(candidates,
                          json_pack("{s:i,s:f,s:f}", "rank", (int)why.ranks[i], "network_out", sent(a, why.ranks[i]),
                                    "busy", a->e->sim.busy[RSP_SIM_NIC_OUT][why.ranks[i]]));
  json_object_set_new(o, "candidates", candidates);
  json_object_set_new(o, "why", json_string(why.words));
  free(why.ranks);
  return o;
}

static json_t *tensor_json(const struct asked *a, uint32_t tensor) {
  const struct rsp_plan *plan = a->e->plan;
  const struct rsp_tensor *t = &plan->tensors[tensor];
  json_t *o = json_object(), *ways = json_array();
  json_object_set_new(o, "name", plan_json_str(plan->strings, t->name));
  json_object_set_new(o, "dtype", json_string(rsp_dtype_word(t->dtype)));
  json_object_set_new(o, "shape", plan_json_dims(plan->dims + t->dims, t->ndim));
  json_object_set_new(o, "bytes", plan_json_u64(t->elems * rsp_dtype_bytes(t->dtype)));
  json_object_set_new(o, "held", homes_json(a, tensor, RSP_TRAIN));
  json_object_set_new(o, "wanted", homes_json(a, tensor, RSP_INFER));
  for (size_t i = 0; i < a->ways.count; i++)
    if (a->ways.at[i].tensor == tensor) json_array_append_new(ways, way_json(a, &a->ways.at[i]));
  json_object_set_new(o, "ways", ways);
  return o;
}

// ---- all -----------------------------------------------------------------------------------------------------------

static int answer(struct asked *a, bool json) {
  const struct rsp_plan *plan = a->e->plan;
  json_t *o = json_object(), *list = json_array();
  uint64_t shown = 0;
  for (uint32_t t = 0; t < plan->tensor_count; t++) {
    if (!a->only[t]) continue;
    if (json)
      json_array_append_new(list, tensor_json(a, t));
    else if (shown++)
      printf("\n");
    if (!json) print_tensor(a, t);
  }
  if (!json && a->matched > MOST_TENSORS)
    printf("\n%" PRIu64 " tensors match; the first %d are shown\n", a->matched, MOST_TENSORS);
  json_object_set_new(o, "schema", json_string("reshard-explain/1"));
  json_object_set_new(o, "plan_id", plan_json_id(plan->header->plan_id));
  json_object_set_new(o, "matched", plan_json_u64(a->matched));
  json_object_set_new(o, "tensors", list);
  if (json) return plan_json_write(a->e->program, o, CLI_YES);
  json_decref(o);
  return cli_finish(a->e->program, CLI_YES);
}

static int nothing_matches(const struct explain *e, const char *glob) {
  const struct rsp_plan *plan = e->plan;
  struct rsc_guess guess;
  rsc_guess_begin(&guess, glob, strlen(glob));
  for (uint64_t t = 0; t < plan->tensor_count; t++) {
    struct rsp_str name = plan->tensors[t].name;
    rsc_guess_offer(&guess, plan->strings + name.off, (size_t)name.len);
  }
  struct rsc_arena *arena = rsc_arena_new();
  cli_trouble(e->program, "no tensor of the plan matches '%s', and it is no link%s", glob,
              rsc_guess_text(arena, &guess));
  rsc_arena_free(arena);
  return CLI_NO;
}

int explain_tensors(struct explain *e, const char *glob, bool json) {
  const struct rsp_plan *plan = e->plan;
  struct asked a = {.e = e};
  a.only = calloc((size_t)plan->tensor_count + 1, sizeof *a.only);
  a.world_of_train = calloc(plan->header->train_world + 1u, sizeof *a.world_of_train);
  if (!a.only || !a.world_of_train) abort();
  for (uint32_t r = 0; r < plan->header->world; r++)
    if (plan->ranks[r].train_rank != RSP_NO_RANK) a.world_of_train[plan->ranks[r].train_rank] = r;
  for (uint64_t t = 0; t < plan->tensor_count; t++)
    if (plan_name_matches(glob, plan->strings, plan->tensors[t].name)) a.only[t] = a.matched++ < MOST_TENSORS;
  int status = CLI_NO;
  if (!a.matched) {
    status = nothing_matches(e, glob);
  } else if (!plan_homes_of(plan, glob, &a.homes, &a.home_count)) {
    status = cli_trouble(e->program, "out of memory");
  } else {
    find_ways(&a);
    status = answer(&a, json);
    plan_homes_free(a.homes, a.home_count);
  }
  free(a.ways.at);
  free(a.only);
  free(a.world_of_train);
  return status;
}
