/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of reshard run. In: argv; out: what to replay and how, its parts fit for each other.
 */
#ifndef RESHARD_TOOLS_RUN_ARGS_H
#define RESHARD_TOOLS_RUN_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/run_replay.h"

#ifdef __cplusplus
extern "C" {
#endif

struct run_args {
  const char *program, *plan, *in, *out;
  struct run_options replay;
  uint32_t repeat; /* 0: chosen */
  uint64_t seed;
  bool json, has_mode, has_launch;
};

extern const char run_help[];
extern const char *const run_mode_words[];    /* by enum run_mode */
extern const char *const run_backend_words[]; /* by enum reshard_backend */

/* 0 to go on, -1 for --help, else an exit status, what is wrong said. The strings are argv's. */
int run_args_parse(struct run_args *args, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
