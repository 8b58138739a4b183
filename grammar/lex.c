/* SPDX-License-Identifier: Apache-2.0
 *
 * In: the texts of tokens. Out: numbers, escapes, keywords, and messages about what is no token.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/check.h"
#include "grammar/parser.h"
#include "layout.tab.h"

void rsc_lex_error(struct rsc_parser *p, enum rsc_code code, struct rsc_span span, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  rsc_error(p->grammar->diag, code, span, "%s", text);
  p->bad = p->muted = true;
}

int rsc_lex_word(const char *text, size_t len, int otherwise) {
  static const struct {
    const char *word;
    int token;
  } words[] = {
      {"param", PARAM},     {"let", LET},     {"def", DEF},       {"need", NEED},       {"assert", ASSERT},
      {"include", INCLUDE}, {"model", MODEL}, {"tensor", TENSOR}, {"mesh", MESH},       {"world", WORLD},
      {"for", FOR},         {"in", IN},       {"if", IF},         {"else", ELSE},       {"on", ON},
      {"buffer", BUFFER},   {"skip", SKIP},   {"pad", PAD},       {"replica", REPLICA},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strlen(words[i].word) == len && memcmp(words[i].word, text, len) == 0) return words[i].token;
  }
  return otherwise;
}

/* Digits with single _ between them. */
static bool well_formed(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    bool digit = isdigit((unsigned char)text[i]);
    bool joint = text[i] == '_' && i && i + 1 < len && isdigit((unsigned char)text[i - 1]) &&
                 isdigit((unsigned char)text[i + 1]);
    if (!digit && !joint) return false;
  }
  return true;
}

static struct rsc_ast *decimal(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len, size_t dot) {
  if (!well_formed(text, dot) || !well_formed(text + dot + 1, len - dot - 1)) {
    rsc_lex_error(p, RSC_LEX_NUMBER, span, "'%.*s' is no number; a decimal is digits, a point, digits: 0.5",
                  (int)(len > 40 ? 40 : len), text);
  }
  char *plain = rsc_arena_strdup(p->arena, text, len);
  size_t kept = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] != '_') plain[kept++] = text[i];
  }
  return rsc_ast_text(p, RSC_AST_DEC, span, plain, kept);
}

struct rsc_ast *rsc_lex_number(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len) {
  const char *dot = memchr(text, '.', len);
  if (dot) return decimal(p, span, text, len, (size_t)(dot - text));
  struct rsc_ast *ast = rsc_ast_new(p, RSC_AST_INT, span);
  int shown = (int)(len > 40 ? 40 : len);
  if (!well_formed(text, len)) {
    rsc_lex_error(p, RSC_LEX_NUMBER, span,
                  "'%.*s' is no number and no name; numbers are digits (1_000), names begin with a letter", shown,
                  text);
    return ast;
  }
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '_') continue;
    if (rsc_mul(ast->number, 10, &ast->number) || rsc_add(ast->number, text[i] - '0', &ast->number)) {
      rsc_lex_error(p, RSC_LEX_NUMBER, span, "%.*s is too large; integers have 64 bits, up to 9223372036854775807",
                    shown, text);
      ast->number = 0;
      return ast;
    }
  }
  return ast;
}

struct rsc_ast *rsc_lex_escape(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len) {
  char c = text[1];
  if (c == 'n')
    c = '\n';
  else if (c == 't')
    c = '\t';
  else if (c != '"' && c != '\\') {
    bool plain = c > 32 && c < 127;
    rsc_lex_error(p, RSC_LEX_ESCAPE, span, "unknown escape '\\%c'; known are \\\" \\\\ \\n \\t, and {{ }} for braces",
                  plain ? c : '?');
  }
  (void)len;
  return rsc_ast_text(p, RSC_AST_TEXT, span, &c, c != 0);
}

static void show_bytes(char *out, size_t size, const char *text, size_t len) {
  size_t at = 0;
  out[0] = 0;
  for (size_t i = 0; i < len && i < 8 && at + 8 < size; i++) {
    at += (size_t)snprintf(out + at, size - at, "\\x%02X", (unsigned char)text[i]);
  }
}

/* Whatever no rule takes: says what it was probably meant to be. */
void rsc_lex_char(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len) {
  static const struct {
    char c;
    const char *hint;
  } hints[] = {
      {'\'', "strings go in double quotes"},
      {'&', "'and' is &&"},
      {'|', "'or' is ||"},
      {'.', "a range is a..b, a decimal 0.5"},
      {'~', "there are no bit operators"},
      {'^', "there are no bit operators"},
      {'$', "a name is inserted in a string by {name}"},
      {'`', "strings go in double quotes"},
      {'\\', "escapes stand in strings only"},
  };
  bool bom = len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
  if (bom && span.line == 1 && span.col == 1) {
    rsc_lex_error(p, RSC_LEX_BOM, span, "the file begins with a byte order mark (EF BB BF); save it as plain UTF-8");
    p->muted = false;
    return;
  }
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
    if (text[0] != hints[i].c) continue;
    rsc_lex_error(p, RSC_LEX_CHAR, span, "unexpected '%c'; %s", text[0], hints[i].hint);
    return;
  }
  char bytes[64];
  show_bytes(bytes, sizeof bytes, text, len);
  rsc_lex_error(p, RSC_LEX_CHAR, span, "unexpected byte%s %s; %s", len == 1 ? "" : "s", bytes,
                text[0] ? "outside strings and comments only ASCII is used" : "a layout is text, without zero bytes");
}
