/* SPDX-License-Identifier: Apache-2.0
 *
 * The control channel over a directory: ranks as processes, gathers of all sizes, a directory that earlier jobs have
 * left in any state, a rank that never comes, a rank that comes late, a rank that dies.
 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/reshard.h"
#include "tests/runtime/check.h"

#define WORLD 4u

static char folder[] = "reshard-directory-XXXXXX"; /* in the directory of the build */

static void gather_of(struct reshard_directory *d, uint32_t rank, size_t bytes, uint64_t salt) {
  unsigned char *mine = calloc(1, bytes), *all = malloc(bytes * WORLD);
  CHECK(mine && all, "memory");
  for (size_t i = 0; i < bytes; i++) mine[i] = (unsigned char)(i * 7 + rank * 31 + salt);
  CHECK(reshard_directory_gather(d, mine, bytes, all, 20) == 0, "gather");
  for (size_t i = 0; i < bytes * WORLD; i++)
    CHECK(all[i] == (unsigned char)(i % bytes * 7 + i / bytes * 31 + salt), "byte %zu", i);
  free(mine);
  free(all);
}

static void live(uint32_t rank, uint64_t job) {
  static const size_t sizes[] = {1, 56, 4096, 100000, 8};
  struct reshard_directory *d;
  struct reshard_fault fault;
  usleep((useconds_t)(job * 7919 + rank * 104729) % 30000);
  CHECK(reshard_directory_open(folder, rank, WORLD, 20, &d, &fault) == RESHARD_OK, "%s", fault.what);
  for (uint32_t i = 0; i < 5; i++) gather_of(d, rank, sizes[i], job * 100 + i);
  reshard_directory_close(d);
}

static pid_t ranks[WORLD];

static void start(void (*body)(uint32_t rank, uint64_t job), uint64_t job) {
  for (uint32_t r = 0; r < WORLD; r++) {
    ranks[r] = fork();
    CHECK(ranks[r] >= 0, "fork");
    if (ranks[r] > 0) continue;
    body(r, job);
    _exit(0);
  }
}

static void finish(int killed) {
  for (uint32_t r = 0; r < WORLD; r++) {
    int status;
    CHECK(waitpid(ranks[r], &status, 0) == ranks[r], "waitpid");
    CHECK((int)r == killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "rank %u", r);
  }
}

/* Rank 2 never comes: rank 0 says so. */
static void absent(uint32_t rank, uint64_t job) {
  (void)job;
  struct reshard_directory *d;
  struct reshard_fault fault;
  if (rank == 2) return;
  CHECK(reshard_directory_open(folder, rank, WORLD, 0.3, &d, &fault) == RESHARD_TIMEOUT && !d, "open");
  if (rank == 0) CHECK(fault.rank == 2 && strstr(fault.what, "rank 2 of 4"), "%s", fault.what);
}

/* Rank 1 dies between two gathers: the others are told within the timeout. */
static void widowed(uint32_t rank, uint64_t job) {
  struct reshard_directory *d;
  char word = 1, words[WORLD];
  CHECK(reshard_directory_open(folder, rank, WORLD, 20, &d, NULL) == RESHARD_OK, "open");
  gather_of(d, rank, 16, job);
  if (rank == 1) raise(SIGKILL);
  CHECK(reshard_directory_gather(d, &word, 1, words, 0.3) == 1, "gather with a dead rank");
  reshard_directory_close(d);
}

/* Rank 1 is stopped on its way into a gather; the others give up. When it goes on it must not be alone with a success.
 */
static void stopped(uint32_t rank, uint64_t job) {
  struct reshard_directory *d;
  char word = 1, words[WORLD];
  CHECK(reshard_directory_open(folder, rank, WORLD, 20, &d, NULL) == RESHARD_OK, "open");
  gather_of(d, rank, 16, job);
  if (rank == 1) usleep(600000);
  CHECK(reshard_directory_gather(d, &word, 1, words, 0.3) == 1, "gather that others have given up");
  gather_of(d, rank, 16, job + 1);
  reshard_directory_close(d);
}

static uint32_t files_left(bool removes) {
  uint32_t count = 0;
  DIR *list = opendir(folder);
  CHECK(list, "opendir");
  for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
    char path[600];
    if (entry->d_name[0] == '.' && entry->d_name[1] != 'd') continue;
    snprintf(path, sizeof path, "%s/%.255s", folder, entry->d_name);
    if (removes) CHECK(unlink(path) == 0, "unlink %s", path);
    count++;
  }
  closedir(list);
  return count;
}

int main(void) {
  CHECK(mkdtemp(folder), "mkdtemp");
  struct reshard_directory *none;
  CHECK(reshard_directory_open("/nowhere/at/all", 0, 1, 1, &none, NULL) == RESHARD_CANNOT_READ, "no directory");
  CHECK(reshard_directory_open(folder, 4, 4, 1, &none, NULL) == RESHARD_INVALID_ARGUMENT, "rank 4 of 4");
  for (uint64_t job = 1; job <= 8; job++) {
    start(live, job);
    finish(-1);
    CHECK(files_left(false) == WORLD + 1, "%u files are left", files_left(false));
    if (job % 3 == 0) {
      start(absent, job);
      finish(-1);
    } else if (job % 3 == 1) {
      start(widowed, job);
      finish(1);
    } else {
      start(stopped, job);
      finish(-1);
    }
  }
  CHECK(reshard_directory_gather(NULL, &none, 1, &none, 1) == 2, "no channel");
  files_left(true);
  CHECK(rmdir(folder) == 0, "rmdir");
  return 0;
}
