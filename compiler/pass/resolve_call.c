/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: the functions of a layout, the builtin functions on constants, and the ranges that loops go through.
 */
#include <inttypes.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/base/glob.h"
#include "compiler/pass/resolve_impl.h"

bool rsc_eval_turns(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_turns *out) {
  *out = (struct rsc_turns){0};
  if (e->kind == RSC_AST_RANGE) {
    int64_t hi;
    if (!rsc_eval_int(r, e->kids[0], "the begin of a range", &out->lo)) return false;
    if (!rsc_eval_int(r, e->kids[1], "the end of a range", &hi)) return false;
    if (hi <= out->lo) return true;
    if (rsc_sub(hi, out->lo, &out->count))
      return rsc_fail(r, RSC_OVERFLOW, e->span, "the length of this range does not fit into 64 bits");
    return true;
  }
  struct rsc_item item;
  if (!rsc_eval(r, e, &item)) return false;
  if (item.kind != RSC_TABLE)
    return rsc_fail(r, RSC_TYPE_MIXED, e->span, "a range a..b or a table is needed here, not %s",
                    rsc_kind_text(item.kind));
  out->items = item.u.table;
  out->count = (int64_t)item.len;
  return true;
}

struct rsc_item rsc_turn(const struct rsc_turns *turns, int64_t i) {
  return turns->items ? turns->items[i] : rsc_int(turns->lo + i);
}

bool rsc_enter_turns(struct rsc_resolver *r, const struct rsc_ast *var, size_t *mark) {
  /* In a function the names were looked at where it is defined; the caller's are not visible to it. */
  if (!r->call && !rsc_may_define(r, var->symbol, var->span)) return false;
  *mark = r->undo.len;
  rsc_bind(r, var->symbol, (struct rsc_binding){.kind = RSC_CONST, .span = var->span});
  *RSC_PUSH(r->own, &r->loops) = (struct rsc_loop_value){.name = var->symbol};
  return true;
}

void rsc_set_turn(struct rsc_resolver *r, const struct rsc_ast *var, struct rsc_item item) {
  rsc_binding(r, var->symbol)->item = item;
  r->loops.at[r->loops.len - 1].item = item;
}

void rsc_leave_turns(struct rsc_resolver *r, size_t mark) {
  rsc_unbind(r, mark);
  r->loops.len--;
}

static bool arg_count(struct rsc_resolver *r, const struct rsc_ast *e, size_t lo, size_t hi) {
  size_t n = e->kids[1]->kid_count;
  if (n >= lo && n <= hi) return true;
  const char *name = e->kids[0]->symbol->text;
  if (lo == hi)
    return rsc_fail(r, RSC_CALL_ARGS, e->span, "'%s' takes %zu argument%s, not %zu", name, lo, lo == 1 ? "" : "s", n);
  return rsc_fail(r, RSC_CALL_ARGS, e->span, "'%s' takes at least %zu argument%s, not %zu", name, lo,
                  lo == 1 ? "" : "s", n);
}

static bool call_def(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_ast *def, struct rsc_item *out) {
  const struct rsc_ast *params = def->kids[1], *args = e->kids[1];
  size_t n = params->kid_count, mark = r->undo.len;
  if (args->kid_count != n) {
    arg_count(r, e, n, n);
    rsc_fail_note(r, def->kids[0]->span, "it is defined here");
    return false;
  }
  struct rsc_item few[8], *items = n <= 8 ? few : rsc_scratch(r, n * sizeof *items);
  if (!items) return false;
  for (size_t i = 0; i < n; i++) {
    if (!rsc_eval(r, args->kids[i], &items[i])) return false;
  }
  for (size_t i = 0; i < n; i++) {
    rsc_bind(r, params->kids[i]->symbol, (struct rsc_binding){.kind = RSC_CONST, .item = items[i]});
  }
  struct rsc_call frame = {r->call, e};
  r->call = &frame;
  bool ok = rsc_eval(r, def->kids[2], out);
  r->call = frame.outer;
  rsc_unbind(r, mark);
  return ok;
}

