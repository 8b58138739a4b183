/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI backend: private forms of libreshard_mpi.so, the only object that is linked with an MPI.
 *
 * A *hub* is a communicator of the caller's with two duplicates, for control and for data; made once, kept with it. A
 * *line* is a membership on a hub: a context's control channel, or the one of reshard_mpi_all_gather. Each rank numbers
 * its own lines. A message carries its sender's number, in its tag or its head, and ranks tell each other their numbers
 * when a line opens; so nothing that an earlier line left behind is taken for this one's, though no rank knows how many
 * lines another has tried to open.
 *
 * Nothing here blocks in MPI: every wait is a loop of steps, each under one lock for all contexts of the process, with
 * a deadline that moves on while any rank says that it makes progress. A rank that fails tells all, so that all fail
 * at once; what is then under way is drained, and a line whose peers do not answer keeps its memory until they do.
 */
#ifndef RSR_MPI_H
#define RSR_MPI_H

#include <mpi.h>

#include "runtime/plugin.h"
#include "runtime/staged.h"

/* A control message that is under way on its own. */
struct rsr_letter {
  struct rsr_letter *next;
  MPI_Request request;
  size_t bytes;
  unsigned char data[]; /* a head, then words */
};

struct rsr_hub {
  struct rsr_hub *next;
  MPI_Comm parent, control, data;
  MPI_Request dup;
  int made; /* duplicates that are there; the next one is under way if dup is not null */
  uint32_t rank, size;
  uint32_t lines_opened;  /* numbers given */
  uint32_t *hello;        /* by rank: the number with which it wants to open a line; 0: none */
  uint32_t *last;         /* by rank: the highest number that was heard of */
  struct rsr_line *lines; /* open, or with something under way */
  struct rsr_letter *letters;
  /* the control message that is being received */
  unsigned char *incoming;
  size_t incoming_room, incoming_bytes;
  MPI_Request incoming_request;
  MPI_Status incoming_status;
};

struct rsr_line {
  struct rsr_line *next;
  struct rsr_hub *hub;
  uint32_t number, *numbers; /* mine, and those of all ranks; 0: not known yet */
  bool is_open;
  /* the gather: at rank 0 the words so far, elsewhere those of all */
  uint32_t arrived;
  uint64_t *word_bytes; /* by rank; UINT64_MAX: not there */
  unsigned char *words;
  size_t words_room;   /* of one */
  size_t spread_bytes; /* elsewhere: of all words together */
  bool is_spread;
  unsigned char *out;
  size_t out_room;
  MPI_Request *out_requests; /* by rank */
  MPI_Request *alive_requests;
  unsigned char *alive; /* what they send: a head */
  double alive_at, hello_at;
  double moved_at; /* when any rank was last known to move on */
  bool aborted, told;
  struct reshard_fault fault;
  uint64_t *sent, *received; /* data messages to and from each rank */
  uint64_t *quiet;           /* by rank: how many it sent, once it takes no more; UINT64_MAX: not yet */
  bool *left;                /* by rank: it has closed its context, though nothing had failed */
};

/* A message of the round that is exchanged. */
struct rsr_flight {
  uint64_t port, bytes;
  uint32_t peer;
  bool is_in;
};

struct rsr_local {
  unsigned char *ptr;
  uint64_t bytes;
};

enum rsr_quiet { RSR_LOUD, RSR_CANCELLED, RSR_TOLD, RSR_QUIET };

/* One end of what goes from a peer of this host to another, through a ring of cells in memory that both have mapped:
 * what is packed is still in the caches when it is unpacked, and no message is waited for. See mpi_near.c. */
struct rsr_ring;
struct rsr_near {
  uint64_t first, end; /* its ports: all those to the peer, or from it */
  struct rsr_ring *ring;
  uint64_t cells; /* filled, or emptied, since prepare */
  /* in a round: */
  uint64_t port, turn, done; /* end: all has been moved; bytes of the turn that have been */
};

