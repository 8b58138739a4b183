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

static uint64_t nest_bytes(const struct rsr_nest *nest, uint32_t from) {
  uint64_t bytes = nest->run * (rsr_nest_is_copy(nest) ? 1 : nest->conv[1].dst_bytes);
  for (uint32_t l = from; l < nest->loop_count; l++) bytes *= nest->loops[l].count;
  return bytes;
}

/* Loops from `from` on. */
static bool add_row(struct rsr_ops *ops, const struct rsr_nest *nest, uint32_t from, uint32_t conv) {
  uint32_t loop_count = nest->loop_count - from;
  void *rows = ops->rows, *loops = ops->loops;
  bool good = grow(&rows, &ops->room, ops->count, 1, sizeof *ops->rows);
  ops->rows = rows;
  good = good && grow(&loops, &ops->loop_room, ops->loop_count, loop_count, sizeof *ops->loops);
  ops->loops = loops;
  if (!good) return false;
  ops->rows[ops->count++] =
      (struct rsr_op){nest->dst, nest->src, nest->run, nest_bytes(nest, from), ops->loop_count, loop_count, conv};
  if (loop_count > 0) memcpy(ops->loops + ops->loop_count, nest->loops + from, loop_count * sizeof *ops->loops);
  ops->loop_count += loop_count;
  return true;
}

/* A run that is too large alone. */
static bool add_run(struct rsr_ops *ops, struct rsr_nest *nest, uint32_t conv) {
  uint64_t dst_unit = rsr_nest_is_copy(nest) ? 1 : nest->conv[1].dst_bytes,
           src_unit = rsr_nest_is_copy(nest) ? 1 : nest->conv[0].src_bytes;
  uint64_t most = PIECE_BYTES / dst_unit;
  struct rsr_nest piece = *nest;
  for (uint64_t left = nest->run; left > 0; left -= piece.run) {
    piece.run = left < most ? left : most;
    if (!add_row(ops, &piece, piece.loop_count, conv)) return false;
    piece.dst += piece.run * dst_unit;
    piece.src += piece.run * src_unit;
  }
  return true;
}

/* Both ends are read and written in lines, so a piece is wide both ways. */
#define ACROSS UINT64_C(1024)

static bool add_tiles(struct rsr_ops *ops, const struct rsr_nest *nest, uint32_t from, uint32_t conv) {
  const struct rsk_loop *across = &nest->loops[from], *along = &nest->loops[from + 1];
  uint64_t wide = across->count < ACROSS ? across->count : ACROSS, high = PIECE_BYTES / (wide * nest->run);
  struct rsr_nest piece = *nest;
  for (uint64_t i = 0; i < across->count; i += wide) {
    for (uint64_t j = 0; j < along->count; j += high) {
      piece.loops[from].count = across->count - i < wide ? across->count - i : wide;
      piece.loops[from + 1].count = along->count - j < high ? along->count - j : high;
      piece.dst = nest->dst + (int64_t)i * across->dst_step + (int64_t)j * along->dst_step;
      piece.src = nest->src + (int64_t)i * across->src_step + (int64_t)j * along->src_step;
      if (!add_row(ops, &piece, from, conv)) return false;
    }
  }
  return true;
}

/* As many turns of loop `from` at once as make a piece; if one is too large, its inside in pieces. At most RSK_LOOPS
 * deep. */
static bool add_pieces(struct rsr_ops *ops, struct rsr_nest *nest, uint32_t from, uint32_t conv) {
  if (nest_bytes(nest, from) <= PIECE_BYTES) return add_row(ops, nest, from, conv);
  if (from == nest->loop_count) return add_run(ops, nest, conv);
  if (from + 2 == nest->loop_count && rsr_nest_is_copy(nest) &&
      rsk_is_transpose(&nest->loops[from], &nest->loops[from + 1], nest->run)) {
    return add_tiles(ops, nest, from, conv);
  }
  struct rsk_loop loop = nest->loops[from];
  unsigned char *dst = nest->dst;
  const unsigned char *src = nest->src;
  uint64_t turn = nest_bytes(nest, from + 1), most = turn > PIECE_BYTES ? 1 : PIECE_BYTES / turn;
  bool good = true;
  for (uint64_t k = 0; k < loop.count && good; k += most) {
    nest->loops[from].count = loop.count - k < most ? loop.count - k : most;
    nest->dst = dst + (int64_t)k * loop.dst_step;
    nest->src = src + (int64_t)k * loop.src_step;
    good = turn > PIECE_BYTES ? add_pieces(ops, nest, from + 1, conv) : add_row(ops, nest, from, conv);
  }
  nest->loops[from].count = loop.count;
  nest->dst = dst;
  nest->src = src;
  return good;
}

