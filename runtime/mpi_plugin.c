/* SPDX-License-Identifier: Apache-2.0
 * The MPI backend's table, and the way into the library; see mpi.h. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/mpi.h"
#include "runtime/stamp.h"

/* How long a rank that failed waits for its peers to end what they have under way with it. */
#define QUIET_SECONDS 2.0

/* ---- MPI itself -------------------------------------------------------------------------------------------------- */

static struct rsr_line *world; /* of all_gather */

/* A rank that an error cut off from the others must not wait for them in MPI_Finalize: it ends the job. */
static void finish(void) {
  int over = 0;
  MPI_Finalized(&over);
  if (over) return;
  double until = rsr_mpi_now() + QUIET_SECONDS;
  rsr_mpi_lock();
  while (!rsr_mpi_retired_step() && rsr_mpi_now() < until) {
  }
  bool lost = rsr_lines_lost();
  rsr_mpi_unlock();
  if (lost)
    MPI_Abort(MPI_COMM_WORLD, 1);
  else
    MPI_Finalize();
}

static enum reshard_status start(struct reshard_fault *fault) {
  int begun = 0, over = 0, provided;
  MPI_Finalized(&over);
  if (over) return rsr_fault(fault, RESHARD_WRONG_STATE, "MPI has been finalised in this process");
  MPI_Initialized(&begun);
  if (begun) return RESHARD_OK;
  /* One lock keeps all our calls apart. */
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return rsr_fault(fault, RESHARD_UNSUPPORTED, "MPI_Init_thread failed; start the program with this MPI's mpiexec");
  atexit(finish);
  return RESHARD_OK;
}

/* As long as MPI_Init waits: until all are there. */
static enum reshard_status init(uint32_t *rank, uint32_t *size, struct reshard_fault *fault) {
  enum reshard_status status = start(fault);
  if (status != RESHARD_OK) return status;
  rsr_mpi_lock();
  struct rsr_hub *hub = rsr_hub_of(MPI_COMM_WORLD);
  uint64_t idle = 0;
  while (hub && !rsr_hub_step(hub)) rsr_mpi_idle(&idle);
  rsr_mpi_unlock();
  if (!hub) return rsr_no_memory(fault, "communicators", sizeof *hub);
  *rank = hub->rank;
  *size = hub->size;
  return RESHARD_OK;
}

static const char *version(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, "\n")] = 0;
  for (char *at = text; *at; at++) {
    if (*at == '\t') *at = ' ';
  }
  return text;
}

/* If something is under way it stays with its hub. */
static void drop_world(void) {
  if (rsr_line_is_done(world)) rsr_line_close(world);
  world = NULL;
}

static enum reshard_status gather_world(const void *mine, size_t bytes, void *all, double timeout,
                                        struct reshard_fault *fault) {
  enum reshard_status status = start(fault);
  if (status != RESHARD_OK) return status;
  rsr_mpi_lock();
  if (world) rsr_hub_pump(world->hub);
  if (world && world->aborted) drop_world(); /* the others have failed in a call that this rank did not make */
  if (!world) status = rsr_line_open(MPI_COMM_WORLD, timeout, "all_gather", &world, fault);
  if (status == RESHARD_OK) status = rsr_line_all_gather(world, mine, bytes, all, timeout, "all_gather", fault);
  if (status != RESHARD_OK && world) drop_world();
  rsr_mpi_unlock();
  return status;
}

/* ---- a context --------------------------------------------------------------------------------------------------- */

static MPI_Comm parent_of(const struct reshard_context *context) {
  MPI_Comm comm = MPI_COMM_WORLD;
  if (context->config.mpi_comm) memcpy(&comm, context->config.mpi_comm, sizeof comm);
  return comm;
}

/* Under the mpiexec of another MPI each process is a world of its own. */
static const char *foreign_launcher(char text[256]) {
  int processes;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  snprintf(
      text, 256,
      "; if an mpiexec has started more, it is that of another MPI: this was built with %.60s, and needs the mpiexec "
      "of that (Debian: mpiexec.mpich, mpiexec.openmpi)",
      version());
  return processes == 1 ? text : "";
}

static enum reshard_status check_world(const struct reshard_context *context, struct reshard_fault *fault) {
  char more[256];
  int rank, size, processes;
  MPI_Comm_rank(parent_of(context), &rank);
  MPI_Comm_size(parent_of(context), &size);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if ((uint32_t)size != context->world && context->config.mpi_comm && context->world <= (uint32_t)processes) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                     "%s: the plan's world has %u ranks, the communicator %d; give one of these ranks, in order",
                     rsr_meeting(context), context->world, size);
  }
  if ((uint32_t)size != context->world) {
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                     "%s: the plan's world has %u ranks, MPI_COMM_WORLD %d; start %u processes (mpiexec -n %u)%s",
                     rsr_meeting(context), context->world, processes, context->world, context->world,
                     foreign_launcher(more));
  }
  if ((uint32_t)rank == context->world_rank) return RESHARD_OK;
  return rsr_fault(fault, RESHARD_INVALID_ARGUMENT,
                   "%s: world rank %u is given, but this process is rank %d of the communicator", rsr_meeting(context),
                   context->world_rank, rank);
}

