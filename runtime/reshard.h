/* SPDX-License-Identifier: Apache-2.0
 *
 * libreshard: replay a plan. Every training rank's parameters go to every inference rank's, as `reshardc` planned it.
 *
 *   reshard_open -> reshard_context_open -> reshard_bind ... -> reshard_prepare -> { reshard_refit, reshard_wait } ...
 *                -> reshard_context_close -> reshard_close
 *
 * Ranks are world ranks: all training ranks, then all inference ranks, unless a cluster file puts one of each on the
 * same GPU (then that process has both roles). Every rank of the world takes part, with an empty program too.
 *
 * Collective calls (context, prepare, wait, swap, regroup) must be made by every rank of the world, in the same order.
 * They end on every live rank within the timeout (wait with a caller's all-gather: one and a quarter), with an error if
 * a rank is dead, failed, late, or made another call.
 *
 * Threads: a plan is read-only and may be shared. One context belongs to one thread at a time; different
 * contexts are independent. With the host backend each rank's calls come from a thread of its own.
 * Sizes are 64-bit bytes; nothing here prints, reads the environment or exits.
 * Structs that the caller fills begin with their size, so that they can grow; use the _init functions.
 */
#ifndef RESHARD_H
#define RESHARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RESHARD_API __attribute__((visibility("default")))
#else
#define RESHARD_API
#endif

enum reshard_status {
  RESHARD_OK = 0,
  RESHARD_PENDING,          /* query: the refit still runs; not an error */
  RESHARD_INVALID_ARGUMENT, /* a null pointer, a rank beyond the world, an unknown enum value or flag */
  RESHARD_WRONG_STATE,      /* the call does not fit here: refit before prepare, bind during a refit */
  RESHARD_CANNOT_READ,      /* the plan file cannot be opened or mapped */
  RESHARD_BAD_PLAN,         /* its bytes break a rule of the format, or two ranks' programs do not fit together */
  RESHARD_PLAN_DIFFERS,     /* the ranks do not have the same plan; the text shows both ids */
  RESHARD_UNKNOWN_BUFFER,   /* this rank holds no buffer of that name on that side */
  RESHARD_WRONG_SIZE,       /* bytes differ from the plan's */
  RESHARD_WRONG_ALIGNMENT,  /* the pointer is not aligned to the element, or is NULL */
  RESHARD_OVERLAP,          /* prepare: an inference buffer shares bytes with another buffer of this rank */
  RESHARD_UNBOUND,          /* prepare: a buffer has no pointer */
  RESHARD_NO_MEMORY,
  RESHARD_TIMEOUT,       /* a rank did not arrive or did not answer */
  RESHARD_PEER_FAILED,   /* another rank failed; the text is that rank's */
  RESHARD_UNSUPPORTED,   /* this build or backend cannot do it */
  RESHARD_CORRUPT,       /* RESHARD_VERIFY: what arrived is not what was sent */
  RESHARD_BACKEND_FAILED /* a call of CUDA, NCCL or MPI failed; the text says which and why */
};

enum reshard_side { RESHARD_TRAIN = 0, RESHARD_INFER = 1 };
enum reshard_backend {
  RESHARD_HOST = 0, /* every rank a thread of this process, plain memory */
  RESHARD_MPI = 1,  /* every rank a process, plain memory, MPI point to point; staged */
  RESHARD_NCCL = 2  /* every rank a GPU, NCCL send and receive, CUDA kernels; staged */
};
/* STAGED runs the plan's rounds and staging as a network would; FUSED copies straight from buffer to buffer. */
enum reshard_mode { RESHARD_STAGED = 0, RESHARD_FUSED = 1 };

#define RESHARD_NO_RANK UINT32_MAX
#define RESHARD_NO_ROUND UINT32_MAX

struct reshard_plan;
struct reshard_context;
struct reshard_host_group;
struct reshard_directory;

