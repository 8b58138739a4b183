/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements that define names and that run others. A statement that fails does not stop those after it: what it
 * would have defined is marked broken, and uses of it stay silent.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/pass/resolve_impl.h"

static void bind_item(struct rsc_resolver *r, const struct rsc_ast *name, struct rsc_item item) {
  rsc_bind(r, name->symbol, (struct rsc_binding){.kind = RSC_CONST, .item = item, .span = name->span});
}

static void run_let(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *name = s->kids[0];
  struct rsc_item item;
  bool ok = rsc_eval(r, s->kids[1], &item);
  if (ok && item.kind == RSC_VALUE)
    ok = rsc_fail(r, RSC_TYPE_MIXED, s->kids[1]->span,
                  "let holds an integer, a string or a table; for a value write  def %s() = ...", name->symbol->text);
  if (ok && item.kind == RSC_DEC)
    ok = rsc_fail(r, RSC_TYPE_MIXED, s->kids[1]->span, "let holds an integer, a string or a table, not a decimal");
  if (!rsc_may_define(r, name->symbol, name->span)) return;
  if (!ok) item = (struct rsc_item){.kind = RSC_BROKEN};
  bind_item(r, name, item);
}

static void run_def(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *name = s->kids[0], *params = s->kids[1];
  if (!rsc_may_define(r, name->symbol, name->span)) return;
  size_t mark = r->undo.len;
  bool ok = true;
  for (size_t i = 0; i < params->kid_count; i++) {
    const struct rsc_ast *param = params->kids[i];
    ok = rsc_may_define(r, param->symbol, param->span) && ok;
    rsc_bind(r, param->symbol, (struct rsc_binding){.kind = RSC_LOCAL, .span = param->span});
  }
  ok = ok && rsc_check_names(r, s->kids[2]);
  rsc_unbind(r, mark);
  rsc_bind(r, name->symbol, (struct rsc_binding){.kind = RSC_FUNCTION, .def = ok ? s : NULL, .span = name->span});
}

/* All that are missing in one message, at the include that should have had them before it. */
static void run_need(struct rsc_resolver *r, const struct rsc_ast *s) {
  char list[400] = "";
  size_t at = 0, missing = 0;
  for (size_t i = 0; i < s->kid_count; i++) {
    const struct rsc_ast *name = s->kids[i];
    if (rsc_binding(r, name->symbol)->kind != RSC_UNBOUND) continue;
    if (at + name->symbol->len + 8 < sizeof list)
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", missing ? ", " : "", name->symbol->text);
    missing++;
    bind_item(r, name, (struct rsc_item){.kind = RSC_BROKEN});
  }
  if (!missing) return;
  bool included = r->file->include.file >= 0;
  rsc_fail(r, RSC_NEED_MISSING, included ? r->file->include : s->span, "%s needs %s; define %s before the include",
           included ? "the included file" : "this file", list, missing == 1 ? "it" : "them");
  if (included) rsc_fail_note(r, s->span, "needed here");
}

static void run_assert(struct rsc_resolver *r, const struct rsc_ast *s) {
  int64_t holds;
  struct rsc_item text;
  if (!rsc_eval_int(r, s->kids[0], "the condition", &holds) || holds) return;
  if (!rsc_eval_string(r, s->kids[1], "the text", &text)) return;
  rsc_fail(r, RSC_ASSERT_FAILED, s->kids[0]->span, "%s", rsc_shown(r, text.u.str, text.len));
}

void rsc_run_block(struct rsc_resolver *r, const struct rsc_ast *block) {
  size_t names = r->undo.len;
  struct rsc_scratch_mark mark = rsc_scratch_mark(r);
  rsc_run(r, block);
  rsc_unbind(r, names);
  rsc_scratch_release(r, mark);
}

