/* SPDX-License-Identifier: Apache-2.0
 *
 * catalogue_expr: the integer expressions and name templates of a catalogue. Private to pass/catalogue.
 *
 * Expressions: integers, names of constants and loop variables, + - * / % (floor division; % has the divisor's sign),
 * parentheses. Templates: text with {expression}; {{ and }} are braces; a name alone may also be a string.
 */
#ifndef RSC_PASS_CATALOGUE_EXPR_H
#define RSC_PASS_CATALOGUE_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/diag.h"
#include "compiler/base/vec.h"
#include "compiler/base/yaml.h"
#include "compiler/ir/catalogue.h"

/* The names an expression may use: loop variables (innermost last) before constants. */
struct rsc_cat_scope {
  const struct rsc_constant *constants;
  size_t constant_count;
  struct rsc_constant *vars; /* the current values of the loops */
  size_t var_count;
};

struct rsc_cat_text {
  RSC_VEC(char);
};

/* text[lo, hi) of a scalar as an integer. On failure reports (unless diag is NULL) and returns false. */
bool rsc_cat_int(struct rsc_diag *diag, const struct rsc_cat_scope *scope, const struct rsc_yaml *scalar, size_t lo,
                 size_t hi, int64_t *out);

/* Appends the template's text with everything filled in. */
bool rsc_cat_expand(struct rsc_arena *arena, struct rsc_diag *diag, const struct rsc_cat_scope *scope,
                    const struct rsc_yaml *scalar, struct rsc_cat_text *out);

/* The constant or variable called name[0, len), or NULL. */
const struct rsc_constant *rsc_cat_find(const struct rsc_cat_scope *scope, const char *name, size_t len);

/* Whether the word name stands in text[0, len), or, if `holes`, in one of its {}. */
bool rsc_cat_mentions(const char *text, size_t len, bool holes, const char *name);

/* A letter or _, then letters, digits and _; not _ alone. */
bool rsc_cat_is_name(const char *text, size_t len);

/* Adds "l = 3, e = 17" as a note to the message begun last; nothing outside loops. */
void rsc_cat_note_values(struct rsc_diag *diag, const struct rsc_cat_scope *scope);

#endif
