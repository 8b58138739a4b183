/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounds of a rank, for every backend that runs them: its streams with their places (ports), the nests that pack or
 * unpack a turn, the messages that carry it. In: a slice with its buffers bound, the address of staging; out: nests and
 * messages, in the order of the plan, which both ends share. staged.c touches no byte of a buffer, so the memory may be
 * a device's; staged_plain.c does the work of a round in plain memory.
 *
 * A *turn* is an active round of one stream, from 0. A port's turns are walked in order, each once between rewinds:
 * nests of a staged or self port by rsr_port_nests, messages of a direct one by rsr_port_messages.
 *
 * With RESHARD_VERIFY each turn has one message more, its last: a hash of every piece of the turn, where a piece is at
 * most RSR_PIECE_BYTES bytes of one staged turn or of one run of a direct one. Relays pass on the hashes of the first
 * sender, so the check is end to end.
 */
#ifndef RSR_STAGED_H
#define RSR_STAGED_H

#include "runtime/nest.h"

/* Larger messages are cut, alike at both ends: no library has to count past 31 bits. */
#define RSR_MESSAGE_BYTES (UINT64_C(1) << 30)
/* What has one hash: a mismatch is named to within so much. */
#define RSR_PIECE_BYTES UINT64_C(4096)
#define RSR_POISON 0xcb /* RESHARD_GUARD: in staging that holds nothing of use */

struct rsr_port {
  const struct rsp_stream *stream;
  uint64_t active;          /* turns */
  struct rsr_cursor cursor; /* where its next turn begins */
  struct rsr_cursor twin; /* self: the same at the source; direct, verified: where the turn to be hashed next begins */
  uint64_t hash_row;      /* of two turns, hash_room each, in turns */
  uint64_t hash_room;     /* 0: not verified */
  bool is_read;           /* IN: a relay reads what it received */
  bool is_carried;        /* crosses by rsr_plain_carry: a round has nothing to pack, unpack or hash for it */
};

struct rsr_staged {
  const struct rsr_slice *slice;
  uint32_t flags;         /* of the context */
  struct rsr_port *ports; /* by row of the slice's streams */
  uint64_t count;
  unsigned char *staging; /* slice->staging bytes, where the backend wants them */
  uint64_t *hashes;       /* hash_count of them, likewise; only with RESHARD_VERIFY */
  uint64_t hash_count;
  /* staged_plain.c */
  unsigned char *block;
  void (*moved)(void *user); /* called after every port, and now and then within one */
  void *user;
  uint64_t unsaid;     /* bytes moved since it was called */
  unsigned past_cache; /* flags of copies to where nothing is read soon: RSK_STREAM, or 0 */
  uint32_t flip_round; /* a test's: of what is received in this round, a byte is wrong */
};

/* Makes the ports, rewound; staging and hashes are NULL. NO_MEMORY. */
enum reshard_status rsr_staged_open(struct rsr_staged *staged, const struct rsr_slice *slice, uint32_t flags,
                                    struct reshard_fault *fault);
/* All ports to their first turns. */
void rsr_staged_rewind(struct rsr_staged *staged);
/* Frees all, what rsr_plain_open made too; zeroed is fine. */
void rsr_staged_close(struct rsr_staged *staged);

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static inline bool rsr_active_in(const struct rsr_port *port, uint32_t round, uint64_t *turn) {
  const struct rsp_stream *stream = port->stream;
  if (round < stream->round0) return false;
  uint32_t since = round - stream->round0, step = stream->step;
  if (step != 1 && since % step != 0) return false;
  *turn = step != 1 ? since / step : since;
  return *turn < port->active;
}

static inline uint32_t rsr_round_of(const struct rsp_stream *stream, uint64_t turn) {
  return (uint32_t)(stream->round0 + turn * stream->step);
}

static inline uint64_t rsr_turn_bytes(const struct rsp_stream *stream, uint64_t turn) {
  uint64_t left = stream->bytes - turn * stream->quantum;
  return left < stream->quantum ? left : stream->quantum;
}

/* The stream that has the parts: a relay has those of what it passes on. */
static inline const struct rsp_stream *rsr_described(const struct rsp_program *program,
                                                     const struct rsp_stream *stream) {
  return stream->relay == RSP_NO_STREAM ? stream : &program->streams[stream->relay];
}

/* Where the turn of a staged stream lies, a relay's in the slots of what it passes on. */
unsigned char *rsr_stage_slot(const struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn);
/* Where its hashes lie: of what is sent, or of what the sender says. */
uint64_t *rsr_hash_slot(const struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn);

/* Sends or receives messages. */
static inline bool rsr_crosses(const struct rsr_port *port) {
  return port->stream->dir == RSP_DIR_OUT || port->stream->dir == RSP_DIR_IN;
}
static inline bool rsr_is_packed(const struct rsr_port *port) {
  return port->stream->dir == RSP_DIR_OUT && port->stream->kind == RSP_KIND_STAGED &&
         port->stream->relay == RSP_NO_STREAM;
}
static inline bool rsr_is_unpacked(const struct rsr_port *port) {
  return (port->stream->dir == RSP_DIR_IN && port->stream->kind == RSP_KIND_STAGED) ||
         port->stream->dir == RSP_DIR_SELF_DST;
}

