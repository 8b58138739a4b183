/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a file of the sources. Out: its syntax tree. The one place that starts the generated lexer and parser.
 */
#include "grammar/parse.h"

#include <limits.h>

#include "grammar/parser.h"
#include "layout.tab.h"

/* What the generated header of the lexer takes for granted. */
#define YYSTYPE RSC_YYSTYPE
#define YYLTYPE RSC_YYLTYPE
#include "layout.lex.h"

static void run(struct rsc_parser *p, const char *text, size_t len) {
  yyscan_t scanner;
  if (rsc_yylex_init_extra(p, &scanner)) rsc_oom(sizeof scanner);
  rsc_yy_scan_bytes(text, (int)len, scanner);
  int rc = rsc_yyparse(scanner, p);
  rsc_yylex_destroy(scanner);
  if (rc) p->bad = true;
}

static void parse(struct rsc_grammar *grammar, int file, int start, struct rsc_parser *p) {
  *p = (struct rsc_parser){
      .grammar = grammar, .arena = grammar->arena, .file = file, .line = 1, .col = 1, .start = start};
  size_t len;
  const char *text = rsc_sources_text(grammar->sources, file, &len);
  if (len > INT_MAX / 2) {
    rsc_lex_error(p, RSC_NESTING, (struct rsc_span){file, 1, 1, 1}, "the file is larger than 1 GiB; split it");
    return;
  }
  run(p, text, len);
}

struct rsc_ast *rsc_parse(struct rsc_grammar *grammar, int file, bool *clean) {
  struct rsc_parser p;
  parse(grammar, file, START_FILE, &p);
  if (p.bad) *clean = false;
  return p.result ? p.result : rsc_ast_new(&p, RSC_AST_FILE, (struct rsc_span){file, 1, 1, 1});
}

struct rsc_ast *rsc_parse_expr(struct rsc_grammar *grammar, int file) {
  struct rsc_parser p;
  parse(grammar, file, START_EXPR, &p);
  return p.bad ? NULL : p.result;
}
