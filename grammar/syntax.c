/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the token that does not fit and those that would. Out: a message that says what was found and what would be
 * right, under the code that fits best.
 */
#include <stdio.h>
#include <string.h>

#include "grammar/parser.h"

struct expected {
  const char *const *names;
  int count;
};

static bool same(const char *a, const char *b) {
  return a && strcmp(a, b) == 0;
}

static bool among(struct expected e, const char *name) {
  for (int i = 0; i < e.count; i++) {
    if (strcmp(e.names[i], name) == 0) return true;
  }
  return false;
}

static bool is_comparison(const char *name) {
  return same(name, "==") || same(name, "!=") || same(name, "<=") || same(name, ">=") || same(name, "'<'") ||
         same(name, "'>'");
}

static bool is_keyword(const char *name) {
  static const char *const words[] = {"param",  "let",    "def",   "need", "assert", "include", "model",
                                      "tensor", "mesh",   "world", "for",  "in",     "if",      "else",
                                      "on",     "buffer", "skip",  "pad",  "replica"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (same(name, words[i])) return true;
  }
  return false;
}

/* The source text of the token, quoted, for the tokens that have a telling one. */
static void describe_found(struct rsc_parser *p, struct rsc_span span, const char *found, char *out, size_t size) {
  size_t len;
  const char *text = rsc_sources_text(p->grammar->sources, p->file, &len);
  size_t at = 0;
  for (uint32_t line = 1; line < span.line; line++) {
    const char *nl = at < len ? memchr(text + at, '\n', len - at) : NULL;
    if (!nl) break;
    at = (size_t)(nl - text) + 1;
  }
  at += span.col - 1;
  size_t shown = at < len ? len - at : 0;
  if (shown > span.len) shown = span.len;
  if (same(found, "end of the file") || !shown)
    snprintf(out, size, "the end of the file");
  else if (same(found, "string"))
    snprintf(out, size, "a string");
  else if (same(found, "end of the string"))
    snprintf(out, size, "the end of the string");
  else if (is_keyword(found))
    snprintf(out, size, "the word '%s'", found);
  else
    snprintf(out, size, "'%.*s'", (int)(shown > 40 ? 40 : shown), text + at);
}

static void add_word(char *out, size_t size, const char *word, int *count) {
  size_t at = strlen(out);
  snprintf(out + at, size - at, "%s%s", (*count)++ ? " or " : "", word);
}

/* What would be right, in a few words: groups of tokens rather than each of them. */
static void describe_expected(struct expected e, char *out, size_t size) {
  static const char *const marks[] = {"';'", "')'", "']'", "'}'", "','", "'='", "':'", "'('", "'{'"};
  int count = 0;
  out[0] = 0;
  bool statement = among(e, "let"), axis = statement && among(e, "in"), expression = among(e, "number");
  if (axis)
    add_word(out, size, "the name of an axis", &count);
  else if (statement)
    add_word(out, size, "a statement", &count);
  if (expression)
    add_word(out, size, "an expression", &count);
  else if (!statement && among(e, "string"))
    add_word(out, size, "a string in double quotes", &count);
  if (!expression && !statement && among(e, "name")) add_word(out, size, "a name", &count);
  if (among(e, "in") && !axis) add_word(out, size, "'in'", &count);
  if (among(e, "} in a string")) add_word(out, size, "'}'", &count);
  if (among(e, "_") && expression) add_word(out, size, "'_'", &count);
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    /* after an expression an operator could always follow; only what ends it is worth saying */
    if ((same(marks[i], "':'") || same(marks[i], "'('")) && among(e, "'?'")) continue;
    if (same(marks[i], "'('") && expression) continue;
    if (same(marks[i], "'}'") && statement) continue;
    if (among(e, marks[i])) add_word(out, size, marks[i], &count);
  }
  if (!count && among(e, "end of the file")) add_word(out, size, "the end", &count);
}

static const char *hint(struct rsc_parser *p, const char *found, struct expected e) {
  if (is_keyword(found) && among(e, "name") && !among(e, "let"))
    return "; it is a word of the language, so choose another name";
  if (same(found, "'='") && among(e, "'?'")) return "; to compare, write ==";
  if (same(found, "..") && among(e, "'?'")) return "; a range stands in for, in, ranks and at the end of a view only";
  if (same(found, "_")) return "; _ stands in the dimensions of a view only";
  if (same(found, "'/'") && among(e, "let")) return "; a comment begins with #";
  if (same(found, "';'") && same(p->before_name, "'}'")) return "; a block ends without ';'";
  if (same(found, "'@'")) return "; a cut stands in the dimensions of a view or after the range of a stack only";
  if (same(found, "'{'") && same(p->before_name, "name")) return "; a block belongs to for, if and on";
  if (same(found, "name") && among(e, "string")) return "; names of tensors, buffers and files go in double quotes";
  return "";
}

static bool special(struct rsc_parser *p, struct rsc_span span, const char *found, struct expected e) {
  bool ends = same(found, "')'") || same(found, "']'") || same(found, "';'") || same(found, "'}'");
  if (ends && same(p->before_name, "','")) {
    rsc_error(p->grammar->diag, RSC_TRAILING_COMMA, p->before, "nothing follows this comma; remove it");
    return true;
  }
  if (is_comparison(found) && among(e, "'?'") && !among(e, found)) {
    rsc_error(p->grammar->diag, RSC_CHAINED, span,
              "comparisons do not chain; write a < b && b < c, or put one of them in parentheses");
    return true;
  }
  if (same(found, "end of the file") && p->braces.len) {
    rsc_error(p->grammar->diag, RSC_SYNTAX, span, "the file ends inside a block; a '}' is missing");
    rsc_note(p->grammar->diag, p->braces.at[p->braces.len - 1], "the block begins here");
    return true;
  }
  return false;
}

void rsc_syntax_error(struct rsc_parser *p, struct rsc_span span, const char *found, const char *const *expected,
                      int expected_count) {
  p->bad = true;
  if (p->muted) return;
  struct expected e = {expected, expected_count};
  if (special(p, span, found, e)) return;
  char what[128], right[256];
  describe_found(p, span, found, what, sizeof what);
  describe_expected(e, right, sizeof right);
  /* What is missing at the end of a line is missing there, not at the next token. */
  if (p->before_name && p->before.line < span.line && among(e, "';'")) {
    span = p->before;
    span.col += span.len;
    span.len = 1;
    rsc_error(p->grammar->diag, RSC_SYNTAX, span, "expected %s before %s", right, what);
    return;
  }
  rsc_error(p->grammar->diag, RSC_SYNTAX, span, "found %s%s%s%s", what, *right ? "; expected " : "", right,
            hint(p, found, e));
}

void rsc_syntax_depth(struct rsc_parser *p, struct rsc_span span) {
  p->bad = true;
  if (p->too_deep) return;
  p->too_deep = true;
  rsc_error(p->grammar->diag, RSC_NESTING, span, "this is nested too deeply; give parts of it names with let or def");
}
