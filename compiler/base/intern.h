/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned names: equal bytes give the same symbol, numbered from 0 in order of first appearance. Names are bytes;
 * they hold no NUL. Everything lives in the arena given.
 */
#ifndef RSC_BASE_INTERN_H
#define RSC_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rsc_symbol {
  const char *text; /* NUL-terminated */
  size_t len;
  uint64_t hash;
  uint32_t id;
};

struct rsc_interner;
struct rsc_interner *rsc_interner_new(struct rsc_arena *arena);
/* The same, but the names' bytes live in `texts`, where they may stay when the rest goes. */
struct rsc_interner *rsc_interner_new_apart(struct rsc_arena *arena, struct rsc_arena *texts);
/* Room for so many more symbols, so that the tables need not grow in steps. */
void rsc_intern_reserve(struct rsc_interner *in, size_t more);

/* The symbol of text[0, len), made if it is new. Never NULL. */
const struct rsc_symbol *rsc_intern(struct rsc_interner *in, const char *text, size_t len);
/* The same, but a new symbol's text is this very one, NUL-terminated, which must stay. */
const struct rsc_symbol *rsc_intern_kept(struct rsc_interner *in, const char *text, size_t len);
/* The same, but NULL if it is new. */
const struct rsc_symbol *rsc_intern_find(const struct rsc_interner *in, const char *text, size_t len);
size_t rsc_intern_count(const struct rsc_interner *in);
const struct rsc_symbol *rsc_intern_at(const struct rsc_interner *in, uint32_t id);

#ifdef __cplusplus
}
#endif

#endif
