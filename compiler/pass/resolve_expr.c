/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: syntax trees in, integers, strings, tables and values out. Everything is checked; an error is reported
 * where it is found and `false` goes up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/check.h"
#include "compiler/pass/resolve_impl.h"

enum { DEPTH_MAX = 2000, STRING_MAX = 1 << 20 };

struct rsc_item rsc_int(int64_t number) {
  return (struct rsc_item){.kind = RSC_INT, .u.number = number};
}

struct rsc_item rsc_str(const char *bytes, size_t len) {
  return (struct rsc_item){.kind = RSC_STR, .len = len, .origin = {.file = -1}, .u.str = bytes};
}

static bool wrong_kind(struct rsc_resolver *r, struct rsc_span span, const char *what, const char *wanted,
                       const struct rsc_item *item) {
  return rsc_fail(r, RSC_TYPE_MIXED, span, "%s is %s, not %s", what, rsc_kind_text(item->kind), wanted);
}

bool rsc_eval_int(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, int64_t *out) {
  struct rsc_item item;
  if (!rsc_eval(r, e, &item)) return false;
  if (item.kind != RSC_INT) return wrong_kind(r, e->span, what, "an integer", &item);
  *out = item.u.number;
  return true;
}

bool rsc_eval_string(struct rsc_resolver *r, const struct rsc_ast *e, const char *what, struct rsc_item *out) {
  if (!rsc_eval(r, e, out)) return false;
  return out->kind == RSC_STR || wrong_kind(r, e->span, what, "a string", out);
}

bool rsc_table_ints(struct rsc_resolver *r, const struct rsc_item *table, struct rsc_span span, const char *what,
                    int64_t **out) {
  if (table->kind != RSC_TABLE) return wrong_kind(r, span, what, "a table of integers", table);
  int64_t *list = rsc_scratch(r, (table->len ? table->len : 1) * sizeof *list);
  if (!list) return false;
  for (size_t i = 0; i < table->len; i++) {
    const struct rsc_item *item = &table->u.table[i];
    if (item->kind != RSC_INT)
      return rsc_fail(r, RSC_TYPE_MIXED, span, "%s is a table of integers, but entry %zu is %s", what, i,
                      rsc_kind_text(item->kind));
    list[i] = item->u.number;
  }
  *out = list;
  return true;
}

static bool overflow(struct rsc_resolver *r, const struct rsc_ast *e, int64_t a, int64_t b) {
  return rsc_fail(r, RSC_OVERFLOW, e->span, "%" PRId64 " %s %" PRId64 " does not fit into 64 bits", a,
                  rsc_op_text(e->op), b);
}

static bool arithmetic(struct rsc_resolver *r, const struct rsc_ast *e, int64_t a, int64_t b, int64_t *n) {
  switch (e->op) {
  case RSC_OP_ADD:
    return !rsc_add(a, b, n) || overflow(r, e, a, b);
  case RSC_OP_SUB:
    return !rsc_sub(a, b, n) || overflow(r, e, a, b);
  case RSC_OP_MUL:
    return !rsc_mul(a, b, n) || overflow(r, e, a, b);
  case RSC_OP_DIV:
  case RSC_OP_MOD:
    if (b == 0) return rsc_fail(r, RSC_DIV_ZERO, e->span, "%" PRId64 " %s 0 has no result", a, rsc_op_text(e->op));
    if (b == -1 && a == INT64_MIN && e->op == RSC_OP_DIV) return overflow(r, e, a, b);
    *n = b == -1 ? (e->op == RSC_OP_DIV ? -a : 0) : e->op == RSC_OP_DIV ? rsc_floordiv(a, b) : rsc_floormod(a, b);
    return true;
  case RSC_OP_EQ:
    *n = a == b;
    return true;
  case RSC_OP_NE:
    *n = a != b;
    return true;
  case RSC_OP_LT:
    *n = a < b;
    return true;
  case RSC_OP_LE:
    *n = a <= b;
    return true;
  case RSC_OP_GT:
    *n = a > b;
    return true;
  default:
    *n = a >= b;
    return true;
  }
}