/* What went wrong, in words and in parts. Strings are NUL-terminated, cut at the end if need be, "" where unknown. */
struct reshard_fault {
  enum reshard_status status;
  uint32_t rank;    /* world rank that failed first, or RESHARD_NO_RANK */
  uint32_t peer;    /* the other end, or RESHARD_NO_RANK */
  uint32_t round;   /* or RESHARD_NO_ROUND */
  uint32_t line;    /* of `file`, from 1; 0: unknown */
  char what[512];   /* a whole sentence with the cause and the cure */
  char buffer[256]; /* the buffer concerned */
  char file[256];   /* the layout file that describes it */
};

/* "RESHARD_TIMEOUT: a rank did not arrive"; static storage; any value. Thread-safe. */
RESHARD_API const char *reshard_status_text(enum reshard_status status);

/* ---- the plan ---------------------------------------------------------------------------------------------- */

/* Opens the plan file: checks the header. The slice of a rank is read by reshard_context_open, which sees that it is
 * still the same plan. On success *plan is the caller's, to be closed after its contexts. `fault` may be NULL; it is
 * filled on failure. CANNOT_READ, BAD_PLAN, NO_MEMORY. Thread-safe. */
RESHARD_API enum reshard_status reshard_open(const char *path, struct reshard_plan **plan, struct reshard_fault *fault);
/* The same over `bytes` bytes of memory, 8-aligned, which must outlive the plan; checks the whole plan. */
RESHARD_API enum reshard_status reshard_open_memory(const void *data, size_t bytes, struct reshard_plan **plan,
                                                    struct reshard_fault *fault);
/* NULL is fine. No context of the plan may be open. */
RESHARD_API void reshard_close(struct reshard_plan *plan);

struct reshard_plan_info {
  uint32_t world, train_world, infer_world, rounds;
  uint8_t plan_id[16];
  uint64_t staging_limit; /* bytes per rank, at most */
};
/* Thread-safe. */
RESHARD_API void reshard_plan_get(const struct reshard_plan *plan, struct reshard_plan_info *info);

/* ---- MPI ------------------------------------------------------------------------------------------------------- */

/* For programs that have no MPI of their own: they, and libreshard, are linked with none; the first of these calls
 * opens libreshard_mpi.so, from beside libreshard or where the loader looks. UNSUPPORTED, with the reason, if it is not
 * there.
 *
 * One thread at a time calls MPI in this library; a program that uses MPI in other threads meanwhile needs
 * MPI_THREAD_MULTIPLE. */

/* Collective over the processes that mpiexec started; waits for them without a timeout, as MPI_Init does. Initialises
 * MPI if that was not done, and then finalises it at exit; but where a rank did not arrive or answer and no context was
 * opened after that, exit ends the whole job with status 1, as MPI_Finalize would wait for that rank for ever. Gives
 * the rank and the size of MPI_COMM_WORLD; pointers may be NULL. context_open on MPI_COMM_WORLD needs no such call
 * before it. UNSUPPORTED, WRONG_STATE (MPI was finalised), NO_MEMORY. */
RESHARD_API enum reshard_status reshard_mpi_init(uint32_t *rank, uint32_t *size, struct reshard_fault *fault);
/* A reshard_all_gather_fn over MPI_COMM_WORLD, for other backends and for the caller's own words; the status, and the
 * user's data is NULL or a struct reshard_fault to be filled. After a failure every rank may call it again. */
RESHARD_API int reshard_mpi_all_gather(void *fault, const void *mine, size_t bytes, void *all, double timeout_seconds);
/* "Open MPI v4.1.4, ...", after the first call of another one here; NULL without a plugin. Static storage. */
RESHARD_API const char *reshard_mpi_version(void);

/* ---- a rank's context ---------------------------------------------------------------------------------------- */

/* Where the rank threads of one process meet. One context per rank at a time; after an error close all contexts, free
 * the group and make a new one. Free it after its contexts. */
