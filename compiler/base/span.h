/* SPDX-License-Identifier: Apache-2.0
 *
 * A place in a source file. Lines and columns count from 1; columns count bytes. `len` is in bytes on the
 * first line (at least 1). file < 0 means "no place" (a command-line value, say).
 */
#ifndef RSC_BASE_SPAN_H
#define RSC_BASE_SPAN_H

#include <stdint.h>

struct rsc_span {
  int32_t file; /* index into rsc_sources */
  uint32_t line, col, len;
};

#endif
