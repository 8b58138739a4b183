/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds: when everything moves, and through which staging. Made by pass/schedule, read by lower and emit.
 */
#ifndef RSC_IR_ROUNDS_H
#define RSC_IR_ROUNDS_H

#include "compiler/ir/routes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Staging of one end of a staged stream: active round i uses [off + (i % slots) * stride, + quantum). */
struct rsc_staging {
  int64_t off, stride;
  int32_t slots;
};

/* As in struct rsp_stream: active in rounds round0 + i * step, moving [i * quantum, (i + 1) * quantum). */
struct rsc_timing {
  int64_t quantum, round0, step;
  struct rsc_staging at_src, at_dst;
};

struct rsc_rounds {
  int64_t rounds;
  const struct rsc_timing *timings; /* as the routes' streams */
  const int64_t *staging;           /* bytes per world rank */
  int64_t chunk;
};

#ifdef __cplusplus
}
#endif

#endif
