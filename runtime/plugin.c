/* SPDX-License-Identifier: Apache-2.0
 * Opens libreshard_mpi.so; see plugin.h. Also the public calls that go there. */
#include "runtime/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/stamp.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct rsr_mpi_plugin *loaded;

/* Beside this library first, then wherever the loader looks. Its MPI may open parts of its own, which look for its
 * symbols. */
static void *open_file(void) {
  Dl_info self;
  char path[4096];
  if (dladdr(&lock, &self) && self.dli_fname) {
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash + 1 - self.dli_fname) : 0;
    int bytes = snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, RSR_MPI_FILE);
    void *library = slash && bytes > 0 && (size_t)bytes < sizeof path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library) return library;
  }
  return dlopen(RSR_MPI_FILE, RTLD_NOW | RTLD_GLOBAL);
}

static const struct rsr_mpi_plugin *load(struct reshard_fault *fault) {
  void *library = open_file();
  if (!library) {
    const char *why = dlerror();
    rsr_fault(fault, RESHARD_UNSUPPORTED,
              "there is no MPI backend here: %.300s; it is built where an MPI is found (Debian: mpich)",
              why ? why : RSR_MPI_FILE);
    return NULL;
  }
  const char *stamp = dlsym(library, RSR_MPI_STAMP_SYMBOL);
  const struct rsr_mpi_plugin *plugin = dlsym(library, RSR_MPI_SYMBOL);
  if (stamp && plugin && strcmp(stamp, RSR_STAMP) == 0) return plugin;
  rsr_fault(fault, RESHARD_UNSUPPORTED, "%s is of another build (%.100s) than libreshard (%s): install both together",
            RSR_MPI_FILE, stamp ? stamp : "no stamp", RSR_STAMP);
  dlclose(library);
  return NULL;
}

const struct rsr_mpi_plugin *rsr_mpi_load(struct reshard_fault *fault) {
  pthread_mutex_lock(&lock);
  if (!loaded) loaded = load(fault);
  const struct rsr_mpi_plugin *plugin = loaded;
  pthread_mutex_unlock(&lock);
  return plugin;
}

enum reshard_status reshard_mpi_init(uint32_t *rank, uint32_t *size, struct reshard_fault *fault) {
  struct reshard_fault own;
  uint32_t unused;
  if (!fault) fault = &own;
  rsr_fault_clear(fault);
  const struct rsr_mpi_plugin *plugin = rsr_mpi_load(fault);
  return plugin ? plugin->init(rank ? rank : &unused, size ? size : &unused, fault) : RESHARD_UNSUPPORTED;
}

const char *reshard_mpi_version(void) {
  struct reshard_fault fault;
  const struct rsr_mpi_plugin *plugin = rsr_mpi_load(&fault);
  return plugin ? plugin->version() : NULL;
}

int reshard_mpi_all_gather(void *fault, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  struct reshard_fault own;
  struct reshard_fault *to = fault ? fault : &own;
  rsr_fault_clear(to);
  const struct rsr_mpi_plugin *plugin = rsr_mpi_load(to);
  return plugin ? (int)plugin->all_gather(mine, bytes, all, timeout_seconds, to) : RESHARD_UNSUPPORTED;
}
