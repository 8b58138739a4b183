/* SPDX-License-Identifier: Apache-2.0
 *
 * libreshard_mpi.so as libreshard sees it. An MPI's ABI is its own, so libreshard links none: it opens this object,
 * which is linked with one, when it is asked for. The two share private structs, so they must be of one build: the
 * symbol RSR_MPI_STAMP_SYMBOL, a string, is compared first (runtime/stamp.cmake makes it).
 */
#ifndef RSR_PLUGIN_H
#define RSR_PLUGIN_H

#include "runtime/context.h"

#define RSR_MPI_FILE "libreshard_mpi.so"
#define RSR_MPI_STAMP_SYMBOL "reshard_mpi_stamp"
#define RSR_MPI_SYMBOL "reshard_mpi_plugin"

struct rsr_mpi_plugin {
  const struct rsr_backend *backend;
  /* Initialises MPI if nobody has; the rank and size of MPI_COMM_WORLD. */
  enum reshard_status (*init)(uint32_t *rank, uint32_t *size, struct reshard_fault *fault);
  /* Over MPI_COMM_WORLD. */
  enum reshard_status (*all_gather)(const void *mine, size_t bytes, void *all, double timeout,
                                    struct reshard_fault *fault);
  const char *(*version)(void); /* of the MPI library */
};

/* The plugin; NULL with UNSUPPORTED in *fault. Opened once, never closed. */
const struct rsr_mpi_plugin *rsr_mpi_load(struct reshard_fault *fault);

#endif
