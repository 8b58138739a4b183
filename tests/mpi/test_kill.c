/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job is killed: before its first refit, in the middle of one, or after one. The others refit until they
 * are told, or are killed as well; kill.py sees how the job ends. Or it hangs, for ever: the others have done what they
 * can and end in peace, with an MPI that the library has initialised.
 *
 *   test_mpi_kill before|during|after|hung VICTIM FOLDER [messages]
 *
 * With the last word all is exchanged as messages, though the ranks could share memory.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/long.h"

static void *die_soon(void *unused) {
  (void)unused;
  usleep(200000);
  kill(getpid(), SIGKILL);
  return NULL;
}

static void leave_pid(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
  FILE *file = fopen(path, "w");
  CHECK(file && fclose(file) == 0, "%s", path);
}

int main(int argc, char **argv) {
  bool hangs = argc > 1 && strcmp(argv[1], "hung") == 0;
  if (hangs) CHECK(reshard_mpi_init(NULL, NULL, NULL) == RESHARD_OK, "init");
  ranks_init(&argc, &argv);
  CHECK(argc >= 4, "arguments");
  leave_pid(argv[3]);
  bool is_victim = ranks_self == atoi(argv[2]);
  struct long_plan plan = long_open(0);
  struct player player;
  ranks_fill(&plan.stage, (uint32_t)ranks_self, 1);
  ranks_player(&player, &plan.stage, plan.plan, (uint32_t)ranks_self, NULL);
  player.config.timeout_seconds = 3;
  if (argc > 4) player.config.flags = RESHARD_GUARD;
  player.refits = strcmp(argv[1], "after") == 0;
  play_alone(&player);
  CHECK(player.prepared == RESHARD_OK, "%s", player.fault.what);
  pthread_t thread;
  if (is_victim && strcmp(argv[1], "during") == 0)
    CHECK(pthread_create(&thread, NULL, die_soon, NULL) == 0, "thread");
  else if (is_victim && hangs)
    pause();
  else if (is_victim)
    kill(getpid(), SIGKILL);
  while (reshard_refit(player.context, NULL) == RESHARD_OK && reshard_wait(player.context) == RESHARD_OK) {
  }
  reshard_last_fault(player.context, &player.fault);
  fprintf(stderr, "rank %d: %s\n", ranks_self, player.fault.what);
  if (!hangs) _exit(1);
  CHECK(player.fault.status == RESHARD_TIMEOUT, "status %d", (int)player.fault.status);
  reshard_context_close(player.context);
  exit(0); /* the library's own end makes it another status: MPI_Finalize would wait for the victim */
}
