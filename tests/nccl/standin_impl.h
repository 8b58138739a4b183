/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's own forms: operations, streams, ranks, and how calls become points of scheduling.
 */
#ifndef TESTS_NCCL_STANDIN_IMPL_H
#define TESTS_NCCL_STANDIN_IMPL_H

#include <pthread.h>
#include <semaphore.h>

#include "kernels/batch.h"
#include "tests/nccl/standin.h"

/* A list of pointers. */
struct list {
  void **rows;
  uint64_t count, room;
};
void list_add(struct list *list, void *row);
void list_remove(struct list *list, void *row); /* changes the order */
void list_free(struct list *list);

enum op_kind { OP_MARK, OP_KERNEL, OP_COPY, OP_SET, OP_GROUP };
enum op_state { OP_WAITING, OP_READY, OP_STARTED, OP_DONE, OP_NEVER };

struct comm;
struct op;

/* A send or a receive of a group. */
struct part {
  struct op *group;
  unsigned char *ptr;
  uint64_t bytes;
  uint32_t peer;
  bool is_send;
  struct part *other; /* once matched */
  bool done;
};

/* What a stream has to do. Of a captured graph: what it will have to do, never scheduled itself. */
struct op {
  enum op_kind kind;
  enum op_state state;
  uint32_t rank;
  uint64_t number;
  struct stream *stream;
  struct list needs, next; /* before it; after it */
  uint64_t missing;        /* needs that are not done */
  bool submitted;          /* not of a captured one */
  const void *image;       /* kernel */
  struct rsk_launch launch;
  unsigned char *dst; /* copy, set */
  const unsigned char *src;
  int value;
  uint64_t bytes;
  struct comm *comm; /* group */
  struct part *parts;
  uint64_t part_count, parts_left;
  struct op *copy; /* of a captured one: its last instance */
  bool reached;    /* from the end of its capture */
};

struct graph {
  uint32_t rank;
  struct list ops;
  struct stream *origin;
  bool broken; /* something happened that a capture does not allow */
  bool ended;
  struct op *ran; /* executable: the end of its last launch */
};

struct stream {
  uint32_t rank, lane; /* number of the rank's stream */
  struct op *last;     /* of the queue, or of the capture */
  struct op *saved;    /* of the queue, during a capture */
  struct graph *capture;
  struct comm *launching; /* a group of this communicator is on its way to the stream */
};

struct event {
  uint32_t rank;
  struct op *op;
  struct graph *capture; /* op belongs to it */
};

enum nccl_result {
  NCCL_OK = 0,
  NCCL_UNHANDLED = 1,
  NCCL_INTERNAL = 3,
  NCCL_INVALID_ARGUMENT = 4,
  NCCL_INVALID_USAGE = 5,
  NCCL_REMOTE = 6,
  NCCL_IN_PROGRESS = 7
};

struct unique_id {
  char bytes[128];
};

/* The form of 2.28, as far as it is looked at. */
struct nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking, ctas[3];
  const char *net;
  int share, traffic;
  const char *name;
  int more[2], shrink_share;
};

enum comm_state { COMM_JOINING, COMM_READY, COMM_LAUNCHING, COMM_SHRINKING, COMM_FLUSHING, COMM_FLUSHED, COMM_GONE };

struct comm {
  uint64_t clique;      /* communicators of one id */
  uint32_t rank, ranks; /* in it */
  uint32_t host;        /* whose it is */
  bool may_share;
  uint64_t share; /* communicators of a host with connections in common; 0: none */
  /* shrinking */
  int *excluded, excluded_count, flags;
  struct comm **child;
  uint64_t child_clique;
  enum comm_state state;
  int error;
  struct op *group;      /* on its way to a stream */
  struct stream *target; /* that stream */
  struct op *last;       /* group that was queued last */
  struct list *out, *in; /* parts that have started, by peer, not matched */
  struct list groups;    /* all that were queued */
  uint64_t registrations;
};

enum host_state { HOST_READY, HOST_SLEEPING, HOST_BLOCKED, HOST_ENDED };

