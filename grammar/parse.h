/* SPDX-License-Identifier: Apache-2.0
 *
 * parse: the text of a layout file -> its syntax tree.
 */
#ifndef RSC_GRAMMAR_PARSE_H
#define RSC_GRAMMAR_PARSE_H

#include "compiler/base/diag.h"
#include "grammar/ast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the files of one side share: names and the numbers of nodes. */
struct rsc_grammar {
  struct rsc_arena *arena;
  struct rsc_sources *sources;
  struct rsc_diag *diag;
  struct rsc_interner *names;
  uint32_t nodes; /* ids given so far */
};

/* Parses file `file` of the sources. Errors go to diag, all of them; what could be read is returned all the same (a
 * FILE node, never NULL). `*clean` is false if there was an error. */
struct rsc_ast *rsc_parse(struct rsc_grammar *grammar, int file, bool *clean);

/* Parses one expression (a -D value). NULL if there was an error. */
struct rsc_ast *rsc_parse_expr(struct rsc_grammar *grammar, int file);

#ifdef __cplusplus
}
#endif

#endif
