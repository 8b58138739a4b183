/* SPDX-License-Identifier: Apache-2.0
 * Ports, nests and messages of a rank's rounds; see staged.h. */
#include "runtime/staged.h"

#include <stdlib.h>
#include <string.h>

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* Units of `room` bytes that the runs of [first, end) fill, at most; bytes of `unit` per element. */
static uint64_t most_units(const struct rsp_program *program, const struct rsr_span *span, uint64_t room) {
  uint64_t run = rsp_shape_of(program, span->desc)->run, unit = span->bytes / (span->end - span->first);
  uint64_t runs = (span->end - 1) / run - span->first / run + 1;
  uint64_t longest = run < span->end - span->first ? run : span->end - span->first;
  return runs * ((longest * unit + room - 1) / room);
}

/* The same of any turn of the stream. */
static uint64_t most_of_turn(const struct rsp_program *program, const struct rsp_stream *stream, uint64_t room) {
  if (stream->kind == RSP_KIND_STAGED) return (rsr_turn_bytes(stream, 0) + room - 1) / room;
  struct rsr_cursor cursor = rsr_cursor_at_start(rsr_described(program, stream));
  uint64_t most = 0, turns = rsp_stream_rounds(stream);
  for (uint64_t turn = 0; turn < turns; turn++) {
    uint64_t count = 0;
    for (uint64_t left = rsr_turn_bytes(stream, turn); left > 0;) {
      struct rsr_span span = rsr_take(program, &cursor, left);
      count += most_units(program, &span, room);
      left -= span.bytes;
    }
    if (count > most) most = count;
  }
  return most;
}

uint64_t rsr_port_most_messages(const struct rsr_staged *staged, const struct rsr_port *port) {
  uint64_t most = most_of_turn(&staged->slice->program, port->stream, RSR_MESSAGE_BYTES);
  return most + (port->hash_room * sizeof(uint64_t) + RSR_MESSAGE_BYTES - 1) / RSR_MESSAGE_BYTES;
}

static void place_hashes(struct rsr_staged *staged) {
  const struct rsp_program *program = &staged->slice->program;
  for (uint64_t s = 0; s < staged->count; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (!rsr_crosses(port)) continue;
    port->hash_room = most_of_turn(program, port->stream, RSR_PIECE_BYTES);
    port->hash_row = staged->hash_count;
    if (port->stream->relay == RSP_NO_STREAM) staged->hash_count += 2 * port->hash_room;
  }
  for (uint64_t s = 0; s < staged->count; s++) {
    struct rsr_port *port = &staged->ports[s];
    if (port->stream->relay != RSP_NO_STREAM) port->hash_row = staged->ports[port->stream->relay].hash_row;
  }
}

enum reshard_status rsr_staged_open(struct rsr_staged *staged, const struct rsr_slice *slice, uint32_t flags,
                                    struct reshard_fault *fault) {
  const struct rsp_program *program = &slice->program;
  uint64_t count = program->slice->streams.count;
  *staged = (struct rsr_staged){.slice = slice, .flags = flags, .flip_round = RESHARD_NO_ROUND};
  staged->ports = calloc(count + 1, sizeof *staged->ports);
  if (!staged->ports) return rsr_no_memory(fault, "streams", count * sizeof *staged->ports);
  staged->count = count;
  for (uint64_t s = 0; s < count; s++) {
    staged->ports[s].stream = &program->streams[s];
    staged->ports[s].active = rsp_stream_rounds(&program->streams[s]);
    if (program->streams[s].relay != RSP_NO_STREAM) staged->ports[program->streams[s].relay].is_read = true;
  }
  if (flags & RESHARD_VERIFY) place_hashes(staged);
  rsr_staged_rewind(staged);
  return RESHARD_OK;
}

void rsr_staged_rewind(struct rsr_staged *staged) {
  const struct rsp_program *program = &staged->slice->program;
  for (uint64_t s = 0; s < staged->count; s++) {
    struct rsr_port *port = &staged->ports[s];
    port->cursor = port->twin = rsr_cursor_at_start(rsr_described(program, port->stream));
    if (port->stream->dir != RSP_DIR_SELF_DST) continue;
    port->twin = rsr_cursor_at_start(rsr_twin(program, port->stream->peer, RSP_DIR_SELF_SRC, port->stream));
  }
}