bool rsc_eval_call(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_symbol *name = e->kids[0]->symbol;
  const struct rsc_binding *b = rsc_binding(r, name);
  switch (b->kind) {
  case RSC_FUNCTION:
    return b->def && call_def(r, e, b->def, out);
  case RSC_BUILTIN:
    return b->index < RSC_FN_CAT ? rsc_builtin(r, b->index, e, out) : rsc_value_builtin(r, b->index, e, out);
  case RSC_UNBOUND:
    return rsc_fail(r, RSC_NAME_UNKNOWN, e->kids[0]->span, "no function '%s' is visible here%s", name->text,
                    rsc_guess_name(r, name, true));
  default:
    if (b->kind == RSC_CONST && b->item.kind == RSC_BROKEN) return false;
    return rsc_fail(r, RSC_NAME_KIND, e->kids[0]->span, "'%s' is %s, not a function", name->text,
                    b->kind == RSC_MESH_NAME ? "a mesh" : rsc_kind_text(b->item.kind));
  }
}

/* min and max of their arguments, or of one table. */
static bool extreme(struct rsc_resolver *r, int which, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_ast *args = e->kids[1];
  struct rsc_item item;
  int64_t best = 0, n, *list;
  if (!arg_count(r, e, 1, SIZE_MAX)) return false;
  for (size_t i = 0; i < args->kid_count; i++) {
    if (!rsc_eval(r, args->kids[i], &item)) return false;
    if (item.kind == RSC_TABLE && args->kid_count == 1) {
      if (!rsc_table_ints(r, &item, args->kids[0]->span, "the argument", &list)) return false;
      if (!item.len)
        return rsc_fail(r, RSC_ARGUMENT, e->span, "an empty table has no %s", which == RSC_FN_MIN ? "min" : "max");
      best = list[0];
      for (size_t k = 1; k < item.len; k++) best = (which == RSC_FN_MIN) == (list[k] < best) ? list[k] : best;
      break;
    }
    if (item.kind != RSC_INT)
      return rsc_fail(r, RSC_TYPE_MIXED, args->kids[i]->span, "'%s' takes integers, or one table of them, not %s",
                      e->kids[0]->symbol->text, rsc_kind_text(item.kind));
    n = item.u.number;
    if (!i || (which == RSC_FN_MIN) == (n < best)) best = n;
  }
  *out = rsc_int(best);
  return true;
}

static bool length(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (!arg_count(r, e, 1, 1) || !rsc_eval(r, e->kids[1]->kids[0], out)) return false;
  if (out->kind != RSC_TABLE && out->kind != RSC_STR)
    return rsc_fail(r, RSC_TYPE_MIXED, e->span, "'len' takes a table or a string, not %s", rsc_kind_text(out->kind));
  *out = rsc_int((int64_t)out->len);
  return true;
}

static bool ceildiv(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  int64_t a, b;
  if (!arg_count(r, e, 2, 2) || !rsc_eval_int(r, e->kids[1]->kids[0], "an argument of 'ceildiv'", &a) ||
      !rsc_eval_int(r, e->kids[1]->kids[1], "an argument of 'ceildiv'", &b))
    return false;
  if (!b) return rsc_fail(r, RSC_DIV_ZERO, e->span, "ceildiv(%" PRId64 ", 0) has no result", a);
  if (a == INT64_MIN && b == -1)
    return rsc_fail(r, RSC_OVERFLOW, e->span, "ceildiv(%" PRId64 ", -1) does not fit into 64 bits", a);
  *out = rsc_int(b == -1 ? -a : rsc_floordiv(a, b) + (rsc_floormod(a, b) != 0));
  return true;
}

static bool character(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_item s;
  int64_t i;
  if (!arg_count(r, e, 2, 2) || !rsc_eval_string(r, e->kids[1]->kids[0], "the first argument of 'char'", &s) ||
      !rsc_eval_int(r, e->kids[1]->kids[1], "the second argument of 'char'", &i))
    return false;
  if (i < 0 || (uint64_t)i >= s.len)
    return rsc_fail(r, RSC_INDEX_RANGE, e->kids[1]->kids[1]->span,
                    "position %" PRId64 " in a string of %zu bytes; the first is 0", i, s.len);
  *out = rsc_str(s.u.str + i, 1);
  return true;
}