/* A context's part; outlives it if something is under way that cannot be ended. */
struct rsr_mpi {
  struct rsr_mpi *next;            /* of those that outlived their contexts */
  struct reshard_context *context; /* NULL: it is closed */
  struct rsr_line *line;
  struct rsr_staged staged;
  /* what is exchanged: by request */
  struct rsr_flight *flights;
  MPI_Request *requests;
  MPI_Status *statuses;
  int *indices;
  uint64_t room, count, under_way;
  struct rsr_local *to_self, *from_self;
  uint64_t to_self_room, from_self_room, to_self_count, from_self_count;
  uint64_t mixed_up; /* 1 + the flight whose message has not the size that is wanted; 0: none */
  void *rows;        /* of the other ends */
  struct rsr_near *nears;
  uint64_t near_count;
  uint32_t round; /* that the nears are in */
  struct rsr_share *share;
  /* the refit */
  bool runs, worked, died, stalled;
  enum reshard_status status; /* of the last one */
  struct reshard_fault own;
  uint64_t phase;
  double stall_until;
  /* after a failure */
  enum rsr_quiet quiet;
  MPI_Request drain_request;
  unsigned char *drain;
  uint32_t drain_from;
};

static inline struct rsr_mpi *rsr_mpi_of(const struct reshard_context *context) {
  return (struct rsr_mpi *)context->own;
}

/* ---- mpi_hub.c: communicators and letters ------------------------------------------------------------------------ */

/* What control messages are. */
enum rsr_kind { RSR_GATHER, RSR_SPREAD, RSR_ABORT, RSR_ALIVE, RSR_QUIET_AT, RSR_LEAVE };
struct rsr_head {
  uint32_t kind, number; /* of the sender's line */
};
/* Tags hold 15 bits everywhere. A SPREAD has the receiver's number, other control messages 0, data the sender's. */
static inline int rsr_tag_of(uint32_t number) {
  return (int)(number % 32767 + 1);
}

double rsr_mpi_now(void);
void rsr_mpi_lock(void);
void rsr_mpi_unlock(void);
/* Between two steps that changed nothing: spins, then yields, then sleeps. */
void rsr_mpi_idle(uint64_t *idle);

/* The hub of the communicator, made or not yet; NULL: no memory. */
struct rsr_hub *rsr_hub_of(MPI_Comm parent);
/* Goes on with making it; true: it is made. */
bool rsr_hub_step(struct rsr_hub *hub);
/* Sends a letter of its own; no memory or no MPI: it is not sent. */
void rsr_hub_send(struct rsr_hub *hub, uint32_t to, const struct rsr_head *head, const void *words, size_t bytes);
/* Takes what has arrived on the control communicator, and frees the letters that have been sent. */
void rsr_hub_pump(struct rsr_hub *hub);
/* A message has arrived; mpi_line.c. */
void rsr_line_take(struct rsr_hub *hub, uint32_t from, int tag, const struct rsr_head *head, const unsigned char *words,
                   size_t bytes);

/* ---- mpi_line.c: agreements -------------------------------------------------------------------------------------- */

/* Collective. */
enum reshard_status rsr_line_open(MPI_Comm parent, double timeout, const char *call, struct rsr_line **line,
                                  struct reshard_fault *fault);
enum reshard_status rsr_line_all_gather(struct rsr_line *line, const void *mine, size_t bytes, void *all,
                                        double timeout, const char *call, struct reshard_fault *fault);
/* Tells all ranks that this one failed. */
void rsr_line_abort(struct rsr_line *line, const struct reshard_fault *fault);
/* Fills *fault from that of the rank that failed. */
enum reshard_status rsr_line_aborted(const struct rsr_line *line, struct reshard_fault *fault);
/* This rank has moved on: from time to time all are told. */
void rsr_line_moved(struct rsr_line *line, double timeout);
/* Nothing of its own is under way any more. */
bool rsr_line_is_done(struct rsr_line *line);
/* Frees it; it is done. */
void rsr_line_close(struct rsr_line *line);
/* A rank did not arrive or answer, and no line has been opened since. */
bool rsr_lines_lost(void);

