/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay of small plans on symbols instead of bytes, written from plans/format.h alone and as plainly as possible: it
 * is the judge of the verifier. Every element is a symbol (tensor, index, conversions undergone), staging is
 * remembered byte by byte, and within a phase pack, exchange and unpack run in every order, messages in two.
 */
#ifndef TESTS_VERIFY_REPLAY_H
#define TESTS_VERIFY_REPLAY_H

#include "plans/plan.h"

/* NULL if every byte of every inference buffer and every figure of the summary is right, else what is not. */
const char *replay(const struct rsp_plan *plan);

#endif
