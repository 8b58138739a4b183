/* SPDX-License-Identifier: Apache-2.0
 *
 * names: distinct names in the order in which they came, and the number of each. At most 2^32 - 2 of them.
 */
#ifndef RSC_BASE_NAMES_H
#define RSC_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler/base/vec.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rsc_names {
  RSC_VEC(const char *);
  uint32_t *table; /* open addressing: number plus 1, or 0 */
  size_t table_size;
};

/* Returns the name's number; *added tells whether it is new (its text is then copied into the arena). */
size_t rsc_names_add(struct rsc_arena *arena, struct rsc_names *names, const char *text, size_t len, bool *added);

/* The name's number, or -1. */
int64_t rsc_names_find(const struct rsc_names *names, const char *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
