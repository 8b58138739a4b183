/* SPDX-License-Identifier: Apache-2.0
 *
 * RESHARD_VERIFY on a device: senders hash each piece of a turn before it goes, receivers when it has come, and keep
 * both until the end of the refit, where the host compares them. In: ports of a round; out: launches, and in the end a
 * fault. Hashes travel as the last message of their turn (staged.h).
 */
#include <stdlib.h>

#include "runtime/nccl.h"

/* Pieces that lie behind each other are hashed as one run. */
struct hashing {
  struct rsk_batch *batch;
  uint64_t dst;   /* of the run's first hash */
  uint64_t src;   /* of the run */
  uint64_t bytes; /* 0: there is none yet */
  enum rsk_status status;
};

static void end_run(struct hashing *h) {
  if (h->bytes > 0 && h->status == RSK_OK)
    h->status = rsk_batch_add_hash(h->batch, h->dst, h->src, NULL, 0, h->bytes, RSR_PIECE_BYTES);
  h->dst += (h->bytes + RSR_PIECE_BYTES - 1) / RSR_PIECE_BYTES * sizeof(uint64_t);
  h->bytes = 0;
}

static void add_piece(void *user, const unsigned char *ptr, uint64_t bytes) {
  struct hashing *h = user;
  uint64_t at = (uint64_t)(uintptr_t)ptr;
  if (h->bytes > 0 && (h->bytes % RSR_PIECE_BYTES != 0 || at != h->src + h->bytes)) end_run(h);
  if (h->bytes == 0) h->src = at;
  h->bytes += bytes;
}

/* The number of pieces. */
static uint64_t add_turn(struct rsr_device *device, struct rsk_batch *batch, struct rsr_port *port, uint64_t turn,
                         uint64_t dst, enum rsk_status *status) {
  struct hashing h = {.batch = batch, .dst = dst};
  uint64_t count = rsr_port_pieces(&device->staged, port, turn, add_piece, &h);
  end_run(&h);
  *status = h.status;
  return count;
}

enum rsk_status rsr_verify_sent(struct rsr_device *device, struct rsk_batch *batch, uint32_t round) {
  enum rsk_status status = RSK_OK;
  uint64_t turn;
  if (device->staged.hash_count == 0) return RSK_OK;
  for (uint64_t s = 0; s < device->staged.count && status == RSK_OK; s++) {
    struct rsr_port *port = &device->staged.ports[s];
    if (port->hash_room == 0 || port->stream->dir != RSP_DIR_OUT || port->stream->relay != RSP_NO_STREAM) continue;
    if (!rsr_active_in(port, round, &turn)) continue;
    add_turn(device, batch, port, turn, (uint64_t)(uintptr_t)rsr_hash_slot(&device->staged, port, turn), &status);
  }
  return status;
}

static bool is_checked(const struct rsr_port *port) {
  return port->hash_room > 0 && port->stream->dir == RSP_DIR_IN;
}

static uint64_t room_of(const struct rsr_device *device, uint64_t *turns) {
  uint64_t pieces = 0;
  *turns = 0;
  for (uint64_t s = 0; s < device->staged.count; s++) {
    const struct rsr_port *port = &device->staged.ports[s];
    if (!is_checked(port)) continue;
    *turns += port->active;
    pieces += port->active * port->hash_room;
  }
  return pieces;
}

static bool note_turn(struct rsr_device *device, uint64_t port, uint64_t turn, uint64_t count) {
  struct rsr_checks *checks = &device->checks;
  if (checks->piece_count + count > checks->room || checks->turn_count == checks->turn_room) return false;
  checks->turns[checks->turn_count++] = (struct rsr_checked){port, turn, checks->piece_count, count};
  checks->piece_count += count;
  return true;
}

