/* SPDX-License-Identifier: Apache-2.0
 *
 * What is called of NCCL, in declarations of our own; see cuda_api.h. Every function returns a ncclResult_t, an int.
 */
#ifndef RSR_NCCL_API_H
#define RSR_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#include "runtime/context.h"

enum {
  RSR_NCCL_OK = 0,
  RSR_NCCL_CUDA_ERROR = 1,
  RSR_NCCL_SYSTEM_ERROR = 2,
  RSR_NCCL_REMOTE_ERROR = 6,
  RSR_NCCL_IN_PROGRESS = 7
};
enum { RSR_NCCL_UINT8 = 1 }; /* ncclDataType_t */
enum { RSR_NCCL_SHRINK_DEFAULT = 0, RSR_NCCL_SHRINK_ABORT = 1 };

struct rsr_nccl_id {
  char bytes[128];
};

/* ncclConfig_t as of 2.28; newer libraries read the older form by its version. */
struct rsr_nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share, traffic_class;
  const char *comm_name;
  int collnet_enable, cta_policy, shrink_share, nvls_ctas, channels_per_net_peer, nvlink_centric_sched;
};
/* All as NCCL likes it, but calls return at once, and a communicator that others leave shares its connections with the
 * one that is made of it. */
static inline struct rsr_nccl_config rsr_nccl_config(void) {
  struct rsr_nccl_config config;
  config.size = sizeof config;
  config.magic = 0xcafebeefu;
  config.version = 22800;
  config.blocking = 0;
  config.cga_cluster_size = config.min_ctas = config.max_ctas = config.split_share = config.traffic_class = INT_MIN;
  config.shrink_share = 1;
  config.collnet_enable = config.cta_policy = config.nvls_ctas = INT_MIN;
  config.channels_per_net_peer = config.nvlink_centric_sched = INT_MIN;
  config.net_name = config.comm_name = NULL;
  return config;
}

/* X(name without "nccl", parameters) */
#define RSR_NCCL_CALLS(X)                                                                                              \
  X(GetVersion, (int *version))                                                                                        \
  X(GetUniqueId, (struct rsr_nccl_id * id))                                                                            \
  X(CommInitRankConfig, (void **comm, int ranks, struct rsr_nccl_id id, int rank, struct rsr_nccl_config *config))     \
  X(CommGetAsyncError, (void *comm, int *error))                                                                       \
  X(CommFinalize, (void *comm))                                                                                        \
  X(CommDestroy, (void *comm))                                                                                         \
  X(CommAbort, (void *comm))                                                                                           \
  X(CommRegister, (void *comm, void *ptr, size_t bytes, void **handle))                                                \
  X(CommDeregister, (void *comm, void *handle))                                                                        \
  X(GroupStart, (void))                                                                                                \
  X(GroupEnd, (void))                                                                                                  \
  X(Send, (const void *ptr, size_t count, int dtype, int peer, void *comm, void *stream))                              \
  X(Recv, (void *ptr, size_t count, int dtype, int peer, void *comm, void *stream))

/* Those that may be missing: NULL. Shrink: all but the excluded ranks call it; next is there when comm is ready again.
 * Grow: ranks of comm give rank -1, one of them the id that it has from CommGetUniqueId; new ones give NULL, the id and
 * their rank, from the size of comm on. */
#define RSR_NCCL_OPTIONAL(X)                                                                                           \
  X(CommShrink,                                                                                                        \
    (void *comm, int *excluded, int count, void **next, struct rsr_nccl_config *config, int flags)) /* 2.27 */         \
  X(CommGetUniqueId, (void *comm, struct rsr_nccl_id *id))                                          /* 2.29 */         \
  X(CommGrow, (void *comm, int ranks, const struct rsr_nccl_id *id, int rank, void **next,                             \
               struct rsr_nccl_config *config)) /* 2.29 */

struct rsr_nccl_api {
  void *library;
  int version; /* 22809 is 2.28.9 */
#define RSR_NCCL_MEMBER(name, parameters) int(*name) parameters;
  RSR_NCCL_CALLS(RSR_NCCL_MEMBER)
  RSR_NCCL_OPTIONAL(RSR_NCCL_MEMBER)
#undef RSR_NCCL_MEMBER
  const char *(*GetErrorString)(int result);
  const char *(*GetLastError)(void *comm);
};

/* UNSUPPORTED with one line if the library is not there, too old or lacks a function. Close it also after a failure. */
enum reshard_status rsr_nccl_api_open(struct rsr_nccl_api *nccl, const char *path, struct reshard_fault *fault);
void rsr_nccl_api_close(struct rsr_nccl_api *nccl);

#endif
