/* SPDX-License-Identifier: Apache-2.0
 * Lines: how the ranks of a context agree, and hear of failures; see mpi.h. Rank 0 collects, so it knows who is
 * missing; the others wait longer than it does, to hear it from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/mpi.h"

#define NOT_THERE UINT64_MAX
/* Rank 0 may have dropped what was said while it gave up another line. */
#define HELLO_SECONDS 0.2

static bool lost;

bool rsr_lines_lost(void) {
  return lost;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool grow(unsigned char **at, size_t *room, size_t bytes) {
  if (bytes <= *room) return true;
  unsigned char *more = realloc(*at, bytes);
  if (!more) return false;
  *at = more;
  *room = bytes;
  return true;
}

/* Room for words of so many bytes, those that are there kept. */
static bool grow_words(struct rsr_line *line, size_t bytes) {
  uint32_t size = line->hub->size;
  if (bytes <= line->words_room) return true;
  unsigned char *more = malloc(bytes * size);
  if (!more) return false;
  for (uint32_t r = 0; r < size && line->words; r++) {
    if (line->word_bytes[r] != NOT_THERE)
      memcpy(more + bytes * r, line->words + line->words_room * r, line->words_room);
  }
  free(line->words);
  line->words = more;
  line->words_room = bytes;
  return true;
}

static void free_line(struct rsr_line *line) {
  free(line->numbers);
  free(line->word_bytes);
  free(line->words);
  free(line->out);
  free(line->out_requests);
  free(line->alive_requests);
  free(line->alive);
  free(line->sent);
  free(line->received);
  free(line->quiet);
  free(line->left);
  free(line);
}

static struct rsr_line *new_line(struct rsr_hub *hub) {
  struct rsr_line *line = calloc(1, sizeof *line);
  if (!line) return NULL;
  uint32_t size = hub->size;
  line->hub = hub;
  line->numbers = calloc(size, sizeof *line->numbers);
  line->word_bytes = malloc(size * sizeof *line->word_bytes);
  line->out_requests = malloc(size * sizeof *line->out_requests);
  line->alive_requests = malloc(size * sizeof *line->alive_requests);
  line->alive = malloc(sizeof(struct rsr_head));
  line->sent = calloc(size, sizeof *line->sent);
  line->received = calloc(size, sizeof *line->received);
  line->quiet = malloc(size * sizeof *line->quiet);
  line->left = calloc(size, sizeof *line->left);
  bool good = line->numbers && line->word_bytes && line->out_requests && line->alive_requests && line->alive &&
              line->sent && line->received && line->quiet && line->left && grow_words(line, sizeof(struct rsr_word)) &&
              grow(&line->out, &line->out_room, sizeof(struct rsr_head) + size * sizeof(struct rsr_word));
  if (!good) {
    free_line(line);
    return NULL;
  }
  for (uint32_t r = 0; r < size; r++) {
    line->out_requests[r] = line->alive_requests[r] = MPI_REQUEST_NULL;
    line->word_bytes[r] = line->quiet[r] = NOT_THERE;
  }
  return line;
}

/* One for each rank. */
static bool all_ended(const struct rsr_line *line, MPI_Request *requests) {
  bool all = true;
  for (uint32_t r = 0; r < line->hub->size; r++) {
    int done = 1;
    if (requests[r] != MPI_REQUEST_NULL) MPI_Test(&requests[r], &done, MPI_STATUS_IGNORE);
    all = all && done;
  }
  return all;
}

/* ---- what arrives ------------------------------------------------------------------------------------------------ */

static struct rsr_line *line_of(struct rsr_hub *hub, uint32_t from, uint32_t number) {
  struct rsr_line *line = hub->lines;
  while (line && !(line->is_open && line->numbers[from] == number)) line = line->next;
  return line;
}

static struct rsr_line *opening(struct rsr_hub *hub) {
  struct rsr_line *line = hub->lines;
  while (line && (line->is_open || line->aborted)) line = line->next;
  return line;
}

static void take_word(struct rsr_line *line, uint32_t from, const unsigned char *word, size_t bytes) {
  if (!grow_words(line, bytes)) return; /* this rank will give up in time */
  memcpy(line->words + line->words_room * from, word, bytes);
  if (line->word_bytes[from] == NOT_THERE) line->arrived++;
  line->word_bytes[from] = bytes;
}

/* One that is said again is heard once. */
static void take_hello(struct rsr_hub *hub, uint32_t from, uint32_t number) {
  if (number > hub->last[from]) hub->hello[from] = number;
}

static void take_spread(struct rsr_hub *hub, int tag, const unsigned char *words, size_t bytes) {
  struct rsr_line *line = hub->lines;
  while (line && rsr_tag_of(line->number) != tag) line = line->next;
  if (!line) return;
  line->moved_at = rsr_mpi_now();
  if (!line->is_open) {
    if (bytes == hub->size * sizeof *line->numbers) memcpy(line->numbers, words, bytes);
  } else {
    if (!grow_words(line, (bytes + hub->size - 1) / hub->size)) return;
    memcpy(line->words, words, bytes);
  }
  line->spread_bytes = bytes;
  line->is_spread = true;
}

/* A rank gives a line up, or the wish to open one. */
static void take_abort(struct rsr_hub *hub, uint32_t from, uint32_t number, const unsigned char *words, size_t bytes) {
  struct rsr_line *line = line_of(hub, from, number);
  if (hub->hello[from] == number) hub->hello[from] = 0;
  if (!line && number > hub->last[from]) line = opening(hub);
  if (number > hub->last[from]) hub->last[from] = number;
  if (!line || line->aborted || bytes != sizeof line->fault) return;
  line->aborted = true;
  memcpy(&line->fault, words, bytes);
  if (line->fault.status == RESHARD_TIMEOUT) lost = true;
  line->fault.what[sizeof line->fault.what - 1] = 0;
}

void rsr_line_take(struct rsr_hub *hub, uint32_t from, int tag, const struct rsr_head *head, const unsigned char *words,
                   size_t bytes) {
  struct rsr_line *line = line_of(hub, from, head->number);
  if (line) line->moved_at = rsr_mpi_now();
  switch (head->kind) {
  case RSR_GATHER:
    if (bytes == 0)
      take_hello(hub, from, head->number);
    else if (line)
      take_word(line, from, words, bytes);
    break;
  case RSR_SPREAD:
    take_spread(hub, tag, words, bytes);
    break;
  case RSR_ABORT:
    take_abort(hub, from, head->number, words, bytes);
    break;
  case RSR_QUIET_AT:
  case RSR_LEAVE:
    if (!line || bytes != sizeof *line->quiet) break;
    memcpy(&line->quiet[from], words, bytes);
    line->left[from] = head->kind == RSR_LEAVE;
    break;
  default:
    break; /* ALIVE: that it came is all */
  }
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void tell_all(struct rsr_line *line) {
  struct rsr_head head = {RSR_ABORT, line->number};
  line->told = true;
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (r != line->hub->rank) rsr_hub_send(line->hub, r, &head, &line->fault, sizeof line->fault);
  }
}

void rsr_line_abort(struct rsr_line *line, const struct reshard_fault *fault) {
  if (line->aborted) return;
  line->aborted = true;
  line->fault = *fault;
  if (line->fault.rank == RESHARD_NO_RANK) line->fault.rank = line->hub->rank;
  tell_all(line);
}

/* A timeout is one on every rank; any other failure is the peer's. */
enum reshard_status rsr_line_aborted(const struct rsr_line *line, struct reshard_fault *fault) {
  *fault = line->fault;
  if (fault->status != RESHARD_TIMEOUT) fault->status = RESHARD_PEER_FAILED;
  return fault->status;
}

void rsr_line_moved(struct rsr_line *line, double timeout) {
  double now = rsr_mpi_now();
  line->moved_at = now;
  if (now - line->alive_at < timeout / 4 || !line->is_open) return;
  if (!all_ended(line, line->alive_requests)) return;
  line->alive_at = now;
  struct rsr_head head = {RSR_ALIVE, line->number};
  memcpy(line->alive, &head, sizeof head);
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (r == line->hub->rank) continue;
    MPI_Isend(line->alive, (int)sizeof head, MPI_BYTE, (int)r, 0, line->hub->control, &line->alive_requests[r]);
  }
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static bool all_said_hello(const struct rsr_line *line) {
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (line->hub->hello[r] == 0) return false;
  }
  return true;
}

