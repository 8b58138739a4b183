/* SPDX-License-Identifier: Apache-2.0
 *
 * run_device: memory of this process's GPU for `reshard run --backend nccl`, and the place of the process in its job.
 */
#ifndef RESHARD_TOOLS_RUN_DEVICE_H
#define RESHARD_TOOLS_RUN_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the command line says, and what a launcher says in the environment where it does not: torchrun, Slurm, Open MPI,
 * MPICH. */
struct run_launch {
  int64_t rank, world, device;             /* -1: not given; device: then the rank's number on its host, or 0 */
  const char *share;                       /* the directory where the processes meet */
  const char *cuda_library, *nccl_library; /* NULL: by their usual names */
};
/* For a run in one process: an exit status, usage if a launcher of MPI processes has started several. */
int run_launch_alone(const char *program);
/* An exit status: 0, or usage. */
int run_launch_find(struct run_launch *launch, const char *program);

struct run_device;

/* An exit status; where there is no GPU, one line says so. */
int run_device_open(struct run_device **device, const struct run_launch *launch, const char *program);
void run_device_close(struct run_device *device); /* NULL is fine; frees its memory, too */
/* NULL: there is not so much. */
void *run_device_memory(struct run_device *device, uint64_t bytes);
/* Either end may be on the device. False: a sentence has been printed. */
bool run_device_copy(struct run_device *device, void *dst, const void *src, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