/* A rank: its thread, its device. */
struct host {
  uint32_t rank;
  pthread_t thread;
  sem_t go; /* posted when it is its turn */
  enum host_state state;
  bool dead;
  uint64_t wake; /* ns */
  bool (*ready)(void *arg);
  void *ready_arg;
  const char *why;
  int device; /* current */
  bool in_group, is_exhausted;
  struct list group_parts; /* struct call_part */
  struct op *held;         /* a group that is to change places */
  void *early, *was_early; /* a block that is to be freed too early; that was */
  struct stream *legacy;
  struct list streams, events, graphs, execs, libraries, comms;
  struct list buried, dead_graphs, dead_comms; /* destroyed: kept, as operations point there */
  struct standin_counts counts;
  uint64_t allocations; /* live, without the caller's */
  uint32_t lanes;
};

struct standin {
  struct standin_options options;
  struct host *hosts;
  uint64_t random, now, clique, shares;
  uint32_t live;                  /* threads */
  struct list ops;                /* all that were made, to free them */
  struct list ready, pairs, jobs; /* struct op, struct part (the send), struct comm */
  struct list channels;
  struct list grows; /* struct grow: ids of CommGetUniqueId */
  uint64_t op_count, unfinished, idle;
  uint32_t lag;          /* the rank or kind of work that the seed holds back */
  uint64_t until, eager; /* how many more picks; how often a rank goes on before bodies run */
  char violation[300], stuck[4000];
};
extern struct standin standin;

/* The calling rank. */
struct host *standin_self(void);
void standin_violates(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- scheduling -------------------------------------------------------------------------------------------------- */

/* A call begins: others may go on first. False: it is the one that must fail. */
bool standin_enter(const char *name);
/* Until ready(arg), or the time is `deadline` (ns; UINT64_MAX: never). */
void standin_block(const char *why, bool (*ready)(void *arg), void *arg, uint64_t deadline);
uint64_t standin_random(uint64_t below);

/* ---- operations -------------------------------------------------------------------------------------------------- */

struct op *standin_op(enum op_kind kind, uint32_t rank);
void standin_need(struct op *op, struct op *before); /* NULL: nothing */
/* Puts it at the end of the stream: of its queue, or of the graph that it is captured into. */
void standin_queue(struct stream *stream, struct op *op);
/* The needs are complete. */
void standin_submit(struct op *op);
void standin_finish(struct op *op);
/* An action that was picked. */
void standin_run_op(struct op *op);
void standin_run_pair(struct part *send);
void standin_run_job(struct comm *comm);
/* A group's messages may be matched. */
void standin_start_group(struct op *op);
void standin_kill_comms(struct host *host);
/* What it made and did not destroy. */
void standin_forget(struct host *host);
void standin_forget_comm(struct comm *comm);
/* A graph that lives has a group of it. */
bool standin_has_captured(const struct comm *comm);
/* Takes an operation's messages back; the other ends wait on. */
void standin_unmatch(struct op *op);

/* ---- communicators ----------------------------------------------------------------------------------------------- */

/* A communicator of the caller's that lives; else a violation. */
bool standin_usable(struct comm *comm, const char *call);
/* Of this rank of the clique; NULL: not there, or gone. */
struct comm *standin_member(uint64_t clique, uint32_t rank);
/* One more of the rank's. */
struct comm *standin_comm_of(struct host *host, uint64_t clique, uint32_t ranks, uint32_t rank);
/* One more of the calling rank's, which is on its device. */
struct comm *standin_new_comm(uint64_t clique, uint32_t ranks, uint32_t rank, const struct nccl_config *config);
/* If all are there, each becomes ready in time. */
void standin_join(struct comm *comm);
/* The job of one that all have shrunk: the child is there. */
void standin_shrunk(struct comm *parent);
bool standin_has_work(const struct comm *comm);
void standin_end_groups(struct comm *comm);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *standin_allocate(uint32_t rank, uint64_t bytes, uint32_t align, bool caller);
/* A refit is queued: the mutation free_early. */
void standin_free_early(struct host *host);
/* False: it is not the start of a live block. */
bool standin_release(void *ptr);
/* Whether [ptr, ptr + bytes) is in live memory of the rank. */
bool standin_is_live(uint32_t rank, const void *ptr, uint64_t bytes);
bool standin_is_device(const void *ptr);
int standin_owner(const void *ptr); /* rank, or -1 */
void standin_memory_begin(void);
void standin_memory_end(void);
void standin_memory_check(void);

#endif
