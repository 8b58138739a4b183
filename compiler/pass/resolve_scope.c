/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and what they stand for, scope by scope, and the memory that lives as long as a scope. A name has one
 * meaning at a time, kept at its symbol; leaving a scope puts back what was there.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

struct rsc_scratch_chunk {
  struct rsc_scratch_chunk *below;
  size_t used, size;
  _Alignas(16) unsigned char data[];
};

enum { CHUNK = 1 << 16 };

void *rsc_scratch(struct rsc_resolver *r, size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  struct rsc_scratch_chunk *c = r->scratch;
  if (!c || c->size - c->used < bytes) {
    if ((int64_t)bytes > r->limits.scratch - r->scratch_bytes) {
      rsc_fail(r, RSC_TOO_LARGE, (struct rsc_span){.file = -1}, "tables and strings take more than %lld bytes",
               (long long)r->limits.scratch);
      r->stop = true;
      return NULL;
    }
    size_t size = bytes > CHUNK ? bytes : CHUNK;
    c = malloc(sizeof *c + size);
    if (!c) rsc_oom(size);
    *c = (struct rsc_scratch_chunk){.below = r->scratch, .size = size};
    r->scratch = c;
    r->scratch_bytes += (int64_t)size;
  }
  void *p = c->data + c->used;
  c->used += bytes;
  return p;
}

struct rsc_scratch_mark rsc_scratch_mark(const struct rsc_resolver *r) {
  return (struct rsc_scratch_mark){r->scratch, r->scratch ? r->scratch->used : 0};
}

void rsc_scratch_release(struct rsc_resolver *r, struct rsc_scratch_mark mark) {
  while (r->scratch != mark.chunk) {
    struct rsc_scratch_chunk *below = r->scratch->below;
    r->scratch_bytes -= (int64_t)r->scratch->size;
    free(r->scratch);
    r->scratch = below;
  }
  if (r->scratch) r->scratch->used = mark.used;
}

void rsc_scratch_free(struct rsc_resolver *r) {
  rsc_scratch_release(r, (struct rsc_scratch_mark){NULL, 0});
}

/* The pointer is good until the next binding. */
struct rsc_binding *rsc_binding(struct rsc_resolver *r, const struct rsc_symbol *name) {
  RSC_ENSURE(r->arena, &r->bindings, (size_t)name->id + 1);
  return &r->bindings.at[name->id];
}

void rsc_bind(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_binding binding) {
  struct rsc_binding *at = rsc_binding(r, name);
  *RSC_PUSH(r->arena, &r->undo) = (struct rsc_undo){name->id, *at};
  *at = binding;
}

void rsc_unbind(struct rsc_resolver *r, size_t mark) {
  while (r->undo.len > mark) {
    const struct rsc_undo *u = &r->undo.at[--r->undo.len];
    r->bindings.at[u->symbol] = u->old;
  }
}

bool rsc_may_define(struct rsc_resolver *r, const struct rsc_symbol *name, struct rsc_span span) {
  const struct rsc_binding *old = rsc_binding(r, name);
  if (old->kind == RSC_UNBOUND) return true;
  struct rsc_span first = old->span;
  if (old->kind == RSC_BUILTIN)
    return rsc_fail(r, RSC_NAME_TAKEN, span, "'%s' is a function of the language; choose another name", name->text);
  rsc_fail(r, RSC_NAME_TAKEN, span, "'%s' is already visible here; choose another name", name->text);
  rsc_fail_note(r, first, "it is defined here");
  return false;
}

const char *rsc_guess_name(struct rsc_resolver *r, const struct rsc_symbol *name, bool functions) {
  struct rsc_guess guess;
  rsc_guess_begin(&guess, name->text, name->len);
  for (size_t i = 0; i < r->bindings.len; i++) {
    enum rsc_binding_kind kind = r->bindings.at[i].kind;
    bool callable = kind == RSC_FUNCTION || kind == RSC_BUILTIN;
    if (kind == RSC_UNBOUND || callable != functions) continue;
    const struct rsc_symbol *s = rsc_intern_at(r->grammar.names, (uint32_t)i);
    rsc_guess_offer(&guess, s->text, s->len);
  }
  return rsc_guess_text(r->arena, &guess);
}

void rsc_bind_builtins(struct rsc_resolver *r) {
  static const struct {
    const char *name;
    int which;
  } all[] = {{"min", RSC_FN_MIN},         {"max", RSC_FN_MAX},         {"len", RSC_FN_LEN},
             {"sum", RSC_FN_SUM},         {"ceildiv", RSC_FN_CEILDIV}, {"char", RSC_FN_CHAR},
             {"tensors", RSC_FN_TENSORS}, {"bucket", RSC_FN_BUCKET},   {"start", RSC_FN_START},
             {"cat", RSC_FN_CAT},         {"stack", RSC_FN_STACK},     {"slice", RSC_FN_SLICE},
             {"permute", RSC_FN_PERMUTE}, {"gap", RSC_FN_GAP},         {"cast", RSC_FN_CAST},
             {"neg_exp", RSC_FN_NEG_EXP}, {"add", RSC_FN_ADD}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const struct rsc_symbol *s = rsc_intern(r->grammar.names, all[i].name, strlen(all[i].name));
    rsc_bind(r, s, (struct rsc_binding){.kind = RSC_BUILTIN, .index = all[i].which, .span = {.file = -1}});
  }
}
