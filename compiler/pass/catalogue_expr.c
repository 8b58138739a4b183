/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a scalar of a catalogue and the names in scope. Out: an integer, or a name with its {} filled in; or an error
 * at the very characters.
 */
#include "compiler/pass/catalogue_expr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"

enum { DEPTH_MAX = 64 };

struct parser {
  struct rsc_diag *diag; /* NULL: quiet */
  const struct rsc_cat_scope *scope;
  const struct rsc_yaml *scalar;
  const char *text;
  size_t at, end;
  int depth;
};

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool rsc_cat_is_name(const char *text, size_t len) {
  if (len == 0 || !is_letter(text[0]) || (len == 1 && text[0] == '_')) return false;
  for (size_t i = 1; i < len; i++) {
    if (!is_letter(text[i]) && !is_digit(text[i])) return false;
  }
  return true;
}

bool rsc_cat_mentions(const char *text, size_t len, bool holes, const char *name) {
  size_t size = strlen(name);
  bool inside = !holes;
  for (size_t at = 0; at < len;) {
    if (holes && (text[at] == '{' || text[at] == '}')) {
      if (text[at] == text[at + 1] && !inside)
        at++; /* a brace that stands for itself */
      else
        inside = text[at] == '{';
    }
    size_t end = at;
    while (end < len && (is_letter(text[end]) || is_digit(text[end]))) end++;
    if (inside && end - at == size && !memcmp(text + at, name, size)) return true;
    at = end > at ? end : at + 1;
  }
  return false;
}

static bool same_name(const struct rsc_constant *constant, const char *name, size_t len) {
  return !strncmp(constant->name, name, len) && constant->name[len] == '\0';
}

const struct rsc_constant *rsc_cat_find(const struct rsc_cat_scope *scope, const char *name, size_t len) {
  for (size_t i = scope->var_count; i-- > 0;) {
    if (same_name(&scope->vars[i], name, len)) return &scope->vars[i];
  }
  for (size_t i = 0; i < scope->constant_count; i++) {
    if (same_name(&scope->constants[i], name, len)) return &scope->constants[i];
  }
  return NULL;
}

void rsc_cat_note_values(struct rsc_diag *diag, const struct rsc_cat_scope *scope) {
  char text[512] = "";
  size_t used = 0;
  for (size_t i = 0; i < scope->var_count && used < sizeof text; i++) {
    const struct rsc_constant *v = &scope->vars[i];
    const char *comma = i ? ", " : "";
    int n = v->kind == RSC_CONSTANT_INT
                ? snprintf(text + used, sizeof text - used, "%s%s = %" PRId64, comma, v->name, v->number)
                : snprintf(text + used, sizeof text - used, "%s%s = '%s'", comma, v->name, v->string);
    used += n > 0 ? (size_t)n : 0;
  }
  if (used) rsc_note(diag, (struct rsc_span){.file = -1}, "with %s", text);
}

static bool fail(const struct parser *p, enum rsc_code code, size_t lo, size_t hi, const char *message) {
  if (!p->diag) return false;
  rsc_error(p->diag, code, rsc_yaml_part(p->scalar, lo, hi > lo ? hi - lo : 1), "%s", message);
  if (code == RSC_CATALOGUE_ARITHMETIC) rsc_cat_note_values(p->diag, p->scope);
  return false;
}

static void skip_space(struct parser *p) {
  while (p->at < p->end && (p->text[p->at] == ' ' || p->text[p->at] == '\t' || p->text[p->at] == '\n')) p->at++;
}

static bool sum(struct parser *p, int64_t *out);

static bool number(struct parser *p, int64_t *out) {
  size_t lo = p->at;
  int64_t value = 0;
  bool overflow = false;
  for (; p->at < p->end; p->at++) {
    char c = p->text[p->at];
    if (c == '_' && p->at + 1 < p->end && is_digit(p->text[p->at + 1])) continue;
    if (!is_digit(c)) break;
    overflow = overflow || rsc_mul(value, 10, &value) || rsc_add(value, c - '0', &value);
  }
  size_t hi = p->at;
  while (hi < p->end && (is_letter(p->text[hi]) || is_digit(p->text[hi]))) hi++;
  if (hi > p->at) return fail(p, RSC_CATALOGUE_EXPRESSION, lo, hi, "a number has digits only; put an operator between");
  if (overflow) return fail(p, RSC_CATALOGUE_ARITHMETIC, lo, hi, "this number does not fit into 64 bits");
  *out = value;
  return true;
}

