// SPDX-License-Identifier: Apache-2.0
//
// Cases that a person can compute: each says its own sum. q is the bytes of a round, n the rounds.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/made.h"

static int failures;

static void expect(const char *what, double got, double want) {
  if (fabs(got - want) <= 0.001 * fabs(want)) return;
  printf("%s: simulated %.9g, by hand %.9g\n", what, got, want);
  failures++;
}

struct ends {
  double at[8]; // when each rank has done its last phase that moved something
};

static void note(void *user, uint32_t rank, double from, double to, const double bytes[RSP_SIM_LINKS]) {
  struct ends *e = user;
  (void)from;
  for (int k = 0; k < RSP_SIM_LINKS; k++)
    if (bytes[k] > 0 && to > e->at[rank]) e->at[rank] = to;
}

static double simulate(uint32_t world, const uint32_t *domains, const struct flow *flows, size_t count, double memory,
                       double slow, struct ends *ends, uint64_t *computed) {
  struct made made;
  struct rsp_sim_cluster cluster;
  struct rsp_sim_result result;
  make(&made, world, domains, flows, count);
  rsp_sim_cluster_of(&made.plan, &cluster);
  for (uint32_t r = 0; r < world; r++) cluster.rate[RSP_SIM_MEMORY][r] = memory;
  cluster.rate[RSP_SIM_NIC_OUT][0] *= slow;
  rsp_simulate(&made.plan, &cluster, ends ? note : NULL, ends, &result);
  double seconds = result.seconds;
  if (computed) *computed = result.phases_computed;
  double sent = 0, wanted = 0;
  for (uint32_t r = 0; r < world; r++) sent += result.bytes[RSP_SIM_NIC_OUT][r] + result.bytes[RSP_SIM_NVLINK_OUT][r];
  for (size_t i = 0; i < count; i++) wanted += flows[i].src != flows[i].dst ? (double)flows[i].bytes : 0;
  if (wanted > 0) expect("bytes", sent, wanted);
  rsp_sim_result_free(&result);
  rsp_sim_cluster_free(&cluster);
  unmake(&made);
  return seconds;
}

#define SECONDS(world, domains, flows)                                                                                 \
  simulate(world, domains, flows, sizeof flows / sizeof *flows, MEMORY, 1, NULL, NULL)

