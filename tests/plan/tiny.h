/* SPDX-License-Identifier: Apache-2.0
 *
 * A small but complete plan, made by hand: what tests mutate, print and replay.
 *
 *   tensors  "w" f32 [4, 4], "b" bf16 [8]
 *   train    2 ranks; "w" = rows 2r, 2r+1 (local [2, 4]); "b" whole on both
 *   infer    2 ranks; "w_t" = columns 2r, 2r+1 (local [4, 2]); "b" = pad(8, 10) whole on both
 *   world    0: train 0; 1: train 1 and infer 0 (one GPU, both roles); 2: infer 1
 *   domains  host h0 has world 0 and 1, host h1 has world 2
 *   streams  0 -> 1 staged 16 bytes over NVLink; 0 -> 2 staged 16 and direct 16, 1 -> 2 staged 16 over the network;
 *            1 -> 1 self 32 bytes. Two rounds; staged messages of 8 bytes.
 *
 * In its other forms the same is wanted, and a relay brings some of it:
 *
 *   RELAY    rank 1 gets "b" from rank 0 in round 0, and passes it on to rank 2 in round 1
 *   AGAIN    rank 2 wants "b" a second time, as "b_again": it gets "b" in round 0 and passes it on to itself
 *
 * and WIDE is the first form with two more inference ranks, to which nothing is sent: world 3 holds what world 2 does,
 * so that they share a holdings block, and world 4 holds nothing and has none.
 */
#ifndef TINY_H
#define TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plans/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TINY_WORLD = 3, TINY_WIDE_WORLD = 5 };

/* The tables of one slice, with room for a test to add rows. */
struct tiny_slice {
  char names[256]; /* from here to zloops: the holdings block, the same for ranks where all of it is the same */
  struct rsp_str files[4];
  struct rsp_sbuffer buffers[8];
  uint64_t dims[16];
  struct rsp_zero zeros[4];
  struct rsp_zloop zloops[4];
  struct rsp_body bodies[8];
  struct rsp_desc descs[8];
  struct rsp_shape shapes[8];
  struct rsp_loop loops[8];
  struct rsp_stream streams[8];
  struct rsp_part parts[8];
};

struct tiny {
  char strings[512];
  struct rsp_input inputs[5];
  struct rsp_str files[2];
  struct rsp_tensor tensors[4];
  uint64_t dims[16];
  struct rsp_rank ranks[TINY_WIDE_WORLD];
  struct rsp_class classes[5];
  struct rsp_entry entries[8];
  struct rsp_piece pieces[8];
  struct rsp_ploop ploops[12];
  struct rsp_buffer buffers[6];
  uint32_t slots[6];
  struct rsp_rankmap rankmaps[4];
  struct rsp_hold holds[12];
  struct rsp_summary summary;
  struct tiny_slice slice[TINY_WIDE_WORLD];
  /* What rsp_build takes; points into this struct, so it must not be copied or moved. */
  struct rsp_global_tables global;
  struct rsp_slice_tables slices[TINY_WIDE_WORLD];
  const struct rsp_slice_tables *instead; /* of slices, global.world of them, if a test makes more ranks */
};

enum tiny_form {
  TINY_PLAIN,
  TINY_RELAY_STAGED,
  TINY_RELAY_DIRECT,
  TINY_AGAIN_STAGED,
  TINY_AGAIN_DIRECT,
  TINY_WIDE,
  TINY_FORMS
};

void tiny_init(struct tiny *tiny);
void tiny_init_form(struct tiny *tiny, enum tiny_form form);
/* Builds the tables as they are now; the caller frees *bytes. */
bool tiny_build(const struct tiny *tiny, void **bytes, size_t *size);
/* Builds every form in turn and gives it to `use`; false, and an end, at the first that cannot be built. */
bool tiny_each(void (*use)(const void *bytes, size_t size));
/* tiny_init and tiny_build. */
bool tiny_plan(void **bytes, size_t *size);
/* The same in a new file, for temporary use: its name is put in the `room` bytes at `path`. */
bool tiny_file(char *path, size_t room);

#ifdef __cplusplus
}
#endif

#endif