static bool all_arrived(const struct rsr_line *line) {
  return line->arrived == line->hub->size;
}

static bool is_spread(const struct rsr_line *line) {
  return line->is_spread;
}

/* "3, 5": those that rank 0 misses; elsewhere it is rank 0 that does not answer. */
static uint32_t missing(const struct rsr_line *line, char *text, size_t room) {
  size_t used = 0;
  uint32_t shown = 0, count = 0, first = RESHARD_NO_RANK;
  if (line->hub->rank != 0) {
    snprintf(text, room, "0");
    return 0;
  }
  text[0] = 0;
  for (uint32_t r = 0; r < line->hub->size; r++) {
    if (line->is_open ? line->word_bytes[r] != NOT_THERE : line->hub->hello[r] != 0) continue;
    if (count++ == 0) first = r;
    if (shown == 8) continue;
    int n = snprintf(text + used, room - used, "%s%u", shown++ > 0 ? ", " : "", r);
    used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
  }
  if (count > shown) snprintf(text + used, room - used, " and %u more", count - shown);
  return first;
}

static enum reshard_status late(struct rsr_line *line, const char *call, double timeout, struct reshard_fault *fault) {
  char who[160];
  uint32_t first = missing(line, who, sizeof who);
  rsr_fault(fault, RESHARD_TIMEOUT, "%s: world rank(s) %s did not arrive within %g s", call, who, timeout);
  fault->rank = first;
  lost = true;
  rsr_line_abort(line, fault);
  return RESHARD_TIMEOUT;
}

