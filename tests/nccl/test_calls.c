/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call of CUDA and NCCL fails once, on every rank: an error on all ranks within the timeout, no version, nothing
 * broken, nothing lost, and the next context works. What fails while a context is closed is no one's to hear.
 *
 *   test_nccl_calls [FORM FLAGS RANK CALL]
 */
#include <string.h>

#include "runtime/cuda_api.h"
#include "runtime/nccl_api.h"
#include "tests/nccl/play.h"
#include "tests/plan/tiny.h"
#include "tests/runtime/check.h"

#define TIMEOUT 0.02

#define NAME_OF_CUDA(name, parameters) "cuda" #name,
#define NAME_OF_NCCL(name, parameters) "nccl" #name,
static const char *const names[] = {RSR_CUDA_CALLS(NAME_OF_CUDA) RSR_NCCL_CALLS(NAME_OF_NCCL)};
enum { NAMES = sizeof names / sizeof *names };
static uint64_t failures[NAMES];

static const char *program;
static int form;
static uint32_t flags;

static void note(const char *name) {
  for (uint32_t i = 0; i < NAMES; i++) failures[i] += strcmp(names[i], name) == 0;
}

/* False: there is no such call any more. */
static bool one(struct play *play, uint32_t rank, uint64_t call) {
  /* One seed for all calls of a rank: up to the call that fails the runs are the same, so none is missed. */
  struct standin_options options = {
      .world = play->stage.plan.header->world, .seed = rank + 1, .fail_call = call, .rank = rank};
  if (call % 2 == 0) options.fail_always = "ncclCommAbort"; /* nothing else fails twice */
  play->impatient = call % 3 == 0;
  play->again = true;
  play_run(play, &options);
  const char *name = standin_counts(rank).failed;
  if (call > play->actors[rank].all_calls) { /* it is one of the second life */
    standin_end();
    return false;
  }
  bool closing = call > play->actors[rank].calls;
#define SAY "%s (call %llu of rank %u) failed; again: %s %d %u %u %llu: "
#define SAID name, (unsigned long long)call, rank, program, form, flags, rank, (unsigned long long)call
  CHECK(!standin_violation(), SAY "%s", SAID, standin_violation());
  for (uint32_t r = 0; r < options.world && name; r++) {
    const struct actor *actor = &play->actors[r];
    bool well = actor->opened == RESHARD_OK && actor->prepared == RESHARD_OK && actor->refitted == RESHARD_OK;
    CHECK(closing || (!well && actor->version == 0), SAY "rank %u does not see it", SAID, r);
    CHECK(actor->seconds < 20 * TIMEOUT, SAY "rank %u took %g s", SAID, r, actor->seconds);
    if (!closing && r == rank) CHECK(strstr(actor->fault.what, name), SAY "%s", SAID, actor->fault.what);
    CHECK(actor->second == RESHARD_OK, SAY "rank %u cannot go on: %s", SAID, r, actor->fault.what);
  }
  CHECK(!standin_leak(), SAY "%s", SAID, standin_leak());
  CHECK(!play_compare(play), SAY "%s", SAID, play_compare(play));
  if (name) note(name);
  if (standin_counts(rank).failed_always > 0) note(options.fail_always);
  standin_end();
  return name != NULL;
}

static void all_calls(uint32_t only_rank, uint64_t only_call) {
  struct tiny *tiny = malloc(sizeof *tiny);
  void *bytes;
  size_t size;
  CHECK(tiny, "memory");
  tiny_init_form(tiny, (enum tiny_form)form);
  CHECK(tiny_build(tiny, &bytes, &size), "tiny");
  free(tiny);
  struct play play;
  play_open(&play, bytes, size, 5);
  play.config.flags = flags;
  play.config.timeout_seconds = TIMEOUT;
  for (uint32_t rank = 0; rank < TINY_WORLD; rank++) {
    if (only_call > 0 && rank != only_rank) continue;
    uint64_t call = only_call > 0 ? only_call : 1;
    while (one(&play, rank, call) && only_call == 0) call++;
  }
  play_close(&play);
  free(bytes);
}

int main(int argc, char **argv) {
  program = argv[0];
  if (argc > 4) {
    form = atoi(argv[1]);
    flags = (uint32_t)atoi(argv[2]);
    all_calls((uint32_t)atoi(argv[3]), strtoull(argv[4], NULL, 10));
    return 0;
  }
  form = TINY_PLAIN, flags = RESHARD_REGISTER | RESHARD_GUARD;
  all_calls(0, 0);
  form = TINY_RELAY_DIRECT, flags = RESHARD_NO_GRAPH | RESHARD_VERIFY;
  all_calls(0, 0);
  uint64_t all = 0;
  for (uint32_t i = 0; i < NAMES; i++) {
    CHECK(failures[i] > 0, "%s never failed", names[i]);
    all += failures[i];
  }
  printf("%llu failures of %d functions\n", (unsigned long long)all, (int)NAMES);
  return 0;
}
