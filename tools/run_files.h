/* SPDX-License-Identifier: Apache-2.0
 *
 * run_files: buffers of ranks as safetensors files: DIR/train-<rank>.safetensors in, DIR/infer-<rank>.safetensors out,
 * one for each rank of the side that has a buffer, an empty one included. Arrays are keyed by buffer name.
 *
 * A safetensors name is UTF-8 and not "__metadata__"; a buffer name may be any bytes. One that is not such a name
 * cannot be in a file: it is refused, by name, before anything is read or written.
 */
#ifndef RESHARD_TOOLS_RUN_FILES_H
#define RESHARD_TOOLS_RUN_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/run_memory.h"
#include "tools/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct run_output {
  char *path, *temporary; /* temporary: NULL once renamed */
  unsigned char *mapping;
  size_t bytes;
};

struct run_files {
  struct st_file *inputs; /* per training rank; count 0 where it has no file */
  uint32_t input_count;
  unsigned char **copies; /* of arrays that lie at odd addresses in their file */
  size_t copy_count;
  uint64_t copied_bytes, file_bytes;
  struct run_output *outputs;
  size_t output_count;
};

/* Both print to stderr what is wrong, all of it, and return an exit status: 0, 1 (a file or array is missing, or has
 * another dtype, shape or size; a name that cannot be in a file) or 2. Call run_files_close in any case. */

/* Maps the training side's files and points its slots at them. */
int run_files_read(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, const char *dir,
                   const char *program);
/* Makes the inference side's files under temporary names, full of zeros, and maps them: sets each slot's file_data, and
 * with `attach` its data. */
int run_files_create(struct run_files *files, const struct rsp_plan *plan, struct run_side *side, const char *dir,
                     bool attach, const char *program);
/* Writes them to the disk and gives them their names. */
int run_files_publish(struct run_files *files, const char *program);
/* Unmaps all; removes outputs that were not published. */
void run_files_close(struct run_files *files);

#ifdef __cplusplus
}
#endif

#endif
