/* SPDX-License-Identifier: Apache-2.0
 *
 * See cuda_on_host.h. A fiber is a context of its own; the scheduler runs any one that does not wait for its warp.
 */
#include "tests/kernels/cuda_on_host.h"

#include <ucontext.h>

#include <vector>

cuda_dim threadIdx, blockIdx, gridDim, blockDim;

namespace {

constexpr size_t stack_bytes = 64 << 10;

struct fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool waits, done;
};

struct warp {
  uint32_t live, here;
  uint64_t words[32];
};

std::vector<fiber> fibers;
std::vector<warp> warps;
ucontext_t scheduler;
void (*body)(const void *);
const void *arguments;
uint64_t state;

uint64_t draw() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

void open_gate(uint32_t w) {
  warps[w].here = 0;
  for (uint32_t i = 32 * w; i < 32 * w + 32; i++) fibers[i].waits = false;
}

void run_fiber() {
  body(arguments);
  uint32_t w = threadIdx.x / 32;
  fibers[threadIdx.x].done = true;
  if (--warps[w].live == warps[w].here && warps[w].live > 0) {
    fprintf(stderr, "cuda_on_host: some lanes of a warp wait for lanes that have ended\n");
    abort();
  }
}

void start(uint32_t i) {
  fiber &f = fibers[i];
  f.stack.resize(stack_bytes);
  f.waits = f.done = false;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.data();
  f.context.uc_stack.ss_size = stack_bytes;
  f.context.uc_link = &scheduler;
  makecontext(&f.context, run_fiber, 0);
}

/* From a random fiber on, the first that can run. */
bool run_one() {
  uint32_t count = (uint32_t)fibers.size(), from = (uint32_t)(draw() % count);
  for (uint32_t k = 0; k < count; k++) {
    uint32_t i = (from + k) % count;
    if (fibers[i].done || fibers[i].waits) continue;
    threadIdx = {i, 0, 0};
    swapcontext(&scheduler, &fibers[i].context);
    return true;
  }
  return false;
}

} // namespace

void cuda_meet_warp() {
  uint32_t me = threadIdx.x, w = me / 32;
  if (++warps[w].here == warps[w].live) {
    open_gate(w);
    return;
  }
  fibers[me].waits = true;
  swapcontext(&fibers[me].context, &scheduler);
}

uint64_t cuda_exchange(uint64_t mine, uint32_t from_lane) {
  warp &w = warps[threadIdx.x / 32];
  w.words[threadIdx.x % 32] = mine;
  cuda_meet_warp();
  uint64_t word = w.words[from_lane];
  cuda_meet_warp();
  return word;
}

uint32_t cuda_vote(bool mine) {
  warp &w = warps[threadIdx.x / 32];
  w.words[threadIdx.x % 32] = mine;
  cuda_meet_warp();
  uint32_t votes = 0;
  for (uint32_t i = 0; i < 32; i++) votes |= (uint32_t)w.words[i] << i;
  cuda_meet_warp();
  return votes;
}

void cuda_launch(void (*kernel)(const void *arguments), const void *with, uint32_t blocks, uint32_t threads,
                 uint64_t seed) {
  body = kernel;
  arguments = with;
  state = seed | 1;
  gridDim = {blocks, 1, 1};
  blockDim = {threads, 1, 1};
  fibers.resize(threads);
  for (uint32_t b = 0; b < blocks; b++) {
    blockIdx = {b, 0, 0};
    warps.assign(threads / 32, {32, 0, {}});
    for (uint32_t i = 0; i < threads; i++) start(i);
    while (run_one()) {
    }
    for (const fiber &f : fibers) {
      if (f.done) continue;
      fprintf(stderr, "cuda_on_host: a warp waits for ever\n");
      abort();
    }
  }
}
