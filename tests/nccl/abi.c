/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's own declarations of CUDA and NCCL against the headers of a machine that has them: sizes, places and
 * values. Compiled only; it fails to.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "runtime/cuda_api.h"
#include "runtime/nccl_api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
#define SAME_PLACE(a, x, b, y) SAME(offsetof(a, x), offsetof(b, y))

SAME(RSR_CUDA_OK, cudaSuccess);
SAME(RSR_CUDA_NO_MEMORY, cudaErrorMemoryAllocation);
SAME(RSR_CUDA_OLD_DRIVER, cudaErrorInsufficientDriver);
SAME(RSR_CUDA_NO_DEVICE, cudaErrorNoDevice);
SAME(RSR_CUDA_NOT_READY, cudaErrorNotReady);
SAME(RSR_CUDA_PROCESSORS, cudaDevAttrMultiProcessorCount);
SAME(RSR_CUDA_COPY_DEFAULT, cudaMemcpyDefault);
SAME(RSR_CUDA_STREAM_NON_BLOCKING, cudaStreamNonBlocking);
SAME(RSR_CUDA_EVENT_DISABLE_TIMING, cudaEventDisableTiming);
SAME(RSR_CUDA_CAPTURE_THREAD_LOCAL, cudaStreamCaptureModeThreadLocal);
SAME(RSR_CUDA_CAPTURE_NONE, cudaStreamCaptureStatusNone);
SAME(RSR_CUDA_MEMORY_DEVICE, cudaMemoryTypeDevice);
SAME(RSR_CUDA_MEMORY_MANAGED, cudaMemoryTypeManaged);
SAME(sizeof(int), sizeof(cudaError_t));
SAME(sizeof(int), sizeof(ncclResult_t));

/* Of CUDA 12 it is smaller: the room is at the end. */
_Static_assert(sizeof(struct rsr_cuda_pointer) >= sizeof(struct cudaPointerAttributes), "pointer attributes");
SAME_PLACE(struct rsr_cuda_pointer, type, struct cudaPointerAttributes, type);
SAME_PLACE(struct rsr_cuda_pointer, device, struct cudaPointerAttributes, device);
SAME_PLACE(struct rsr_cuda_pointer, device_pointer, struct cudaPointerAttributes, devicePointer);

SAME(sizeof(struct rsr_cuda_launch), sizeof(cudaLaunchConfig_t));
SAME_PLACE(struct rsr_cuda_launch, block, cudaLaunchConfig_t, blockDim);
SAME_PLACE(struct rsr_cuda_launch, shared_bytes, cudaLaunchConfig_t, dynamicSmemBytes);
SAME_PLACE(struct rsr_cuda_launch, stream, cudaLaunchConfig_t, stream);
SAME_PLACE(struct rsr_cuda_launch, attribute_count, cudaLaunchConfig_t, numAttrs);

SAME(RSR_NCCL_OK, ncclSuccess);
SAME(RSR_NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(RSR_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(RSR_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(RSR_NCCL_IN_PROGRESS, ncclInProgress);
SAME(RSR_NCCL_UINT8, ncclUint8);
SAME(sizeof(struct rsr_nccl_id), sizeof(ncclUniqueId));
/* Later forms may be longer; what there is of ours has its place in them. */
_Static_assert(sizeof(struct rsr_nccl_config) <= sizeof(ncclConfig_t), "configuration");
SAME_PLACE(struct rsr_nccl_config, blocking, ncclConfig_t, blocking);
SAME_PLACE(struct rsr_nccl_config, net_name, ncclConfig_t, netName);
SAME_PLACE(struct rsr_nccl_config, comm_name, ncclConfig_t, commName);
SAME_PLACE(struct rsr_nccl_config, shrink_share, ncclConfig_t, shrinkShare);
SAME_PLACE(struct rsr_nccl_config, nvlink_centric_sched, ncclConfig_t, nvlinkCentricSched);
SAME(RSR_NCCL_SHRINK_DEFAULT, NCCL_SHRINK_DEFAULT);
SAME(RSR_NCCL_SHRINK_ABORT, NCCL_SHRINK_ABORT);

/* Functions that have changed between versions: as they are called here. */
void rsr_abi(void);
void rsr_abi(void) {
  cudaError_t (*library)(cudaLibrary_t *, const void *, enum cudaJitOption *, void **, unsigned,
                         enum cudaLibraryOption *, void **, unsigned) = cudaLibraryLoadData;
  cudaError_t (*instantiate)(cudaGraphExec_t *, cudaGraph_t, unsigned long long) = cudaGraphInstantiate;
  cudaError_t (*launch)(const cudaLaunchConfig_t *, const void *, void **) = cudaLaunchKernelExC;
  ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *) = ncclCommInitRankConfig;
  ncclResult_t (*registers)(const ncclComm_t, void *, size_t, void **) = ncclCommRegister;
  ncclResult_t (*shrink)(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int) = ncclCommShrink;
#if NCCL_VERSION_CODE >= 22900
  ncclResult_t (*unique)(ncclComm_t, ncclUniqueId *) = ncclCommGetUniqueId;
  ncclResult_t (*grow)(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *) = ncclCommGrow;
  (void)unique, (void)grow;
#endif
  (void)library, (void)instantiate, (void)launch, (void)init, (void)registers, (void)shrink;
}
