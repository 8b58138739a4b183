/* SPDX-License-Identifier: Apache-2.0
 *
 * Refit, query and wait of the nccl backend allocate nothing, open nothing and ask the environment nothing: calls that
 * come from libreshard's code are counted, as what CUDA and NCCL do themselves is not ours. Needs the allocator to
 * itself, so it is not built under sanitizers.
 */
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/nccl/play.h"
#include "tests/runtime/check.h"
#include "tests/runtime/interpose.h"
#include "tests/runtime/made.h"

static uintptr_t from, to; /* libreshard */
static _Atomic int watching;
static _Atomic uint64_t calls;

void interpose_seen(const void *caller) {
  if (atomic_load(&watching) > 0 && (uintptr_t)caller >= from && (uintptr_t)caller < to) atomic_fetch_add(&calls, 1);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size, (void)arg;
  if (!strstr(info->dlpi_name, "libreshard.so")) return 0;
  from = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, hi = lo + info->dlpi_phdr[i].p_memsz;
    if (lo < from) from = lo;
    if (hi > to) to = hi;
  }
  return 1;
}

/* One rank runs at a time, and other ranks prepare while this one refits: only what this one does counts. */
static bool begin(struct play *play, uint32_t rank, uint32_t refit) {
  (void)play, (void)rank;
  if (refit == 1) atomic_fetch_add(&watching, 1);
  return true;
}

static void one(uint64_t seed, uint32_t flags) {
  struct made_options options = {seed, 2, 2, 0, 4, 3, 20, 30, false, seed % 2 == 0};
  size_t size;
  void *bytes = made_plan(&options, &size);
  struct play play;
  play_open(&play, bytes, size, seed);
  play.config.flags = flags;
  play.refits = 6;
  play.before_refit = begin;
  play.stays_open = true; /* closing may do what it likes */
  struct standin_options run = {.world = 4, .seed = seed};
  play_run(&play, &run);
  atomic_store(&watching, 0);
  play_close_contexts(&play);
  CHECK(!play_wrong(&play), "%s", play_wrong(&play));
  CHECK(atomic_load(&calls) == 0, "%llu calls in refits, seed %llu", (unsigned long long)atomic_load(&calls),
        (unsigned long long)seed);
  standin_end();
  play_close(&play);
  free(bytes);
}

int main(void) {
  dl_iterate_phdr(find_library, NULL);
  CHECK(from < to, "libreshard is not found");
  /* The counter counts: the suite would be blind otherwise. */
  struct reshard_host_group *group;
  atomic_store(&watching, 1);
  free(malloc(1));
  CHECK(atomic_load(&calls) == 0, "calls of the test count");
  CHECK(reshard_host_group_new(1, &group) == RESHARD_OK, "group");
  atomic_store(&watching, 0);
  CHECK(atomic_exchange(&calls, 0) > 0, "the library's malloc is not watched");
  reshard_host_group_free(group);
  for (uint64_t seed = 1; seed < 9; seed++) one(seed, seed % 2 ? RESHARD_NO_GRAPH : 0);
  return 0;
}
