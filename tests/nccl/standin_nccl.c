/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's NCCL: communicators that become ready later, groups, messages matched in order between two ranks.
 * A group starts when its stream comes to it; a message moves once both ends have started, on its own.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/nccl/standin_impl.h"

struct call_part {
  struct part part;
  struct comm *comm;
  struct stream *stream;
};

static bool is_of(const struct host *host, const struct comm *comm) {
  for (uint64_t i = 0; i < host->comms.count; i++) {
    if (host->comms.rows[i] == comm) return true;
  }
  return false;
}

bool standin_usable(struct comm *comm, const char *call) {
  struct host *host = standin_self();
  if (comm && is_of(host, comm) && comm->state != COMM_GONE) return true;
  standin_violates("rank %u: %s on a communicator that is not, or no more", host->rank, call);
  return false;
}

struct comm *standin_member(uint64_t clique, uint32_t rank) {
  for (uint32_t h = 0; h < standin.options.world; h++) {
    const struct host *host = &standin.hosts[h];
    for (uint64_t i = 0; i < host->comms.count; i++) {
      struct comm *comm = host->comms.rows[i];
      if (comm->clique == clique && comm->rank == rank && comm->state != COMM_GONE) return comm;
    }
  }
  return NULL;
}

/* ---- communicators ----------------------------------------------------------------------------------------------- */

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(struct comm *comm);
int ncclGetUniqueId(struct unique_id *id);
int ncclCommInitRankConfig(struct comm **out, int ranks, struct unique_id id, int rank, struct nccl_config *config);
int ncclCommGetAsyncError(struct comm *comm, int *error);
int ncclCommFinalize(struct comm *comm);
int ncclCommDestroy(struct comm *comm);
int ncclCommAbort(struct comm *comm);
int ncclCommRegister(struct comm *comm, void *ptr, size_t bytes, void **handle);
int ncclCommDeregister(struct comm *comm, void *handle);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void *ptr, size_t count, int dtype, int peer, struct comm *comm, struct stream *stream);
int ncclRecv(void *ptr, size_t count, int dtype, int peer, struct comm *comm, struct stream *stream);

int ncclGetVersion(int *version) {
  *version = STANDIN_NCCL_VERSION;
  return standin_enter("ncclGetVersion") ? NCCL_OK : NCCL_UNHANDLED;
}

