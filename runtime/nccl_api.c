/* SPDX-License-Identifier: Apache-2.0
 * NCCL, opened at run time; see nccl_api.h. */
#include "runtime/nccl_api.h"

#include <dlfcn.h>
#include <string.h>

#include "runtime/cuda_api.h"

#define OLDEST_VERSION 22800

static const char *const usual_names[] = {"libnccl.so.2", "libnccl.so", NULL};

enum reshard_status rsr_nccl_api_open(struct rsr_nccl_api *nccl, const char *path, struct reshard_fault *fault) {
  memset(nccl, 0, sizeof *nccl);
  nccl->library = rsr_library_open("NCCL", path, usual_names, fault);
  if (!nccl->library) return RESHARD_UNSUPPORTED;
  const char *missing = NULL;
#define LOAD(name, parameters)                                                                                         \
  *(void **)&nccl->name = dlsym(nccl->library, "nccl" #name);                                                          \
  if (!nccl->name && !missing) missing = "nccl" #name;
  RSR_NCCL_CALLS(LOAD)
  LOAD(GetErrorString, )
  LOAD(GetLastError, )
#undef LOAD
#define LOAD(name, parameters) *(void **)&nccl->name = dlsym(nccl->library, "nccl" #name);
  RSR_NCCL_OPTIONAL(LOAD)
#undef LOAD
  int rc = nccl->GetVersion ? nccl->GetVersion(&nccl->version) : RSR_NCCL_OK;
  if (rc != RSR_NCCL_OK) {
    return rsr_fault(fault, RESHARD_UNSUPPORTED, "ncclGetVersion failed: %s (%d)",
                     nccl->GetErrorString ? nccl->GetErrorString(rc) : "unknown error", rc);
  }
  if (nccl->GetVersion && nccl->version < OLDEST_VERSION) {
    return rsr_fault(fault, RESHARD_UNSUPPORTED, "NCCL is %d.%d.%d; the nccl backend needs %d.%d or newer",
                     nccl->version / 10000, nccl->version / 100 % 100, nccl->version % 100, OLDEST_VERSION / 10000,
                     OLDEST_VERSION / 100 % 100);
  }
  if (missing) return rsr_fault(fault, RESHARD_UNSUPPORTED, "NCCL lacks the function %s", missing);
  return RESHARD_OK;
}

void rsr_nccl_api_close(struct rsr_nccl_api *nccl) {
  rsr_library_close(nccl->library);
  nccl->library = NULL;
}
