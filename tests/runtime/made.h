/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans made at random for the runtime: sound by every rule of the format, right about who needs what when, and with
 * all that streams can do: loops over buffers and bytes in any order and direction, parts, both kinds, tags, self
 * streams, relays, conversions, padding. What they move is no model, but every inference element that is no padding is
 * written once. made_walk says what a replay must give, one element at a time, without the runtime or the kernels.
 */
#ifndef TESTS_RUNTIME_MADE_H
#define TESTS_RUNTIME_MADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plans/plan.h"

struct made_options {
  uint64_t seed;
  uint32_t train, infer, shared; /* ranks; the first `shared` of both are one process each */
  uint32_t groups, buffers;      /* at most */
  uint32_t rows, columns;        /* of a buffer, at most */
  bool plain;                    /* no conversions */
  bool relays;                   /* inference ranks hold all twice, and pass on to others and to themselves */
};

/* A sealed plan of the options, malloc'd; checks that it opens. */
void *made_plan(const struct made_options *options, size_t *size);

/* What the inference buffers of all ranks must hold: fill[world][row of its slice's buffers] are the contents of all
 * buffers before the refit (padding of inference buffers zero), and change to what they are after it. */
void made_walk(const struct rsp_plan *plan, unsigned char ***fill);

#endif