RESHARD_API enum reshard_status reshard_host_group_new(uint32_t world, struct reshard_host_group **group);
RESHARD_API void reshard_host_group_free(struct reshard_host_group *group);
/* For a rank thread that cannot go on: ends the collective calls of all others with PEER_FAILED and this text.
 * Thread-safe. */
RESHARD_API void reshard_host_group_abort(struct reshard_host_group *group, uint32_t world_rank, const char *text);

/* The caller's control channel: fills all[0 .. world * bytes) with every rank's `mine`, in world rank order, on every
 * rank; 0 on success, anything else if a rank does not arrive within the timeout. Control messages never travel with
 * the data. `bytes` is the same on all ranks. A gather that has failed on one rank must not succeed on another that
 * comes late: else a refit may count as whole there and not here. The channels below, and MPI's, see to that. */
typedef int (*reshard_all_gather_fn)(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds);

/* A control channel for processes that share a directory: set config.all_gather to reshard_directory_gather and
 * config.all_gather_user to what open gives. Open is collective and ends within the timeout; what an earlier job has
 * left in the directory does no harm, but jobs that run at the same time need one each. A channel serves one context at
 * a time, by one thread. The directory's file system must show a file to other hosts well within the timeout, and have
 * symbolic links. Open:
 * CANNOT_READ, TIMEOUT (rank 0 names a rank that did not come), INVALID_ARGUMENT, NO_MEMORY. NULL is fine for close,
 * which leaves small files that the next job removes. */
RESHARD_API enum reshard_status reshard_directory_open(const char *path, uint32_t rank, uint32_t world,
                                                       double timeout_seconds, struct reshard_directory **directory,
                                                       struct reshard_fault *fault);
RESHARD_API int reshard_directory_gather(void *directory, const void *mine, size_t bytes, void *all,
                                         double timeout_seconds);
RESHARD_API void reshard_directory_close(struct reshard_directory *directory);

/* Poison staging and watch its edges (nccl: poison it at prepare, no more): finds wrong overlaps, costs time. */
#define RESHARD_GUARD 1u
#define RESHARD_VERIFY 2u   /* hash what is sent and what arrives (fused: compare); costs time; on all ranks */
#define RESHARD_NO_GRAPH 4u /* nccl: enqueue every refit anew, without a CUDA graph */
#define RESHARD_REGISTER 8u /* nccl: register the buffers of direct messages with the communicator */

/* For tests: what one rank does wrong. nccl: then refits are enqueued anew, and what is captured is left alone. */
enum reshard_inject_kind {
  RESHARD_INJECT_NONE = 0,
  RESHARD_INJECT_DIE,       /* stops without a word before the exchange of `round` (fused: before its copies) */
  RESHARD_INJECT_FAIL,      /* reports a failure there */
  RESHARD_INJECT_NO_MEMORY, /* prepare cannot allocate its staging */
  RESHARD_INJECT_STALL,     /* sleeps `seconds` there; nccl: in refit, until the timeout at most */
  RESHARD_INJECT_FLIP /* host, mpi: a byte of what it receives in `round` is changed, once (fused, with VERIFY: of its
                         first copy) */
};
struct reshard_inject {
  enum reshard_inject_kind kind;
  uint32_t round;
  double seconds;
};

struct reshard_config {
  size_t struct_bytes; /* sizeof(struct reshard_config); set by _init */
  enum reshard_backend backend;
  enum reshard_mode mode;
  struct reshard_host_group *group; /* host: required, shared by all ranks; borrowed until the context is closed */
  double timeout_seconds;           /* 0: 30. Host: since any rank last made progress */
  uint64_t delay_seed;              /* host, staged: not 0: seeded delays and orders of work on this rank */
  uint32_t flags;                   /* RESHARD_GUARD ... */
  reshard_all_gather_fn all_gather; /* required by backends without a control channel of their own; host: may be NULL */
  void *all_gather_user;
  const void *mpi_comm;     /* mpi: an MPI_Comm * with the world's ranks in order, duplicated; NULL: MPI_COMM_WORLD */
  const char *cuda_library; /* nccl: path of libcudart; NULL: by its usual names. Read by context_open only */
  const char *nccl_library; /* nccl: path of libnccl; NULL: by its usual names */
  int device;               /* nccl: number of the CUDA device of this rank; -1: the current one of this thread */
  struct reshard_inject inject;
};
/* Host, fused, no group, 30 s. */
RESHARD_API void reshard_config_init(struct reshard_config *config);

