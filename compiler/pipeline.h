/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole compiler as a library: two layouts in, the bytes of a plan out. Reads files only through the loader it
 * is given; knows no clock, no environment, no CUDA. Thread-safe: no state outside its arguments.
 */
#ifndef RSC_PIPELINE_H
#define RSC_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/base/diag.h"
#include "compiler/ir/layout.h"
#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a whole file. On success returns true and *text is malloc'd (the compiler frees it). On failure returns
 * false; *text may be a malloc'd reason ("No such file or directory") or NULL. */
typedef bool (*rsc_load_fn)(void *user, const char *path, char **text, size_t *len);

/* -D [train.|infer.]NAME=TEXT */
struct rsc_define {
  int side; /* RSC_TRAIN, RSC_INFER, or -1 for every side that has the param */
  const char *name, *text;
};

struct rsc_options {
  const char *train_path, *infer_path;
  const char *cluster_path, *model_path; /* or NULL */
  const struct rsc_define *defines;
  size_t define_count;
  const char *const *include_dirs;
  size_t include_dir_count;
  const char *library_dir; /* what ships with the compiler, looked into last, or NULL */
  uint64_t staging;        /* bytes per rank */
  uint64_t chunk;          /* bytes a rank moves per round; 0: chosen */
  uint32_t max_ops;        /* sends and receives per rank per round, at least 2 */
  uint32_t max_peers;      /* 0: no limit */
  const char *dump; /* a form to print to `dump_file`, or NULL: ast layout placement flows cluster routes rounds plan */
  const char *stop_after; /* the last pass to run, or NULL */
  FILE *dump_file;
  rsc_load_fn load;
  void *load_user;
  rsp_put_fn put; /* where the plan goes as it is made (see plans/plan.h), or NULL: into the result */
  void *put_user;
  uint64_t seed_bug; /* 0; tests seed a known bug into a pass: see compiler/base/seed.h */
};

/* Counts, not times: the caller has the clock. `on_pass` is called as each pass ends. */
struct rsc_stats {
  uint64_t tensors, buffers, classes, entries, pieces;
  uint64_t intersections; /* box intersections computed */
  uint64_t records;       /* flows: one overlap of one training part with one inference part */
  uint64_t groups, streams, descriptors;
  uint64_t arena_bytes;
};

/* How long the plan would take. */
struct rsc_figures {
  double bound_seconds, simulated_seconds;
  char bound_term[16];   /* "ingest" */
  char bound_words[512]; /* who must move how much through what */
};

struct rsc_result {
  void *plan;               /* malloc'd, or NULL when stopped early or rejected, or put elsewhere */
  size_t plan_bytes;        /* 0: no plan was made */
  struct rsp_header header; /* of the plan */
  struct rsp_summary summary;
  struct rsc_stats stats;
  struct rsc_figures figures;
  char forgotten[512]; /* what is to be said of tensors that are in no buffer and no skip, or "" */
  char limited[256];   /* what the limits cost, if a rank would need more for the best rounds, or "" */
  char coverage[512];  /* the last line of a successful compile, without newline */
};

enum rsc_outcome { RSC_COMPILED = 0, RSC_REJECTED = 1, RSC_TROUBLE = 2 };

/* `on_pass(user, pass)` may be NULL. Diagnostics go to `diag`. */
enum rsc_outcome rsc_compile(const struct rsc_options *options, rsc_diag_fn diag, void *diag_user,
                             void (*on_pass)(void *user, const char *pass), void *pass_user, struct rsc_result *result);

#ifdef __cplusplus
}
#endif

#endif