static bool unknown(const struct parser *p, size_t lo, size_t hi) {
  if (!p->diag) return false;
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)(hi - lo > 60 ? 60 : hi - lo), p->text + lo);
  const char *near = NULL;
  for (size_t i = 0; i < p->scope->var_count + p->scope->constant_count; i++) {
    size_t c = i - p->scope->var_count;
    const char *name = i < p->scope->var_count ? p->scope->vars[i].name : p->scope->constants[c].name;
    if (strlen(word) > 2 && !near) near = rsc_yaml_suggest(word, &name, 1);
  }
  struct rsc_span span = rsc_yaml_part(p->scalar, lo, hi - lo);
  if (near)
    rsc_error(p->diag, RSC_CATALOGUE_NAME_UNKNOWN, span, "no constant or loop variable '%s'; did you mean '%s'?", word,
              near);
  else
    rsc_error(p->diag, RSC_CATALOGUE_NAME_UNKNOWN, span,
              "no constant or loop variable '%s'; add it to `constants:` or to this tensor's `for:`", word);
  return false;
}

static bool name(struct parser *p, int64_t *out) {
  size_t lo = p->at;
  while (p->at < p->end && (is_letter(p->text[p->at]) || is_digit(p->text[p->at]))) p->at++;
  const struct rsc_constant *c = rsc_cat_find(p->scope, p->text + lo, p->at - lo);
  if (!c) return unknown(p, lo, p->at);
  *out = c->number;
  if (c->kind == RSC_CONSTANT_INT) return true;
  if (!p->diag) return false;
  rsc_error(p->diag, RSC_CATALOGUE_KIND, rsc_yaml_part(p->scalar, lo, p->at - lo),
            "'%s' is %s; a whole number is needed here", c->name, c->kind == RSC_CONSTANT_LIST ? "a list" : "a string");
  rsc_note(p->diag, c->span, "it is defined here");
  return false;
}

static bool atom(struct parser *p, int64_t *out) {
  skip_space(p);
  if (p->at == p->end)
    return fail(p, RSC_CATALOGUE_EXPRESSION, p->at, p->at,
                "an expression ends too early; a number or a name is missing");
  char c = p->text[p->at];
  if (is_digit(c)) return number(p, out);
  if (is_letter(c)) return name(p, out);
  if (c != '(' && c != '-' && c != '+')
    return fail(p, RSC_CATALOGUE_EXPRESSION, p->at, p->at + 1, "a number, a name or '(' is needed here");
  size_t lo = p->at++;
  if (++p->depth > DEPTH_MAX)
    return fail(p, RSC_CATALOGUE_EXPRESSION, lo, lo + 1, "an expression is nested too deeply");
  bool ok = c == '(' ? sum(p, out) : atom(p, out);
  p->depth--;
  if (!ok) return false;
  if (c == '-')
    return rsc_sub(0, *out, out) ? fail(p, RSC_CATALOGUE_ARITHMETIC, lo, p->at, "the result does not fit into 64 bits")
                                 : true;
  if (c == '+') return true;
  skip_space(p);
  if (p->at == p->end || p->text[p->at] != ')')
    return fail(p, RSC_CATALOGUE_EXPRESSION, lo, lo + 1, "this '(' is not closed");
  p->at++;
  return true;
}

static bool apply(struct parser *p, char op, size_t lo, int64_t *left, int64_t right) {
  bool overflow = false;
  if ((op == '/' || op == '%') && right == 0)
    return fail(p, RSC_CATALOGUE_ARITHMETIC, lo, p->at, op == '/' ? "division by zero" : "remainder by zero");
  if (op == '*')
    overflow = rsc_mul(*left, right, left);
  else if (op == '+')
    overflow = rsc_add(*left, right, left);
  else if (op == '-')
    overflow = rsc_sub(*left, right, left);
  else if (right == -1 && op == '%')
    *left = 0;
  else if (right == -1)
    overflow = rsc_sub(0, *left, left);
  else
    *left = op == '/' ? rsc_floordiv(*left, right) : rsc_floormod(*left, right);
  if (overflow) return fail(p, RSC_CATALOGUE_ARITHMETIC, lo, p->at, "the result does not fit into 64 bits");
  return true;
}

