/* SPDX-License-Identifier: Apache-2.0
 *
 * A control channel over files in a directory that all ranks share. In: the directory, a rank; out: gathers.
 *
 * Files appear whole, by a rename. What an earlier job has left is never taken for this one's: each rank brings a
 * random number, rank 0 lists all of them, and ranks go on only when the list that they have confirmed has theirs in
 * it:
 *
 *   hello-R    a rank's number                     roster   rank 0: the numbers of all, with a count of its versions
 *   ack-R      the roster's seal, from rank R      go       rank 0: the seal that all have confirmed
 *   S-N-R      the words of rank R in gather N; S is the seal
 *   S-N-end    a link to "yes" or "no", made by the first rank that has all words, or that waits no longer: so a gather
 *              that one rank has given up does not succeed on another that comes late
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/context.h"

#define NUMBER_BYTES 16u

struct reshard_directory {
  int at; /* of the directory */
  uint32_t rank, world;
  uint64_t gathers; /* begun */
  unsigned char number[NUMBER_BYTES];
  struct seal {
    unsigned char number[NUMBER_BYTES]; /* of rank 0 */
    uint64_t version;
  } seal;
  unsigned char *roster; /* a seal and the numbers of all ranks */
  size_t roster_bytes;
  char text[2 * sizeof(struct seal) + 1]; /* the seal, for names */
};

/* ---- time -------------------------------------------------------------------------------------------------------- */