static const uint32_t apart[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const double net = NET_LATENCY + ISSUE, nv = NV_LATENCY + ISSUE;

static void one_transfer(void) {
  const double b = 1e9;
  const struct flow flows[] = {{.src = 0, .dst = 1, .bytes = 1000000000, .quantum = 1000000000}};
  // packed, sent, unpacked: reads and writes
  expect("one transfer", SECONDS(2, apart, flows), 2 * b / MEMORY + net + b / NIC + 2 * b / MEMORY);
  const struct flow direct[] = {{.src = 0, .dst = 1, .bytes = 1000000000, .quantum = 1000000000, .run = 1000000000}};
  expect("one direct transfer", SECONDS(2, apart, direct), net + b / NIC);
  const struct flow cast[] = {{.src = 0, .dst = 1, .bytes = 1000000000, .quantum = 1000000000, .src_dtype = RSP_F32}};
  // four bytes are read for each that is written
  expect("a conversion", SECONDS(2, apart, cast), 5 * b / MEMORY + net + b / NIC + 2 * b / MEMORY);
}

static void two_senders(void) {
  const double b = 3e8, c = 1e8;
  const struct flow flows[] = {{.src = 0, .dst = 2, .bytes = 300000000, .quantum = 300000000},
                               {.src = 1, .dst = 2, .bytes = 100000000, .quantum = 100000000}};
  expect("two senders, one receiver", SECONDS(3, apart, flows),
         2 * b / MEMORY + net + (b + c) / NIC + 2 * (b + c) / MEMORY);
  const struct flow fan[] = {{.src = 0, .dst = 1, .bytes = 300000000, .quantum = 300000000},
                             {.src = 0, .dst = 2, .bytes = 100000000, .quantum = 100000000}};
  expect("one sender, two receivers", SECONDS(3, apart, fan),
         2 * (b + c) / MEMORY + net + (b + c) / NIC + 2 * b / MEMORY);
}

static void relay_chain(void) {
  const double q = 1e7, n = 100;
  const struct flow flows[] = {
      {.src = 0, .dst = 1, .bytes = 1000000000, .quantum = 10000000},
      {.src = 1, .dst = 2, .bytes = 1000000000, .quantum = 10000000, .round0 = 1, .relay_of = 1},
      {.src = 2, .dst = 3, .bytes = 1000000000, .quantum = 10000000, .round0 = 2, .relay_of = 2}};
  // each hop one round later; every NIC moves one chunk each way in a round
  expect("a chain of relays", SECONDS(4, apart, flows), 2 * q / MEMORY + (n + 2) * (q / NIC + net) + 2 * q / MEMORY);
}

static void forward(void) {
  const uint32_t domains[3] = {0, 1, 1};
  const double q = 1e7, n = 100;
  const struct flow flows[] = {
      {.src = 0, .dst = 1, .bytes = 1000000000, .quantum = 10000000},
      {.src = 1, .dst = 2, .bytes = 1000000000, .quantum = 10000000, .round0 = 1, .relay_of = 1}};
  // NVLink works while the network brings the next chunk; only its last chunk is alone
  expect("NVLink beside the network", SECONDS(3, domains, flows),
         2 * q / MEMORY + n * (q / NIC + net) + q / NVLINK + nv + 2 * q / MEMORY);
}

static void pack_bound(void) {
  const double q = 1e7, n = 50, memory = 100e9, t = 3 * q / memory;
  const struct flow flows[] = {{.src = 0, .dst = 1, .bytes = 500000000, .quantum = 10000000}};
  // a phase of the sender reads and writes one chunk and reads the one that it sends: longer than the network needs
  double got = simulate(2, apart, flows, 1, memory, 1, NULL, NULL);
  expect("pack-bound", got, 2 * q / memory + (n - 1) * t + q / NIC + net + 2 * q / memory);
}

static void latency_bound(void) {
  const double n = 1000;
  const struct flow flows[] = {{.src = 0, .dst = 1, .bytes = 8000, .quantum = 8},
                               {.src = 0, .dst = 2, .bytes = 8000, .quantum = 8},
                               {.src = 0, .dst = 3, .bytes = 8000, .quantum = 8}};
  // each round: the three are issued one after the other, the last arrives after the latency
  expect("small messages", SECONDS(4, apart, flows), n * (3 * ISSUE + NET_LATENCY));
  const struct flow runs[] = {{.src = 0, .dst = 1, .bytes = 8000, .quantum = 8000, .run = 80}};
  expect("a hundred runs", SECONDS(2, apart, runs), 100 * ISSUE + NET_LATENCY);
}

static void turns(void) {
  const double q = 1e6, n = 40;
  const struct flow flows[] = {{.src = 0, .dst = 1, .bytes = 20000000, .quantum = 1000000, .round0 = 0, .step = 2},
                               {.src = 0, .dst = 2, .bytes = 20000000, .quantum = 1000000, .round0 = 1, .step = 2}};
  uint64_t computed;
  double got = simulate(3, apart, flows, 2, MEMORY, 1, NULL, &computed);
  expect("receivers take turns", got, 2 * q / MEMORY + n * (q / NIC + net) + 2 * q / MEMORY);
  if (computed > 30) failures++, printf("turns: %llu of 42 phases were computed\n", (unsigned long long)computed);
}

static void no_barrier(void) {
  const double q = 1e6, n = 100, slow = 0.25;
  const struct flow flows[] = {{.src = 0, .dst = 1, .bytes = 100000000, .quantum = 1000000},
                               {.src = 2, .dst = 3, .bytes = 100000000, .quantum = 1000000}};
  struct ends ends = {{0}};
  double got = simulate(4, apart, flows, 2, MEMORY, slow, &ends, NULL);
  expect("the slow pair", got, 2 * q / MEMORY + n * (q / NIC / slow + net) + 2 * q / MEMORY);
  expect("the other pair does not wait", ends.at[3], 2 * q / MEMORY + n * (q / NIC + net) + 2 * q / MEMORY);
}

static void copies(void) {
  const double q = 1e9;
  const struct flow flows[] = {{.src = 0, .dst = 0, .bytes = 1000000000, .quantum = 1000000000, .copy = true}};
  expect("a copy to itself", SECONDS(1, apart, flows), 2 * q / MEMORY);
}

static void long_run(void) {
  const double q = 1e6, n = 100000;
  const struct flow flows[] = {
      {.src = 0, .dst = 1, .bytes = 100000000000, .quantum = 1000000},
      {.src = 1, .dst = 2, .bytes = 100000000000, .quantum = 1000000, .round0 = 1, .relay_of = 1}};
  uint64_t computed;
  double got = simulate(3, apart, flows, 2, MEMORY, 1, NULL, &computed);
  expect("a long stretch", got, 2 * q / MEMORY + (n + 1) * (q / NIC + net) + 2 * q / MEMORY);
  if (computed > 100) failures++, printf("a long stretch: %llu phases were computed\n", (unsigned long long)computed);
}

// Steps without a short common period take the other way through the code: the same sums.
static void odd_steps(void) {
  struct flow flows[5];
  const uint32_t steps[5] = {7919, 7907, 7901, 7883, 7879};
  for (uint32_t i = 0; i < 5; i++)
    flows[i] =
        (struct flow){.src = 0, .dst = 1 + i, .bytes = 3000000, .quantum = 1000000, .round0 = i, .step = steps[i]};
  const double q = 1e6;
  // five rounds in a row and ten that are far apart, whose packing nothing hides; the last chunk's unpacking ends it
  expect("odd steps", SECONDS(6, apart, flows), 11 * (2 * q / MEMORY) + 15 * (q / NIC + net) + 2 * q / MEMORY);
}

// All to all, with streams that begin and end all the time: the coarse simulation against the exact one.
static void coarse(void) {
  enum { WORLD = 40 };
  uint32_t domains[WORLD];
  struct flow *flows = calloc(WORLD * WORLD, sizeof *flows);
  size_t count = 0;
  if (!flows) abort();
  for (uint32_t a = 0; a < WORLD; a++) {
    domains[a] = a;
    for (uint32_t b = 0; b < WORLD; b++)
      if (a != b)
        flows[count++] = (struct flow){.src = a,
                                       .dst = b,
                                       .bytes = 100000000 + 8000 * (a * 7 + b * 3),
                                       .quantum = 40000 + 8 * (a + b),
                                       .round0 = (a * 37 + b * 91) % 1000};
  }
  struct made made;
  struct rsp_sim_cluster cluster;
  struct rsp_sim_result exact, quick;
  make(&made, WORLD, domains, flows, count);
  rsp_sim_cluster_of(&made.plan, &cluster);
  rsp_simulate(&made.plan, &cluster, NULL, NULL, &exact);
  rsp_simulate_coarsely(&made.plan, &cluster, &quick);
  if (fabs(exact.seconds - quick.seconds) > 0.01 * exact.seconds)
    failures++, printf("coarse: %.6g for %.6g\n", quick.seconds, exact.seconds);
  if (quick.phases_computed * 2 > exact.phases_computed) failures++, printf("coarse: nothing is saved\n");
  for (uint32_t r = 0; r < WORLD; r++)
    expect("coarse bytes", quick.bytes[RSP_SIM_NIC_IN][r], exact.bytes[RSP_SIM_NIC_IN][r]);
  rsp_sim_result_free(&exact);
  rsp_sim_result_free(&quick);
  rsp_sim_cluster_free(&cluster);
  unmake(&made);
  free(flows);
}

int main(void) {
  coarse();
  one_transfer();
  two_senders();
  relay_chain();
  forward();
  pack_bound();
  latency_bound();
  turns();
  no_barrier();
  copies();
  long_run();
  odd_steps();
  printf("%s\n", failures ? "failed" : "the simulator agrees with sums by hand");
  return failures != 0;
}
