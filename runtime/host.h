/* SPDX-License-Identifier: Apache-2.0
 *
 * The host backend: ranks are threads of one process, messages are copies. Private forms shared by host_*.c.
 *
 * Memory of one rank that others read (its channels, the caller's buffers) stays in place while any rank runs a
 * refit or links: `running` counts those, close and reset wait until it is 0, and nothing starts on the links of
 * an epoch that is over. Every wait has a bell, a deadline and the group's abort flag.
 */
#ifndef RSR_HOST_H
#define RSR_HOST_H

#include <pthread.h>
#ifdef __cplusplus
#define RSR_ATOMIC(type) type /* C++ may read this header, but makes and touches nothing of it */
#else
#include <stdatomic.h>
#define RSR_ATOMIC(type) _Atomic type
#endif

#include "runtime/staged.h"

/* A rank's place in the group; outlives its context. */
struct rsr_station {
  pthread_mutex_t lock;
  pthread_cond_t bell; /* something that this rank waits for may have changed */
  struct reshard_context *member;
  RSR_ATOMIC(uint64_t) begun;  /* fused: last refit whose training buffers may be read */
  RSR_ATOMIC(uint64_t) opened; /* fused: last refit whose copies may be made, by any rank */
  RSR_ATOMIC(uint32_t) awaits; /* 1 + the rank that this one waits for in a refit; 0: none */
};

struct reshard_host_group {
  uint32_t world;
  struct rsr_station *stations;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* the all-gather in progress */
  unsigned char *words;
  size_t words_room, word_bytes;
  uint32_t arrived, departed;
  bool *here;
  bool full;
  /* who runs, on which links */
  uint32_t running;
  RSR_ATOMIC(uint64_t) epoch;    /* goes up when a rank's links go */
  uint64_t closed;               /* contexts that have been closed */
  RSR_ATOMIC(uint64_t) progress; /* goes up with every copy of any rank */
  RSR_ATOMIC(bool) aborted;
  struct reshard_fault fault; /* the first one; valid if aborted */
};

struct rsr_message {
  const unsigned char *ptr;
  uint64_t bytes;
};

/* One direction of one kind between two ranks; the sender's. What it posts stays until the receiver has taken it. */
struct rsr_channel {
  struct rsr_message *messages; /* of the round that is posted */
  uint64_t room, count;
  RSR_ATOMIC(uint64_t) posted, taken; /* time of a round: refit * (rounds + 1) + round + 1 */
};

/* A stream of staged mode that crosses: its channel. */
struct rsr_link {
  struct rsr_channel own;      /* OUT */
  struct rsr_channel *channel; /* OUT: &own; IN: the sender's */
};

/* Direct copies of fused mode: a joined nest, or a part of it. */
struct rsr_op {
  unsigned char *dst;
  const unsigned char *src;
  uint64_t run;   /* bytes for a copy of bits, elements otherwise */
  uint64_t bytes; /* written, in all */
  uint64_t loops;
  uint32_t loop_count, conv;
};

/* What is copied at once, of one op. */
struct rsr_piece {
  unsigned char *dst;
  const unsigned char *src;
  uint64_t run;
  const struct rsk_loop *loops; /* the op's, or its own */
  uint32_t loop_count, conv;
  struct rsk_loop own[RSK_LOOPS];
};

/* An op in order of destination. Its pieces begin in chunk `at`, each further one is alone in the next; the last place
 * has the number of chunks. */
struct rsr_place {
  uint64_t at, op;
};

struct rsr_ops {
  struct rsr_op *rows;
  uint64_t count, room;
  struct rsk_loop *loops;
  uint64_t loop_count, loop_room;
  struct rsk_conv *convs; /* pairs: at the sender, at the receiver; pair 0 is a copy of bits */
  uint64_t conv_count, conv_room;
  struct rsr_place *places;  /* made by rsr_ops_close */
  uint64_t chunk_count;      /* pieces of a chunk are taken at once */
  RSR_ATOMIC(uint64_t) next; /* the first chunk that nobody has taken in this refit */
  unsigned flags;            /* of rsk_copy */
};