/* The stream of the peer, in direction `dir` there, that is the other end of `stream` of rank `self`; or NULL. */
const struct rsp_stream *rsr_twin(const struct rsp_program *peer, uint32_t self, uint32_t dir,
                                  const struct rsp_stream *stream);

/* ---- walks ------------------------------------------------------------------------------------------------------- */

/* Called with each nest in turn; anything but OK ends the walk and is what it returns. */
typedef enum reshard_status (*rsr_nest_fn)(void *user, const struct rsr_nest *nest);

/* The nests of the port's next turn, which is `turn`: buffers to slot of a packed one, slot to buffers of an unpacked
 * one, buffers to buffers of a self stream. BAD_PLAN: a conversion that does not exist. */
enum reshard_status rsr_port_nests(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn,
                                   rsr_nest_fn visit, void *user, struct reshard_fault *fault);

/* The same of the next `bytes` bytes of it, which lie at `wire`: all that is left, or a multiple of 8. */
enum reshard_status rsr_port_piece(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn,
                                   unsigned char *wire, uint64_t bytes, rsr_nest_fn visit, void *user,
                                   struct reshard_fault *fault);
/* The nests of all its turns as those of one, whose dense end begins at `wire`: for a packed port, or one that unpacks
 * what it received. Moves no cursor. */
enum reshard_status rsr_port_all_nests(const struct rsr_staged *staged, const struct rsr_port *port,
                                       unsigned char *wire, rsr_nest_fn visit, void *user, struct reshard_fault *fault);

/* Called with each message in turn; false ends the walk. */
typedef bool (*rsr_message_fn)(void *user, unsigned char *ptr, uint64_t bytes);

/* The messages of the port's next turn: those of its slot, or of its runs; then its hashes. False: ended by `visit`. */
bool rsr_port_messages(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, rsr_message_fn visit,
                       void *user);
/* At least as many as any turn of the port has. */
uint64_t rsr_port_most_messages(const struct rsr_staged *staged, const struct rsr_port *port);

/* Called with each piece of the turn in order. Staged: of its slot; direct: of its runs, once for each turn in order.
 * The number of pieces. */
typedef void (*rsr_piece_fn)(void *user, const unsigned char *ptr, uint64_t bytes);
uint64_t rsr_port_pieces(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, rsr_piece_fn visit,
                         void *user);

/* Names the buffer with the first byte of piece `piece` of the turn that begins at `start`. */
void rsr_name_piece(const struct rsr_staged *staged, const struct rsr_port *port, const struct rsr_cursor *start,
                    uint64_t turn, uint64_t piece, struct reshard_fault *fault);

/* CORRUPT, as a fault of that piece of the turn that begins at `start`. */
enum reshard_status rsr_say_corrupt(const struct rsr_staged *staged, const struct rsr_port *port,
                                    const struct rsr_cursor *start, uint64_t turn, uint64_t piece,
                                    struct reshard_fault *fault);

/* Names the buffer that the port's next turn begins with, if there is one: for faults that are the stream's. */
void rsr_name_next(const struct rsr_staged *staged, const struct rsr_port *port, struct reshard_fault *fault);

/* ---- staged_plain.c: the work of a round ------------------------------------------------------------------------- */

/* Allocates staging, with guards if the flags say so, and hashes. NO_MEMORY. */
enum reshard_status rsr_plain_open(struct rsr_staged *staged, struct reshard_fault *fault);
/* What is sent in the round goes to its slots; with VERIFY it is hashed. */
enum reshard_status rsr_plain_pack(struct rsr_staged *staged, uint32_t round, struct reshard_fault *fault);
/* What was received in the round goes to the buffers, after VERIFY's check (CORRUPT); self streams are copied. */
enum reshard_status rsr_plain_unpack(struct rsr_staged *staged, uint32_t round, struct reshard_fault *fault);
/* Bytes [done, done + bytes) of a turn from buffers to `wire` or from there, without a stay in staging; but what is
 * passed on comes from the slot that it was received in. Pieces in order, of 8 bytes or a multiple but for the last. No
 * guards, no hashes. */
enum reshard_status rsr_plain_carry(struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, uint64_t done,
                                    unsigned char *wire, uint64_t bytes, struct reshard_fault *fault);
/* The turn of an outgoing port has been sent: RESHARD_GUARD poisons its slot. */
void rsr_plain_sent(struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn);
/* RESHARD_GUARD: what was unpacked of this round and passed on is of no more use; nothing lies outside staging. */
void rsr_plain_poison_relayed(struct rsr_staged *staged, uint32_t round);
enum reshard_status rsr_plain_check_guards(const struct rsr_staged *staged, struct reshard_fault *fault);

#endif
