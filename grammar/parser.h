/* SPDX-License-Identifier: Apache-2.0
 *
 * What the generated lexer and parser share with the code around them. Private to grammar/.
 */
#ifndef RSC_GRAMMAR_PARSER_H
#define RSC_GRAMMAR_PARSER_H

#include "compiler/base/vec.h"
#include "grammar/parse.h"

struct rsc_spans {
  RSC_VEC(struct rsc_span);
};

struct rsc_parser {
  struct rsc_grammar *grammar;
  struct rsc_arena *arena;
  int32_t file;
  uint32_t line, col;   /* of the next byte */
  int start;            /* the token to hand out first: file or expression; 0 once done */
  bool bad;             /* an error was reported */
  bool muted;           /* a bad token was reported: the syntax error that follows from it is not news */
  bool too_deep;        /* reported once per file */
  struct rsc_span last; /* the last token handed out */
  int last_token;
  const char *last_name;  /* and its kind: "','" */
  struct rsc_span before; /* the one before it */
  const char *before_name;
  struct rsc_span string; /* where the outermost open string began */
  uint32_t string_depth;
  struct rsc_spans braces; /* the open { */
  struct rsc_ast *result;
};

/* Lexer glue (lex.c). */
struct rsc_ast *rsc_lex_number(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len);
void rsc_lex_error(struct rsc_parser *p, enum rsc_code code, struct rsc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void rsc_lex_char(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len);
struct rsc_ast *rsc_lex_escape(struct rsc_parser *p, struct rsc_span span, const char *text, size_t len);
/* The token of a keyword, or `otherwise`. */
int rsc_lex_word(const char *text, size_t len, int otherwise);

/* Tree building (build.c): each is the whole of a grammar action. NULL kids are kept in their places. */
struct rsc_ast *rsc_ast_new(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span);
struct rsc_ast *rsc_ast_1(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a);
struct rsc_ast *rsc_ast_2(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b);
struct rsc_ast *rsc_ast_3(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b, struct rsc_ast *c);
struct rsc_ast *rsc_ast_4(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b, struct rsc_ast *c, struct rsc_ast *d);
/* call-for: name, list of what is before the loop?, variable, range, cuts?, body */
struct rsc_ast *rsc_ast_call_for(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *name,
                                 struct rsc_ast *before, struct rsc_ast *var, struct rsc_ast *range,
                                 struct rsc_ast *cuts, struct rsc_ast *body);
struct rsc_ast *rsc_ast_op(struct rsc_parser *p, enum rsc_op op, struct rsc_span span, struct rsc_ast *a,
                           struct rsc_ast *b);
struct rsc_ast *rsc_ast_name(struct rsc_parser *p, struct rsc_span span, const struct rsc_symbol *symbol);
struct rsc_ast *rsc_ast_text(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, const char *text,
                             size_t len);
/* Appends to a list-like node and returns it; a NULL kid is left out. Adjacent TEXTs of a string are joined. */
struct rsc_ast *rsc_ast_append(struct rsc_parser *p, struct rsc_ast *list, struct rsc_ast *kid);
/* The list, now of this kind and place, with `first` (if any) before its kids. */
struct rsc_ast *rsc_ast_turn(struct rsc_parser *p, struct rsc_ast *list, enum rsc_ast_kind kind, struct rsc_span span,
                             struct rsc_ast *first);
struct rsc_ast *rsc_ast_mesh(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *name, struct rsc_ast *axes,
                             struct rsc_ast *word, struct rsc_ast *ranks);
struct rsc_ast *rsc_ast_block(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *stmts);
struct rsc_ast *rsc_ast_stray(struct rsc_parser *p, struct rsc_span span);

/* Says what was found and what would be right (syntax.c). Names are the parser's own: "';'", "number". */
void rsc_syntax_error(struct rsc_parser *p, struct rsc_span span, const char *found, const char *const *expected,
                      int expected_count);
void rsc_syntax_depth(struct rsc_parser *p, struct rsc_span span);

#endif
