/* SPDX-License-Identifier: Apache-2.0
 * The work of a round in plain memory: pack, unpack, hash; see staged.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/hash.h"
#include "runtime/staged.h"

#define PAGE_BYTES 4096u
#define GUARD_BYTES 64u
#define GUARD_VALUE 0xa5
/* The backend hears of progress after so many bytes. */
#define SAY_BYTES (UINT64_C(256) << 10)

enum reshard_status rsr_plain_open(struct rsr_staged *staged, struct reshard_fault *fault) {
  uint64_t bytes = staged->slice->program.slice->staging;
  void *block = NULL;
  if (bytes > SIZE_MAX - 3 * PAGE_BYTES ||
      posix_memalign(&block, PAGE_BYTES, (size_t)bytes + PAGE_BYTES + GUARD_BYTES) != 0)
    return rsr_no_memory(fault, "staging", bytes);
  staged->block = block;
  staged->staging = staged->block + PAGE_BYTES;
  if (staged->flags & RESHARD_GUARD) {
    memset(staged->staging - GUARD_BYTES, GUARD_VALUE, GUARD_BYTES);
    memset(staged->staging, RSR_POISON, bytes);
    memset(staged->staging + bytes, GUARD_VALUE, GUARD_BYTES);
  }
  if (staged->hash_count == 0) return RESHARD_OK;
  staged->hashes = calloc(staged->hash_count, sizeof *staged->hashes);
  if (!staged->hashes) return rsr_no_memory(fault, "hashes", staged->hash_count * sizeof *staged->hashes);
  return RESHARD_OK;
}

static void say_moved(struct rsr_staged *staged) {
  staged->unsaid = 0;
  if (staged->moved) staged->moved(staged->user);
}

static enum reshard_status run_nest(struct rsr_staged *staged, const struct rsr_nest *nest, unsigned flags) {
  uint64_t bytes = nest->run * (rsr_nest_is_copy(nest) ? 1 : nest->conv[1].dst_bytes);
  for (uint32_t l = 0; l < nest->loop_count; l++) bytes *= nest->loops[l].count;
  rsr_nest_run_loops(nest->dst, nest->src, nest->loops, nest->loop_count, nest->run, nest->conv, flags);
  staged->unsaid += bytes;
  if (staged->unsaid >= SAY_BYTES) say_moved(staged);
  return RESHARD_OK;
}

/* To staging, or what the peer reads at once. */
static enum reshard_status run_pack(void *user, const struct rsr_nest *nest) {
  return run_nest(user, nest, 0);
}

