/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank does in each round as launches over one image. In: ports with their addresses; out: rounds. A stream's
 * nests are in the image once, as a series of which each round takes a turn (kernels/batch.h), and streams with the
 * same parts share them; the nests of streams that do not fit are written out turn by turn.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl.h"

/* A port that is packed or unpacked, with its next turn. */
struct reel {
  struct rsr_port *port;
  uint64_t series;
  uint32_t round, turn; /* RESHARD_NO_ROUND: it is at its end */
  bool is_series;
};

struct reels {
  struct reel *all;
  uint64_t count;
};

/* Tables that were made, by the port that was first: an open hash table. */
struct made {
  const struct rsr_port *port; /* NULL: empty */
  uint64_t table;
  uint32_t grain;
  bool fits;
};

struct rounds {
  struct reshard_context *context;
  struct rsr_device *device;
  struct rsk_batch *batch;
  struct reshard_fault *fault;
  struct reels packed, unpacked;
  struct made *made;
  uint64_t made_mask;
};

/* ---- nests ------------------------------------------------------------------------------------------------------- */

struct adding {
  struct rsk_batch *batch;
  struct reshard_fault *fault;
  bool is_unfit; /* for the open table */
};

static enum reshard_status add_nest(void *user, const struct rsr_nest *nest) {
  struct adding *adding = user;
  enum rsk_status said = rsk_batch_add(adding->batch, (uint64_t)(uintptr_t)nest->dst, (uint64_t)(uintptr_t)nest->src,
                                       nest->loops, nest->loop_count, nest->run, nest->conv);
  adding->is_unfit = said == RSK_UNFIT;
  return adding->is_unfit ? RESHARD_PENDING : rsr_batch_said(said, adding->fault);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* A power of two up to 16 that divides what a turn moves the dense end by. */
static uint32_t grain_of(const struct rsr_staged *staged, const struct rsr_port *port) {
  const struct rsp_stream *stream = port->stream;
  uint64_t moves = (uint64_t)(uintptr_t)rsr_stage_slot(staged, port, 0) | stream->quantum | 16;
  if (stream->slots > 1) moves |= stream->slot_stride;
  return (uint32_t)(moves & (0 - moves));
}

static const struct rsp_part *parts_of(const struct rsr_staged *staged, const struct rsr_port *port) {
  return staged->slice->program.parts + port->stream->parts;
}

static uint64_t hash_parts(const struct rsr_staged *staged, const struct rsr_port *port, uint32_t grain) {
  const struct rsp_part *parts = parts_of(staged, port);
  uint64_t hash = grain + port->stream->dir;
  for (uint64_t p = 0; p < port->stream->part_count; p++) {
    const uint64_t words[] = {parts[p].body, parts[p].lo, parts[p].hi};
    for (int i = 0; i < 3; i++) hash = (hash ^ (hash >> 29) ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return hash ^ (hash >> 32);
}

/* The same bytes of the same buffers in the same direction. */
static bool is_alike(const struct rsr_staged *staged, const struct rsr_port *a, const struct rsr_port *b) {
  const struct rsp_stream *x = a->stream, *y = b->stream;
  if (x->dir != y->dir || x->part_count != y->part_count) return false;
  const struct rsp_part *of_x = parts_of(staged, a), *of_y = parts_of(staged, b);
  return of_x == of_y || memcmp(of_x, of_y, x->part_count * sizeof *of_x) == 0;
}

/* The place of the port's table; if that is empty, it is to be made. */
static struct made *find_made(const struct rounds *rounds, const struct rsr_port *port, uint32_t grain) {
  const struct rsr_staged *staged = &rounds->device->staged;
  uint64_t at = hash_parts(staged, port, grain) & rounds->made_mask;
  for (;; at = (at + 1) & rounds->made_mask) {
    struct made *made = &rounds->made[at];
    if (!made->port || (made->grain == grain && is_alike(staged, made->port, port))) return made;
  }
}

static enum reshard_status make_table(struct rounds *rounds, struct made *made) {
  const struct rsr_staged *staged = &rounds->device->staged;
  uint32_t dense = rsr_is_packed(made->port) ? RSK_END_DST : RSK_END_SRC;
  uint64_t origin = (uint64_t)(uintptr_t)staged->staging;
  struct adding adding = {rounds->batch, rounds->fault, false};
  enum rsk_status said = rsk_batch_open_table(rounds->batch, dense, origin, made->grain);
  if (said != RSK_OK) return rsr_batch_said(said, rounds->fault);
  enum reshard_status status =
      rsr_port_all_nests(staged, made->port, staged->staging, add_nest, &adding, rounds->fault);
  made->fits = status == RESHARD_OK;
  if (made->fits) return rsr_batch_said(rsk_batch_close_table(rounds->batch, &made->table), rounds->fault);
  rsk_batch_drop_table(rounds->batch);
  return adding.is_unfit ? RESHARD_OK : status;
}

/* ---- reels ------------------------------------------------------------------------------------------------------- */

static enum reshard_status make_series(struct rounds *rounds, struct reel *reel) {
  const struct rsr_staged *staged = &rounds->device->staged;
  const struct rsp_stream *stream = reel->port->stream;
  uint32_t grain = grain_of(staged, reel->port);
  struct made *made = find_made(rounds, reel->port, grain);
  enum reshard_status status = RESHARD_OK;
  if (!made->port) {
    *made = (struct made){.port = reel->port, .grain = grain};
    status = make_table(rounds, made);
  }
  reel->is_series = made->fits;
  if (status != RESHARD_OK || !reel->is_series) return status;
  struct rsk_window window = {stream->quantum, (uint64_t)(uintptr_t)rsr_stage_slot(staged, reel->port, 0),
                              stream->slot_stride, stream->slots};
  return rsr_batch_said(rsk_batch_add_series(rounds->batch, made->table, &window, &reel->series), rounds->fault);
}

/* What has one turn only needs no series; the ends of a self stream are both where they are. */
static enum reshard_status add_reel(struct rounds *rounds, struct reels *to, struct rsr_port *port) {
  struct reel *reel = &to->all[to->count++];
  *reel = (struct reel){.port = port, .round = port->active > 0 ? port->stream->round0 : RESHARD_NO_ROUND};
  return rsr_crosses(port) && port->active > 1 ? make_series(rounds, reel) : RESHARD_OK;
}

static enum reshard_status add_reels(struct rounds *rounds) {
  struct rsr_staged *staged = &rounds->device->staged;
  uint64_t room = 4;
  while (room < 2 * staged->count) room *= 2;
  rounds->made = calloc(room, sizeof *rounds->made);
  rounds->made_mask = room - 1;
  rounds->packed.all = calloc(staged->count + 1, sizeof *rounds->packed.all);
  rounds->unpacked.all = calloc(staged->count + 1, sizeof *rounds->unpacked.all);
  if (!rounds->made || !rounds->packed.all || !rounds->unpacked.all)
    return rsr_no_memory(rounds->fault, "streams", staged->count * sizeof *rounds->made);
  enum reshard_status status = RESHARD_OK;
  for (uint64_t s = 0; s < staged->count && status == RESHARD_OK; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (rsr_is_packed(port)) status = add_reel(rounds, &rounds->packed, port);
    if (status == RESHARD_OK && rsr_is_unpacked(port)) status = add_reel(rounds, &rounds->unpacked, port);
  }
  return status;
}

/* The turn of the reel's next round. */
static enum reshard_status turn_reel(struct rounds *rounds, struct reel *reel) {
  struct rsr_port *port = reel->port;
  uint32_t turn = reel->turn++;
  reel->round = reel->turn < port->active ? reel->round + port->stream->step : RESHARD_NO_ROUND;
  if (reel->is_series) return rsr_batch_said(rsk_batch_take(rounds->batch, reel->series, turn), rounds->fault);
  struct adding adding = {rounds->batch, rounds->fault, false};
  return rsr_port_nests(&rounds->device->staged, port, turn, add_nest, &adding, rounds->fault);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static enum reshard_status turn_reels(struct rounds *rounds, struct reels *reels, uint32_t round) {
  enum reshard_status status = RESHARD_OK;
  for (uint64_t i = 0; i < reels->count && status == RESHARD_OK; i++) {
    if (reels->all[i].round == round) status = turn_reel(rounds, &reels->all[i]);
  }
  return status;
}

/* What was added becomes one launch. */
static enum reshard_status close_launch(struct rounds *rounds, enum reshard_status status, enum rsk_status added,
                                        struct rsk_launch *launch) {
  if (status == RESHARD_OK) status = rsr_batch_said(added, rounds->fault);
  if (status != RESHARD_OK) return status;
  return rsr_batch_said(rsk_batch_close_launch(rounds->batch, launch), rounds->fault);
}

static enum reshard_status add_launches(struct rounds *rounds, uint32_t round) {
  struct rsr_device *device = rounds->device;
  struct rsr_device_round *row = &device->rounds[round];
  uint64_t turns = device->checks.turn_count;
  enum reshard_status status = turn_reels(rounds, &rounds->packed, round);
  status = close_launch(rounds, status, RSK_OK, &row->pack);
  enum rsk_status added = status == RESHARD_OK ? rsr_verify_sent(device, rounds->batch, round) : RSK_OK;
  status = close_launch(rounds, status, added, &row->sent);
  added = status == RESHARD_OK ? rsr_verify_received(device, rounds->batch, round) : RSK_OK;
  status = close_launch(rounds, status, added, &row->received);
  if (status == RESHARD_OK) status = turn_reels(rounds, &rounds->unpacked, round);
  added = status == RESHARD_OK ? rsr_verify_keep(device, rounds->batch, turns) : RSK_OK;
  return close_launch(rounds, status, added, &row->unpack);
}

static void count_turns(struct rsr_device *device) {
  for (uint64_t s = 0; s < device->staged.count; s++) {
    const struct rsr_port *port = &device->staged.ports[s];
    if (!rsr_crosses(port)) continue;
    for (uint64_t turn = 0; turn < port->active; turn++) device->rounds[rsr_round_of(port->stream, turn)].turns++;
  }
}

static enum reshard_status add_rounds(struct rounds *rounds) {
  struct rsr_device *device = rounds->device;
  struct reshard_fault *fault = rounds->fault;
  uint32_t count = rounds->context->slice.program.slice->rounds;
  device->rounds = calloc((size_t)count + 1, sizeof *device->rounds);
  if (!device->rounds) return rsr_no_memory(fault, "rounds", count * sizeof *device->rounds);
  count_turns(device);
  enum reshard_status status = add_reels(rounds);
  for (uint32_t round = 0; round < count && status == RESHARD_OK; round++) {
    status = add_launches(rounds, round);
    if (status != RESHARD_OK && fault->round == RESHARD_NO_ROUND) fault->round = round;
  }
  return status;
}

enum reshard_status rsr_device_rounds(struct reshard_context *context, struct rsk_batch *batch,
                                      struct reshard_fault *fault) {
  struct rounds rounds = {.context = context, .device = rsr_device_of(context), .batch = batch, .fault = fault};
  enum reshard_status status = add_rounds(&rounds);
  free(rounds.made);
  free(rounds.packed.all);
  free(rounds.unpacked.all);
  return status;
}