const char *ncclGetErrorString(int result) {
  static const char *const texts[] = {"no error",         "unhandled cuda error", "system error", "internal error",
                                      "invalid argument", "invalid usage",        "remote error", "in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown";
}

const char *ncclGetLastError(struct comm *comm) {
  (void)comm;
  return "the stand-in was told to";
}

int ncclGetUniqueId(struct unique_id *id) {
  if (!standin_enter("ncclGetUniqueId")) return NCCL_UNHANDLED;
  memset(id, 0, sizeof *id);
  standin.clique++;
  memcpy(id->bytes + 40, &standin.clique, sizeof standin.clique);
  return NCCL_OK;
}

void standin_join(struct comm *comm) {
  for (uint32_t r = 0; r < comm->ranks; r++) {
    if (!standin_member(comm->clique, r)) return;
  }
  for (uint32_t r = 0; r < comm->ranks; r++) list_add(&standin.jobs, standin_member(comm->clique, r));
}

struct comm *standin_comm_of(struct host *host, uint64_t clique, uint32_t ranks, uint32_t rank) {
  struct comm *comm = calloc(1, sizeof *comm);
  CHECK(comm, "memory");
  *comm = (struct comm){.clique = clique, .rank = rank, .ranks = ranks, .host = host->rank};
  comm->out = calloc(ranks, sizeof *comm->out);
  comm->in = calloc(ranks, sizeof *comm->in);
  CHECK(comm->out && comm->in, "memory");
  if (clique == 0 || standin_member(clique, rank)) standin_violates("rank %u: a bad unique id", host->rank);
  list_add(&host->comms, comm);
  return comm;
}

struct comm *standin_new_comm(uint64_t clique, uint32_t ranks, uint32_t rank, const struct nccl_config *config) {
  struct host *host = standin_self();
  if (config->magic != 0xcafebeefu || config->size < sizeof *config || config->blocking != 0 || rank >= ranks ||
      ranks > standin.options.world || host->device != (int)host->rank)
    standin_violates("rank %u: a communicator with odd arguments, or not on its device", host->rank);
  struct comm *comm = standin_comm_of(host, clique, ranks, rank);
  comm->may_share = config->shrink_share == 1;
  return comm;
}

int ncclCommInitRankConfig(struct comm **out, int ranks, struct unique_id id, int rank, struct nccl_config *config) {
  if (!standin_enter("ncclCommInitRankConfig")) return NCCL_UNHANDLED;
  uint64_t clique;
  memcpy(&clique, id.bytes + 40, sizeof clique);
  *out = standin_new_comm(clique, (uint32_t)ranks, (uint32_t)rank, config);
  standin_self()->counts.comms++;
  standin_join(*out);
  return NCCL_IN_PROGRESS;
}

void standin_run_job(struct comm *comm) {
  list_remove(&standin.jobs, comm);
  if (comm->state == COMM_SHRINKING) standin_shrunk(comm);
  if (comm->state == COMM_LAUNCHING) {
    comm->target->launching = NULL;
    standin_queue(comm->target, comm->group);
    comm->last = comm->group;
    comm->group = NULL;
  }
  comm->state = comm->state == COMM_FLUSHING ? COMM_FLUSHED : COMM_READY;
}

int ncclCommGetAsyncError(struct comm *comm, int *error) {
  if (!standin_enter("ncclCommGetAsyncError")) return NCCL_UNHANDLED;
  if (!standin_usable(comm, "ncclCommGetAsyncError")) return NCCL_INVALID_ARGUMENT;
  bool busy = comm->state == COMM_JOINING || comm->state == COMM_LAUNCHING || comm->state == COMM_SHRINKING ||
              comm->state == COMM_FLUSHING;
  *error = comm->error ? comm->error : busy ? NCCL_IN_PROGRESS : NCCL_OK;
  return NCCL_OK;
}

bool standin_has_work(const struct comm *comm) {
  return comm->group || (comm->last && comm->last->state != OP_DONE && comm->last->submitted);
}

int ncclCommFinalize(struct comm *comm) {
  if (!standin_enter("ncclCommFinalize")) return NCCL_UNHANDLED;
  if (!standin_usable(comm, "ncclCommFinalize")) return NCCL_INVALID_ARGUMENT;
  if (comm->state != COMM_READY || standin_has_work(comm)) {
    standin_violates("rank %u: ncclCommFinalize while the communicator works", comm->host);
    return NCCL_INVALID_USAGE;
  }
  comm->state = COMM_FLUSHING;
  list_add(&standin.jobs, comm);
  return NCCL_IN_PROGRESS;
}

/* Operations of a communicator that goes: what was queued ends without a word. */
void standin_end_groups(struct comm *comm) {
  for (uint64_t i = 0; i < comm->groups.count; i++) {
    struct op *op = comm->groups.rows[i];
    if (!op->submitted || op->state == OP_DONE || op->state == OP_NEVER) continue;
    op->kind = OP_MARK;
    if (op->state == OP_READY) list_remove(&standin.ready, op);
    if (op->state == OP_STARTED) standin_unmatch(op);
    if (op->state != OP_WAITING) standin_finish(op);
  }
}

static void end_comm(struct comm *comm) {
  list_remove(&standin.jobs, comm);
  if (comm->target) comm->target->launching = NULL;
  standin_end_groups(comm);
  comm->state = COMM_GONE;
}

void standin_forget_comm(struct comm *comm) {
  for (uint32_t r = 0; r < comm->ranks; r++) {
    list_free(&comm->out[r]);
    list_free(&comm->in[r]);
  }
  list_free(&comm->groups);
  free(comm->excluded);
  free(comm->out);
  free(comm->in);
  free(comm);
}

/* The memory stays until the end: captured groups may still point there. */
static void bury(struct comm *comm) {
  struct host *host = &standin.hosts[comm->host];
  list_remove(&host->comms, comm);
  list_add(&host->dead_comms, comm);
}

int ncclCommDestroy(struct comm *comm) {
  bool good = standin_enter("ncclCommDestroy");
  if (!standin_usable(comm, "ncclCommDestroy")) return NCCL_INVALID_ARGUMENT;
  if (comm->state != COMM_FLUSHED || standin_has_captured(comm))
    standin_violates("rank %u: ncclCommDestroy before ncclCommFinalize is through, or while graphs have its groups",
                     comm->host);
  if (comm->registrations > 0) standin_violates("rank %u: buffers are still registered", comm->host);
  end_comm(comm);
  bury(comm);
  return good ? NCCL_OK : NCCL_UNHANDLED;
}

int ncclCommAbort(struct comm *comm) {
  bool good = standin_enter("ncclCommAbort");
  if (!standin_usable(comm, "ncclCommAbort")) return NCCL_INVALID_ARGUMENT;
  end_comm(comm);
  /* It takes along what shares its connections. */
  const struct host *host = standin_self();
  for (uint64_t i = 0; i < host->comms.count && comm->share > 0; i++) {
    struct comm *other = host->comms.rows[i];
    if (other->share == comm->share && other->state != COMM_GONE) other->error = NCCL_INTERNAL;
  }
  bury(comm);
  return good ? NCCL_OK : NCCL_UNHANDLED;
}

void standin_kill_comms(struct host *host) {
  for (uint64_t i = 0; i < host->comms.count; i++) {
    struct comm *comm = host->comms.rows[i];
    list_remove(&standin.jobs, comm);
    for (uint64_t k = 0; k < comm->groups.count; k++) {
      struct op *op = comm->groups.rows[k];
      if (op->parts_left > 0) standin_unmatch(op);
    }
    for (uint32_t r = 0; r < comm->ranks; r++) {
      struct comm *peer = r == comm->rank ? NULL : standin_member(comm->clique, r);
      if (peer && !standin.options.deaf && standin_random(2) == 0) peer->error = NCCL_REMOTE;
    }
    comm->state = COMM_GONE;
  }
}

int ncclCommRegister(struct comm *comm, void *ptr, size_t bytes, void **handle) {
  if (!standin_enter("ncclCommRegister")) return NCCL_UNHANDLED;
  if (!standin_usable(comm, "ncclCommRegister")) return NCCL_INVALID_ARGUMENT;
  if (!standin_is_live(comm->host, ptr, bytes)) standin_violates("rank %u: no such memory to register", comm->host);
  comm->registrations++;
  *handle = ptr;
  return NCCL_OK;
}

int ncclCommDeregister(struct comm *comm, void *handle) {
  bool good = standin_enter("ncclCommDeregister");
  if (!standin_usable(comm, "ncclCommDeregister")) return NCCL_INVALID_ARGUMENT;
  if (!handle || comm->registrations == 0 || standin_has_work(comm))
    standin_violates("rank %u: ncclCommDeregister of nothing, or while the communicator works", comm->host);
  comm->registrations--;
  return good ? NCCL_OK : NCCL_UNHANDLED;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

int ncclGroupStart(void) {
  if (!standin_enter("ncclGroupStart")) return NCCL_UNHANDLED;
  struct host *host = standin_self();
  if (host->in_group) standin_violates("rank %u: a group in a group", host->rank);
  bool drops = ++host->counts.groups == standin.options.drop_group && host->rank == standin.options.rank;
  host->in_group = !drops;
  return NCCL_OK;
}

static int message(bool is_send, void *ptr, size_t bytes, int dtype, int peer, struct comm *comm,
                   struct stream *stream) {
  struct host *host = standin_self();
  if (!standin_usable(comm, is_send ? "ncclSend" : "ncclRecv")) return NCCL_INVALID_ARGUMENT;
  if (comm->state != COMM_READY || dtype != 1 || peer < 0 || (uint32_t)peer >= comm->ranks) {
    standin_violates("rank %u: a message on a communicator that is not ready, or with odd arguments", host->rank);
    return NCCL_INVALID_USAGE;
  }
  if (!standin_is_live(host->rank, ptr, bytes))
    standin_violates("rank %u: a message from or to memory that is no one's", host->rank);
  if (!host->in_group) {
    standin_violates("rank %u: a message outside a group", host->rank);
    return NCCL_INVALID_USAGE;
  }
  if (is_send && ++host->counts.sends == standin.options.cut_message && host->rank == standin.options.rank) bytes--;
  struct call_part *call = calloc(1, sizeof *call);
  CHECK(call, "memory");
  call->part = (struct part){.ptr = ptr, .bytes = bytes, .peer = (uint32_t)peer, .is_send = is_send};
  call->comm = comm;
  call->stream = stream;
  list_add(&host->group_parts, call);
  return NCCL_OK;
}

int ncclSend(const void *ptr, size_t count, int dtype, int peer, struct comm *comm, struct stream *stream) {
  if (!standin_enter("ncclSend")) return NCCL_UNHANDLED;
  return message(true, (void *)(uintptr_t)ptr, count, dtype, peer, comm, stream);
}

int ncclRecv(void *ptr, size_t count, int dtype, int peer, struct comm *comm, struct stream *stream) {
  if (!standin_enter("ncclRecv")) return NCCL_UNHANDLED;
  return message(false, ptr, count, dtype, peer, comm, stream);
}

/* Of all that was said since ncclGroupStart. */
static struct op *new_group(struct host *host) {
  uint64_t count = host->group_parts.count;
  struct call_part *call = host->group_parts.rows[0];
  struct op *op = standin_op(OP_GROUP, host->rank);
  op->comm = call->comm;
  op->parts = calloc(count, sizeof *op->parts);
  CHECK(op->parts, "memory");
  for (uint64_t i = 0; i < count; i++) {
    struct call_part *next = host->group_parts.rows[i];
    if (next->comm != call->comm || next->stream != call->stream)
      standin_violates("rank %u: a group on two communicators or streams", host->rank);
    op->parts[i] = next->part;
  }
  op->part_count = count;
  list_add(&call->comm->groups, op);
  return op;
}

static void launch(struct stream *stream, struct comm *comm, struct op *op) {
  comm->group = op;
  comm->target = stream;
  comm->state = COMM_LAUNCHING;
  stream->launching = comm;
  list_add(&standin.jobs, comm);
}

/* As a mutation, after the next one. */
static void queue_group(struct host *host, struct comm *comm, struct stream *stream) {
  struct op *op = new_group(host);
  if (host->rank == standin.options.rank && host->counts.groups == standin.options.swap_group) {
    host->held = op;
  } else if (host->held) {
    standin_queue(stream, op);
    launch(stream, comm, host->held);
    host->held = NULL;
  } else {
    launch(stream, comm, op);
  }
}

int ncclGroupEnd(void) {
  struct host *host = standin_self();
  bool good = standin_enter("ncclGroupEnd");
  if (!host->in_group) standin_violates("rank %u: ncclGroupEnd without ncclGroupStart", host->rank);
  host->in_group = false;
  struct call_part *first = host->group_parts.count > 0 ? host->group_parts.rows[0] : NULL;
  int rc = NCCL_OK;
  if (good && first && first->stream->launching) {
    standin_violates("rank %u: ncclGroupEnd while the group before is still launched", host->rank);
    rc = NCCL_INVALID_USAGE;
  } else if (good && first) {
    queue_group(host, first->comm, first->stream);
    rc = first->comm->state == COMM_LAUNCHING ? NCCL_IN_PROGRESS : NCCL_OK;
    if (rc == NCCL_IN_PROGRESS && standin_random(2) == 0) {
      standin_run_job(first->comm);
      rc = NCCL_OK;
    }
  }
  for (uint64_t i = 0; i < host->group_parts.count; i++) free(host->group_parts.rows[i]);
  host->group_parts.count = 0;
  standin_free_early(host);
  return good ? rc : NCCL_UNHANDLED;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void match(struct list *sends, struct list *receives) {
  if (sends->count == 0 || receives->count == 0) return;
  struct part *send = sends->rows[0], *receive = receives->rows[0];
  if (send->bytes != receive->bytes) {
    standin_violates("rank %u sends %llu bytes to rank %u, which receives %llu", receive->peer,
                     (unsigned long long)send->bytes, send->peer, (unsigned long long)receive->bytes);
    return;
  }
  memmove(sends->rows, sends->rows + 1, --sends->count * sizeof *sends->rows);
  memmove(receives->rows, receives->rows + 1, --receives->count * sizeof *receives->rows);
  send->other = receive;
  receive->other = send;
  list_add(&standin.pairs, send);
}

void standin_start_group(struct op *op) {
  struct comm *comm = op->comm;
  if (comm->state == COMM_GONE) {
    standin_violates("rank %u: a group of a communicator that is gone", op->rank);
    standin_finish(op);
    return;
  }
  op->parts_left = op->part_count;
  for (uint64_t i = 0; i < op->part_count; i++) {
    struct part *part = &op->parts[i];
    part->group = op;
    list_add(part->is_send ? &comm->out[part->peer] : &comm->in[part->peer], part);
    struct comm *peer = standin_member(comm->clique, part->peer);
    if (!peer) continue;
    if (part->is_send)
      match(&comm->out[part->peer], &peer->in[comm->rank]);
    else
      match(&peer->out[comm->rank], &comm->in[part->peer]);
  }
  if (op->part_count == 0) standin_finish(op);
}

void standin_unmatch(struct op *op) {
  for (uint64_t i = 0; i < op->part_count; i++) {
    struct part *part = &op->parts[i];
    if (part->done) continue;
    list_remove(&op->comm->out[part->peer], part);
    list_remove(&op->comm->in[part->peer], part);
    if (!part->other) continue;
    list_remove(&standin.pairs, part->is_send ? part : part->other);
    part->other->other = NULL;
  }
}