static bool product(struct parser *p, int64_t *out) {
  skip_space(p);
  size_t lo = p->at;
  if (!atom(p, out)) return false;
  for (;;) {
    skip_space(p);
    char op = p->at < p->end ? p->text[p->at] : '\0';
    if (op != '*' && op != '/' && op != '%') return true;
    p->at++;
    int64_t right;
    if (!atom(p, &right) || !apply(p, op, lo, out, right)) return false;
  }
}

static bool sum(struct parser *p, int64_t *out) {
  skip_space(p);
  size_t lo = p->at;
  if (!product(p, out)) return false;
  for (;;) {
    skip_space(p);
    char op = p->at < p->end ? p->text[p->at] : '\0';
    if (op != '+' && op != '-') return true;
    p->at++;
    int64_t right;
    if (!product(p, &right) || !apply(p, op, lo, out, right)) return false;
  }
}

bool rsc_cat_int(struct rsc_diag *diag, const struct rsc_cat_scope *scope, const struct rsc_yaml *scalar, size_t lo,
                 size_t hi, int64_t *out) {
  struct parser p = {
      .diag = diag, .scope = scope, .scalar = scalar, .text = scalar->u.scalar.text, .at = lo, .end = hi};
  if (!sum(&p, out)) return false;
  if (p.at == p.end) return true;
  return fail(&p, RSC_CATALOGUE_EXPRESSION, p.at, p.at + 1, "an operator or the end is needed here: + - * / %");
}

static void put(struct rsc_arena *arena, struct rsc_cat_text *out, const char *text, size_t len) {
  RSC_RESERVE(arena, out, out->len + len + 1);
  memcpy(out->at + out->len, text, len);
  out->len += len;
  out->at[out->len] = '\0';
}

static void put_number(struct rsc_arena *arena, struct rsc_cat_text *out, int64_t value) {
  char digits[24];
  size_t at = sizeof digits;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do digits[--at] = (char)('0' + rest % 10), rest /= 10;
  while (rest);
  if (value < 0) digits[--at] = '-';
  put(arena, out, digits + at, sizeof digits - at);
}

/* {text[lo, hi)}: a name alone may be a string; anything else is an integer. */
static bool put_hole(struct rsc_arena *arena, const struct parser *p, size_t lo, size_t hi, struct rsc_cat_text *out) {
  int64_t value;
  size_t brace = lo - 1, end = hi + 1;
  while (lo < hi && p->text[lo] == ' ') lo++;
  while (hi > lo && p->text[hi - 1] == ' ') hi--;
  if (lo == hi)
    return fail(p, RSC_CATALOGUE_TEMPLATE, brace, end, "{} is empty; write a name in it, or {{}} for braces");
  const struct rsc_constant *c =
      rsc_cat_is_name(p->text + lo, hi - lo) ? rsc_cat_find(p->scope, p->text + lo, hi - lo) : NULL;
  if (c && c->kind == RSC_CONSTANT_STRING) {
    put(arena, out, c->string, strlen(c->string));
    return true;
  }
  if (!rsc_cat_int(p->diag, p->scope, p->scalar, lo, hi, &value)) return false;
  put_number(arena, out, value);
  return true;
}

bool rsc_cat_expand(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_cat_scope *scope,
                    const struct rsc_yaml *scalar, struct rsc_cat_text *out) {
  const char *text = scalar->u.scalar.text;
  size_t len = scalar->u.scalar.len;
  struct parser p = {.diag = diag, .scope = scope, .scalar = scalar, .text = text, .end = len};
  for (size_t at = 0; at < len;) {
    size_t run = strcspn(text + at, "{}");
    put(arena, out, text + at, run);
    at += run;
    if (at == len) break;
    if (text[at] == text[at + 1]) {
      put(arena, out, text + at, 1);
      at += 2;
      continue;
    }
    if (text[at] == '}')
      return fail(&p, RSC_CATALOGUE_TEMPLATE, at, at + 1, "this '}' closes nothing; write }} for a brace");
    const char *close = strchr(text + at, '}');
    if (!close) return fail(&p, RSC_CATALOGUE_TEMPLATE, at, at + 1, "this '{' is not closed; write {{ for a brace");
    size_t hi = (size_t)(close - text);
    if (!put_hole(arena, &p, at + 1, hi, out)) return false;
    at = hi + 1;
  }
  return true;
}