static void say_number(struct rsr_line *line) {
  struct rsr_head head = {RSR_GATHER, line->number};
  if (line->is_open || line->hub->rank == 0 || rsr_mpi_now() - line->hello_at < HELLO_SECONDS) return;
  line->hello_at = rsr_mpi_now();
  rsr_hub_send(line->hub, 0, &head, NULL, 0);
}

/* Messages of a rank come in order: one that has closed its context before it said its word will not say it. */
static uint32_t who_left(const struct rsr_line *line) {
  if (!line->is_open) return RESHARD_NO_RANK;
  if (line->hub->rank != 0) return line->left[0] && !line->is_spread ? 0 : RESHARD_NO_RANK;
  for (uint32_t r = 1; r < line->hub->size; r++) {
    if (line->left[r] && line->word_bytes[r] == NOT_THERE) return r;
  }
  return RESHARD_NO_RANK;
}

static enum reshard_status has_left(struct rsr_line *line, uint32_t peer, const char *call,
                                    struct reshard_fault *fault) {
  rsr_fault(fault, RESHARD_PEER_FAILED, "%s: world rank %u has closed its context", call, peer);
  fault->rank = peer;
  rsr_line_abort(line, fault);
  return RESHARD_PEER_FAILED;
}

/* With the lock held, which is let go between looks. */
static enum reshard_status await(struct rsr_line *line, bool (*is_there)(const struct rsr_line *), double timeout,
                                 const char *call, struct reshard_fault *fault) {
  double limit = line->hub->rank == 0 ? timeout : 1.25 * timeout + 1;
  uint64_t idle = 0;
  line->moved_at = rsr_mpi_now();
  for (;;) {
    rsr_hub_pump(line->hub);
    /* What rank 0 has told all is so, whoever failed since; rank 0 tells nothing once someone has failed. */
    bool there = is_there(line);
    if (line->aborted && !(there && line->hub->rank != 0)) return rsr_line_aborted(line, fault);
    if (there) return RESHARD_OK;
    uint32_t left = who_left(line);
    if (left != RESHARD_NO_RANK) return has_left(line, left, call, fault);
    say_number(line);
    if (rsr_mpi_now() - line->moved_at > limit) return late(line, call, timeout, fault);
    rsr_mpi_unlock();
    rsr_mpi_idle(&idle);
    rsr_mpi_lock();
  }
}

