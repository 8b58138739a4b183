/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as people read them: the one way that all tools write them. JSON and the plan hold the numbers themselves.
 */
#ifndef RSP_WORDS_H
#define RSP_WORDS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "2.38 GB", "512 B": decimal units, three digits. Returns buffer. */
const char *rsp_bytes_text(double bytes, char buffer[32]);

/* What follows a noun that is counted: "s", or nothing after one. */
const char *rsp_plural(uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
