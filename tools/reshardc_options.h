/* SPDX-License-Identifier: Apache-2.0
 *
 * reshardc_options: the command line of reshardc, read into the compiler's options and what the tool itself needs.
 */
#ifndef RESHARD_TOOLS_RESHARDC_OPTIONS_H
#define RESHARD_TOOLS_RESHARDC_OPTIONS_H

#include <stdbool.h>

#include "compiler/pipeline.h"

struct reshardc_options {
  struct rsc_options compile; /* its arrays are malloc'd; see reshardc_options_free */
  const char *output;         /* a path, "-", or NULL where only a dump is wanted */
  bool json, stats;
};

/* What main does next. */
enum reshardc_next { RESHARDC_COMPILE, RESHARDC_EXIT_OK, RESHARDC_EXIT_TROUBLE };

/* Reads argv; --help, --version and --explain are answered here, mistakes told on stderr. */
enum reshardc_next reshardc_options_read(int argc, char **argv, struct reshardc_options *out);
void reshardc_options_free(struct reshardc_options *options);

#endif
