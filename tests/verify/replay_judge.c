// SPDX-License-Identifier: Apache-2.0
//
// In: the specification of a plan, and buffers after its replay. Out: whether they are what it says. See replay_impl.h.
#include <stdlib.h>

#include "tests/verify/replay_impl.h"

// ---- the specification ---------------------------------------------------------------------------------------------

static struct sym meaning(const struct rsp_plan *plan, const struct rsp_buffer *b, const struct rsp_piece *p,
                          uint64_t index) {
  struct sym s = {.kind = SYM_ELEMENT};
  if (p->slot == RSP_SLOT_PAD) return (struct sym){.kind = SYM_PAD};
  if (p->slot == RSP_SLOT_GAP) return (struct sym){.kind = SYM_GAP};
  s.tensor = plan->slots[b->slots + p->slot];
  s.index = index;
  s.dtype = b->dtype;
  s.op = p->op;
  s.constant = p->op == RSP_OP_ADD ? bits(p->constant) : 0;
  bool pure = s.op == RSP_OP_COPY && s.dtype == plan->tensors[s.tensor].dtype;
  s.end = pure ? 0 : b->side == RSP_TRAIN ? 1 : 2;
  return s;
}

bool specify(const struct rsp_plan *plan, const struct rsp_buffer *b, const struct rsp_entry *e, struct sym *out) {
  for (uint64_t i = 0; i < e->elems; i++) out[i] = (struct sym){.kind = SYM_POISON};
  for (uint64_t i = 0; i < e->piece_count; i++) {
    const struct rsp_piece *p = &plan->pieces[e->pieces + i];
    uint64_t k[64] = {0};
    for (;;) {
      uint64_t at = p->b0, index = p->t0;
      for (uint32_t l = 0; l < p->loop_count; l++) {
        at += k[l] * plan->ploops[p->loops + l].b_step;
        index += k[l] * plan->ploops[p->loops + l].t_step;
      }
      if (at >= e->elems || out[at].kind != SYM_POISON) return false;
      out[at] = meaning(plan, b, p, index);
      uint32_t l = 0;
      while (l < p->loop_count && ++k[l] == plan->ploops[p->loops + l].count) k[l++] = 0;
      if (l == p->loop_count) break;
    }
  }
  for (uint64_t i = 0; i < e->elems; i++) {
    if (out[i].kind == SYM_POISON) return false;
  }
  return true;
}

// ---- the verdict ---------------------------------------------------------------------------------------------------

static void count_ops(struct run *run) {
  for (uint32_t w = 0; w < run->plan->header->world; w++) {
    struct rank *r = &run->ranks[w];
    for (int64_t round = 0; round < run->plan->header->rounds; round++) {
      uint64_t ops = 0, i;
      for (uint64_t n = 0; n < r->program.slice->streams.count; n++) {
        struct flow *f = &r->flows[n];
        if (f->s->dir > RSP_DIR_IN || !active(f->s, round, &i)) continue;
        bool begun = false;
        if (f->s->kind == RSP_KIND_STAGED) {
          ops++;
          continue;
        }
        EACH_ELEM(f, i, e) {
          ops += !begun || e->first;
          begun = true;
        }
      }
      if (ops > run->plan->header->max_ops) run->wrong = "too many operations in a round";
    }
  }
}

struct count {
  uint64_t elements, bytes, tensors;
};

static void judge_buffer(struct run *run, struct rank *r, uint32_t w, uint32_t gid, unsigned char *tensors,
                         struct count *count) {
  const struct rsp_plan *plan = run->plan;
  const struct rsp_buffer *b = &plan->buffers[gid];
  const struct rsp_entry *e = rsp_buffer_entry(plan, b, plan->ranks[w].infer_rank);
  struct sym *want = calloc(e->elems + 1, sizeof *want);
  specify(plan, b, e, want);
  for (uint64_t i = 0; i < e->elems; i++) {
    struct sym have = r->buffers[gid][i], x = want[i];
    if (x.kind == SYM_PAD) x.kind = SYM_ZERO;
    if (x.kind == SYM_GAP) x.kind = SYM_POISON;
    if (x.kind == SYM_ELEMENT) {
      bool excused = plan->tensors[x.tensor].flags & RSP_TENSOR_SKIP_TRAIN && !run->held[x.tensor][x.index];
      if (excused) x = (struct sym){.kind = SYM_POISON};
    }
    if (!same(&have, &x)) run->wrong = "an inference buffer is wrong";
    if (x.kind != SYM_ELEMENT) continue;
    count->elements++;
    count->bytes += rsp_dtype_bytes(b->dtype);
    count->tensors += !tensors[x.tensor];
    tensors[x.tensor] = 1;
  }
  free(want);
}

