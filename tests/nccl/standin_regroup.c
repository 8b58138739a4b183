/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's ncclCommShrink and ncclCommGrow, with what NCCL asks of their callers. In: communicators; out: others,
 * once all that must call have called. Before 2.29 there is no ncclCommGrow.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/nccl/standin_impl.h"

/* An id to grow one clique into another. */
struct grow {
  uint64_t parent, clique;
  uint32_t ranks, came; /* of the parent; those of the grown one that have called */
  struct comm *root;
  bool is_used;
};

int ncclCommShrink(struct comm *comm, int *excluded, int count, struct comm **child, struct nccl_config *config,
                   int flags);
#if STANDIN_NCCL_VERSION >= 22900
int ncclCommGetUniqueId(struct comm *comm, struct unique_id *id);
int ncclCommGrow(struct comm *comm, int ranks, const struct unique_id *id, int rank, struct comm **grown,
                 struct nccl_config *config);
#endif

static bool at_rest(struct comm *comm, const char *call) {
  if (!standin_usable(comm, call)) return false;
  if (comm->state == COMM_READY && !standin_has_work(comm)) return true;
  standin_violates("rank %u: %s while the communicator works", comm->host, call);
  return false;
}

/* ---- shrinking ----------------------------------------------------------------------------------------------------
 */

static bool is_excluded(const struct comm *comm, uint32_t rank) {
  for (int i = 0; i < comm->excluded_count; i++) {
    if (comm->excluded[i] == (int)rank) return true;
  }
  return false;
}

static bool same_call(const struct comm *a, const struct comm *b) {
  return a->flags == b->flags && a->excluded_count == b->excluded_count &&
         memcmp(a->excluded, b->excluded, (size_t)a->excluded_count * sizeof(int)) == 0;
}

/* All that stay have called. */
static bool all_shrink(const struct comm *comm) {
  for (uint32_t r = 0; r < comm->ranks; r++) {
    if (is_excluded(comm, r)) continue;
    const struct comm *other = standin_member(comm->clique, r);
    if (!other || other->state != COMM_SHRINKING) return false;
    if (!same_call(comm, other)) standin_violates("rank %u: ncclCommShrink unlike rank %u's", comm->host, other->host);
  }
  return true;
}

static void give_children(const struct comm *comm) {
  standin.clique++;
  for (uint32_t r = 0; r < comm->ranks; r++) {
    if (is_excluded(comm, r)) continue;
    struct comm *parent = standin_member(comm->clique, r);
    parent->child_clique = standin.clique;
    list_add(&standin.jobs, parent);
  }
}

/* The child's rank is the parent's less those that are gone before it. */
void standin_shrunk(struct comm *parent) {
  uint32_t rank = 0, ranks = parent->ranks - (uint32_t)parent->excluded_count;
  struct host *host = &standin.hosts[parent->host];
  for (uint32_t r = 0; r < parent->rank; r++) rank += !is_excluded(parent, r);
  struct comm *child = standin_comm_of(host, parent->child_clique, ranks, rank);
  child->may_share = parent->may_share;
  child->state = COMM_READY;
  if (parent->may_share && parent->flags == 0) {
    if (parent->share == 0) parent->share = ++standin.shares;
    child->share = parent->share;
  }
  host->counts.shrunk++;
  *parent->child = child;
}

int ncclCommShrink(struct comm *comm, int *excluded, int count, struct comm **child, struct nccl_config *config,
                   int flags) {
  if (!standin_enter("ncclCommShrink")) return NCCL_UNHANDLED;
  if (!standin_usable(comm, "ncclCommShrink")) return NCCL_INVALID_ARGUMENT;
  if (comm->error) return comm->error;
  if (flags & 1) standin_end_groups(comm);
  if (!at_rest(comm, "ncclCommShrink")) return NCCL_INVALID_USAGE;
  comm->excluded = realloc(comm->excluded, (size_t)(count > 0 ? count : 1) * sizeof *excluded);
  CHECK(comm->excluded, "memory");
  memcpy(comm->excluded, excluded, (size_t)count * sizeof *excluded);
  comm->excluded_count = count;
  comm->flags = flags;
  comm->child = child;
  bool good = count > 0 && count < (int)comm->ranks && !is_excluded(comm, comm->rank) && config->blocking == 0;
  for (int i = 0; i < count; i++)
    good = good && excluded[i] >= 0 && excluded[i] < (int)comm->ranks && (i == 0 || excluded[i] > excluded[i - 1]);
  if (!good) standin_violates("rank %u: ncclCommShrink with odd arguments", comm->host);
  comm->state = COMM_SHRINKING;
  if (good && all_shrink(comm)) give_children(comm);
  return NCCL_IN_PROGRESS;
}

/* ---- growing ------------------------------------------------------------------------------------------------------
 */

#if STANDIN_NCCL_VERSION >= 22900

/* Of a parent the one that is not used; of an id, whichever it is. */
static struct grow *grow_of(uint64_t parent, uint64_t clique) {
  for (uint64_t i = 0; i < standin.grows.count; i++) {
    struct grow *grow = standin.grows.rows[i];
    if (grow->is_used ? false : parent ? grow->parent == parent : grow->clique == clique) return grow;
  }
  return NULL;
}

int ncclCommGetUniqueId(struct comm *comm, struct unique_id *id) {
  if (!standin_enter("ncclCommGetUniqueId")) return NCCL_UNHANDLED;
  if (!at_rest(comm, "ncclCommGetUniqueId")) return NCCL_INVALID_USAGE;
  if (comm->error) return comm->error;
  if (grow_of(comm->clique, 0)) standin_violates("rank %u: ncclCommGetUniqueId before the last id is used", comm->host);
  struct grow *grow = calloc(1, sizeof *grow);
  CHECK(grow, "memory");
  *grow = (struct grow){.parent = comm->clique, .clique = ++standin.clique, .ranks = comm->ranks, .root = comm};
  list_add(&standin.grows, grow);
  memset(id, 0, sizeof *id);
  memcpy(id->bytes + 40, &grow->clique, sizeof grow->clique);
  return NCCL_OK;
}

static bool good_grow(const struct comm *comm, const struct grow *grow, uint64_t clique, int ranks, int rank) {
  if (!grow || ranks <= (int)grow->ranks) return false;
  if (comm) return rank == -1 && (comm == grow->root ? clique == grow->clique : clique == 0);
  return rank >= (int)grow->ranks && rank < ranks;
}

int ncclCommGrow(struct comm *comm, int ranks, const struct unique_id *id, int rank, struct comm **grown,
                 struct nccl_config *config) {
  if (!standin_enter("ncclCommGrow")) return NCCL_UNHANDLED;
  if (comm && !at_rest(comm, "ncclCommGrow")) return NCCL_INVALID_USAGE;
  if (comm && comm->error) return comm->error;
  uint64_t clique = 0;
  if (id) memcpy(&clique, id->bytes + 40, sizeof clique);
  struct grow *grow = grow_of(comm ? comm->clique : 0, clique);
  if (!good_grow(comm, grow, clique, ranks, rank)) {
    standin_violates("rank %u: ncclCommGrow with odd arguments, or without an id", standin_self()->rank);
    return NCCL_INVALID_ARGUMENT;
  }
  uint32_t place = comm ? comm->rank : (uint32_t)rank;
  *grown = standin_new_comm(grow->clique, (uint32_t)ranks, place, config);
  grow->is_used = ++grow->came == (uint32_t)ranks;
  standin_self()->counts.grown++;
  standin_join(*grown);
  return NCCL_IN_PROGRESS;
}

#endif
