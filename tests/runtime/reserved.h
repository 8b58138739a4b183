/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that are addresses only: what a context is bound to where nobody touches more of them than their padding.
 */
#ifndef TESTS_RUNTIME_RESERVED_H
#define TESTS_RUNTIME_RESERVED_H

#include "runtime/reshard.h"

/* Addresses for all buffers of a rank, by row; NULL where a buffer has no bytes. The caller frees the list. */
void **reserve_buffers(const char *plan, uint32_t rank);
void bind_reserved(struct reshard_context *context, void *const *at);

#endif