static bool is_sent(const struct rsr_line *line) {
  return all_ended(line, line->out_requests);
}

/* ---- agreements -------------------------------------------------------------------------------------------------- */

/* line->out to all others. */
static void spread(struct rsr_line *line, size_t bytes) {
  struct rsr_head head = {RSR_SPREAD, line->number};
  memcpy(line->out, &head, sizeof head);
  for (uint32_t r = 1; r < line->hub->size; r++) {
    MPI_Isend(line->out, (int)(sizeof head + bytes), MPI_BYTE, (int)r, rsr_tag_of(line->numbers[r]), line->hub->control,
              &line->out_requests[r]);
  }
}

static enum reshard_status gather_at_root(struct rsr_line *line, const void *mine, size_t bytes, void *all,
                                          double timeout, const char *call, struct reshard_fault *fault) {
  struct rsr_hub *hub = line->hub;
  take_word(line, 0, mine, bytes);
  enum reshard_status status = await(line, all_arrived, timeout, call, fault);
  if (status == RESHARD_OK) status = await(line, is_sent, timeout, call, fault);
  if (status != RESHARD_OK) return status;
  for (uint32_t r = 0; r < hub->size; r++) {
    if (line->word_bytes[r] == bytes) continue;
    rsr_fault(fault, RESHARD_WRONG_STATE, "the ranks are out of step: they say words of %zu and %llu bytes", bytes,
              (unsigned long long)line->word_bytes[r]);
    rsr_line_abort(line, fault);
    return RESHARD_WRONG_STATE;
  }
  if (!grow(&line->out, &line->out_room, sizeof(struct rsr_head) + bytes * hub->size)) {
    rsr_no_memory(fault, "an all-gather", bytes * hub->size);
    rsr_line_abort(line, fault);
    return RESHARD_NO_MEMORY;
  }
  unsigned char *out = line->out + sizeof(struct rsr_head);
  for (uint32_t r = 0; r < hub->size; r++) {
    memcpy(out + bytes * r, line->words + line->words_room * r, bytes);
    line->word_bytes[r] = NOT_THERE;
  }
  line->arrived = 0;
  memcpy(all, out, bytes * hub->size);
  spread(line, bytes * hub->size);
  return RESHARD_OK;
}

static enum reshard_status gather_elsewhere(struct rsr_line *line, const void *mine, size_t bytes, void *all,
                                            double timeout, const char *call, struct reshard_fault *fault) {
  struct rsr_hub *hub = line->hub;
  enum reshard_status status = await(line, is_sent, timeout, call, fault);
  if (status != RESHARD_OK) return status;
  if (!grow(&line->out, &line->out_room, sizeof(struct rsr_head) + bytes)) {
    rsr_no_memory(fault, "an all-gather", bytes);
    rsr_line_abort(line, fault);
    return RESHARD_NO_MEMORY;
  }
  struct rsr_head head = {RSR_GATHER, line->number};
  memcpy(line->out, &head, sizeof head);
  memcpy(line->out + sizeof head, mine, bytes);
  MPI_Isend(line->out, (int)(sizeof head + bytes), MPI_BYTE, 0, 0, hub->control, &line->out_requests[0]);
  status = await(line, is_spread, timeout, call, fault);
  if (status != RESHARD_OK) return status;
  line->is_spread = false;
  if (line->spread_bytes != bytes * hub->size) {
    return rsr_fault(fault, RESHARD_WRONG_STATE, "the ranks are out of step: they say words of %zu and %zu bytes",
                     bytes, line->spread_bytes / hub->size);
  }
  memcpy(all, line->words, bytes * hub->size);
  return RESHARD_OK;
}

