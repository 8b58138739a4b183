/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be told from the text alone, before anything is executed: that the names in a function are known where it
 * is defined, and that `on` and `buffer` stand where they may.
 */
#include <string.h>

#include "compiler/pass/resolve_impl.h"

static bool check_kids(struct rsc_resolver *r, const struct rsc_ast *e) {
  bool ok = true;
  for (size_t i = 0; i < e->kid_count; i++) ok = (!e->kids[i] || rsc_check_names(r, e->kids[i])) && ok;
  return ok;
}

static bool check_name(struct rsc_resolver *r, const struct rsc_ast *e) {
  const struct rsc_binding *b = rsc_binding(r, e->symbol);
  if (b->kind == RSC_CONST || b->kind == RSC_LOCAL) return true;
  if (b->kind == RSC_UNBOUND) return rsc_no_name(r, e);
  return rsc_fail(r, RSC_NAME_KIND, e->span, "'%s' is a %s, not a constant", e->symbol->text,
                  b->kind == RSC_MESH_NAME ? "mesh" : "function");
}

static bool check_call(struct rsc_resolver *r, const struct rsc_ast *e) {
  const struct rsc_symbol *name = e->kids[0]->symbol;
  const struct rsc_binding *b = rsc_binding(r, name);
  if (b->kind == RSC_UNBOUND)
    return rsc_fail(r, RSC_NAME_UNKNOWN, e->kids[0]->span, "no function '%s' is visible here%s", name->text,
                    rsc_guess_name(r, name, true));
  bool function =
      b->kind == RSC_FUNCTION || b->kind == RSC_BUILTIN || (b->kind == RSC_CONST && b->item.kind == RSC_BROKEN);
  if (!function) return rsc_fail(r, RSC_NAME_KIND, e->kids[0]->span, "'%s' is no function", name->text);
  return check_kids(r, e->kids[1]);
}

/* `var` is bound in the last `bodies` kids only. */
static bool check_loop(struct rsc_resolver *r, const struct rsc_ast *var, const struct rsc_ast *a,
                       const struct rsc_ast *b) {
  if (!rsc_may_define(r, var->symbol, var->span)) return false;
  size_t mark = r->undo.len;
  rsc_bind(r, var->symbol, (struct rsc_binding){.kind = RSC_LOCAL, .span = var->span});
  bool ok = rsc_check_names(r, a);
  ok = (!b || rsc_check_names(r, b)) && ok;
  rsc_unbind(r, mark);
  return ok;
}

static bool is_word(const struct rsc_ast *name) {
  static const char *const words[] = {"chunk", "balanced", "cyclic", "padded", "share", "each"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(name->symbol->text, words[i]) == 0) return true;
  }
  return false;
}

/* The axis belongs to the mesh of the use; the words of rules are words here only. */
static bool check_cut(struct rsc_resolver *r, const struct rsc_ast *e) {
  const struct rsc_ast *rule = e->kids[1];
  if (!rule || (rule->kind == RSC_AST_NAME && is_word(rule))) return true;
  if (rule->kind == RSC_AST_CALL && is_word(rule->kids[0])) return check_kids(r, rule->kids[1]);
  return rsc_check_names(r, rule);
}

bool rsc_check_names(struct rsc_resolver *r, const struct rsc_ast *e) {
  switch (e->kind) {
  case RSC_AST_NAME:
    return check_name(r, e);
  case RSC_AST_CALL:
    return check_call(r, e);
  case RSC_AST_CUT:
    return check_cut(r, e);
  case RSC_AST_COLLECT:
    return rsc_check_names(r, e->kids[2]) && check_loop(r, e->kids[1], e->kids[0], e->kids[3]);
  case RSC_AST_CALL_FOR:
    return (!e->kids[1] || check_kids(r, e->kids[1])) && rsc_check_names(r, e->kids[3]) && check_kids(r, e->kids[4]) &&
           check_loop(r, e->kids[2], e->kids[5], NULL);
  default:
    return check_kids(r, e);
  }
}

void rsc_check_places(struct rsc_resolver *r, const struct rsc_ast *ast, int on_depth) {
  r->statement = ast->id;
  switch (ast->kind) {
  case RSC_AST_BUFFER:
    if (!on_depth)
      rsc_fail(r, RSC_BUFFER_OUTSIDE, ast->span, "a buffer outside every 'on'; write  on MESH { buffer ... }");
    return;
  case RSC_AST_ON:
    if (ast->kids[0] && on_depth)
      rsc_fail(r, RSC_ON_NESTED, ast->span, "'on %s' inside another 'on'; to pin more axes write  on [axis = e] { }",
               ast->kids[0]->symbol->text);
    if (!ast->kids[0] && !on_depth)
      rsc_fail(r, RSC_ON_OUTSIDE, ast->span,
               "'on [...]' outside every 'on MESH'; name the mesh: on MESH[axis = e] { }");
    rsc_check_places(r, ast->kids[2], on_depth + 1);
    return;
  case RSC_AST_FOR:
    rsc_check_places(r, ast->kids[2], on_depth);
    return;
  case RSC_AST_IF:
    rsc_check_places(r, ast->kids[1], on_depth);
    if (ast->kids[2]) rsc_check_places(r, ast->kids[2], on_depth);
    return;
  case RSC_AST_FILE:
  case RSC_AST_BLOCK:
    for (size_t i = 0; i < ast->kid_count; i++) rsc_check_places(r, ast->kids[i], on_depth);
    return;
  default:
    return;
  }
}
