/* SPDX-License-Identifier: Apache-2.0
 * See reserved.h. */
#include "tests/runtime/reserved.h"

#include <sys/mman.h>

#include "plans/plan.h"
#include "tests/runtime/check.h"

#define ALIGN 256u

static uint64_t round_up(uint64_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void **reserve_buffers(const char *plan, uint32_t rank) {
  struct rsp_rank_view view;
  struct rsp_error error;
  CHECK(rsp_rank_open(plan, rank, &view, &error) == RSP_OK, "%s", error.text);
  uint64_t count = view.program.slice->buffers.count, all = ALIGN;
  void **at = calloc(count + 1, sizeof *at);
  CHECK(at, "memory");
  for (uint64_t b = 0; b < count; b++) all += round_up(view.program.buffers[b].bytes);
  char *room = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(room != MAP_FAILED, "%llu bytes of addresses", (unsigned long long)all);
  for (uint64_t b = 0; b < count; b++) {
    if (view.program.buffers[b].bytes > 0) at[b] = room;
    room += round_up(view.program.buffers[b].bytes);
  }
  rsp_rank_close(&view);
  return at;
}

void bind_reserved(struct reshard_context *context, void *const *at) {
  for (uint64_t b = 0; b < reshard_buffer_count(context); b++) {
    struct reshard_buffer_info info;
    CHECK(reshard_buffer_get(context, b, &info) == RESHARD_OK, "buffer");
    CHECK(reshard_bind_n(context, info.side, info.name, info.name_bytes, at[b], info.bytes) == RESHARD_OK, "bind");
  }
}