/* ---- mpi_exchange.c: rounds -------------------------------------------------------------------------------------- */

/* Allocates what prepare allocates. */
enum reshard_status rsr_mpi_open_rounds(struct rsr_mpi *mpi, struct reshard_fault *fault);
void rsr_mpi_close_rounds(struct rsr_mpi *mpi);
void rsr_mpi_begin(struct rsr_mpi *mpi);
/* Some of the refit: PENDING, or how it ended. *moved: something happened. */
enum reshard_status rsr_mpi_step(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault);
/* One more message, to or from a peer. */
void rsr_mpi_send(struct rsr_mpi *mpi, uint64_t port, const void *ptr, uint64_t bytes);
void rsr_mpi_receive(struct rsr_mpi *mpi, uint64_t port, void *ptr, uint64_t bytes);
/* Tests what is under way: true if something ended. */
bool rsr_mpi_test(struct rsr_mpi *mpi);
/* What is under way has been so for too long: who is waited for. Tells all. */
enum reshard_status rsr_mpi_late(struct rsr_mpi *mpi, uint32_t round, struct reshard_fault *fault);
/* A message has not the size that its receiver wants. */
enum reshard_status rsr_mpi_unequal(const struct rsr_mpi *mpi, uint32_t round, uint32_t peer,
                                    struct reshard_fault *fault);
static inline bool rsr_mpi_is_late(const struct rsr_mpi *mpi) {
  return rsr_mpi_now() - mpi->line->moved_at > mpi->context->config.timeout_seconds;
}

/* ---- mpi_link.c -------------------------------------------------------------------------------------------------- */

/* The peers have the other ends of the streams, in the same shape. With the lock, which is let go between looks. */
enum reshard_status rsr_mpi_link(struct rsr_mpi *mpi, struct reshard_fault *fault);

/* Until all that is under way has ended; a message without its size is BAD_PLAN, and not told to the others. */
enum reshard_status rsr_mpi_await(struct rsr_mpi *mpi, struct reshard_fault *fault);
/* Streams to one peer, or from one, follow each other: the end of those that begin at row s. */
uint64_t rsr_peer_end(const struct rsp_program *program, uint64_t s);

/* ---- mpi_near.c: peers of this host ------------------------------------------------------------------------------ */

uint64_t rsr_ring_bytes(void); /* pages; zeroed memory is a ring that is empty */
/* Their part of a round; then some of it, and whether all has been moved. */
void rsr_near_begin(struct rsr_mpi *mpi, uint32_t round);
enum reshard_status rsr_near_step(struct rsr_mpi *mpi, bool *moved, struct reshard_fault *fault);
/* The first that waits for its peer; NULL: all is moved. */
const struct rsr_near *rsr_near_waits(const struct rsr_mpi *mpi);
static inline bool rsr_near_is_out(const struct rsr_mpi *mpi, const struct rsr_near *near) {
  return mpi->staged.ports[near->first].stream->dir == RSP_DIR_OUT;
}

/* ---- mpi_share.c ------------------------------------------------------------------------------------------------- */

/* Finds the peers that are on this host, and makes rings with them. Collective among peers; with the lock. */
enum reshard_status rsr_mpi_share(struct rsr_mpi *mpi, struct reshard_fault *fault);
void rsr_mpi_unshare(struct rsr_mpi *mpi);

/* ---- mpi_quiet.c: after a failure -------------------------------------------------------------------------------- */

/* This rank has nothing more to receive; RSR_QUIET_AT after a failure, RSR_LEAVE without one. */
void rsr_mpi_say_quiet(struct rsr_mpi *mpi, enum rsr_kind kind);
/* Some of ending what is under way; true: all has ended, here and at the peers. */
bool rsr_mpi_quiet_step(struct rsr_mpi *mpi);
/* Frees it and its line, now or when all has ended. */
void rsr_mpi_retire(struct rsr_mpi *mpi);
/* Goes on with those that were retired; true: none is left. */
bool rsr_mpi_retired_step(void);

#endif
