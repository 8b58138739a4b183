/* SPDX-License-Identifier: Apache-2.0
 *
 * In: a syntax tree. Out: its stable text form.
 */
#include "grammar/ast.h"

static const char *const words[RSC_AST_KINDS] = {
#define RSC_AST(kind, word) [RSC_AST_##kind] = word,
#include "grammar/ast.def"
#undef RSC_AST
};

const char *rsc_op_text(enum rsc_op op) {
  static const char *const texts[] = {
      [RSC_OP_NONE] = "", [RSC_OP_NEG] = "-", [RSC_OP_NOT] = "!",  [RSC_OP_ADD] = "+",
      [RSC_OP_SUB] = "-", [RSC_OP_MUL] = "*", [RSC_OP_DIV] = "/",  [RSC_OP_MOD] = "%",
      [RSC_OP_EQ] = "==", [RSC_OP_NE] = "!=", [RSC_OP_LT] = "<",   [RSC_OP_LE] = "<=",
      [RSC_OP_GT] = ">",  [RSC_OP_GE] = ">=", [RSC_OP_AND] = "&&", [RSC_OP_OR] = "||",
  };
  return texts[op];
}

static void print_text(const char *text, size_t len, FILE *out) {
  fputc('"', out);
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 32 || c == 127)
      fprintf(out, "\\x%02X", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

static void print_node(const struct rsc_ast *ast, int indent, FILE *out) {
  fprintf(out, "%*s", indent, "");
  if (!ast) {
    fputs("-\n", out);
    return;
  }
  fputs(words[ast->kind], out);
  if (ast->op) fprintf(out, " %s", rsc_op_text(ast->op));
  if (ast->kind == RSC_AST_INT) fprintf(out, " %lld", (long long)ast->number);
  if (ast->symbol) fprintf(out, " %s", ast->symbol->text);
  if (ast->text) {
    fputc(' ', out);
    print_text(ast->text, ast->text_len, out);
  }
  fprintf(out, " @%u:%u\n", ast->span.line, ast->span.col);
  for (size_t i = 0; i < ast->kid_count; i++) print_node(ast->kids[i], indent + 2, out);
}

void rsc_ast_print(const struct rsc_ast *ast, FILE *out) {
  print_node(ast, 0, out);
}
