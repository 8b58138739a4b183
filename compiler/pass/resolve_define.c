/* SPDX-License-Identifier: Apache-2.0
 *
 * Params, and -D that overrides them.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

static const struct rsc_span nowhere = {.file = -1};

/* The last -D that is meant for this param on this side. All of them count as used. */
static const struct rsc_define *define_of(struct rsc_resolver *r, const char *name) {
  const struct rsc_define *found = NULL;
  for (size_t i = 0; i < r->options->define_count; i++) {
    const struct rsc_define *d = &r->options->defines[i];
    if (strcmp(d->name, name) != 0 || (d->side >= 0 && d->side != (int)r->side)) continue;
    r->defines_used.at[i] = true;
    found = d;
  }
  return found;
}

/* A name or call among the literals, or NULL. */
static const struct rsc_ast *not_literal(const struct rsc_ast *e) {
  switch (e->kind) {
  case RSC_AST_INT:
  case RSC_AST_TEXT:
    return NULL;
  case RSC_AST_STRING:
  case RSC_AST_TABLE:
  case RSC_AST_UNARY:
  case RSC_AST_BINARY:
  case RSC_AST_CHOICE:
    for (size_t i = 0; i < e->kid_count; i++) {
      const struct rsc_ast *bad = not_literal(e->kids[i]);
      if (bad) return bad;
    }
    return NULL;
  default:
    return e;
  }
}

static bool wrong_type(struct rsc_resolver *r, const struct rsc_define *d, const struct rsc_ast *name,
                       enum rsc_kind wanted) {
  rsc_fail(r, RSC_DEFINE_TYPE, nowhere, "-D %s=%s: param '%s' is %s", d->name, rsc_shown(r, d->text, strlen(d->text)),
           d->name, rsc_kind_text(wanted));
  rsc_fail_note(r, name->span, "its default is given here");
  return false;
}

static bool override(struct rsc_resolver *r, const struct rsc_define *d, const struct rsc_ast *name,
                     struct rsc_item *item) {
  enum rsc_kind wanted = item->kind;
  if (wanted == RSC_STR) {
    *item = rsc_str(d->text, strlen(d->text));
    return true;
  }
  size_t size = strlen(d->name) + 8;
  char *label = rsc_arena_alloc(r->arena, size);
  memcpy(label, "-D ", 3);
  memcpy(label + 3, d->name, size - 8);
  int file = rsc_sources_add(r->sources, label, d->text, strlen(d->text));
  const struct rsc_ast *e = rsc_parse_expr(&r->grammar, file);
  if (!e) return false;
  const struct rsc_ast *bad = not_literal(e);
  if (bad && bad == e && e->kind == RSC_AST_NAME) return wrong_type(r, d, name, wanted);
  if (bad)
    return rsc_fail(r, RSC_DEFINE_VALUE, bad->span, "the value of -D %s is made of literals and operators only",
                    d->name);
  if (!rsc_eval(r, e, item)) return false;
  return item->kind == wanted || wrong_type(r, d, name, wanted);
}

void rsc_run_param(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *name = s->kids[0];
  struct rsc_item item;
  bool ok = rsc_eval(r, s->kids[1], &item);
  if (ok && item.kind != RSC_INT && item.kind != RSC_STR && item.kind != RSC_TABLE)
    ok = rsc_fail(r, RSC_TYPE_MIXED, s->kids[1]->span, "a param is an integer, a string or a table, not %s",
                  rsc_kind_text(item.kind));
  const struct rsc_define *d = define_of(r, name->symbol->text);
  if (ok && d) ok = override(r, d, name, &item);
  *RSC_PUSH(r->arena, &r->params) = name->symbol;
  if (!rsc_may_define(r, name->symbol, name->span)) return;
  if (!ok) item.kind = RSC_BROKEN;
  rsc_bind(r, name->symbol, (struct rsc_binding){.kind = RSC_CONST, .item = item, .span = name->span});
}

/* Whether the other side has this param: told from its text alone. */
static bool file_has_param(const struct rsc_file *file, const char *name) {
  for (size_t i = 0; i < file->ast->kid_count; i++) {
    const struct rsc_ast *s = file->ast->kids[i];
    if (s->kind == RSC_AST_PARAM && strcmp(s->kids[0]->symbol->text, name) == 0) return true;
  }
  return false;
}

static bool other_side_has(struct rsc_resolver *r, const char *name) {
  const char *path = r->side == RSC_TRAIN ? r->options->infer_path : r->options->train_path;
  bool trouble = false, has = false;
  if (!path) return false;
  struct rsc_arena *arena = rsc_arena_new();
  struct rsc_resolver other = {
      .arena = arena, .values = arena, .own = arena, .options = r->options, .limits = r->limits, .site = -1};
  other.sources = rsc_sources_new(arena);
  other.diag = rsc_diag_new(arena, other.sources, NULL, NULL);
  other.said = rsc_keys_new(arena);
  other.grammar = (struct rsc_grammar){arena, other.sources, other.diag, rsc_interner_new(arena), 0};
  rsc_load_top(&other, path, &trouble);
  for (size_t i = 0; i < other.files.len; i++) has = has || file_has_param(other.files.at[i], name);
  rsc_arena_free(arena);
  return has;
}

void rsc_check_defines(struct rsc_resolver *r) {
  for (size_t i = 0; i < r->options->define_count; i++) {
    const struct rsc_define *d = &r->options->defines[i];
    if (r->defines_used.at[i] || (d->side >= 0 && d->side != (int)r->side)) continue;
    /* one for both sides is judged with the training side */
    if (d->side < 0 && (r->side != RSC_TRAIN || other_side_has(r, d->name))) continue;
    struct rsc_guess guess;
    rsc_guess_begin(&guess, d->name, strlen(d->name));
    for (size_t k = 0; k < r->params.len; k++) rsc_guess_offer(&guess, r->params.at[k]->text, r->params.at[k]->len);
    rsc_error(r->diag, RSC_DEFINE_UNKNOWN, nowhere, "-D %s%s=%s: %s '%s'%s",
              d->side < 0            ? ""
              : d->side == RSC_TRAIN ? "train."
                                     : "infer.",
              d->name, rsc_shown(r, d->text, strlen(d->text)),
              d->side < 0 ? "neither side has a param" : "this side has no param", d->name,
              rsc_guess_text(r->arena, &guess));
  }
}
