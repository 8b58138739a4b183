/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies of fused mode: nests cut into pieces that rank threads share. Also what both modes need to know of their
 * peers. In: nests, programs of all ranks; out: ops, faults.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host.h"

/* Large enough that taking it costs nothing beside copying it, small enough to share out and to stay in a cache. */
#define PIECE_BYTES (UINT64_C(512) << 10)

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Room for `more` rows of `size` bytes after `count`. */
static bool grow(void **rows, uint64_t *room, uint64_t count, uint64_t more, size_t size) {
  if (count + more <= *room) return true;
  uint64_t want = *room < 16 ? 32 : *room * 2;
  while (want < count + more) want *= 2;
  void *grown = realloc(*rows, want * size);
  if (!grown) return false;
  *rows = grown;
  *room = want;
  return true;
}

static bool same_conv(const struct rsk_conv *a, const struct rsk_conv *b) {
  return a->src_dtype == b->src_dtype && a->dst_dtype == b->dst_dtype && a->op == b->op &&
         memcmp(&a->constant, &b->constant, sizeof a->constant) == 0;
}

/* The row of the pair; copies of bits are all alike. */
static bool conv_row(struct rsr_ops *ops, const struct rsk_conv conv[2], uint32_t *row) {
  struct rsk_conv pair[2] = {conv[0], conv[1]};
  if (pair[0].is_copy && pair[1].is_copy) pair[0] = pair[1] = rsr_plain;
  for (uint64_t i = 0; i < ops->conv_count; i++) {
    if (!same_conv(&ops->convs[2 * i], &pair[0]) || !same_conv(&ops->convs[2 * i + 1], &pair[1])) continue;
    *row = (uint32_t)i;
    return true;
  }
  void *rows = ops->convs;
  if (!grow(&rows, &ops->conv_room, ops->conv_count, 1, sizeof pair)) return false;
  ops->convs = rows;
  memcpy(&ops->convs[2 * ops->conv_count], pair, sizeof pair);
  *row = (uint32_t)ops->conv_count++;
  return true;
}

/* Bytes of an element; of a copy of bits, 1. */
static uint64_t dst_unit(const struct rsk_conv conv[2]) {
  return conv[0].is_copy && conv[1].is_copy ? 1 : conv[1].dst_bytes;
}

static uint64_t src_unit(const struct rsk_conv conv[2]) {
  return conv[0].is_copy && conv[1].is_copy ? 1 : conv[0].src_bytes;
}

static bool add_row(struct rsr_ops *ops, struct rsr_op op, const struct rsk_loop *of) {
  void *rows = ops->rows, *loops = ops->loops;
  bool good = grow(&rows, &ops->room, ops->count, 1, sizeof *ops->rows);
  ops->rows = rows;
  good = good && grow(&loops, &ops->loop_room, ops->loop_count, op.loop_count, sizeof *ops->loops);
  ops->loops = loops;
  if (!good) return false;
  op.loops = ops->loop_count;
  op.bytes = op.run * dst_unit(&ops->convs[2 * op.conv]);
  for (uint32_t l = 0; l < op.loop_count; l++) {
    op.bytes *= of[l].count;
    ops->loops[ops->loop_count++] = of[l];
  }
  ops->rows[ops->count++] = op;
  return true;
}

