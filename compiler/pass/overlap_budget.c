/* SPDX-License-Identifier: Apache-2.0
 *
 * What finding the overlaps of one tensor's places may cost, and what is said when it costs more: two sides that are
 * each regular may still meet in as many pieces as the product of their periods.
 */
#include "compiler/base/check.h"
#include "compiler/pass/pair.h"

enum { PIECES_PER_MEETING = 16 }; /* regular cuts leave a few where two parts meet: heads, tails, sections */

static const struct rsc_family *family_of(const struct rsc_pairs *pairs, enum rsc_side side, struct rsc_mention m) {
  return &pairs->placement[side]->families[rsc_slot_of(pairs, m)->family];
}

/* How many pairs of parts may meet: those of different mentions, and those of one if it shares. */
static int64_t count_meetings(const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor) {
  int64_t parts = 0, meetings = 0;
  for (int s = 0; s < 2; s++)
    for (int32_t m = 0; m < tensor->by_side[s].count; m++) {
      const struct rsc_family *family = family_of(pairs, (enum rsc_side)s, tensor->by_side[s].at[m]);
      int64_t count = family->count;
      int64_t with = 1 + parts + (family->shared ? count : 0), more;
      if (rsc_mul(count, with, &more) || rsc_add(meetings, more, &meetings)) return INT64_MAX;
      parts += count;
    }
  return meetings;
}

struct rsc_budget rsc_overlap_budget(const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor,
                                     int64_t pieces) {
  int64_t meetings = count_meetings(pairs, tensor), most = (INT64_MAX - pieces) / PIECES_PER_MEETING;
  return (struct rsc_budget){pieces + (meetings < most ? meetings : most) * PIECES_PER_MEETING};
}

/* The place with the most pieces: where the cuts are that do not nest with the others. */
int32_t rsc_most_pieces(const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor, enum rsc_side side) {
  int32_t found = -1;
  size_t most = 0;
  for (int32_t m = 0; m < tensor->by_side[side].count; m++) {
    const struct rsc_family *family = family_of(pairs, side, tensor->by_side[side].at[m]);
    size_t nests = 0;
    for (int32_t o = 0; o < family->count; o++) nests += pairs->placement[side]->shapes[family->shapes[o]].nests.len;
    if (found >= 0 && nests <= most) continue;
    found = m;
    most = nests;
  }
  return found;
}

void rsc_overlap_spent(struct rsc_diag *diag, const struct rsc_pairs *pairs, const struct rsc_paired_tensor *tensor) {
  int32_t of[2];
  for (int s = 0; s < 2; s++) of[s] = rsc_most_pieces(pairs, tensor, (enum rsc_side)s);
  enum rsc_side side = of[RSC_INFER] >= 0 ? RSC_INFER : RSC_TRAIN, other = side == RSC_INFER ? RSC_TRAIN : RSC_INFER;
  const struct rsc_buffer *at = rsc_buffer_of(pairs, tensor->by_side[side].at[of[side]].gid);
  rsc_error(diag, RSC_PIECES_LIMIT, at->span,
            "the places of tensor '%s' overlap in too many pieces: the cuts of buffer '%s' do not nest with the others",
            tensor->tensor->name, at->name);
  if (of[other] >= 0)
    rsc_note(diag, rsc_buffer_of(pairs, tensor->by_side[other].at[of[other]].gid)->span, "the %s side cuts it here",
             other == RSC_TRAIN ? "training" : "inference");
  rsc_note(
      diag, (struct rsc_span){.file = -1},
      "take a larger block, fewer parts, or cuts that nest: the larger block a multiple of the smaller block times "
      "its parts");
}
