/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults: words for what went wrong. In: a cause; out: a struct reshard_fault.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/context.h"

const char *reshard_status_text(enum reshard_status status) {
  switch (status) {
  case RESHARD_OK:
    return "RESHARD_OK: no error";
  case RESHARD_PENDING:
    return "RESHARD_PENDING: the refit still runs";
  case RESHARD_INVALID_ARGUMENT:
    return "RESHARD_INVALID_ARGUMENT: an argument makes no sense";
  case RESHARD_WRONG_STATE:
    return "RESHARD_WRONG_STATE: the call does not fit here";
  case RESHARD_CANNOT_READ:
    return "RESHARD_CANNOT_READ: the plan cannot be read";
  case RESHARD_BAD_PLAN:
    return "RESHARD_BAD_PLAN: the plan breaks a rule";
  case RESHARD_PLAN_DIFFERS:
    return "RESHARD_PLAN_DIFFERS: the ranks do not have the same plan";
  case RESHARD_UNKNOWN_BUFFER:
    return "RESHARD_UNKNOWN_BUFFER: no buffer of that name";
  case RESHARD_WRONG_SIZE:
    return "RESHARD_WRONG_SIZE: the buffer has another size";
  case RESHARD_WRONG_ALIGNMENT:
    return "RESHARD_WRONG_ALIGNMENT: the pointer does not fit the element";
  case RESHARD_OVERLAP:
    return "RESHARD_OVERLAP: buffers share bytes";
  case RESHARD_UNBOUND:
    return "RESHARD_UNBOUND: a buffer is not bound";
  case RESHARD_NO_MEMORY:
    return "RESHARD_NO_MEMORY: not enough memory";
  case RESHARD_TIMEOUT:
    return "RESHARD_TIMEOUT: a rank did not arrive or did not answer";
  case RESHARD_PEER_FAILED:
    return "RESHARD_PEER_FAILED: another rank failed";
  case RESHARD_UNSUPPORTED:
    return "RESHARD_UNSUPPORTED: this build or backend cannot do it";
  case RESHARD_CORRUPT:
    return "RESHARD_CORRUPT: what arrived is not what was sent";
  case RESHARD_BACKEND_FAILED:
    return "RESHARD_BACKEND_FAILED: a call of CUDA, NCCL or MPI failed";
  }
  return "unknown status";
}

void rsr_fault_clear(struct reshard_fault *fault) {
  memset(fault, 0, sizeof *fault);
  fault->rank = fault->peer = RESHARD_NO_RANK;
  fault->round = RESHARD_NO_ROUND;
}

enum reshard_status rsr_fault(struct reshard_fault *fault, enum reshard_status status, const char *format, ...) {
  rsr_fault_clear(fault);
  fault->status = status;
  va_list args;
  va_start(args, format);
  vsnprintf(fault->what, sizeof fault->what, format, args);
  va_end(args);
  return status;
}

void rsr_fault_add(struct reshard_fault *fault, const char *text) {
  size_t used = strlen(fault->what);
  snprintf(fault->what + used, sizeof fault->what - used, "%s", text);
}

static void take(char *to, size_t room, const struct rsp_program *program, struct rsp_str text) {
  size_t bytes = text.len < room - 1 ? (size_t)text.len : room - 1;
  memcpy(to, program->names + text.off, bytes);
  to[bytes] = 0;
}

void rsr_fault_at(struct reshard_fault *fault, const struct rsp_program *program, const struct rsp_sbuffer *buffer) {
  take(fault->buffer, sizeof fault->buffer, program, buffer->name);
  take(fault->file, sizeof fault->file, program, program->files[buffer->file]);
  fault->line = buffer->line;
}

enum reshard_status rsr_no_memory(struct reshard_fault *fault, const char *what, uint64_t bytes) {
  return rsr_fault(fault, RESHARD_NO_MEMORY, "cannot allocate %llu bytes for %s", (unsigned long long)bytes, what);
}