static bool same_string(const struct rsc_item *a, const struct rsc_item *b) {
  return a->len == b->len && memcmp(a->u.str, b->u.str, a->len) == 0;
}

static bool mixed(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_item *a, const struct rsc_item *b) {
  const char *cure = "";
  bool strings = a->kind == RSC_STR || b->kind == RSC_STR;
  if (e->op == RSC_OP_ADD && strings) cure = "; strings are joined by \"{a}{b}\"";
  if (a->kind == RSC_DEC || b->kind == RSC_DEC) cure = "; a decimal stands in add(v, 0.5) only";
  return rsc_fail(r, RSC_TYPE_MIXED, e->span, "'%s' between %s and %s%s", rsc_op_text(e->op), rsc_kind_text(a->kind),
                  rsc_kind_text(b->kind), cure);
}

/* && and ||: the right side is looked at only if it decides. */
static bool logic(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const char *what = e->op == RSC_OP_AND ? "an operand of &&" : "an operand of ||";
  int64_t n;
  if (!rsc_eval_int(r, e->kids[0], what, &n)) return false;
  if ((n != 0) == (e->op == RSC_OP_AND) && !rsc_eval_int(r, e->kids[1], what, &n)) return false;
  *out = rsc_int(n != 0);
  return true;
}

static bool binary(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (e->op == RSC_OP_AND || e->op == RSC_OP_OR) return logic(r, e, out);
  struct rsc_item a, b;
  if (!rsc_eval(r, e->kids[0], &a) || !rsc_eval(r, e->kids[1], &b)) return false;
  if (a.kind == RSC_STR && b.kind == RSC_STR && (e->op == RSC_OP_EQ || e->op == RSC_OP_NE)) {
    *out = rsc_int(same_string(&a, &b) == (e->op == RSC_OP_EQ));
    return true;
  }
  if (a.kind != RSC_INT || b.kind != RSC_INT) return mixed(r, e, &a, &b);
  int64_t n = 0;
  if (!arithmetic(r, e, a.u.number, b.u.number, &n)) return false;
  *out = rsc_int(n);
  return true;
}

static bool unary(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (!rsc_eval(r, e->kids[0], out)) return false;
  if (out->kind == RSC_DEC && e->op == RSC_OP_NEG) {
    out->u.decimal = -out->u.decimal;
    return true;
  }
  if (out->kind != RSC_INT)
    return rsc_fail(r, RSC_TYPE_MIXED, e->span, "'%s' before %s; it takes an integer", rsc_op_text(e->op),
                    rsc_kind_text(out->kind));
  int64_t n = out->u.number;
  if (e->op == RSC_OP_NOT)
    n = !n;
  else if (rsc_sub(0, n, &n))
    return rsc_fail(r, RSC_OVERFLOW, e->span, "-(%" PRId64 ") does not fit into 64 bits", n);
  *out = rsc_int(n);
  return true;
}

struct joined {
  char *at;
  size_t len, cap;
};

static bool join(struct rsc_resolver *r, const struct rsc_ast *e, struct joined *j, const char *text, size_t len) {
  if (len > STRING_MAX - j->len)
    return rsc_fail(r, RSC_TOO_LARGE, e->span, "this string grows past %d bytes", STRING_MAX);
  if (j->len + len > j->cap) {
    size_t cap = (j->len + len) * 2;
    char *at = rsc_scratch(r, cap);
    if (!at) return false;
    memcpy(at, j->at, j->len);
    j->at = at;
    j->cap = cap;
  }
  memcpy(j->at + j->len, text, len);
  j->len += len;
  return true;
}

static size_t int_text(int64_t n, char *out) {
  char reversed[24];
  size_t len = 0, at = 0;
  uint64_t m = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  do reversed[len++] = (char)('0' + m % 10);
  while ((m /= 10) != 0);
  if (n < 0) out[at++] = '-';
  while (len) out[at++] = reversed[--len];
  return at;
}

