/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/base/vec.h"

#include <string.h>

void *rsc_vec_grow(struct rsc_arena *arena, void *at, size_t len, size_t *cap, size_t want, size_t size) {
  size_t grown = *cap ? *cap * 2 : 8;
  if (grown < want) grown = want;
  void *fresh = rsc_arena_array(arena, grown, size);
  if (len) memcpy(fresh, at, len * size);
  *cap = grown;
  return fresh;
}