// Bytes that the domain wants and none of its members holds.
static uint64_t intake(struct run *run, uint32_t domain) {
  const struct rsp_plan *plan = run->plan;
  uint64_t bytes = 0;
  for (uint64_t t = 0; t < plan->tensor_count; t++) {
    unsigned char *mark = calloc(plan->tensors[t].elems + 1, 1); // 1 wanted, 2 held
    for (uint32_t w = 0; w < plan->header->world; w++) {
      if (plan->ranks[w].domain != domain) continue;
      for (uint32_t gid = 0; gid < plan->buffer_count; gid++) {
        const struct rsp_buffer *b = &plan->buffers[gid];
        uint32_t side_rank = b->side == RSP_TRAIN ? plan->ranks[w].train_rank : plan->ranks[w].infer_rank;
        if (!run->ranks[w].buffers[gid]) continue;
        const struct rsp_entry *e = rsp_buffer_entry(plan, b, side_rank);
        struct sym *spec = calloc(e->elems + 1, sizeof *spec);
        specify(plan, b, e, spec);
        for (uint64_t i = 0; i < e->elems; i++) {
          if (spec[i].kind == SYM_ELEMENT && spec[i].tensor == t)
            mark[spec[i].index] |= (unsigned char)(b->side == RSP_TRAIN ? 2 : 1);
        }
        free(spec);
      }
    }
    for (uint64_t i = 0; i < plan->tensors[t].elems; i++) {
      bool excused = plan->tensors[t].flags & RSP_TENSOR_SKIP_TRAIN && !run->held[t][i];
      if (mark[i] == 1 && !excused) bytes += rsp_dtype_bytes(plan->tensors[t].dtype);
    }
    free(mark);
  }
  return bytes;
}

static void judge_summary(struct run *run, struct count count) {
  const struct rsp_plan *plan = run->plan;
  const struct rsp_summary *s = plan->summary;
  uint64_t local = 0, nvlink = 0, network = 0, minimum = 0;
  for (uint32_t w = 0; w < plan->header->world; w++) {
    for (uint64_t n = 0; n < run->ranks[w].program.slice->streams.count; n++) {
      const struct rsp_stream *x = run->ranks[w].flows[n].s;
      if (x->dir == RSP_DIR_SELF_SRC) local += x->bytes;
      if (x->dir == RSP_DIR_OUT && x->peer == w)
        local += x->bytes;
      else if (x->dir == RSP_DIR_OUT)
        *(plan->ranks[w].domain == plan->ranks[x->peer].domain ? &nvlink : &network) += x->bytes;
    }
    bool first = true;
    for (uint32_t v = 0; v < w; v++) first &= plan->ranks[v].domain != plan->ranks[w].domain;
    if (first) minimum += intake(run, plan->ranks[w].domain);
  }
  if (s->tensors != count.tensors || s->elements != count.elements || s->deliveries != count.elements ||
      s->bytes != count.bytes || s->wanted_bytes != count.bytes || s->local_bytes != local ||
      s->nvlink_bytes != nvlink || s->network_bytes != network || s->network_minimum != minimum)
    run->wrong = "a figure of the summary is wrong";
}

void judge(struct run *run) {
  const struct rsp_plan *plan = run->plan;
  unsigned char *tensors = calloc(plan->tensor_count, 1);
  struct count count = {0};
  for (uint32_t w = 0; w < plan->header->world && !run->wrong; w++) {
    for (uint32_t gid = 0; gid < plan->buffer_count; gid++) {
      if (plan->buffers[gid].side == RSP_INFER && run->ranks[w].buffers[gid])
        judge_buffer(run, &run->ranks[w], w, gid, tensors, &count);
    }
  }
  if (!run->wrong) count_ops(run);
  if (!run->wrong) judge_summary(run, count);
  free(tensors);
}
