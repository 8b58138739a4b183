// SPDX-License-Identifier: Apache-2.0
//
// run_device: in: options, the environment, libcudart. Out: ranks, device memory, copies that are complete.

#include "tools/run_device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/cuda_api.h"
#include "tools/cli/cli.h"

// ---- the place in the job ------------------------------------------------------------------------------------------

// The variables of one launcher go together: a rank of one with a world of another is nobody's.
static const struct launcher {
  const char *rank, *world, *local;
  bool mpi;
} launchers[] = {{"RANK", "WORLD_SIZE", "LOCAL_RANK", false},
                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", true},
                 {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true},
                 {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false}};

static bool number_of(const char *variable, int64_t *number) {
  const char *text = getenv(variable);
  return text && cli_parse_number(text, 0, UINT32_MAX - 1, number);
}

static void ask_launcher(struct run_launch *launch) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    int64_t rank, world, local;
    if (!number_of(launchers[i].rank, &rank) || !number_of(launchers[i].world, &world)) continue;
    launch->rank = rank;
    launch->world = world;
    if (launch->device < 0 && number_of(launchers[i].local, &local)) launch->device = local;
    return;
  }
}

// torchrun's and Slurm's variables are set for other reasons, too: whole shells have them.
int run_launch_alone(const char *program) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    int64_t rank, world;
    if (!launchers[i].mpi || !number_of(launchers[i].rank, &rank) || !number_of(launchers[i].world, &world)) continue;
    if (world < 2) continue;
    if (rank > 0) return CLI_TROUBLE; // the first one says it
    return cli_usage(
        program, "mpiexec has started %" PRId64 " processes, and each would replay the whole plan: add --backend mpi",
        world);
  }
  return CLI_YES;
}

int run_launch_find(struct run_launch *launch, const char *program) {
  if ((launch->rank < 0) != (launch->world < 0)) return cli_usage(program, "--rank and --world go together");
  if (launch->rank < 0) ask_launcher(launch);
  if (launch->rank < 0)
    return cli_usage(program,
                     "which rank is this? give --rank and --world, or start it with torchrun, srun or mpiexec");
  if (launch->rank >= launch->world)
    return cli_usage(program, "rank %" PRId64 " is beyond a world of %" PRId64, launch->rank, launch->world);
  if (!launch->share) return cli_usage(program, "--backend nccl needs --share, a directory that all processes share");
  if (launch->device < 0) launch->device = 0;
  return CLI_YES;
}

// ---- memory --------------------------------------------------------------------------------------------------------

struct run_device {
  struct rsr_cuda cuda;
  const char *program;
  void **blocks;
  uint64_t block_count, block_room;
};

static int no_device(struct run_device *device, const char *text) {
  const char *program = device->program;
  run_device_close(device);
  return cli_trouble(program, "--backend nccl needs a GPU: %s", text);
}

int run_device_open(struct run_device **out, const struct run_launch *launch, const char *program) {
  struct reshard_fault fault;
  struct run_device *device = calloc(1, sizeof *device);
  *out = NULL;
  if (!device) return cli_trouble(program, "out of memory");
  device->program = program;
  if (rsr_cuda_open(&device->cuda, launch->cuda_library, &fault) != RESHARD_OK) return no_device(device, fault.what);
  int rc = device->cuda.SetDevice((int)launch->device);
  if (rc != RSR_CUDA_OK) return no_device(device, device->cuda.GetErrorString(rc));
  *out = device;
  return CLI_YES;
}

void run_device_close(struct run_device *device) {
  if (!device) return;
  for (uint64_t i = 0; i < device->block_count; i++) device->cuda.Free(device->blocks[i]);
  rsr_cuda_close(&device->cuda);
  free(device->blocks);
  free(device);
}

void *run_device_memory(struct run_device *device, uint64_t bytes) {
  if (device->block_count == device->block_room) {
    uint64_t room = device->block_room ? 2 * device->block_room : 64;
    void *grown = realloc(device->blocks, room * sizeof *device->blocks);
    if (!grown) return NULL;
    device->blocks = grown;
    device->block_room = room;
  }
  void *ptr = NULL;
  if (device->cuda.Malloc(&ptr, bytes) != RSR_CUDA_OK) return NULL;
  return device->blocks[device->block_count++] = ptr;
}

bool run_device_copy(struct run_device *device, void *dst, const void *src, uint64_t bytes) {
  int rc = device->cuda.MemcpyAsync(dst, src, bytes, RSR_CUDA_COPY_DEFAULT, NULL);
  while (rc == RSR_CUDA_OK && (rc = device->cuda.StreamQuery(NULL)) == RSR_CUDA_NOT_READY) {
    struct timespec nap = {0, 20000};
    nanosleep(&nap, NULL);
    rc = RSR_CUDA_OK;
  }
  if (rc == RSR_CUDA_OK) return true;
  cli_trouble(device->program, "a copy to or from the GPU failed: %s", device->cuda.GetErrorString(rc));
  return false;
}