enum rsk_status rsr_verify_received(struct rsr_device *device, struct rsk_batch *batch, uint32_t round) {
  enum rsk_status status = RSK_OK;
  uint64_t turn;
  if (device->staged.hash_count == 0) return RSK_OK;
  for (uint64_t s = 0; s < device->staged.count && status == RSK_OK; s++) {
    struct rsr_port *port = &device->staged.ports[s];
    if (!is_checked(port) || !rsr_active_in(port, round, &turn)) continue;
    uint64_t found = (uint64_t)(uintptr_t)(device->checks.found + device->checks.piece_count);
    uint64_t count = add_turn(device, batch, port, turn, found, &status);
    if (!note_turn(device, s, turn, count)) return RSK_TOO_LARGE; /* cannot be: rooms are upper ends */
  }
  return status;
}

enum rsk_status rsr_verify_keep(struct rsr_device *device, struct rsk_batch *batch, uint64_t first_turn) {
  static const struct rsk_conv plain[2] = {{.src_bytes = 1, .dst_bytes = 1, .is_copy = 1},
                                           {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1}};
  struct rsr_checks *checks = &device->checks;
  enum rsk_status status = RSK_OK;
  for (uint64_t i = first_turn; i < checks->turn_count && status == RSK_OK; i++) {
    const struct rsr_checked *row = &checks->turns[i];
    uint64_t to = (uint64_t)(uintptr_t)(checks->found + checks->room + row->first);
    uint64_t from = (uint64_t)(uintptr_t)rsr_hash_slot(&device->staged, &device->staged.ports[row->port], row->turn);
    status = rsk_batch_add(batch, to, from, NULL, 0, row->count * sizeof(uint64_t), plain);
  }
  return status;
}

enum reshard_status rsr_verify_open(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  struct rsr_checks *checks = &device->checks;
  if (!(context->config.flags & RESHARD_VERIFY)) return RESHARD_OK;
  void *hashes = NULL, *found = NULL;
  uint64_t bytes = device->staged.hash_count * sizeof(uint64_t);
  enum reshard_status status = bytes > 0 ? RSR_CUDA(Malloc, &hashes, bytes) : RESHARD_OK;
  device->staged.hashes = hashes;
  checks->room = room_of(device, &checks->turn_room);
  if (status != RESHARD_OK || checks->room == 0) return status;
  checks->turns = calloc(checks->turn_room, sizeof *checks->turns);
  checks->host = malloc(2 * checks->room * sizeof(uint64_t));
  if (!checks->turns || !checks->host)
    return rsr_no_memory(fault, "hashes of what is received", 2 * checks->room * sizeof(uint64_t));
  status = RSR_CUDA(Malloc, &found, 2 * checks->room * sizeof(uint64_t));
  checks->found = found;
  return status;
}

/* Where turn `turn` of the port begins. */
static struct rsr_cursor start_of(const struct rsr_device *device, const struct rsr_port *port, uint64_t turn) {
  const struct rsp_program *program = &device->staged.slice->program;
  struct rsr_cursor cursor = rsr_cursor_at_start(rsr_described(program, port->stream));
  for (uint64_t left = turn * port->stream->quantum; left > 0;) left -= rsr_take(program, &cursor, left).bytes;
  return cursor;
}

enum reshard_status rsr_verify_end(struct reshard_context *context, struct reshard_fault *fault) {
  struct rsr_device *device = rsr_device_of(context);
  const struct rsr_checks *checks = &device->checks;
  if (checks->piece_count == 0) return RESHARD_OK;
  enum reshard_status status = RSR_CUDA(MemcpyAsync, checks->host, checks->found, 2 * checks->room * sizeof(uint64_t),
                                        RSR_CUDA_COPY_DEFAULT, device->origin);
  if (status == RESHARD_OK) status = rsr_stream_settle(context, device->origin, "its hashes", fault);
  if (status != RESHARD_OK) return status;
  const uint64_t *found = checks->host, *said = checks->host + checks->room;
  for (uint64_t i = 0; i < checks->turn_count; i++) {
    const struct rsr_checked *row = &checks->turns[i];
    for (uint64_t k = 0; k < row->count; k++) {
      if (found[row->first + k] == said[row->first + k]) continue;
      const struct rsr_port *port = &device->staged.ports[row->port];
      struct rsr_cursor start = start_of(device, port, row->turn);
      return rsr_say_corrupt(&device->staged, port, &start, row->turn, k, fault);
    }
  }
  return RESHARD_OK;
}