static bool string(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (e->kid_count == 1 && e->kids[0]->kind == RSC_AST_TEXT) {
    *out =
        (struct rsc_item){.kind = RSC_STR, .len = e->kids[0]->text_len, .origin = e->span, .u.str = e->kids[0]->text};
    return true;
  }
  char room[512], digits[24];
  struct joined j = {room, 0, sizeof room};
  for (size_t i = 0; i < e->kid_count; i++) {
    const struct rsc_ast *kid = e->kids[i];
    struct rsc_item item;
    if (kid->kind == RSC_AST_TEXT) {
      if (!join(r, e, &j, kid->text, kid->text_len)) return false;
      continue;
    }
    if (!rsc_eval(r, kid, &item)) return false;
    if (item.kind != RSC_INT && item.kind != RSC_STR)
      return rsc_fail(r, RSC_TYPE_MIXED, kid->span, "%s cannot stand in a string; integers and strings can",
                      rsc_kind_text(item.kind));
    bool number = item.kind == RSC_INT;
    if (!join(r, e, &j, number ? digits : item.u.str, number ? int_text(item.u.number, digits) : item.len))
      return false;
  }
  if (j.at == room) {
    char *kept = rsc_scratch(r, j.len + 1);
    if (!kept) return false;
    memcpy(kept, room, j.len);
    j.at = kept;
  }
  *out = (struct rsc_item){.kind = RSC_STR, .len = j.len, .origin = e->span, .u.str = j.at};
  return true;
}

bool rsc_no_name(struct rsc_resolver *r, const struct rsc_ast *e) {
  bool tensor = rsc_intern_find(r->tensor_names, e->symbol->text, e->symbol->len) != NULL;
  return rsc_fail(r, RSC_NAME_UNKNOWN, e->span, "no '%s' is visible here%s", e->symbol->text,
                  tensor ? "; the name of a tensor goes in double quotes" : rsc_guess_name(r, e->symbol, false));
}

static bool name(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  const struct rsc_binding *b = rsc_binding(r, e->symbol);
  switch (b->kind) {
  case RSC_CONST:
  case RSC_LOCAL:
    *out = b->item;
    return b->item.kind != RSC_BROKEN;
  case RSC_UNBOUND:
    return rsc_no_name(r, e);
  case RSC_MESH_NAME:
    return rsc_fail(r, RSC_NAME_KIND, e->span, "'%s' is a mesh; a mesh stands after 'on' only", e->symbol->text);
  default:
    return rsc_fail(r, RSC_NAME_KIND, e->span, "'%s' is a function; call it: %s(...)", e->symbol->text,
                    e->symbol->text);
  }
}

static bool table_room(struct rsc_resolver *r, const struct rsc_ast *e, int64_t count, struct rsc_item **out) {
  if (count > r->limits.items)
    return rsc_fail(r, RSC_TOO_LARGE, e->span, "a table of %" PRId64 " entries; at most %" PRId64 " are allowed", count,
                    r->limits.items);
  *out = rsc_scratch(r, (size_t)(count ? count : 1) * sizeof **out);
  return *out != NULL;
}

static bool table_entry(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (!rsc_eval(r, e, out)) return false;
  if (out->kind == RSC_INT || out->kind == RSC_STR || out->kind == RSC_TABLE) return true;
  return rsc_fail(r, RSC_TYPE_MIXED, e->span, "%s in a table; tables hold integers, strings and tables",
                  rsc_kind_text(out->kind));
}

static bool table(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_item *items = NULL;
  if (!table_room(r, e, (int64_t)e->kid_count, &items)) return false;
  for (size_t i = 0; i < e->kid_count; i++) {
    if (!table_entry(r, e->kids[i], &items[i])) return false;
  }
  *out = (struct rsc_item){.kind = RSC_TABLE, .len = e->kid_count, .u.table = items};
  return true;
}