static void run_for(struct rsc_resolver *r, const struct rsc_ast *s) {
  const struct rsc_ast *var = s->kids[0];
  struct rsc_turns turns;
  size_t mark;
  if (!rsc_eval_turns(r, s->kids[1], &turns) || !rsc_enter_turns(r, var, &mark)) return;
  const char *outer = r->loop_text;
  r->statement_loops++;
  for (int64_t i = 0; i < turns.count && rsc_step(r, s->span); i++) {
    rsc_set_turn(r, var, rsc_turn(&turns, i));
    r->loop_text = NULL;
    rsc_run_block(r, s->kids[2]);
    r->statement = s->id;
  }
  r->statement_loops--;
  r->loop_text = outer;
  rsc_leave_turns(r, mark);
}

static void run_if(struct rsc_resolver *r, const struct rsc_ast *s) {
  int64_t n;
  if (!rsc_eval_int(r, s->kids[0], "the condition", &n)) return;
  const struct rsc_ast *arm = s->kids[n ? 1 : 2];
  if (!arm) return;
  if (arm->kind != RSC_AST_IF) {
    rsc_run_block(r, arm);
    return;
  }
  r->statement = arm->id;
  run_if(r, arm);
}

static void run_world(struct rsc_resolver *r, const struct rsc_ast *s) {
  int64_t n;
  if (!rsc_eval_int(r, s->kids[0], "the number of ranks", &n)) return;
  if (r->world_span.line) {
    rsc_fail(r, RSC_WORLD, s->span, "the world is already given; keep one of the two");
    rsc_fail_note(r, r->world_span, "it is given here");
    return;
  }
  r->world_span = s->span;
  if (n < 1 || n > INT32_MAX) {
    rsc_fail(r, RSC_WORLD, s->kids[0]->span, "a world of %" PRId64 " ranks; a side has at least 1 and at most 2^31 - 1",
             n);
    return;
  }
  r->world = n;
}

static void run_statement(struct rsc_resolver *r, const struct rsc_ast *s) {
  switch (s->kind) {
  case RSC_AST_PARAM:
    rsc_run_param(r, s);
    break;
  case RSC_AST_LET:
    run_let(r, s);
    break;
  case RSC_AST_DEF:
    run_def(r, s);
    break;
  case RSC_AST_NEED:
    run_need(r, s);
    break;
  case RSC_AST_ASSERT:
    run_assert(r, s);
    break;
  case RSC_AST_INCLUDE:
    rsc_run_include(r, s);
    break;
  case RSC_AST_MODEL:
    rsc_run_model(r, s);
    break;
  case RSC_AST_TENSOR:
    rsc_run_tensor(r, s);
    break;
  case RSC_AST_MESH:
    rsc_run_mesh(r, s);
    break;
  case RSC_AST_WORLD:
    run_world(r, s);
    break;
  case RSC_AST_FOR:
    run_for(r, s);
    break;
  case RSC_AST_IF:
    run_if(r, s);
    break;
  case RSC_AST_ON:
    rsc_run_on(r, s);
    break;
  case RSC_AST_BUFFER:
    rsc_run_buffer(r, s);
    break;
  case RSC_AST_SKIP:
    rsc_run_skip(r, s);
    break;
  default:
    break;
  }
}

/* What a statement evaluates goes with it, but for those that keep it under a name until the scope ends. */
static bool keeps(const struct rsc_ast *s) {
  return s->kind == RSC_AST_LET || s->kind == RSC_AST_PARAM || s->kind == RSC_AST_INCLUDE;
}

void rsc_run(struct rsc_resolver *r, const struct rsc_ast *statements) {
  for (size_t i = 0; i < statements->kid_count; i++) {
    const struct rsc_ast *s = statements->kids[i];
    if (!rsc_step(r, s->span)) return;
    r->statement = s->id;
    struct rsc_scratch_mark mark = rsc_scratch_mark(r);
    run_statement(r, s);
    rsc_end_message(r);
    if (!keeps(s)) rsc_scratch_release(r, mark);
  }
}