void rsr_staged_close(struct rsr_staged *staged) {
  free(staged->ports);
  if (staged->block) {
    free(staged->block);
    free(staged->hashes);
  }
  *staged = (struct rsr_staged){0};
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

unsigned char *rsr_stage_slot(const struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn) {
  const struct rsp_stream *stream = rsr_described(&staged->slice->program, port->stream);
  return staged->staging + stream->stage_off + (uint32_t)turn % stream->slots * stream->slot_stride;
}

uint64_t *rsr_hash_slot(const struct rsr_staged *staged, const struct rsr_port *port, uint64_t turn) {
  return staged->hashes + port->hash_row + turn % 2 * port->hash_room;
}

static int compare(const struct rsp_stream *s, uint32_t dir, uint32_t peer, uint32_t kind, uint32_t tag) {
  if (s->dir != dir) return s->dir < dir ? -1 : 1;
  if (s->peer != peer) return s->peer < peer ? -1 : 1;
  if (s->kind != kind) return s->kind < kind ? -1 : 1;
  return s->tag < tag ? -1 : s->tag > tag;
}

const struct rsp_stream *rsr_twin(const struct rsp_program *peer, uint32_t self, uint32_t dir,
                                  const struct rsp_stream *stream) {
  uint64_t lo = 0, hi = peer->slice->streams.count;
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    int c = compare(&peer->streams[mid], dir, self, stream->kind, stream->tag);
    if (c == 0) return &peer->streams[mid];
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

/* ---- nests ------------------------------------------------------------------------------------------------------- */

/* Spans of the two ends of a self stream come in step: they have one shape. Else `from` is `span`. */
static bool make_nest(const struct rsr_slice *slice, const struct rsp_stream *stream, struct rsr_nest *nest,
                      const struct rsr_span *from, const struct rsr_span *span, const struct rsr_box *box,
                      unsigned char *wire) {
  if (stream->dir == RSP_DIR_OUT) return rsr_nest_pack(nest, slice, span->desc, box, wire);
  if (stream->dir == RSP_DIR_IN) return rsr_nest_unpack(nest, slice, span->desc, box, wire);
  return rsr_nest_join(nest, slice, from->desc, slice, span->desc, box);
}

static enum reshard_status no_such_conversion(const struct rsp_program *program, const struct rsp_desc *desc,
                                              uint32_t round, struct reshard_fault *fault) {
  const struct rsp_shape *shape = rsp_shape_of(program, desc);
  rsr_fault(fault, RESHARD_BAD_PLAN, "the plan asks for a conversion that does not exist (dtypes %u and %u, op %u)",
            shape->buf_dtype, shape->wire_dtype, shape->op);
  fault->round = round;
  rsr_fault_at(fault, program, rsp_program_buffer(program, desc->ref));
  return RESHARD_BAD_PLAN;
}

enum reshard_status rsr_port_piece(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn,
                                   unsigned char *wire, uint64_t bytes, rsr_nest_fn visit, void *user,
                                   struct reshard_fault *fault) {
  const struct rsp_program *program = &staged->slice->program;
  bool is_self = !rsr_crosses(port);
  struct rsr_nest nest;
  for (uint64_t left = bytes; left > 0;) {
    struct rsr_span span = rsr_take(program, &port->cursor, left), from = span;
    uint32_t outer = rsr_outer_loops(program, span.desc);
    if (is_self) {
      from = rsr_take(program, &port->twin, left);
      uint32_t outer_from = rsr_outer_loops(program, from.desc);
      if (outer_from > outer) outer = outer_from;
    }
    uint64_t unit = span.bytes / (span.end - span.first);
    for (uint64_t at = span.first; at < span.end;) {
      struct rsr_box box = rsr_next_box(program, span.desc, outer, at, span.end);
      if (!make_nest(staged->slice, port->stream, &nest, &from, &span, &box, wire))
        return no_such_conversion(program, span.desc, rsr_round_of(port->stream, turn), fault);
      enum reshard_status status = visit(user, &nest);
      if (status != RESHARD_OK) return status;
      if (!is_self) wire += box.elems * unit;
      at += box.elems;
    }
    left -= span.bytes;
  }
  return RESHARD_OK;
}

enum reshard_status rsr_port_nests(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn,
                                   rsr_nest_fn visit, void *user, struct reshard_fault *fault) {
  unsigned char *wire = rsr_crosses(port) ? rsr_stage_slot(staged, port, turn) : NULL;
  return rsr_port_piece(staged, port, turn, wire, rsr_turn_bytes(port->stream, turn), visit, user, fault);
}

enum reshard_status rsr_port_all_nests(const struct rsr_staged *staged, const struct rsr_port *port,
                                       unsigned char *wire, rsr_nest_fn visit, void *user,
                                       struct reshard_fault *fault) {
  struct rsr_port all = *port;
  all.cursor = rsr_cursor_at_start(port->stream);
  return rsr_port_piece(staged, &all, 0, wire, port->stream->bytes, visit, user, fault);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

struct run {
  unsigned char *ptr;
  uint64_t bytes; /* on the wire */
  uint32_t gid;
};

/* Runs of the next `bytes` bytes, cut where these end. False: ended by `visit`. */
static bool each_run(const struct rsr_slice *slice, struct rsr_cursor *cursor, uint64_t bytes,
                     bool (*visit)(void *user, const struct run *run), void *user) {
  const struct rsp_program *program = &slice->program;
  for (uint64_t left = bytes; left > 0;) {
    struct rsr_span span = rsr_take(program, cursor, left);
    uint64_t unit = span.bytes / (span.end - span.first), run = rsp_shape_of(program, span.desc)->run;
    for (uint64_t at = span.first; at < span.end;) {
      uint64_t in_run = run - at % run;
      uint64_t elems = in_run < span.end - at ? in_run : span.end - at;
      struct rsr_spot spot = rsr_locate(program, span.desc, at);
      struct run found = {rsr_address(slice, spot.ref) + spot.off, elems * unit, spot.ref};
      if (!visit(user, &found)) return false;
      at += elems;
    }
    left -= span.bytes;
  }
  return true;
}

struct messages {
  rsr_message_fn visit;
  void *user;
  uint64_t pieces;
};

static bool cut_message(const struct messages *to, unsigned char *ptr, uint64_t bytes) {
  while (bytes > 0) {
    uint64_t some = bytes < RSR_MESSAGE_BYTES ? bytes : RSR_MESSAGE_BYTES;
    if (!to->visit(to->user, ptr, some)) return false;
    ptr += some;
    bytes -= some;
  }
  return true;
}

static uint64_t pieces_of(uint64_t bytes) {
  return (bytes + RSR_PIECE_BYTES - 1) / RSR_PIECE_BYTES;
}

static bool run_message(void *user, const struct run *run) {
  struct messages *to = user;
  to->pieces += pieces_of(run->bytes);
  return cut_message(to, run->ptr, run->bytes);
}

bool rsr_port_messages(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, rsr_message_fn visit,
                       void *user) {
  struct messages to = {visit, user, 0};
  uint64_t bytes = rsr_turn_bytes(port->stream, turn);
  if (port->stream->kind == RSP_KIND_STAGED) {
    to.pieces = pieces_of(bytes);
    if (!cut_message(&to, rsr_stage_slot(staged, port, turn), bytes)) return false;
  } else if (!each_run(staged->slice, &port->cursor, bytes, run_message, &to)) {
    return false;
  }
  if (port->hash_room == 0) return true;
  return cut_message(&to, (unsigned char *)rsr_hash_slot(staged, port, turn), to.pieces * sizeof(uint64_t));
}

struct pieces {
  rsr_piece_fn visit;
  void *user;
  uint64_t count;
};

static bool run_pieces(void *user, const struct run *run) {
  struct pieces *to = user;
  for (uint64_t at = 0; at < run->bytes; at += RSR_PIECE_BYTES) {
    uint64_t left = run->bytes - at;
    to->visit(to->user, run->ptr + at, left < RSR_PIECE_BYTES ? left : RSR_PIECE_BYTES);
    to->count++;
  }
  return true;
}

uint64_t rsr_port_pieces(const struct rsr_staged *staged, struct rsr_port *port, uint64_t turn, rsr_piece_fn visit,
                         void *user) {
  struct pieces to = {visit, user, 0};
  uint64_t bytes = rsr_turn_bytes(port->stream, turn);
  if (port->stream->kind == RSP_KIND_STAGED)
    run_pieces(&to, &(struct run){rsr_stage_slot(staged, port, turn), bytes, 0});
  else
    each_run(staged->slice, &port->twin, bytes, run_pieces, &to);
  return to.count;
}

struct search {
  uint64_t skip; /* bytes of a staged turn, pieces of a direct one */
  bool by_pieces;
  uint32_t gid;
};

static bool run_search(void *user, const struct run *run) {
  struct search *search = user;
  uint64_t has = search->by_pieces ? pieces_of(run->bytes) : run->bytes;
  search->gid = run->gid;
  if (search->skip < has) return false;
  search->skip -= has;
  return true;
}

void rsr_name_piece(const struct rsr_staged *staged, const struct rsr_port *port, const struct rsr_cursor *start,
                    uint64_t turn, uint64_t piece, struct reshard_fault *fault) {
  const struct rsp_program *program = &staged->slice->program;
  bool by_pieces = port->stream->kind == RSP_KIND_DIRECT;
  struct search search = {by_pieces ? piece : piece * RSR_PIECE_BYTES, by_pieces, 0};
  struct rsr_cursor cursor = *start;
  if (each_run(staged->slice, &cursor, rsr_turn_bytes(port->stream, turn), run_search, &search)) return;
  rsr_fault_at(fault, program, rsp_program_buffer(program, search.gid));
}

void rsr_name_next(const struct rsr_staged *staged, const struct rsr_port *port, struct reshard_fault *fault) {
  const struct rsp_program *program = &staged->slice->program;
  struct rsr_cursor cursor = port->cursor;
  const struct rsp_stream *stream = rsr_described(program, port->stream);
  if (!cursor.inside && cursor.part == stream->parts + stream->part_count) return;
  struct rsr_span span = rsr_take(program, &cursor, 8);
  rsr_fault_at(fault, program, rsp_program_buffer(program, rsr_locate(program, span.desc, span.first).ref));
}
