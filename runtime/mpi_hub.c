/* SPDX-License-Identifier: Apache-2.0
 * Communicators of the MPI backend and what travels on the one for control; see mpi.h. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/mpi.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int hub_key = MPI_KEYVAL_INVALID;

void rsr_mpi_lock(void) {
  pthread_mutex_lock(&lock);
}

void rsr_mpi_unlock(void) {
  pthread_mutex_unlock(&lock);
}

double rsr_mpi_now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* A look is what moves a long message on, though nothing ends: to sleep is for those who wait for another rank's work.
 * With more ranks than processors someone else must run first. */
#define SPINS 200u
#define YIELDS 200000u

void rsr_mpi_idle(uint64_t *idle) {
  if (*idle >= YIELDS)
    nanosleep(&(struct timespec){0, 50000}, NULL);
  else if (*idle >= SPINS)
    sched_yield();
  ++*idle;
}

/* ---- hubs -------------------------------------------------------------------------------------------------------- */

static void free_hub(struct rsr_hub *hub) {
  free(hub->hello);
  free(hub->last);
  free(hub->incoming);
  free(hub);
}

/* The caller frees its communicator: the duplicates go too, unless something is under way on them. */
static int forget_hub(MPI_Comm parent, int key, void *value, void *extra) {
  (void)parent, (void)key, (void)extra;
  struct rsr_hub *hub = value;
  if (hub->lines || hub->letters || hub->made < 2 || hub->incoming_request != MPI_REQUEST_NULL) return MPI_SUCCESS;
  MPI_Comm_free(&hub->control);
  MPI_Comm_free(&hub->data);
  free_hub(hub);
  return MPI_SUCCESS;
}

static struct rsr_hub *new_hub(MPI_Comm parent) {
  struct rsr_hub *hub = calloc(1, sizeof *hub);
  if (!hub) return NULL;
  int rank, size;
  MPI_Comm_rank(parent, &rank);
  MPI_Comm_size(parent, &size);
  hub->parent = parent;
  hub->dup = hub->incoming_request = MPI_REQUEST_NULL;
  hub->rank = (uint32_t)rank;
  hub->size = (uint32_t)size;
  hub->hello = calloc(hub->size, sizeof *hub->hello);
  hub->last = calloc(hub->size, sizeof *hub->last);
  if (hub->hello && hub->last && MPI_Comm_set_attr(parent, hub_key, hub) == MPI_SUCCESS) return hub;
  free_hub(hub);
  return NULL;
}

struct rsr_hub *rsr_hub_of(MPI_Comm parent) {
  struct rsr_hub *hub = NULL;
  int found = 0;
  if (hub_key == MPI_KEYVAL_INVALID &&
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_hub, &hub_key, NULL) != MPI_SUCCESS)
    return NULL;
  MPI_Comm_get_attr(parent, hub_key, &hub, &found);
  return found ? hub : new_hub(parent);
}

bool rsr_hub_step(struct rsr_hub *hub) {
  while (hub->made < 2) {
    MPI_Comm *made = hub->made == 0 ? &hub->control : &hub->data;
    int done = 0;
    /* One that a rank came too late for is waited for again: it is never started twice. */
    if (hub->dup == MPI_REQUEST_NULL) MPI_Comm_idup(hub->parent, made, &hub->dup);
    MPI_Test(&hub->dup, &done, MPI_STATUS_IGNORE);
    if (!done) return false;
    MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    hub->made++;
  }
  return true;
}

/* ---- letters ----------------------------------------------------------------------------------------------------- */

void rsr_hub_send(struct rsr_hub *hub, uint32_t to, const struct rsr_head *head, const void *words, size_t bytes) {
  struct rsr_letter *letter = malloc(sizeof *letter + sizeof *head + bytes);
  if (!letter) return;
  letter->bytes = sizeof *head + bytes;
  memcpy(letter->data, head, sizeof *head);
  if (bytes > 0) memcpy(letter->data + sizeof *head, words, bytes);
  letter->request = MPI_REQUEST_NULL;
  MPI_Isend(letter->data, (int)letter->bytes, MPI_BYTE, (int)to, 0, hub->control, &letter->request);
  letter->next = hub->letters;
  hub->letters = letter;
}

static void free_letters(struct rsr_hub *hub) {
  for (struct rsr_letter **at = &hub->letters; *at;) {
    struct rsr_letter *letter = *at;
    int done = 0;
    MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE);
    if (!done) {
      at = &letter->next;
      continue;
    }
    *at = letter->next;
    free(letter);
  }
}

/* True: one is being received. */
static bool begin_incoming(struct rsr_hub *hub) {
  int found = 0, bytes = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, hub->control, &found, &hub->incoming_status);
  if (!found) return false;
  MPI_Get_count(&hub->incoming_status, MPI_BYTE, &bytes);
  if ((size_t)bytes > hub->incoming_room) {
    unsigned char *more = realloc(hub->incoming, (size_t)bytes);
    if (!more) return false;
    hub->incoming = more;
    hub->incoming_room = (size_t)bytes;
  }
  hub->incoming_bytes = (size_t)bytes;
  return MPI_Irecv(hub->incoming, bytes, MPI_BYTE, hub->incoming_status.MPI_SOURCE, hub->incoming_status.MPI_TAG,
                   hub->control, &hub->incoming_request) == MPI_SUCCESS;
}

void rsr_hub_pump(struct rsr_hub *hub) {
  for (;;) {
    if (hub->incoming_request == MPI_REQUEST_NULL && !begin_incoming(hub)) break;
    int done = 0;
    MPI_Test(&hub->incoming_request, &done, MPI_STATUS_IGNORE);
    if (!done) break;
    struct rsr_head head;
    if (hub->incoming_bytes < sizeof head) continue;
    memcpy(&head, hub->incoming, sizeof head);
    rsr_line_take(hub, (uint32_t)hub->incoming_status.MPI_SOURCE, hub->incoming_status.MPI_TAG, &head,
                  hub->incoming + sizeof head, hub->incoming_bytes - sizeof head);
  }
  if (hub->letters) free_letters(hub);
}