bool rsr_ops_add(struct rsr_ops *ops, const struct rsr_nest *nest) {
  uint32_t conv;
  if (!conv_row(ops, nest->conv, &conv)) return false;
  struct rsr_op op = {
      .dst = nest->dst, .src = nest->src, .run = nest->run, .loop_count = nest->loop_count, .conv = conv};
  return add_row(ops, op, nest->loops);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* How an op is cut: the loops outside `level` turn by turn; what is inside such a turn, in `parts`. A part has at most
 * `most` turns of loop `level`, and in tiles `high` of the next one, which makes `rows` parts; without a loop there,
 * `most` of the run. */
struct cut {
  uint32_t level;
  bool tiles;
  uint64_t most, high, rows, parts, pieces;
};

static uint64_t parts_of(uint64_t count, uint64_t most) {
  return (count - 1) / most + 1;
}

/* Both ends are read and written in lines, so a tile is wide both ways. */
#define ACROSS UINT64_C(1024)

static struct cut tiles(const struct rsk_loop *across, const struct rsk_loop *along, uint64_t run) {
  struct cut cut = {.tiles = true, .most = across->count < ACROSS ? across->count : ACROSS};
  cut.high = PIECE_BYTES / (cut.most * run);
  cut.rows = parts_of(along->count, cut.high);
  cut.parts = parts_of(across->count, cut.most) * cut.rows;
  return cut;
}

/* Of an op that is more than a piece. */
static struct cut cut_of(const struct rsr_ops *ops, const struct rsr_op *op) {
  const struct rsk_loop *loops = ops->loops + op->loops;
  const struct rsk_conv *conv = &ops->convs[2 * op->conv];
  uint64_t most = PIECE_BYTES / dst_unit(conv), outside = 1, bytes = op->bytes;
  struct cut cut = {.most = most, .parts = parts_of(op->run, most)};
  uint32_t level = 0;
  for (; level < op->loop_count; level++) {
    const struct rsk_loop *loop = &loops[level];
    if (level + 2 == op->loop_count && conv[0].is_copy && conv[1].is_copy &&
        rsk_is_transpose(loop, loop + 1, op->run)) {
      cut = tiles(loop, loop + 1, op->run);
      break;
    }
    uint64_t turn = bytes / loop->count;
    if (turn <= PIECE_BYTES) {
      cut = (struct cut){.most = PIECE_BYTES / turn, .parts = parts_of(loop->count, PIECE_BYTES / turn)};
      break;
    }
    outside *= loop->count;
    bytes = turn;
  }
  cut.level = level;
  cut.pieces = outside * cut.parts;
  return cut;
}

static void skip(struct rsr_piece *piece, const struct rsk_loop *loop, uint64_t turns) {
  piece->dst += (int64_t)turns * loop->dst_step;
  piece->src += (int64_t)turns * loop->src_step;
}

/* From `turns` on, at most `most`. */
static void narrow(struct rsr_piece *piece, struct rsk_loop *loop, uint64_t turns, uint64_t most) {
  skip(piece, loop, turns);
  loop->count = loop->count - turns < most ? loop->count - turns : most;
}

void rsr_ops_piece(const struct rsr_ops *ops, const struct rsr_op *op, uint64_t number, struct rsr_piece *piece) {
  const struct rsk_loop *loops = op->loop_count > 0 ? ops->loops + op->loops : NULL;
  piece->dst = op->dst;
  piece->src = op->src;
  piece->run = op->run;
  piece->loops = loops;
  piece->loop_count = op->loop_count;
  piece->conv = op->conv;
  if (op->bytes <= PIECE_BYTES) return;
  const struct cut cut = cut_of(ops, op);
  uint64_t turn = number / cut.parts, part = number % cut.parts;
  for (uint32_t l = cut.level; l-- > 0; turn /= loops[l].count) skip(piece, &loops[l], turn % loops[l].count);
  piece->loop_count -= cut.level;
  piece->loops = piece->own;
  for (uint32_t l = 0; l < piece->loop_count; l++) piece->own[l] = loops[cut.level + l];
  if (cut.tiles) {
    narrow(piece, &piece->own[0], part / cut.rows * cut.most, cut.most);
    narrow(piece, &piece->own[1], part % cut.rows * cut.high, cut.high);
  } else if (piece->loop_count > 0) {
    narrow(piece, &piece->own[0], part * cut.most, cut.most);
  } else {
    const struct rsk_conv *conv = &ops->convs[2 * op->conv];
    struct rsk_loop run = {op->run, (int64_t)dst_unit(conv), (int64_t)src_unit(conv)};
    narrow(piece, &run, part * cut.most, cut.most);
    piece->run = run.count;
  }
}

/* ---- their order ------------------------------------------------------------------------------------------------- */

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* By digits of `at`, the lowest first; none is more than `most`. The sorted ones are in one of the two arrays. */
static struct rsr_place *sort_places(struct rsr_place *from, struct rsr_place *to, uint64_t count, uint64_t most) {
  for (uint32_t shift = 0; shift < 64 && most >> shift != 0; shift += DIGIT_BITS) {
    uint64_t starts[DIGITS] = {0}, before = 0;
    for (uint64_t i = 0; i < count; i++) starts[from[i].at >> shift & (DIGITS - 1)]++;
    for (uint32_t d = 0; d < DIGITS; d++) {
      uint64_t has = starts[d];
      starts[d] = before;
      before += has;
    }
    for (uint64_t i = 0; i < count; i++) to[starts[from[i].at >> shift & (DIGITS - 1)]++] = from[i];
    struct rsr_place *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* All ops by destination, and room for an end. */
static bool sort_ops(struct rsr_ops *ops) {
  free(ops->places);
  struct rsr_place *places = ops->places = malloc((2 * ops->count + 1) * sizeof *places);
  if (!places) return false;
  uint64_t least = UINT64_MAX, most = 0;
  for (uint64_t i = 0; i < ops->count; i++) {
    uint64_t dst = (uint64_t)(uintptr_t)ops->rows[i].dst;
    places[i] = (struct rsr_place){dst, i};
    if (dst < least) least = dst;
    if (dst > most) most = dst;
  }
  for (uint64_t i = 0; i < ops->count; i++) places[i].at -= least;
  const struct rsr_place *sorted = sort_places(places, places + ops->count, ops->count, most - least);
  if (sorted != places) memcpy(places, sorted, ops->count * sizeof *places);
  return true;
}

/* From the first byte that is written to the last. Not in order: pieces that are later may be written further down. */
static uint64_t reach(const struct rsr_ops *ops, const struct rsr_op *op, bool *in_order) {
  uint64_t bytes = op->run * dst_unit(&ops->convs[2 * op->conv]);
  *in_order = true;
  for (uint32_t l = op->loop_count; l-- > 0;) {
    const struct rsk_loop *loop = &ops->loops[op->loops + l];
    if (loop->dst_step < 0 || (uint64_t)loop->dst_step < bytes) *in_order = false;
    if (loop->dst_step > 0) bytes += (loop->count - 1) * (uint64_t)loop->dst_step;
  }
  return bytes;
}

/* Puts the pieces in the op's place. */
static bool split(struct rsr_ops *ops, uint64_t row) {
  const struct rsr_op op = ops->rows[row];
  struct rsr_piece piece;
  uint64_t pieces = cut_of(ops, &op).pieces;
  for (uint64_t k = 0; k < pieces; k++) {
    rsr_ops_piece(ops, &op, k, &piece);
    struct rsr_op part = {
        .dst = piece.dst, .src = piece.src, .run = piece.run, .loop_count = piece.loop_count, .conv = piece.conv};
    if (!add_row(ops, part, piece.loops)) return false;
  }
  ops->rows[row] = ops->rows[--ops->count];
  return true;
}

/* Ops are cut when their turn comes, but where others write between their pieces. */
static bool split_mixed(struct rsr_ops *ops) {
  uint64_t end = 0, count = ops->count;
  for (uint64_t i = 0; i < count; i++) {
    const struct rsr_place *place = &ops->places[i];
    const struct rsr_op *op = &ops->rows[place->op];
    bool in_order, mixed = place->at < end;
    uint64_t reached = place->at + reach(ops, op, &in_order);
    mixed = mixed || !in_order || (i + 1 < count && place[1].at < reached);
    if (reached > end) end = reached;
    if (mixed && op->bytes > PIECE_BYTES && !split(ops, place->op)) return false;
  }
  return true;
}

/* Small ops share a chunk; each further piece of a large one is one. */
static void number_chunks(struct rsr_ops *ops) {
  uint64_t chunks = 0, bytes = PIECE_BYTES;
  for (uint64_t i = 0; i < ops->count; i++) {
    const struct rsr_op *op = &ops->rows[ops->places[i].op];
    if (bytes >= PIECE_BYTES / 2) {
      chunks++;
      bytes = 0;
    }
    ops->places[i].at = chunks - 1;
    bytes += op->bytes;
    if (op->bytes > PIECE_BYTES) chunks += cut_of(ops, op).pieces - 1;
  }
  ops->places[ops->count].at = ops->chunk_count = chunks;
}

bool rsr_ops_close(struct rsr_ops *ops) {
  uint64_t count = ops->count;
  if (count == 0) return true;
  if (!sort_ops(ops) || !split_mixed(ops)) return false;
  if (ops->count != count && !sort_ops(ops)) return false;
  number_chunks(ops);
  return true;
}

/* ---- making them ------------------------------------------------------------------------------------------------- */

void rsr_ops_run(const struct rsr_ops *ops, const struct rsr_piece *piece) {
  rsr_nest_run_loops(piece->dst, piece->src, piece->loops, piece->loop_count, piece->run, &ops->convs[2 * piece->conv],
                     ops->flags);
}

static bool run_holds(const struct rsr_piece *piece, const struct rsk_conv conv[2], const unsigned char *dst,
                      const unsigned char *src) {
  uint64_t dst_bytes = dst_unit(conv), src_bytes = src_unit(conv);
  unsigned char again[4096];
  for (uint64_t at = 0, some; at < piece->run; at += some) {
    some = sizeof again / dst_bytes;
    if (some > piece->run - at) some = piece->run - at;
    rsr_nest_run_loops(again, src + at * src_bytes, NULL, 0, some, conv, 0);
    if (memcmp(again, dst + at * dst_bytes, some * dst_bytes) != 0) return false;
  }
  return true;
}

bool rsr_ops_holds(const struct rsr_ops *ops, const struct rsr_piece *piece) {
  const struct rsk_loop *loops = piece->loops;
  const struct rsk_conv *conv = &ops->convs[2 * piece->conv];
  uint64_t turns[RSK_LOOPS] = {0};
  const unsigned char *dst = piece->dst, *src = piece->src;
  for (;;) {
    if (!run_holds(piece, conv, dst, src)) return false;
    uint32_t l = piece->loop_count;
    for (; l > 0 && ++turns[l - 1] == loops[l - 1].count; l--) {
      turns[l - 1] = 0;
      dst -= (int64_t)(loops[l - 1].count - 1) * loops[l - 1].dst_step;
      src -= (int64_t)(loops[l - 1].count - 1) * loops[l - 1].src_step;
    }
    if (l == 0) return true;
    dst += loops[l - 1].dst_step;
    src += loops[l - 1].src_step;
  }
}

void rsr_ops_free(struct rsr_ops *ops) {
  free(ops->rows);
  free(ops->loops);
  free(ops->convs);
  free(ops->places);
  *ops = (struct rsr_ops){0};
}

/* ---- the other ends ---------------------------------------------------------------------------------------------- */

const struct rsp_stream *rsr_origin(const struct reshard_host_group *group, uint32_t *rank,
                                    const struct rsp_stream *stream) {
  while (stream && stream->relay != RSP_NO_STREAM) {
    const struct rsp_program *program = &group->stations[*rank].member->slice.program;
    const struct rsp_stream *in = &program->streams[stream->relay];
    stream = rsr_twin(&group->stations[in->peer].member->slice.program, *rank, RSP_DIR_OUT, in);
    if (stream && stream->round0 != in->round0)
      return NULL; /* with this each step back is a round earlier: no circle */
    *rank = in->peer;
  }
  return stream;
}

static uint32_t other_dir(uint32_t dir) {
  switch (dir) {
  case RSP_DIR_OUT:
    return RSP_DIR_IN;
  case RSP_DIR_IN:
    return RSP_DIR_OUT;
  case RSP_DIR_SELF_SRC:
    return RSP_DIR_SELF_DST;
  default:
    return RSP_DIR_SELF_SRC;
  }
}

static enum reshard_status bad_twin(struct reshard_context *context, const struct rsp_stream *stream, bool exists,
                                    struct reshard_fault *fault) {
  bool sends = stream->dir == RSP_DIR_OUT || stream->dir == RSP_DIR_SELF_SRC;
  uint32_t from = sends ? context->world_rank : stream->peer, to = sends ? stream->peer : context->world_rank;
  rsr_fault(fault, RESHARD_BAD_PLAN,
            "the programs of world ranks %u and %u do not fit together: the %s stream from %u to %u %s; "
            "compile the plan again, and run `reshard verify` on it",
            from, to, stream->kind == RSP_KIND_DIRECT ? "direct" : "staged", from, to,
            exists ? "has another shape at the other end" : "has no other end");
  fault->rank = context->world_rank;
  fault->peer = stream->peer;
  return RESHARD_BAD_PLAN;
}

enum reshard_status rsr_check_twins(struct reshard_context *context, struct reshard_fault *fault) {
  const struct rsp_program *program = &context->slice.program;
  struct reshard_host_group *group = rsr_host_of(context)->group;
  for (uint64_t s = 0; s < program->slice->streams.count; s++) {
    const struct rsp_stream *stream = &program->streams[s];
    const struct reshard_context *member = group->stations[stream->peer].member;
    if (!member) return rsr_fault(fault, RESHARD_PEER_FAILED, "prepare: world rank %u has no context", stream->peer);
    const struct rsp_program *peer = &member->slice.program;
    const struct rsp_stream *twin = rsr_twin(peer, context->world_rank, other_dir(stream->dir), stream);
    if (!twin || !rsr_same_times(stream, twin)) return bad_twin(context, stream, twin != NULL, fault);
    if (stream->relay != RSP_NO_STREAM) continue; /* the receiver compares with the first sender */
    uint32_t rank = stream->peer;
    twin = rsr_origin(group, &rank, twin);
    if (!twin || !rsr_same_parts(program, stream, &group->stations[rank].member->slice.program, twin))
      return bad_twin(context, stream, true, fault);
  }
  return RESHARD_OK;
}

enum reshard_status rsr_inject(struct reshard_context *context, uint32_t round, struct reshard_fault *fault) {
  const struct reshard_inject *inject = &context->config.inject;
  if (inject->kind == RESHARD_INJECT_NONE || inject->round != round) return RESHARD_OK;
  switch (inject->kind) {
  case RESHARD_INJECT_DIE:
    rsr_host_of(context)->died = true;
    break;
  case RESHARD_INJECT_FAIL:
    break;
  case RESHARD_INJECT_STALL:
    rsr_host_pause(context, inject->seconds);
    return RESHARD_OK;
  default:
    return RESHARD_OK;
  }
  rsr_fault(fault, RESHARD_PEER_FAILED, "world rank %u was made to fail before round %u", context->world_rank, round);
  fault->round = round;
  return RESHARD_PEER_FAILED;
}
