/* SPDX-License-Identifier: Apache-2.0
 *
 * run_replay: every rank of a plan as a thread of this process, or one rank of it in this process with the others in
 * processes of their own, through the public runtime.
 */
#ifndef RESHARD_TOOLS_RUN_REPLAY_H
#define RESHARD_TOOLS_RUN_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/reshard.h"
#include "tools/run_device.h"
#include "tools/run_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

enum run_mode { RUN_FUSED, RUN_STAGED, RUN_NONE /* for tests: prepares, and then moves nothing */ };

struct run_options {
  enum run_mode mode;
  uint64_t delay_seed;
  double timeout_seconds;
  bool guard_staging, verify;
  struct reshard_inject inject; /* on one rank */
  uint32_t inject_rank;
  enum reshard_backend backend; /* but for the host, this process is the one rank */
  uint32_t world_rank;
  /* nccl */
  struct run_launch launch;
  struct run_device *device;
  struct reshard_directory *directory;
};

struct run_replay;

/* Starts a thread for each world rank that is here; each opens its context, binds its buffers and prepares. NULL with a
 * sentence in `fault` if that fails, nothing left running. `plan` and `memory` must outlive it. */
struct run_replay *run_replay_start(const struct rsp_plan *plan, const char *path, struct run_memory *memory,
                                    const struct run_options *options, struct reshard_fault *fault);
/* One refit of all ranks: true and the seconds it took, or false and the first fault. */
bool run_replay_refit(struct run_replay *replay, double *seconds, struct reshard_fault *fault);
/* As many bytes as the inference side's memory has, guards included, copied with memcpy from the training side's by the
 * same threads, each one equal share in one piece. The inference side is garbage afterwards, its guards too. Both sides
 * must be in memory. */
double run_replay_memcpy(struct run_replay *replay);
void run_replay_stop(struct run_replay *replay);

#ifdef __cplusplus
}
#endif

#endif
