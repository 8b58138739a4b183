/* SPDX-License-Identifier: Apache-2.0
 *
 * Test cases of the language: text files that hold several compilations, each of several small files.
 *
 *     === title
 *     side: infer            (train without it)
 *     define: train.TP=4     (as -D; any number)
 *     include-dir: lib       (as -I)
 *     model: m.yaml          (as --model)
 *     --- main.layout        the first file is the side's; the others are there to be included
 *     ...
 *     --- other.layout       in a case with `other: other.layout`, the other side's file
 *
 * An expected message stands at the end of its line: `# error[RS0031]: part of the message`; `@-1` after the bracket
 * moves it by lines, `@none` is for one without a place, `@"file:line"` for one elsewhere; `# warning[...]` likewise.
 *
 * In a Markdown file each fenced block marked ```layout, ```layout infer or ```refused is a case; blocks marked
 * ```yaml NAME or ```part NAME are files that the cases after them may name.
 */
#ifndef TESTS_LANG_CASE_H
#define TESTS_LANG_CASE_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/pass/resolve.h"

struct lang_file {
  char *name, *text;
  size_t len;
};

struct lang_case {
  char *title;
  enum rsc_side side;
  struct rsc_define defines[8];
  size_t define_count;
  const char *include_dirs[4];
  size_t include_dir_count;
  char *model, *other;
  struct lang_file files[16];
  size_t file_count;
};

/* All cases of a file; exits with a message if it cannot be read or is not well formed. */
struct lang_case *lang_read(const char *path, size_t *count);
void lang_free(struct lang_case *cases, size_t count);
/* Options that load the case's files from memory. */
struct rsc_options lang_options(const struct lang_case *c);
char *lang_slurp(const char *path, size_t *len); /* NULL if it cannot be read */

#endif
