/* SPDX-License-Identifier: Apache-2.0
 *
 * In: what the grammar's actions have at hand. Out: nodes of the syntax tree.
 */
#include <string.h>

#include "grammar/parser.h"

/* Trees are walked by recursion; no layout that a person or a sane script writes comes near this. */
enum { DEPTH_MAX = 1000 };

struct rsc_ast *rsc_ast_new(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span) {
  struct rsc_ast *ast = RSC_NEW(p->arena, struct rsc_ast);
  ast->kind = kind;
  ast->span = span;
  if (!ast->span.len) ast->span.len = 1;
  ast->depth = 1;
  ast->id = p->grammar->nodes++;
  return ast;
}

static void add(struct rsc_parser *p, struct rsc_ast *ast, struct rsc_ast *kid) {
  if (ast->kid_count == ast->kid_cap) {
    ast->kids = rsc_vec_grow(p->arena, ast->kids, ast->kid_count, &ast->kid_cap, ast->kid_count ? 0 : 4,
                             sizeof(struct rsc_ast *));
  }
  if (kid && kid->depth >= DEPTH_MAX) {
    rsc_syntax_depth(p, kid->span);
    kid = NULL;
  }
  ast->kids[ast->kid_count++] = kid;
  if (kid && kid->depth >= ast->depth) ast->depth = kid->depth + 1;
}

static struct rsc_ast *with_kids(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span,
                                 struct rsc_ast *const *kids, size_t count) {
  struct rsc_ast *ast = rsc_ast_new(p, kind, span);
  ast->kids = RSC_ARRAY(p->arena, struct rsc_ast *, count);
  ast->kid_cap = count;
  for (size_t i = 0; i < count; i++) add(p, ast, kids[i]);
  return ast;
}

struct rsc_ast *rsc_ast_1(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a) {
  return with_kids(p, kind, span, (struct rsc_ast *[]){a}, 1);
}

struct rsc_ast *rsc_ast_2(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b) {
  return with_kids(p, kind, span, (struct rsc_ast *[]){a, b}, 2);
}

struct rsc_ast *rsc_ast_3(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b, struct rsc_ast *c) {
  return with_kids(p, kind, span, (struct rsc_ast *[]){a, b, c}, 3);
}

struct rsc_ast *rsc_ast_4(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, struct rsc_ast *a,
                          struct rsc_ast *b, struct rsc_ast *c, struct rsc_ast *d) {
  return with_kids(p, kind, span, (struct rsc_ast *[]){a, b, c, d}, 4);
}

struct rsc_ast *rsc_ast_call_for(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *name,
                                 struct rsc_ast *before, struct rsc_ast *var, struct rsc_ast *range,
                                 struct rsc_ast *cuts, struct rsc_ast *body) {
  if (!cuts) cuts = rsc_ast_new(p, RSC_AST_LIST, span);
  return with_kids(p, RSC_AST_CALL_FOR, span, (struct rsc_ast *[]){name, before, var, range, cuts, body}, 6);
}

struct rsc_ast *rsc_ast_op(struct rsc_parser *p, enum rsc_op op, struct rsc_span span, struct rsc_ast *a,
                           struct rsc_ast *b) {
  struct rsc_ast *ast = with_kids(p, b ? RSC_AST_BINARY : RSC_AST_UNARY, span, (struct rsc_ast *[]){a, b}, b ? 2 : 1);
  ast->op = op;
  return ast;
}

struct rsc_ast *rsc_ast_name(struct rsc_parser *p, struct rsc_span span, const struct rsc_symbol *symbol) {
  struct rsc_ast *ast = rsc_ast_new(p, RSC_AST_NAME, span);
  ast->symbol = symbol;
  return ast;
}

struct rsc_ast *rsc_ast_text(struct rsc_parser *p, enum rsc_ast_kind kind, struct rsc_span span, const char *text,
                             size_t len) {
  struct rsc_ast *ast = rsc_ast_new(p, kind, span);
  ast->text = rsc_arena_strdup(p->arena, text, len);
  ast->text_len = len;
  return ast;
}

static bool join(struct rsc_parser *p, struct rsc_ast *list, const struct rsc_ast *text) {
  struct rsc_ast *last = list->kid_count ? list->kids[list->kid_count - 1] : NULL;
  if (!last || last->kind != RSC_AST_TEXT || text->kind != RSC_AST_TEXT) return false;
  char *both = rsc_arena_alloc(p->arena, last->text_len + text->text_len + 1);
  memcpy(both, last->text, last->text_len);
  memcpy(both + last->text_len, text->text, text->text_len);
  last->text = both;
  last->text_len += text->text_len;
  last->span.len = text->span.col + text->span.len - last->span.col;
  return true;
}

struct rsc_ast *rsc_ast_append(struct rsc_parser *p, struct rsc_ast *list, struct rsc_ast *kid) {
  if (!kid || join(p, list, kid)) return list;
  add(p, list, kid);
  return list;
}

struct rsc_ast *rsc_ast_turn(struct rsc_parser *p, struct rsc_ast *list, enum rsc_ast_kind kind, struct rsc_span span,
                             struct rsc_ast *first) {
  if (first) add(p, list, first);
  list->kind = kind;
  list->span = span;
  return list;
}

struct rsc_ast *rsc_ast_mesh(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *name, struct rsc_ast *axes,
                             struct rsc_ast *word, struct rsc_ast *ranks) {
  if (word && (word->symbol->len != 5 || memcmp(word->symbol->text, "ranks", 5) != 0)) {
    rsc_lex_error(p, RSC_SYNTAX, word->span, "found '%.40s'; expected 'ranks' or ';'", word->symbol->text);
  }
  return rsc_ast_3(p, RSC_AST_MESH, span, name, axes, ranks);
}

struct rsc_ast *rsc_ast_block(struct rsc_parser *p, struct rsc_span span, struct rsc_ast *stmts) {
  for (size_t i = 0; i < stmts->kid_count; i++) {
    const struct rsc_ast *s = stmts->kids[i];
    const char *word = !s                           ? NULL
                       : s->kind == RSC_AST_PARAM   ? "param"
                       : s->kind == RSC_AST_INCLUDE ? "include"
                       : s->kind == RSC_AST_MODEL   ? "model"
                       : s->kind == RSC_AST_WORLD   ? "world"
                                                    : NULL;
    if (!word) continue;
    rsc_lex_error(p, RSC_TOP_LEVEL, s->span, "'%s' stands at top level, outside every { }; move it there", word);
  }
  p->muted = false;
  return rsc_ast_turn(p, stmts, RSC_AST_BLOCK, span, NULL);
}

struct rsc_ast *rsc_ast_stray(struct rsc_parser *p, struct rsc_span span) {
  if (!p->muted) rsc_lex_error(p, RSC_SYNTAX, span, "this '}' closes nothing; remove it, or add the '{' that it ends");
  p->muted = false;
  return NULL;
}
