/* SPDX-License-Identifier: Apache-2.0
 *
 * The syntax tree of a layout file. Every node keeps its place; nothing is evaluated. Nodes live in the arena
 * of the parse and are never changed after it. Kinds and the meaning of their kids: ast.def.
 */
#ifndef RSC_GRAMMAR_AST_H
#define RSC_GRAMMAR_AST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/base/arena.h"
#include "compiler/base/intern.h"
#include "compiler/base/span.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsc_ast_kind {
#define RSC_AST(kind, word) RSC_AST_##kind,
#include "grammar/ast.def"
#undef RSC_AST
  RSC_AST_KINDS
};

/* Operators of UNARY and BINARY. */
enum rsc_op {
  RSC_OP_NONE,
  RSC_OP_NEG,
  RSC_OP_NOT,
  RSC_OP_ADD,
  RSC_OP_SUB,
  RSC_OP_MUL,
  RSC_OP_DIV,
  RSC_OP_MOD,
  RSC_OP_EQ,
  RSC_OP_NE,
  RSC_OP_LT,
  RSC_OP_LE,
  RSC_OP_GT,
  RSC_OP_GE,
  RSC_OP_AND,
  RSC_OP_OR
};

struct rsc_ast {
  enum rsc_ast_kind kind;
  enum rsc_op op;
  uint32_t id;    /* counts the nodes of one parser, over all its files */
  uint32_t depth; /* 1 for a leaf; bounded, so that walking a tree by recursion is safe */
  struct rsc_span span;
  int64_t number;                  /* INT */
  const struct rsc_symbol *symbol; /* NAME */
  const char *text;                /* TEXT, DEC: NUL-terminated, text_len bytes */
  size_t text_len;
  struct rsc_ast **kids;
  size_t kid_count, kid_cap;
};

/* "+", "&&", ... */
const char *rsc_op_text(enum rsc_op op);

/* Stable text form: a node per line, indented by depth, with line:column. */
void rsc_ast_print(const struct rsc_ast *ast, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