enum reshard_status rsr_line_all_gather(struct rsr_line *line, const void *mine, size_t bytes, void *all,
                                        double timeout, const char *call, struct reshard_fault *fault) {
  return line->hub->rank == 0 ? gather_at_root(line, mine, bytes, all, timeout, call, fault)
                              : gather_elsewhere(line, mine, bytes, all, timeout, call, fault);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static enum reshard_status await_hub(struct rsr_hub *hub, double timeout, const char *call,
                                     struct reshard_fault *fault) {
  double until = rsr_mpi_now() + timeout;
  uint64_t idle = 0;
  while (!rsr_hub_step(hub)) {
    if (rsr_mpi_now() > until) {
      return rsr_fault(fault, RESHARD_TIMEOUT,
                       "%s: not all ranks of the communicator arrived within %g s for the first time", call, timeout);
    }
    rsr_mpi_unlock();
    rsr_mpi_idle(&idle);
    rsr_mpi_lock();
  }
  return RESHARD_OK;
}

/* Ranks tell each other their numbers. */
static enum reshard_status say_hello(struct rsr_line *line, double timeout, const char *call,
                                     struct reshard_fault *fault) {
  struct rsr_hub *hub = line->hub;
  if (hub->rank != 0) {
    enum reshard_status status = await(line, is_spread, timeout, call, fault);
    line->is_spread = false;
    return status;
  }
  hub->hello[0] = line->number;
  enum reshard_status status = await(line, all_said_hello, timeout, call, fault);
  size_t bytes = hub->size * sizeof *line->numbers;
  memcpy(line->numbers, hub->hello, bytes);
  memset(hub->hello, 0, bytes); /* on failure, too: all hear of it, and say hello again */
  if (status != RESHARD_OK) return status;
  memcpy(line->out + sizeof(struct rsr_head), line->numbers, bytes);
  spread(line, bytes);
  return RESHARD_OK;
}

enum reshard_status rsr_line_open(MPI_Comm parent, double timeout, const char *call, struct rsr_line **out,
                                  struct reshard_fault *fault) {
  struct rsr_hub *hub = rsr_hub_of(parent);
  *out = NULL;
  if (!hub) return rsr_no_memory(fault, "communicators", sizeof *hub);
  enum reshard_status status = await_hub(hub, timeout, call, fault);
  if (status != RESHARD_OK) return status;
  rsr_hub_pump(hub); /* what others gave up meanwhile */
  struct rsr_line *line = new_line(hub);
  if (!line) return rsr_no_memory(fault, "a control channel", sizeof *line);
  line->number = ++hub->lines_opened;
  line->next = hub->lines;
  hub->lines = line;
  *out = line;
  status = say_hello(line, timeout, call, fault);
  /* Whoever failed first: the number that this rank said is of no more use. */
  if (status != RESHARD_OK && !line->told) tell_all(line);
  if (status != RESHARD_OK) return status;
  line->is_open = true;
  lost = false;
  for (uint32_t r = 0; r < hub->size; r++) {
    if (line->numbers[r] > hub->last[r]) hub->last[r] = line->numbers[r];
  }
  return RESHARD_OK;
}

bool rsr_line_is_done(struct rsr_line *line) {
  return all_ended(line, line->alive_requests) && is_sent(line);
}

void rsr_line_close(struct rsr_line *line) {
  struct rsr_line **at = &line->hub->lines;
  while (*at != line) at = &(*at)->next;
  *at = line->next;
  free_line(line);
}
