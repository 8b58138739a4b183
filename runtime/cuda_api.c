/* SPDX-License-Identifier: Apache-2.0
 * The CUDA runtime, opened at run time; see cuda_api.h. */
#include "runtime/cuda_api.h"

#include <dlfcn.h>
#include <string.h>

#define OLDEST_VERSION 12080 /* 12.8: LibraryLoadData in the runtime, and sm_100 */

static const char *const usual_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so", NULL};

/* These libraries keep threads and state of the process: closed or not, they stay in memory. */
#define FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

void *rsr_library_open(const char *what, const char *path, const char *const *names, struct reshard_fault *fault) {
  if (path) {
    void *library = dlopen(path, FLAGS);
    const char *why = library ? NULL : dlerror();
    if (!library) rsr_fault(fault, RESHARD_UNSUPPORTED, "cannot open %s: %.300s", what, why ? why : path);
    return library;
  }
  for (int flags = FLAGS | RTLD_NOLOAD;; flags = FLAGS) {
    for (uint32_t i = 0; names[i]; i++) {
      void *library = dlopen(names[i], flags);
      if (library) return library;
    }
    if (flags == FLAGS) break;
  }
  rsr_fault(fault, RESHARD_UNSUPPORTED, "there is no %s on this machine (%s was not found): the nccl backend needs it",
            what, names[0]);
  return NULL;
}

void rsr_library_close(void *library) {
  if (library) dlclose(library);
}

enum reshard_status rsr_cuda_open(struct rsr_cuda *cuda, const char *path, struct reshard_fault *fault) {
  memset(cuda, 0, sizeof *cuda);
  cuda->library = rsr_library_open("CUDA runtime", path, usual_names, fault);
  if (!cuda->library) return RESHARD_UNSUPPORTED;
  const char *missing = NULL;
#define LOAD(name, parameters)                                                                                         \
  *(void **)&cuda->name = dlsym(cuda->library, "cuda" #name);                                                          \
  if (!cuda->name && !missing) missing = "cuda" #name;
  RSR_CUDA_CALLS(LOAD)
  LOAD(GetErrorString, )
#undef LOAD
  int rc = cuda->RuntimeGetVersion ? cuda->RuntimeGetVersion(&cuda->version) : RSR_CUDA_OK;
  if (rc != RSR_CUDA_OK) {
    return rsr_fault(fault, RESHARD_UNSUPPORTED, "cudaRuntimeGetVersion failed: %s (%d)",
                     cuda->GetErrorString ? cuda->GetErrorString(rc) : "unknown error", rc);
  }
  if (cuda->RuntimeGetVersion && cuda->version < OLDEST_VERSION) {
    return rsr_fault(fault, RESHARD_UNSUPPORTED, "the CUDA runtime is %d.%d; the nccl backend needs %d.%d or newer",
                     cuda->version / 1000, cuda->version % 1000 / 10, OLDEST_VERSION / 1000,
                     OLDEST_VERSION % 1000 / 10);
  }
  if (missing) return rsr_fault(fault, RESHARD_UNSUPPORTED, "the CUDA runtime lacks the function %s", missing);
  return RESHARD_OK;
}

void rsr_cuda_close(struct rsr_cuda *cuda) {
  rsr_library_close(cuda->library);
  cuda->library = NULL;
}