/* Collective; others may call regroup with the same plan. Maps and checks this rank's slice, agrees on plan_id with all
 * ranks: if the plans differ, every rank gets PLAN_DIFFERS with both ids. On success *context is the caller's; `plan`
 * is borrowed until it is closed or swapped. `fault` may be NULL. INVALID_ARGUMENT, BAD_PLAN, CANNOT_READ,
 * PLAN_DIFFERS, TIMEOUT, PEER_FAILED, NO_MEMORY. */
RESHARD_API enum reshard_status reshard_context_open(struct reshard_plan *plan, uint32_t world_rank,
                                                     const struct reshard_config *config,
                                                     struct reshard_context **context, struct reshard_fault *fault);
/* Waits for a running refit to end (bounded by the timeout), then frees all. NULL is fine. Not collective. */
RESHARD_API void reshard_context_close(struct reshard_context *context);

/* The buffers that this rank must bind, both sides, in plan order. Strings and dims are the context's, valid until it
 * is closed or swapped; `name` has `name_bytes` bytes and no NUL at its end. */
struct reshard_buffer_info {
  enum reshard_side side;
  const char *name;
  size_t name_bytes;
  const char *dtype; /* "bf16" */
  uint32_t ndim;
  const uint64_t *dims; /* the local shape */
  uint64_t bytes;
  uint32_t align; /* the pointer must be a multiple of it */
  void *bound;    /* the pointer, or NULL */
};
RESHARD_API uint64_t reshard_buffer_count(const struct reshard_context *context);
/* `index` below the count; INVALID_ARGUMENT otherwise. */
RESHARD_API enum reshard_status reshard_buffer_get(const struct reshard_context *context, uint64_t index,
                                                   struct reshard_buffer_info *info);

/* Gives a buffer its address: `ptr` is `bytes` bytes, row-major, the caller's, and stays valid and in place until it is
 * bound anew or the context is closed. Training buffers are only read; inference buffers are written, and what has
 * arrived in them may be read to be passed on. An empty buffer may be NULL. Binding a name again replaces its pointer,
 * and prepare must run again.
 * UNKNOWN_BUFFER, WRONG_SIZE, WRONG_ALIGNMENT, WRONG_STATE (a refit runs). */
RESHARD_API enum reshard_status reshard_bind(struct reshard_context *context, enum reshard_side side, const char *name,
                                             void *ptr, uint64_t bytes);
/* The same with a name of `name_bytes` bytes, which may hold any byte. */
RESHARD_API enum reshard_status reshard_bind_n(struct reshard_context *context, enum reshard_side side,
                                               const char *name, size_t name_bytes, void *ptr, uint64_t bytes);
/* As bind, for a name that has been bound: its address moved. WRONG_STATE if it was never bound. Every rank must call
 * prepare before the next refit, also those that moved nothing. */
RESHARD_API enum reshard_status reshard_rebind(struct reshard_context *context, enum reshard_side side,
                                               const char *name, void *ptr, uint64_t bytes);

/* Collective. Every buffer must be bound (UNBOUND names the first that is not), and no inference buffer may share bytes
 * with another buffer, but that two inference buffers may be bound to the very same ones (tied weights). Allocates
 * staging and programs, sets the padding of the inference buffers to zero. May be called again. */
RESHARD_API enum reshard_status reshard_prepare(struct reshard_context *context);