struct pause {
  double until;
  long nap;
};

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static bool nap(struct pause *pause) {
  if (now() >= pause->until) return false;
  struct timespec time = {0, pause->nap};
  nanosleep(&time, NULL);
  if (pause->nap < 20000000) pause->nap *= 2;
  return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool write_all(int file, const unsigned char *from, size_t bytes) {
  while (bytes > 0) {
    ssize_t done = write(file, from, bytes);
    if (done < 0 && errno != EINTR) return false;
    if (done > 0) from += done, bytes -= (size_t)done;
  }
  return true;
}

/* Whole or not at all. */
static bool put(const struct reshard_directory *d, const char *name, const void *from, size_t bytes) {
  char draft[160];
  snprintf(draft, sizeof draft, ".draft-%u", d->rank);
  int file = openat(d->at, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  bool good = write_all(file, from, bytes);
  good = close(file) == 0 && good;
  return good && renameat(d->at, draft, d->at, name) == 0;
}

/* False: not there, or not of that size. */
static bool get(const struct reshard_directory *d, const char *name, void *to, size_t bytes) {
  int file = openat(d->at, name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat is;
  bool good = fstat(file, &is) == 0 && is.st_size >= 0 && (uint64_t)is.st_size == bytes;
  for (size_t have = 0; good && have < bytes;) {
    ssize_t some = read(file, (char *)to + have, bytes - have);
    good = some > 0 || (some < 0 && errno == EINTR);
    if (some > 0) have += (size_t)some;
  }
  close(file);
  return good;
}

static const char *name_of(char *name, size_t room, const char *kind, uint32_t rank) {
  snprintf(name, room, "%s-%u", kind, rank);
  return name;
}

/* "S-N-R", of this rank; rank 0 also takes care of "S-N-end". */
static bool is_mine(const struct reshard_directory *d, const char *name) {
  uint32_t rank;
  int end = 0;
  size_t digits = strspn(name, "0123456789abcdef");
  if (digits != sizeof d->text - 1 || name[digits] != '-') return false;
  if (sscanf(name + digits, "-%*u-end%n", &end) == 0 && end > 0 && !name[digits + (size_t)end]) return d->rank == 0;
  return sscanf(name + digits, "-%*u-%u%n", &rank, &end) == 1 && !name[digits + (size_t)end] && rank == d->rank;
}

/* What other jobs have left of this rank's. */
static void sweep(const struct reshard_directory *d) {
  int copy = openat(d->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
  if (!list) {
    if (copy >= 0) close(copy);
    return;
  }
  for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
    if (is_mine(d, entry->d_name)) unlinkat(d->at, entry->d_name, 0);
  }
  closedir(list);
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

static unsigned char *number_in_roster(const struct reshard_directory *d, uint32_t rank) {
  return d->roster + sizeof(struct seal) + (size_t)rank * NUMBER_BYTES;
}

/* Rank 0: the list as it is now; `changed` since it was last written. The number of ranks that are missing, of which
 * *missing is the first. */
static uint32_t list_ranks(struct reshard_directory *d, bool *changed, uint32_t *missing) {
  uint32_t absent = 0;
  for (uint32_t rank = 0; rank < d->world; rank++) {
    unsigned char number[NUMBER_BYTES];
    char name[40];
    if (!get(d, name_of(name, sizeof name, "hello", rank), number, sizeof number)) {
      if (absent++ == 0) *missing = rank;
    } else if (memcmp(number, number_in_roster(d, rank), sizeof number) != 0) {
      memcpy(number_in_roster(d, rank), number, sizeof number);
      *changed = true;
    }
  }
  return absent;
}

static uint32_t count_unconfirmed(const struct reshard_directory *d, uint32_t *missing) {
  uint32_t absent = 0;
  for (uint32_t rank = 1; rank < d->world; rank++) {
    struct seal seal;
    char name[40];
    bool good = get(d, name_of(name, sizeof name, "ack", rank), &seal, sizeof seal) &&
                memcmp(&seal, &d->seal, sizeof seal) == 0;
    if (!good && absent++ == 0) *missing = rank;
  }
  return absent;
}

static enum reshard_status trouble(const char *path, struct reshard_fault *fault) {
  return rsr_fault(fault, RESHARD_CANNOT_READ, "the control directory %.300s cannot be written: %s", path,
                   strerror(errno));
}

static enum reshard_status call_all(struct reshard_directory *d, const char *path, double timeout,
                                    struct reshard_fault *fault) {
  struct pause pause = {now() + timeout, 1000000};
  uint32_t missing = 0;
  memcpy(d->seal.number, d->number, sizeof d->number);
  do {
    bool changed = false;
    if (list_ranks(d, &changed, &missing) > 0) continue;
    if (changed) {
      d->seal.version++;
      memcpy(d->roster, &d->seal, sizeof d->seal);
      if (!put(d, "roster", d->roster, d->roster_bytes)) return trouble(path, fault);
    }
    if (count_unconfirmed(d, &missing) > 0) continue;
    return put(d, "go", &d->seal, sizeof d->seal) ? RESHARD_OK : trouble(path, fault);
  } while (nap(&pause));
  rsr_fault(fault, RESHARD_TIMEOUT, "rank %u of %u did not come to the control directory %.300s within %g s", missing,
            d->world, path, timeout);
  fault->rank = missing;
  return RESHARD_TIMEOUT;
}

static enum reshard_status answer(struct reshard_directory *d, const char *path, double timeout,
                                  struct reshard_fault *fault) {
  struct pause pause = {now() + timeout, 1000000};
  char name[40];
  do {
    struct seal go;
    if (!get(d, "roster", d->roster, d->roster_bytes)) continue;
    if (memcmp(number_in_roster(d, d->rank), d->number, sizeof d->number) != 0) continue;
    if (memcmp(d->roster, &d->seal, sizeof d->seal) != 0) {
      memcpy(&d->seal, d->roster, sizeof d->seal);
      if (!put(d, name_of(name, sizeof name, "ack", d->rank), &d->seal, sizeof d->seal)) return trouble(path, fault);
    }
    if (get(d, "go", &go, sizeof go) && memcmp(&go, &d->seal, sizeof go) == 0) return RESHARD_OK;
  } while (nap(&pause));
  return rsr_fault(fault, RESHARD_TIMEOUT,
                   "not all of %u ranks came to the control directory %.300s within %g s; rank 0 says which", d->world,
                   path, timeout);
}

static bool takes_links(const struct reshard_directory *d) {
  char name[40];
  name_of(name, sizeof name, ".link", d->rank);
  unlinkat(d->at, name, 0);
  return symlinkat("yes", d->at, name) == 0 && unlinkat(d->at, name, 0) == 0;
}

static enum reshard_status meet(struct reshard_directory *d, const char *path, double timeout,
                                struct reshard_fault *fault) {
  char name[40];
  d->roster_bytes = sizeof(struct seal) + (size_t)d->world * NUMBER_BYTES;
  d->roster = calloc(1, d->roster_bytes);
  if (!d->roster) return rsr_no_memory(fault, "a roster", d->roster_bytes);
  d->at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (d->at < 0) return trouble(path, fault);
  if (getrandom(d->number, sizeof d->number, 0) != (ssize_t)sizeof d->number) return trouble(path, fault);
  sweep(d);
  if (!takes_links(d)) return trouble(path, fault);
  if (!put(d, name_of(name, sizeof name, "hello", d->rank), d->number, sizeof d->number)) return trouble(path, fault);
  enum reshard_status status = d->rank == 0 ? call_all(d, path, timeout, fault) : answer(d, path, timeout, fault);
  for (size_t i = 0; i < sizeof d->seal; i++)
    snprintf(d->text + 2 * i, 3, "%02x", (unsigned)((const unsigned char *)&d->seal)[i]);
  return status;
}

enum reshard_status reshard_directory_open(const char *path, uint32_t rank, uint32_t world, double timeout_seconds,
                                           struct reshard_directory **out, struct reshard_fault *fault) {
  struct reshard_fault own;
  if (!fault) fault = &own;
  rsr_fault_clear(fault);
  if (out) *out = NULL;
  if (!path || !out || rank >= world)
    return rsr_fault(fault, RESHARD_INVALID_ARGUMENT, "directory_open: a NULL, or rank %u of %u", rank, world);
  struct reshard_directory *d = calloc(1, sizeof *d);
  if (!d) return rsr_no_memory(fault, "a control directory", sizeof *d);
  *d = (struct reshard_directory){.at = -1, .rank = rank, .world = world};
  enum reshard_status status = meet(d, path, timeout_seconds, fault);
  if (status == RESHARD_OK)
    *out = d;
  else
    reshard_directory_close(d);
  return status;
}

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

static const char *words_of(const struct reshard_directory *d, char *name, size_t room, uint64_t gather,
                            uint32_t rank) {
  snprintf(name, room, "%s-%llu-%u", d->text, (unsigned long long)gather, rank);
  return name;
}

static const char *end_of(const struct reshard_directory *d, char *name, size_t room, uint64_t gather) {
  snprintf(name, room, "%s-%llu-end", d->text, (unsigned long long)gather);
  return name;
}

/* Every rank is in this gather, so all are through with what came before it. */
static void clear_up(const struct reshard_directory *d, uint64_t gather) {
  char name[120];
  if (gather > 0) {
    unlinkat(d->at, words_of(d, name, sizeof name, gather - 1, d->rank), 0);
    if (d->rank == 0) unlinkat(d->at, end_of(d, name, sizeof name, gather - 1), 0);
    return;
  }
  unlinkat(d->at, name_of(name, sizeof name, "hello", d->rank), 0);
  if (d->rank > 0) {
    unlinkat(d->at, name_of(name, sizeof name, "ack", d->rank), 0);
  } else {
    unlinkat(d->at, "roster", 0);
    unlinkat(d->at, "go", 0);
  }
}

/* The words of all ranks; false: some are not there yet. */
static bool read_words(const struct reshard_directory *d, uint64_t gather, size_t bytes, void *all,
                       struct pause *pause) {
  char name[120];
  for (uint32_t rank = 0; rank < d->world; rank++) {
    while (!get(d, words_of(d, name, sizeof name, gather, rank), (char *)all + bytes * rank, bytes)) {
      if (!nap(pause)) return false;
    }
  }
  return true;
}

/* Ends the gather as `succeeds` says, unless a rank was faster: how it has ended for all. */
static bool end_gather(const struct reshard_directory *d, uint64_t gather, bool succeeds) {
  char name[120], said[4] = "";
  if (symlinkat(succeeds ? "yes" : "no", d->at, end_of(d, name, sizeof name, gather)) == 0) return succeeds;
  return errno == EEXIST && readlinkat(d->at, name, said, sizeof said) == 3 && memcmp(said, "yes", 3) == 0;
}

int reshard_directory_gather(void *directory, const void *mine, size_t bytes, void *all, double timeout_seconds) {
  struct reshard_directory *d = directory;
  char name[120];
  if (!d) return 2;
  uint64_t gather = d->gathers++;
  if (!put(d, words_of(d, name, sizeof name, gather, d->rank), mine, bytes)) return 2;
  struct pause pause = {now() + timeout_seconds, 100000};
  bool has_all = read_words(d, gather, bytes, all, &pause);
  if (!end_gather(d, gather, has_all)) return 1;
  /* Who waited no longer may have been a moment too early. */
  pause = (struct pause){now() + timeout_seconds, 100000};
  if (!has_all && !read_words(d, gather, bytes, all, &pause)) return 1;
  clear_up(d, gather);
  return 0;
}

void reshard_directory_close(struct reshard_directory *d) {
  if (!d) return;
  if (d->at >= 0) close(d->at);
  free(d->roster);
  free(d);
}
