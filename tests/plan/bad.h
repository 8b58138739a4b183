/* SPDX-License-Identifier: Apache-2.0
 *
 * The bad plans of bad.def as a table.
 */
#ifndef BAD_H
#define BAD_H

#include "tests/plan/tiny.h"

struct bad {
  const char *name;
  int rule;
  void (*tables)(struct tiny *t);
  void (*bytes)(unsigned char *b, struct rsp_header *h, size_t *size);
  bool reseal;
};

extern const struct bad bad_plans[];
extern const size_t bad_count;

/* The bytes of a bad plan, malloc'd, 8-aligned; NULL without memory. */
unsigned char *bad_build(const struct bad *bad, size_t *size);

#endif