static bool collect(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_turns turns;
  struct rsc_item *items = NULL;
  size_t mark, len = 0;
  const struct rsc_ast *var = e->kids[1], *cond = e->kids[3];
  if (!rsc_eval_turns(r, e->kids[2], &turns) || !table_room(r, e, turns.count, &items)) return false;
  if (!rsc_enter_turns(r, var, &mark)) return false;
  bool ok = true;
  for (int64_t i = 0; ok && i < turns.count; i++) {
    int64_t keep = 1;
    rsc_set_turn(r, var, rsc_turn(&turns, i));
    ok = rsc_step(r, e->span) && (!cond || rsc_eval_int(r, cond, "the condition", &keep)) &&
         (!keep || table_entry(r, e->kids[0], &items[len]));
    len += keep != 0;
  }
  rsc_leave_turns(r, mark);
  *out = (struct rsc_item){.kind = RSC_TABLE, .len = len, .u.table = items};
  return ok;
}

static bool choice(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  int64_t n;
  if (!rsc_eval_int(r, e->kids[0], "the condition", &n)) return false;
  return rsc_eval(r, e->kids[n ? 1 : 2], out);
}

static bool element(struct rsc_resolver *r, const struct rsc_ast *e, const struct rsc_item *table,
                    struct rsc_item *out) {
  const struct rsc_ast *dims = e->kids[1], *dim = dims->kid_count == 1 ? dims->kids[0] : NULL;
  if (!dim || dim->kind != RSC_AST_DIM || !dim->kids[0] || dim->kids[1] || dim->kids[2]->kid_count)
    return rsc_fail(r, RSC_TYPE_MIXED, e->span, "a table takes one index, t[i]; only tensors and values are viewed");
  int64_t i;
  if (!rsc_eval_int(r, dim->kids[0], "an index", &i)) return false;
  if (i < 0 || (uint64_t)i >= table->len)
    return rsc_fail(r, RSC_INDEX_RANGE, dim->span, "index %" PRId64 " in a table of %zu; the first has index 0", i,
                    table->len);
  *out = table->u.table[i];
  return true;
}

/* v[...]: the element of a table, or a view. */
static bool view(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  struct rsc_item item;
  if (!rsc_eval(r, e->kids[0], &item)) return false;
  if (item.kind == RSC_TABLE) return element(r, e, &item, out);
  const struct rsc_value *child = rsc_to_value(r, e->kids[0], &item);
  return child && rsc_value_view(r, e, child, out);
}

static bool decimal(const struct rsc_ast *e, struct rsc_item *out) {
  *out = (struct rsc_item){.kind = RSC_DEC, .u.decimal = strtod(e->text, NULL)};
  return true;
}

static bool eval_kind(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  switch (e->kind) {
  case RSC_AST_INT:
    *out = rsc_int(e->number);
    return true;
  case RSC_AST_DEC:
    return decimal(e, out);
  case RSC_AST_STRING:
    return string(r, e, out);
  case RSC_AST_NAME:
    return name(r, e, out);
  case RSC_AST_TABLE:
    return table(r, e, out);
  case RSC_AST_COLLECT:
    return collect(r, e, out);
  case RSC_AST_CALL:
    return rsc_eval_call(r, e, out);
  case RSC_AST_CALL_FOR:
    return rsc_value_call_for(r, e, out);
  case RSC_AST_VIEW:
    return view(r, e, out);
  case RSC_AST_UNARY:
    return unary(r, e, out);
  case RSC_AST_BINARY:
    return binary(r, e, out);
  case RSC_AST_CHOICE:
    return choice(r, e, out);
  case RSC_AST_REPLICA:
    return rsc_value_replica(r, e, out);
  default:
    return false;
  }
}

bool rsc_eval(struct rsc_resolver *r, const struct rsc_ast *e, struct rsc_item *out) {
  if (!rsc_step(r, e->span)) return false;
  if (r->depth >= DEPTH_MAX)
    return rsc_fail(r, RSC_NESTING, e->span, "functions and expressions are nested too deeply");
  r->depth++;
  bool ok = eval_kind(r, e, out);
  r->depth--;
  return ok;
}