static enum reshard_status run_unpack(void *user, const struct rsr_nest *nest) {
  struct rsr_staged *staged = user;
  return run_nest(staged, nest, staged->past_cache);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

static void write_hash(void *user, const unsigned char *ptr, uint64_t bytes) {
  uint64_t **to = user;
  *(*to)++ = rsk_hash(ptr, bytes);
}

static void hash_turn(struct rsr_staged *staged, struct rsr_port *port, uint64_t turn) {
  uint64_t *to = rsr_hash_slot(staged, port, turn);
  rsr_port_pieces(staged, port, turn, write_hash, &to);
}

struct comparison {
  const uint64_t *said;
  uint64_t count, differs; /* the first that does, or UINT64_MAX */
};

static void compare_hash(void *user, const unsigned char *ptr, uint64_t bytes) {
  struct comparison *comparison = user;
  if (comparison->differs == UINT64_MAX && rsk_hash(ptr, bytes) != comparison->said[comparison->count])
    comparison->differs = comparison->count;
  comparison->count++;
}

enum reshard_status rsr_say_corrupt(const struct rsr_staged *staged, const struct rsr_port *port,
                                    const struct rsr_cursor *start, uint64_t turn, uint64_t piece,
                                    struct reshard_fault *fault) {
  uint32_t round = rsr_round_of(port->stream, turn), rank = staged->slice->program.slice->world_rank;
  rsr_fault(fault, RESHARD_CORRUPT,
            "round %u: what world rank %u received from world rank %u is not what was sent (piece %llu of turn %llu); "
            "the memory of one of them, or what lies between, cannot be trusted, or a buffer was used during the refit",
            round, rank, port->stream->peer, (unsigned long long)piece, (unsigned long long)turn);
  fault->rank = rank;
  fault->peer = port->stream->peer;
  fault->round = round;
  rsr_name_piece(staged, port, start, turn, piece, fault);
  return RESHARD_CORRUPT;
}

/* `start`: where the turn begins. */
static enum reshard_status check_turn(struct rsr_staged *staged, struct rsr_port *port, const struct rsr_cursor *start,
                                      uint64_t turn, struct reshard_fault *fault) {
  struct comparison comparison = {rsr_hash_slot(staged, port, turn), 0, UINT64_MAX};
  rsr_port_pieces(staged, port, turn, compare_hash, &comparison);
  if (comparison.differs == UINT64_MAX) return RESHARD_OK;
  return rsr_say_corrupt(staged, port, start, turn, comparison.differs, fault);
}

static bool flip_byte(void *user, unsigned char *ptr, uint64_t bytes) {
  (void)user, (void)bytes;
  *ptr ^= 0x10;
  return false;
}

static void flip(struct rsr_staged *staged, const struct rsr_port *port, const struct rsr_cursor *start,
                 uint64_t turn) {
  struct rsr_port twin = *port;
  twin.cursor = *start;
  rsr_port_messages(staged, &twin, turn, flip_byte, NULL);
  staged->flip_round = RESHARD_NO_ROUND;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

enum reshard_status rsr_plain_pack(struct rsr_staged *staged, uint32_t round, struct reshard_fault *fault) {
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < staged->count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (port->stream->dir != RSP_DIR_OUT) break; /* they come first */
    if (port->stream->relay != RSP_NO_STREAM || port->is_carried || !rsr_active_in(port, round, &turn)) continue;
    if (rsr_is_packed(port)) {
      status = rsr_port_nests(staged, port, turn, run_pack, staged, fault);
      say_moved(staged);
    }
    if (port->hash_room > 0 && status == RESHARD_OK) hash_turn(staged, port, turn);
  }
  return status;
}

/* From or to staging whoever carries it: a relay reads it there. */
static bool is_passed_on(const struct rsr_port *port) {
  return port->stream->kind == RSP_KIND_STAGED && (port->is_read || port->stream->relay != RSP_NO_STREAM);
}

static enum reshard_status unpack_port(struct rsr_staged *staged, struct rsr_port *port, uint64_t turn,
                                       struct reshard_fault *fault) {
  bool is_in = port->stream->dir == RSP_DIR_IN;
  struct rsr_cursor start = port->stream->kind == RSP_KIND_DIRECT ? port->twin : port->cursor;
  if (is_in && staged->flip_round == rsr_round_of(port->stream, turn)) flip(staged, port, &start, turn);
  enum reshard_status status = RESHARD_OK;
  if (port->hash_room > 0) status = check_turn(staged, port, &start, turn, fault);
  if (!rsr_is_unpacked(port) || status != RESHARD_OK) return status;
  status = rsr_port_nests(staged, port, turn, run_unpack, staged, fault);
  say_moved(staged);
  if (is_in && !port->is_read && (staged->flags & RESHARD_GUARD))
    memset(rsr_stage_slot(staged, port, turn), RSR_POISON, (size_t)rsr_turn_bytes(port->stream, turn));
  return status;
}

enum reshard_status rsr_plain_unpack(struct rsr_staged *staged, uint32_t round, struct reshard_fault *fault) {
  enum reshard_status status = RESHARD_OK;
  uint64_t turn;
  for (uint64_t s = 0; s < staged->count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (port->stream->dir != RSP_DIR_IN && port->stream->dir != RSP_DIR_SELF_DST) continue;
    if (port->is_carried && !is_passed_on(port)) continue;
    if (rsr_active_in(port, round, &turn)) status = unpack_port(staged, port, turn, fault);
  }
  return status;
}

enum reshard_status rsr_plain_carry(struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, uint64_t done,
                                    unsigned char *wire, uint64_t bytes, struct reshard_fault *fault) {
  bool is_out = port->stream->dir == RSP_DIR_OUT;
  if (!is_passed_on(port))
    return rsr_port_piece(staged, port, turn, wire, bytes, is_out ? run_pack : run_unpack, staged, fault);
  unsigned char *slot = rsr_stage_slot(staged, port, turn) + done;
  memcpy(is_out ? wire : slot, is_out ? slot : wire, bytes);
  return RESHARD_OK;
}

void rsr_plain_sent(struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn) {
  if (!(staged->flags & RESHARD_GUARD) || !rsr_is_packed(port)) return;
  memset(rsr_stage_slot(staged, port, turn), RSR_POISON, (size_t)rsr_turn_bytes(port->stream, turn));
}

void rsr_plain_poison_relayed(struct rsr_staged *staged, uint32_t round) {
  uint64_t turn;
  for (uint64_t s = 0; s < staged->count; s++) {
    const struct rsr_port *port = &staged->ports[s];
    if (!port->is_read || port->stream->kind != RSP_KIND_STAGED || !rsr_active_in(port, round, &turn)) continue;
    memset(rsr_stage_slot(staged, port, turn), RSR_POISON, rsr_turn_bytes(port->stream, turn));
  }
}

enum reshard_status rsr_plain_check_guards(const struct rsr_staged *staged, struct reshard_fault *fault) {
  const struct rsp_slice *slice = staged->slice->program.slice;
  for (uint32_t i = 0; i < GUARD_BYTES; i++) {
    if (staged->staging[(int64_t)i - GUARD_BYTES] == GUARD_VALUE && staged->staging[slice->staging + i] == GUARD_VALUE)
      continue;
    return rsr_fault(fault, RESHARD_BAD_PLAN, "world rank %u wrote outside its staging of %llu bytes",
                     slice->world_rank, (unsigned long long)slice->staging);
  }
  return RESHARD_OK;
}
