/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml: text -> a tree of maps, lists and scalars with the place of each. What our two YAML inputs share; libyaml does
 * the scanning. Anchors, aliases, tags, keys that are not plain text, further documents and equal keys are refused, so
 * that a reader of the tree meets none of them. The tree lives in the arena and never changes.
 */
#ifndef RSC_BASE_YAML_H
#define RSC_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

enum rsc_yaml_kind { RSC_YAML_SCALAR, RSC_YAML_LIST, RSC_YAML_MAP };

struct rsc_yaml {
  enum rsc_yaml_kind kind;
  bool plain;  /* a scalar without quotes */
  bool direct; /* the source holds the scalar's text letter by letter (no escapes, one line) */
  struct rsc_span span;
  union {
    struct {
      const char *text; /* NUL-terminated, holds no other NUL, valid UTF-8 */
      size_t len;
    } scalar;
    struct {
      const struct rsc_yaml *at; /* a map's are key, value, key, value, ...; count is of both */
      size_t count;
    } items;
  } u;
};

/* Reads file `file` of `sources`. Every error is reported to diag; returns false if there was any. An empty file is an
 * error too. Nesting is limited (64), so that readers may recurse. */
bool rsc_yaml_read(struct rsc_arena *arena, const struct rsc_sources *sources, struct rsc_diag *diag, int file,
                   struct rsc_yaml *root);

/* The place of text[off, off + len) of a scalar, as exactly as can be told. */
struct rsc_span rsc_yaml_part(const struct rsc_yaml *scalar, size_t off, size_t len);

/* "a map", "a list", "nothing" or "'text'" cut to a readable length, for messages. */
const char *rsc_yaml_describe(const struct rsc_yaml *node, char buffer[64]);

/* A key that a map may have. `value` is set by rsc_yaml_fields: NULL where the key is absent. */
struct rsc_yaml_field {
  const char *name;
  bool required;
  const char *cure; /* what to add when it is missing: "dtype: bf16" */
  const struct rsc_yaml *value;
};

/* Checks that `map` is a map whose keys are among fields, that the required ones are there, and finds their values.
 * `what` names the map in messages: "a tensor". False if anything was reported; values found are set even then. */
bool rsc_yaml_fields(struct rsc_diag *diag, const struct rsc_yaml *map, const char *what, struct rsc_yaml_field *fields,
                     size_t count);

/* Checks the kind; reports "`what` must be a list, not ..." */
bool rsc_yaml_expect(struct rsc_diag *diag, const struct rsc_yaml *node, enum rsc_yaml_kind kind, const char *what);

/* A scalar of one or more characters. */
bool rsc_yaml_text(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what);

/* A decimal integer in [lo, hi]: "94", "-1", "1_000". */
bool rsc_yaml_int(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what, int64_t lo, int64_t hi,
                  int64_t *out);

/* A decimal number, "450e9", "3.3e12", "2e-6": read exactly the same on every machine, so at most 15 digits and a power
 * of ten within 22. Negative numbers are refused, and zero unless `zero`. */
bool rsc_yaml_number(struct rsc_diag *diag, const struct rsc_yaml *node, const char *what, bool zero, double *out);

/* Whether text is an integer as rsc_yaml_int reads it; *overflow tells one that does not fit 64 bits. */
bool rsc_yaml_is_int(const char *text, int64_t *out, bool *overflow);

/* The one of names[0, count) that word was probably meant to be, or NULL. */
const char *rsc_yaml_suggest(const char *word, const char *const *names, size_t count);

#ifdef __cplusplus
}
#endif

#endif
