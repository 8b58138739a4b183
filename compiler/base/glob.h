/* SPDX-License-Identifier: Apache-2.0
 *
 * glob: the patterns of `skip` and `tensors()`, and of the tools. `*` matches any bytes, also none; `?` one character;
 * `[abc]` one of these, `[a-z]` a range, `[!abc]` none of these (a ] or - stands for itself where it comes first).
 * Everything else is itself; the whole name must match. A `[` that is never closed is itself.
 */
#ifndef RSC_BASE_GLOB_H
#define RSC_BASE_GLOB_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Time is at most the product of the lengths; no memory. Thread-safe. */
bool rsc_glob_match(const char *glob, const char *name);

#ifdef __cplusplus
}
#endif

#endif
