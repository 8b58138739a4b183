/* SPDX-License-Identifier: Apache-2.0
 *
 * In: names. Out: their numbers, in order of arrival, so that nothing depends on the hash.
 */
#include "compiler/base/names.h"

#include <string.h>
#include <xxhash.h>

/* The slot of a name: where it is, or where it goes. The table always has a free slot. */
static uint32_t *slot_of(const struct rsc_names *names, const char *text, size_t len) {
  size_t at = (size_t)XXH3_64bits(text, len) & (names->table_size - 1);
  for (; names->table[at]; at = (at + 1) & (names->table_size - 1)) {
    const char *other = names->at[names->table[at] - 1];
    if (!strncmp(other, text, len) && other[len] == '\0') break;
  }
  return &names->table[at];
}

static void grow(struct rsc_arena *arena, struct rsc_names *names) {
  if (names->len * 2 < names->table_size) return;
  names->table_size = names->table_size ? names->table_size * 4 : 64;
  names->table = RSC_ARRAY(arena, uint32_t, names->table_size);
  for (size_t i = 0; i < names->len; i++) *slot_of(names, names->at[i], strlen(names->at[i])) = (uint32_t)(i + 1);
}

size_t rsc_names_add(struct rsc_arena *arena, struct rsc_names *names, const char *text, size_t len, bool *added) {
  grow(arena, names);
  uint32_t *slot = slot_of(names, text, len);
  *added = *slot == 0;
  if (*added) {
    *RSC_PUSH(arena, names) = rsc_arena_strdup(arena, text, len);
    *slot = (uint32_t)names->len;
  }
  return *slot - 1;
}

int64_t rsc_names_find(const struct rsc_names *names, const char *text, size_t len) {
  return names->table_size ? (int64_t)*slot_of(names, text, len) - 1 : -1;
}
