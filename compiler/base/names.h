/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in messages: what looks alike, what was probably meant, and how a name is shown so that it can be told apart.
 */
#ifndef RSC_BASE_NAMES_H
#define RSC_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name as a person reads it: control characters as \xNN, the rest as it is. With `bytes` all but printable ASCII is
 * \xNN, and so are spaces at the ends. */
const char *rsc_name_shown(struct rsc_arena *arena, const char *name, size_t len, bool bytes);

/* Different bytes, but the same to the eye (or nearly): white space, invisible characters, composed and decomposed
 * letters. Such a pair is shown with its bytes. */
bool rsc_names_look_alike(const char *a, size_t a_len, const char *b, size_t b_len);

/* The number of single-byte edits (swaps of neighbours count 1) from a to b, or `limit` + 1 if it is more. */
size_t rsc_name_distance(const char *a, size_t a_len, const char *b, size_t b_len, size_t limit);

/* Keeps the candidate nearest to what was written; the first of equals. Begin with best = NULL. */
struct rsc_guess {
  const char *wanted, *best;
  size_t wanted_len, best_len, distance;
};
void rsc_guess_begin(struct rsc_guess *guess, const char *wanted, size_t len);
void rsc_guess_offer(struct rsc_guess *guess, const char *candidate, size_t len);

/* "; did you mean 'tp'?", with bytes where the two look alike, or "". */
const char *rsc_guess_text(struct rsc_arena *arena, const struct rsc_guess *guess);

#ifdef __cplusplus
}
#endif

#endif