/* The names declared so far that match; worked out once per pattern and state of the declarations. */
static bool tensors(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_item glob;
  if (!arg_count(r, e, 1, 1) || !rsc_eval_string(r, e->kids[1]->kids[0], "the argument of 'tensors'", &glob))
    return false;
  struct rsc_key key = {0};
  rsc_key_int(r->own, &key, (int64_t)r->tensors.len);
  rsc_key_add(r->own, &key, glob.u.str, glob.len);
  bool fresh;
  int32_t id = rsc_keys_id(r->glob_keys, key.at, key.len, &fresh);
  if (fresh) {
    const char *pattern = rsc_arena_strdup(r->own, glob.u.str, glob.len);
    struct {
      RSC_VEC(struct rsc_item);
    } found = {0};
    for (size_t i = 0; i < r->tensors.len; i++) {
      const char *name = r->tensors.at[i].name;
      if (!rsc_glob_match(pattern, name)) continue;
      *RSC_PUSH(r->own, &found) = rsc_str(name, strlen(name));
    }
    r->steps += r->tensors.len;
    *RSC_PUSH(r->own, &r->glob_items) = (struct rsc_item){.kind = RSC_TABLE, .len = found.len, .u.table = found.at};
  }
  *out = r->glob_items.at[id];
  return true;
}

/* Both arguments of bucket and start, and the counts as integers that are not negative. */
static bool counts(struct rsc_resolver *r, const struct rsc_ast *e, int64_t **list, int64_t *len, int64_t *i) {
  struct rsc_item item;
  const char *name = e->kids[0]->symbol->text;
  if (!arg_count(r, e, 2, 2)) return false;
  const struct rsc_ast *first = e->kids[1]->kids[0];
  if (!rsc_eval(r, first, &item) || !rsc_table_ints(r, &item, first->span, "the first argument", list)) return false;
  if (!rsc_eval_int(r, e->kids[1]->kids[1], "the second argument", i)) return false;
  *len = (int64_t)item.len;
  for (int64_t k = 0; k < *len; k++) {
    if ((*list)[k] < 0)
      return rsc_fail(r, RSC_ARGUMENT, first->span,
                      "the counts of '%s' are not negative, but entry %" PRId64 " is %" PRId64, name, k, (*list)[k]);
  }
  r->steps += item.len;
  return true;
}

static bool bucket(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  int64_t *list, len, i, end = 0;
  if (!counts(r, e, &list, &len, &i)) return false;
  for (int64_t k = 0; k < len && i >= 0; k++) {
    if (rsc_add(end, list[k], &end)) return rsc_fail(r, RSC_OVERFLOW, e->span, "the counts add up past 64 bits");
    if (i >= end) continue;
    *out = rsc_int(k);
    return true;
  }
  return rsc_fail(r, RSC_INDEX_RANGE, e->span, "%" PRId64 " falls into no bucket; the counts add up to %" PRId64, i,
                  i < 0 ? 0 : end);
}

static bool start(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  int64_t *list, len, k, at = 0;
  if (!counts(r, e, &list, &len, &k)) return false;
  if (k < 0 || k > len)
    return rsc_fail(r, RSC_INDEX_RANGE, e->span, "bucket %" PRId64 " of %" PRId64 " has no start", k, len);
  for (int64_t i = 0; i < k; i++) {
    if (rsc_add(at, list[i], &at)) return rsc_fail(r, RSC_OVERFLOW, e->span, "the counts add up past 64 bits");
  }
  *out = rsc_int(at);
  return true;
}

static bool sum(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_item item;
  int64_t *list, n = 0;
  if (!arg_count(r, e, 1, 1)) return false;
  const struct rsc_ast *arg = e->kids[1]->kids[0];
  if (!rsc_eval(r, arg, &item) || !rsc_table_ints(r, &item, arg->span, "the argument of 'sum'", &list)) return false;
  for (size_t i = 0; i < item.len; i++) {
    if (rsc_add(n, list[i], &n)) return rsc_fail(r, RSC_OVERFLOW, e->span, "the sum does not fit into 64 bits");
  }
  *out = rsc_int(n);
  return true;
}

bool rsc_builtin(struct rsc_resolver *r, int which, const struct rsc_ast *e, struct rsc_item *out) {
  switch (which) {
  case RSC_FN_MIN:
  case RSC_FN_MAX:
    return extreme(r, which, e, out);
  case RSC_FN_LEN:
    return length(r, e, out);
  case RSC_FN_SUM:
    return sum(r, e, out);
  case RSC_FN_CEILDIV:
    return ceildiv(r, e, out);
  case RSC_FN_CHAR:
    return character(r, e, out);
  case RSC_FN_TENSORS:
    return tensors(r, e, out);
  case RSC_FN_BUCKET:
    return bucket(r, e, out);
  default:
    return start(r, e, out);
  }
}