struct rsr_host {
  struct reshard_context *context;
  struct reshard_host_group *group;
  struct rsr_station *station;
  uint64_t epoch;  /* of the links */
  uint64_t closed; /* the group's, when this rank began to prepare: no rank closes from then on */
  uint64_t refit;  /* number of the refit, from 1 */
  /* the worker */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool wanted, taken, quit; /* a refit; by the worker or by who waits */
  bool died;                /* injected */
  enum reshard_status status;
  struct reshard_fault fault;
  /* staged */
  struct rsr_staged staged;
  struct rsr_link *links; /* by row of the ports */
  uint64_t random;        /* state of the seeded delays; 0: none */
  /* fused */
  struct rsr_ops ops;
  uint64_t moves;                /* wire bytes that come to this rank */
  uint32_t *senders, *receivers; /* peers, without this rank */
  uint64_t sender_count, receiver_count;
};

static inline struct rsr_host *rsr_host_of(const struct reshard_context *context) {
  return (struct rsr_host *)context->own;
}

/* ---- host_group.c ------------------------------------------------------------------------------------------------ */

enum reshard_status rsr_host_all_gather(struct reshard_context *context, const void *mine, size_t bytes, void *all,
                                        const char *call, struct reshard_fault *fault);
/* Ends every wait of the group. The first fault is kept. */
void rsr_host_abort(struct reshard_host_group *group, const struct reshard_fault *fault);
/* Fills *fault from the group's. */
enum reshard_status rsr_host_aborted(struct reshard_host_group *group, struct reshard_fault *fault);
/* Something was copied: who waits may wait on. */
void rsr_host_moved(struct reshard_host_group *group);
void rsr_host_ring(struct reshard_host_group *group, uint32_t rank);
/* Until *value >= want. The deadline moves on while any rank makes progress. */
enum reshard_status rsr_host_await(struct reshard_context *context, RSR_ATOMIC(uint64_t) * value, uint64_t want,
                                   uint32_t peer, uint32_t round, const char *what, struct reshard_fault *fault);
/* Sleeps, but not past the end of the group or the epoch. */
void rsr_host_pause(struct reshard_context *context, double seconds);
/* Between these no rank's memory goes away. Enter fails if the links are not of this epoch, or a context was closed
 * since `closed` was read. */
bool rsr_host_enter(const struct rsr_host *host);
void rsr_host_leave(struct reshard_host_group *group);
/* Ends the epoch, then waits until nobody runs. */
void rsr_host_end_epoch(struct reshard_host_group *group, bool closes);
void rsr_host_settle(struct reshard_host_group *group);

/* ---- host_staged.c, host_fused.c --------------------------------------------------------------------------------- */

enum reshard_status rsr_staged_prepare(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_staged_link(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_staged_refit(struct reshard_context *context, struct reshard_fault *fault);
void rsr_staged_reset(struct rsr_host *host);

enum reshard_status rsr_fused_prepare(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_fused_link(struct reshard_context *context, struct reshard_fault *fault);
enum reshard_status rsr_fused_refit(struct reshard_context *context, struct reshard_fault *fault);
void rsr_fused_reset(struct rsr_host *host);

/* ---- host_ops.c: copies of fused mode, the other ends
 * ---------------------------------------------------------------- */

/* Appends; false: no memory. */
bool rsr_ops_add(struct rsr_ops *ops, const struct rsr_nest *nest);
/* Puts the ops in order of their destination and counts the chunks; false: no memory. */
bool rsr_ops_close(struct rsr_ops *ops);
/* Cuts a piece off: numbers are from 0. */
void rsr_ops_piece(const struct rsr_ops *ops, const struct rsr_op *op, uint64_t number, struct rsr_piece *piece);
void rsr_ops_run(const struct rsr_ops *ops, const struct rsr_piece *piece);
/* What the piece writes is there: it is made again, a little at a time, and compared. */
bool rsr_ops_holds(const struct rsr_ops *ops, const struct rsr_piece *piece);
void rsr_ops_free(struct rsr_ops *ops);

/* The outgoing stream that `stream` of *rank passes on in the end, and its rank; the stream itself if it is no relay.
 * NULL if it leads nowhere. All ranks are prepared. */
const struct rsp_stream *rsr_origin(const struct reshard_host_group *group, uint32_t *rank,
                                    const struct rsp_stream *stream);
/* Each stream of this rank has its other end at the peer, in the same shape. All ranks are prepared. */
enum reshard_status rsr_check_twins(struct reshard_context *context, struct reshard_fault *fault);
/* What a test wants this rank to do wrong here. */
enum reshard_status rsr_inject(struct reshard_context *context, uint32_t round, struct reshard_fault *fault);

#endif