/* Starts one refit and returns; allocates nothing and plans nothing. `stream`: of the backend; host: NULL. The training
 * buffers must not change, and the inference buffers not be used, until wait returns. WRONG_STATE unless prepared and
 * idle, INVALID_ARGUMENT for a stream where there are none: nothing has begun then. A failure of the refit itself is
 * reported by query and wait.
 * nccl: if the stream is being captured, the refit becomes part of the caller's graph. Every launch of it is a refit:
 * all ranks launch theirs, on the stream that it was captured from, and then call wait, each time. */
RESHARD_API enum reshard_status reshard_refit(struct reshard_context *context, void *stream);
/* PENDING while the refit runs on this rank; then its status here. Does not advance the version: wait does. */
RESHARD_API enum reshard_status reshard_query(struct reshard_context *context);
/* Collective. Ends the refit: all ranks agree that it is whole, and only then the version goes up by one, on all.
 * An error on any rank is an error on all; the destinations may then be torn, the version stays, no rank reads or
 * writes the caller's buffers any more, and the context can only be closed or go to another group (regroup).
 * WRONG_STATE without a refit. */
RESHARD_API enum reshard_status reshard_wait(struct reshard_context *context);

/* Which ranks of the two sides this world rank is, as the layouts count them; RESHARD_NO_RANK where it is none.
 * Pointers may be NULL. To be held against what the framework says that this process is. */
RESHARD_API void reshard_ranks(const struct reshard_context *context, uint32_t *train_rank, uint32_t *infer_rank);

/* The number of whole refits of this context, the same on all ranks; one that opens beside others that regroup goes on
 * from theirs. */
RESHARD_API uint64_t reshard_version(const struct reshard_context *context);
/* The last error of any call on this context; status RESHARD_OK if there was none. */
RESHARD_API void reshard_last_fault(const struct reshard_context *context, struct reshard_fault *fault);

/* Collective. Goes over to another plan of the same world: the version and the pointers of buffers that the new plan
 * holds under the same side, name and size stay; the others are to be bound; then prepare. On failure all ranks
 * fail alike, and the context is as it was if they could agree. The old plan may then be closed. */
RESHARD_API enum reshard_status reshard_swap(struct reshard_context *context, struct reshard_plan *plan);

/* Goes over to another plan, of another world: ranks have left, died or joined, or have other numbers. Collective over
 * the new world: those that stay call regroup, with their new world rank; those that join call context_open, with the
 * same plan, and need not know of the others; those that leave close their contexts, before or meanwhile. It may follow
 * a failed wait, prepare, swap or regroup, when the context could else only be closed. No refit may run, no captured
 * one be launched; with nccl, graphs that a refit was captured into are destroyed before.
 *
 * `config` is that of the new world: `group` is a new group (host), `mpi_comm` a communicator of its ranks (mpi),
 * `all_gather` a channel between them. Timeout, flags and inject are taken, too; backend and mode must be the same;
 * device and libraries stay. nccl: what NCCL can leave of the old communicator's connections stays (docs/nccl.md).
 *
 * Then the version is the largest that any rank had, on all; the pointers of buffers that this rank's part of the new
 * plan holds under the same side, name and size stay; the others are to be bound; then prepare. The old plan may be
 * closed.
 *
 * On failure all ranks of the new world fail alike, within the timeout. If they have not agreed to go over (a rank that
 * did not come, plans that differ, a slice that cannot be read), the context is as it was. If the new connection failed
 * after that, which only nccl has, the context has the new plan and its old version and can do nothing but regroup
 * again or be closed; the fault says so. INVALID_ARGUMENT, WRONG_STATE (a refit runs), and all of context_open. */
RESHARD_API enum reshard_status reshard_regroup(struct reshard_context *context, struct reshard_plan *plan,
                                                uint32_t world_rank, const struct reshard_config *config);

#ifdef __cplusplus
}
#endif

#endif