static enum reshard_status mpi_open(struct reshard_context *context, struct reshard_fault *fault) {
  enum reshard_status status = start(fault);
  if (status == RESHARD_OK) status = check_world(context, fault);
  if (status != RESHARD_OK) return status;
  struct rsr_mpi *mpi = calloc(1, sizeof *mpi);
  if (!mpi) return rsr_no_memory(fault, "the MPI backend", sizeof *mpi);
  mpi->drain_request = MPI_REQUEST_NULL;
  rsr_mpi_lock();
  rsr_mpi_retired_step();
  status = rsr_line_open(parent_of(context), context->config.timeout_seconds, rsr_meeting(context), &mpi->line, fault);
  mpi->context = context;
  if (status == RESHARD_OK)
    context->own = mpi;
  else if (mpi->line)
    rsr_mpi_retire(mpi);
  else
    free(mpi);
  rsr_mpi_unlock();
  return status;
}

static enum reshard_status mpi_all_gather(struct reshard_context *context, const void *mine, size_t bytes, void *all,
                                          const char *call, struct reshard_fault *fault) {
  rsr_mpi_lock();
  struct rsr_line *line = rsr_mpi_of(context)->line;
  enum reshard_status status =
      rsr_line_all_gather(line, mine, bytes, all, context->config.timeout_seconds, call, fault);
  rsr_mpi_unlock();
  return status;
}

static enum reshard_status mpi_prepare(struct reshard_context *context, struct reshard_fault *fault) {
  return rsr_mpi_open_rounds(rsr_mpi_of(context), fault);
}

static enum reshard_status mpi_link(struct reshard_context *context, struct reshard_fault *fault) {
  rsr_mpi_lock();
  enum reshard_status status = rsr_mpi_link(rsr_mpi_of(context), fault);
  rsr_mpi_unlock();
  return status;
}

static enum reshard_status mpi_refit(struct reshard_context *context, void *stream, struct reshard_fault *fault) {
  if (stream) return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "refit: the MPI backend has no streams; give NULL");
  rsr_mpi_lock();
  rsr_mpi_begin(rsr_mpi_of(context));
  rsr_mpi_unlock();
  return RESHARD_OK;
}

/* Conversions count on nearest even and kept denormals, whatever the caller has set. */
static enum reshard_status step(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault) {
  fenv_t own;
  fegetenv(&own);
  fesetenv(FE_DFL_ENV);
  rsr_mpi_lock();
  enum reshard_status status = rsr_mpi_step(mpi, moved, fault);
  rsr_mpi_unlock();
  fesetenv(&own);
  return status;
}

/* What a refit that has ended came to is kept for wait. */
static enum reshard_status ended(struct rsr_mpi *mpi, struct reshard_fault *fault) {
  if (mpi->status != RESHARD_OK) *fault = mpi->own;
  return mpi->status;
}

static enum reshard_status mpi_query(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_mpi *mpi = rsr_mpi_of(context);
  bool moved;
  if (mpi->runs) mpi->status = step(mpi, &moved, &mpi->own);
  return mpi->runs ? RESHARD_PENDING : ended(mpi, fault);
}

static enum reshard_status mpi_wait(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_mpi *mpi = rsr_mpi_of(context);
  uint64_t idle = 0;
  while (mpi->runs) {
    bool moved = false;
    mpi->status = step(mpi, &moved, &mpi->own);
    if (moved)
      idle = 0;
    else
      rsr_mpi_idle(&idle);
  }
  return ended(mpi, fault);
}

static void mpi_quiesce(struct reshard_context *context) {
  struct rsr_mpi *mpi = rsr_mpi_of(context);
  double timeout = context->config.timeout_seconds, until = rsr_mpi_now() + QUIET_SECONDS;
  uint64_t idle = 0;
  if (timeout < QUIET_SECONDS) until = rsr_mpi_now() + timeout;
  for (bool quiet = false; !quiet && rsr_mpi_now() < until;) {
    rsr_mpi_lock();
    quiet = rsr_mpi_quiet_step(mpi);
    rsr_mpi_unlock();
    if (!quiet) rsr_mpi_idle(&idle);
  }
}

static void mpi_reset(struct reshard_context *context) {
  rsr_mpi_close_rounds(rsr_mpi_of(context));
}

static void mpi_close(struct reshard_context *context) {
  struct rsr_mpi *mpi = rsr_mpi_of(context);
  struct reshard_fault fault;
  mpi_wait(context, &fault);
  rsr_mpi_lock();
  /* A rank that could not bind, say: the others need not wait for it in prepare. */
  if (context->state == RSR_OPEN && !mpi->line->aborted) rsr_mpi_say_quiet(mpi, RSR_LEAVE);
  rsr_mpi_retire(mpi);
  rsr_mpi_unlock();
  context->own = NULL;
}

static const struct rsr_backend backend = {
    .name = "mpi",
    .open = mpi_open,
    .all_gather = mpi_all_gather,
    .prepare = mpi_prepare,
    .link = mpi_link,
    .refit = mpi_refit,
    .query = mpi_query,
    .wait = mpi_wait,
    .quiesce = mpi_quiesce,
    .reset = mpi_reset,
    .close = mpi_close,
};

/* ---- what libreshard looks up ------------------------------------------------------------------------------------ */

RESHARD_API extern const char reshard_mpi_stamp[];
RESHARD_API extern const struct rsr_mpi_plugin reshard_mpi_plugin;

const char reshard_mpi_stamp[] = RSR_STAMP;
const struct rsr_mpi_plugin reshard_mpi_plugin = {&backend, init, gather_world, version};
