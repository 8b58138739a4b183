/* SPDX-License-Identifier: Apache-2.0
 *
 * load: a YAML text read as a catalogue or cluster, with its diagnostics and a text of what came out; for the tests
 * here.
 */
#ifndef TESTS_YAML_LOAD_H
#define TESTS_YAML_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/ir/catalogue.h"
#include "compiler/ir/cluster.h"

enum load_kind { LOAD_CATALOGUE, LOAD_CLUSTER };

struct load {
  struct rsc_arena *arena;
  bool ok;
  char *dump;     /* what was read, one line per thing; "" if it was refused */
  char *messages; /* all renderings, one after the other */
  int errors;
  enum rsc_code codes[64]; /* of the first errors */
  struct rsc_catalogue catalogue;
  struct rsc_cluster cluster;
};

struct load load_text(enum load_kind kind, const char *name, const char *text, size_t len, long train, long infer);
void load_free(struct load *load);

/* The whole file, NUL-terminated; exits with status 2 if it cannot be read. Caller frees. */
char *load_file(const char *path, size_t *len);

#endif
