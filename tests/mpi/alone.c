/* SPDX-License-Identifier: Apache-2.0
 *
 * See alone.h: agreements instead of mpi_line.c, and the calls of MPI that are left. What a peer says of a stream is
 * what this rank has of it; it shares no memory.
 */
#include "tests/mpi/alone.h"

#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "runtime/mpi.h"
#include "tests/runtime/check.h"

#define ROW_BYTES 40u /* of mpi_link.c */

extern const struct rsr_mpi_plugin reshard_mpi_plugin;
const struct rsr_mpi_plugin *__wrap_rsr_mpi_load(struct reshard_fault *fault);

const struct rsr_mpi_plugin *__wrap_rsr_mpi_load(struct reshard_fault *fault) {
  (void)fault;
  return &reshard_mpi_plugin;
}

static uint32_t size, self;
static uint64_t streams;
static int *bytes_of; /* by message since the last test */
static uint64_t posted;
static uint32_t exchanges; /* that have ended since the context was opened; the first is that of streams */

void alone_mpi_is(const char *plan, uint32_t rank) {
  struct rsp_rank_view view;
  struct rsp_error error;
  CHECK(rsp_rank_open(plan, rank, &view, &error) == RSP_OK, "%s", error.text);
  size = view.header.world;
  self = rank;
  streams = view.program.slice->streams.count;
  free(bytes_of);
  bytes_of = calloc(streams + size + 1, sizeof *bytes_of);
  CHECK(bytes_of, "memory");
  rsp_rank_close(&view);
}

/* ---- agreements -------------------------------------------------------------------------------------------------- */

enum reshard_status rsr_line_open(MPI_Comm parent, double timeout, const char *call, struct rsr_line **out,
                                  struct reshard_fault *fault) {
  (void)parent, (void)timeout, (void)call, (void)fault;
  struct rsr_line *line = calloc(1, sizeof *line);
  CHECK(line, "memory");
  line->hub = calloc(1, sizeof *line->hub);
  line->numbers = calloc(size, sizeof *line->numbers);
  line->sent = calloc(size, sizeof *line->sent);
  line->received = calloc(size, sizeof *line->received);
  line->quiet = calloc(size, sizeof *line->quiet);
  line->left = calloc(size, sizeof *line->left);
  CHECK(line->hub && line->numbers && line->sent && line->received && line->quiet && line->left, "memory");
  line->hub->rank = self;
  line->hub->size = size;
  line->hub->incoming_request = MPI_REQUEST_NULL;
  for (uint32_t r = 0; r < size; r++) line->left[r] = true;
  line->number = 1;
  line->is_open = true;
  *out = line;
  exchanges = 0;
  return RESHARD_OK;
}

enum reshard_status rsr_line_all_gather(struct rsr_line *line, const void *mine, size_t bytes, void *all,
                                        double timeout, const char *call, struct reshard_fault *fault) {
  (void)line, (void)timeout, (void)call, (void)fault;
  for (uint32_t r = 0; r < size; r++) memcpy((char *)all + bytes * r, mine, bytes);
  return RESHARD_OK;
}

void rsr_line_abort(struct rsr_line *line, const struct reshard_fault *fault) {
  (void)fault;
  line->aborted = true;
}

enum reshard_status rsr_line_aborted(const struct rsr_line *line, struct reshard_fault *fault) {
  *fault = line->fault;
  return RESHARD_PEER_FAILED;
}

void rsr_line_moved(struct rsr_line *line, double timeout) {
  (void)line, (void)timeout;
}

bool rsr_line_is_done(struct rsr_line *line) {
  (void)line;
  return true;
}

void rsr_line_close(struct rsr_line *line) {
  free(line->hub);
  free(line->numbers);
  free(line->sent);
  free(line->received);
  free(line->quiet);
  free(line->left);
  free(line);
}

bool rsr_lines_lost(void) {
  return false;
}

void rsr_line_take(struct rsr_hub *hub, uint32_t from, int tag, const struct rsr_head *head, const unsigned char *words,
                   size_t bytes) {
  (void)hub, (void)from, (void)tag, (void)head, (void)words, (void)bytes;
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

int MPI_Initialized(int *flag) {
  *flag = 1;
  return MPI_SUCCESS;
}

int MPI_Finalized(int *flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *out) {
  (void)comm;
  *out = (int)size;
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *out) {
  (void)comm;
  *out = (int)self;
  return MPI_SUCCESS;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
  (void)source, (void)tag, (void)comm, (void)status;
  *flag = 0;
  return MPI_SUCCESS;
}

int MPI_Isend(const void *ptr, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
  (void)ptr, (void)type, (void)to, (void)comm;
  *request = MPI_REQUEST_NULL;
  if (tag > 0) bytes_of[posted++] = count; /* data, not a letter */
  return MPI_SUCCESS;
}

int MPI_Irecv(void *ptr, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
  (void)type, (void)from, (void)tag, (void)comm;
  *request = MPI_REQUEST_NULL;
  if (exchanges == 0)
    memcpy(ptr, (char *)ptr - streams * ROW_BYTES, (size_t)count);
  else
    memset(ptr, 0, (size_t)count);
  bytes_of[posted++] = count;
  return MPI_SUCCESS;
}

int MPI_Testsome(int count, MPI_Request *requests, int *ended, int *indices, MPI_Status *statuses) {
  (void)requests;
  CHECK((uint64_t)count == posted, "%d messages", count);
  for (int i = 0; i < count; i++) {
    indices[i] = i;
    statuses[i].MPI_SOURCE = i;
  }
  *ended = count;
  posted = 0;
  exchanges++;
  return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
  (void)type;
  *count = bytes_of[status->MPI_SOURCE];
  return MPI_SUCCESS;
}

int MPI_Test_cancelled(const MPI_Status *status, int *flag) {
  (void)status;
  *flag = 0;
  return MPI_SUCCESS;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
  (void)status;
  *request = MPI_REQUEST_NULL;
  *flag = 1;
  return MPI_SUCCESS;
}