bool rsr_ops_add(struct rsr_ops *ops, struct rsr_nest *nest) {
  uint32_t conv;
  if (!conv_row(ops, nest->conv, &conv)) return false;
  return add_pieces(ops, nest, 0, conv);
}

struct key {
  uint64_t dst, row;
};

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* By digits of dst, the lowest first; no dst is more than `most`. The sorted ones are in one of the two arrays. */
static struct key *sort_keys(struct key *from, struct key *to, uint64_t count, uint64_t most) {
  for (uint32_t shift = 0; shift < 64 && most >> shift != 0; shift += DIGIT_BITS) {
    uint64_t at[DIGITS] = {0}, before = 0;
    for (uint64_t i = 0; i < count; i++) at[from[i].dst >> shift & (DIGITS - 1)]++;
    for (uint32_t d = 0; d < DIGITS; d++) {
      uint64_t has = at[d];
      at[d] = before;
      before += has;
    }
    for (uint64_t i = 0; i < count; i++) to[at[from[i].dst >> shift & (DIGITS - 1)]++] = from[i];
    struct key *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* By destination. Rows are many, and moved once only. */
static bool sort_rows(struct rsr_ops *ops) {
  struct key *keys = malloc(2 * ops->count * sizeof *keys);
  struct rsr_op *sorted = malloc(ops->count * sizeof *sorted);
  uint64_t least = UINT64_MAX, most = 0;
  if (!keys || !sorted) {
    free(keys);
    free(sorted);
    return false;
  }
  for (uint64_t i = 0; i < ops->count; i++) {
    uint64_t dst = (uint64_t)(uintptr_t)ops->rows[i].dst;
    keys[i] = (struct key){dst, i};
    if (dst < least) least = dst;
    if (dst > most) most = dst;
  }
  for (uint64_t i = 0; i < ops->count; i++) keys[i].dst -= least;
  const struct key *in_order = sort_keys(keys, keys + ops->count, ops->count, most - least);
  for (uint64_t i = 0; i < ops->count; i++) sorted[i] = ops->rows[in_order[i].row];
  free(keys);
  free(ops->rows);
  ops->rows = sorted;
  ops->room = ops->count;
  return true;
}

bool rsr_ops_close(struct rsr_ops *ops) {
  if (ops->count == 0) return true;
  if (!sort_rows(ops)) return false;
  ops->chunks = malloc((ops->count + 1) * sizeof *ops->chunks);
  if (!ops->chunks) return false;
  uint64_t bytes = PIECE_BYTES;
  for (uint64_t i = 0; i < ops->count; i++) {
    if (bytes >= PIECE_BYTES / 2) {
      ops->chunks[ops->chunk_count++] = i;
      bytes = 0;
    }
    bytes += ops->rows[i].bytes;
  }
  ops->chunks[ops->chunk_count] = ops->count;
  return true;
}

void rsr_ops_run(const struct rsr_ops *ops, const struct rsr_op *op) {
  const struct rsk_loop *loops = op->loop_count > 0 ? ops->loops + op->loops : NULL;
  rsr_nest_run_loops(op->dst, op->src, loops, op->loop_count, op->run, &ops->convs[2 * op->conv], ops->flags);
}

static bool run_holds(const struct rsr_op *op, const struct rsk_conv conv[2], const unsigned char *dst,
                      const unsigned char *src) {
  bool copies = conv[0].is_copy && conv[1].is_copy;
  uint64_t dst_unit = copies ? 1 : conv[1].dst_bytes, src_unit = copies ? 1 : conv[0].src_bytes;
  unsigned char again[4096];
  for (uint64_t at = 0, some; at < op->run; at += some) {
    some = sizeof again / dst_unit;
    if (some > op->run - at) some = op->run - at;
    rsr_nest_run_loops(again, src + at * src_unit, NULL, 0, some, conv, 0);
    if (memcmp(again, dst + at * dst_unit, some * dst_unit) != 0) return false;
  }
  return true;
}

bool rsr_ops_holds(const struct rsr_ops *ops, const struct rsr_op *op) {
  const struct rsk_loop *loops = ops->loops + op->loops;
  const struct rsk_conv *conv = &ops->convs[2 * op->conv];
  uint64_t turns[RSK_LOOPS] = {0};
  const unsigned char *dst = op->dst, *src = op->src;
  for (;;) {
    if (!run_holds(op, conv, dst, src)) return false;
    uint32_t l = op->loop_count;
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
  free(ops->chunks);
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
