/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack and unpack against the device's own copy, and launches against graphs. Bytes are counted as read plus written;
 * each figure is the best of several, measured with events; targets are ratios, and what is below one says so.
 */
#include <stdio.h>

#include "plans/dtype.h"
#include "tests/device/device.h"

#define REPEATS 8
#define TRIES 5

static const struct rsk_conv plain[2] = {{.src_bytes = 1, .dst_bytes = 1, .is_copy = 1},
                                         {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1}};

struct measure {
  struct device *device;
  unsigned char *a, *b; /* arena bytes each */
  uint64_t payload, arena;
  void *begin, *end;
  double copy_rate;
};

static void measure_open(struct measure *m, struct device *device, uint64_t arena) {
  *m = (struct measure){.device = device, .payload = device->payload, .arena = arena};
  m->a = device_memory(device, arena);
  m->b = device_memory(device, arena);
  CALL(EventCreateWithFlags, &m->begin, 0);
  CALL(EventCreateWithFlags, &m->end, 0);
  device_fill(device, m->a, 1, arena);
  device_fill(device, m->b, 2, arena);
  device_wait(device);
}

static void measure_close(struct measure *m) {
  struct device *device = m->device;
  CALL(EventDestroy, m->begin);
  CALL(EventDestroy, m->end);
  CALL(Free, m->a);
  CALL(Free, m->b);
}

/* Seconds of one, the best of TRIES. */
static double seconds_of(struct measure *m, void (*work)(struct measure *m, const void *user), const void *user) {
  struct device *device = m->device;
  double best = 1e30;
  for (int try = 0; try <= TRIES; try++) {
    float milliseconds = 0;
    CALL(EventRecord, m->begin, device->stream);
    for (int i = 0; i < REPEATS; i++) work(m, user);
    CALL(EventRecord, m->end, device->stream);
    device_wait(device);
    CHECK(device->EventElapsedTime(&milliseconds, m->begin, m->end) == RSR_CUDA_OK, "no time");
    double seconds = milliseconds / 1e3 / REPEATS;
    if (try > 0 && seconds < best) best = seconds; /* the first one warms up */
  }
  return best;
}

static void copy_work(struct measure *m, const void *user) {
  (void)user;
  device_copy(m->device, m->b, m->a, m->payload);
}

struct launched {
  const void *image;
  struct rsk_launch launch;
};

static void launch_work(struct measure *m, const void *user) {
  const struct launched *launched = user;
  device_launch(m->device, launched->image, &launched->launch, device_blocks(m->device));
}

/* Closes the batch; `bytes` are read plus written by one launch. */
static void row(struct measure *m, const char *what, struct rsk_batch *batch, double bytes, double target) {
  struct device *device = m->device;
  struct launched launched;
  CHECK(rsk_batch_close_launch(batch, &launched.launch) == RSK_OK, "close");
  void *image = device_load(device, batch);
  launched.image = image;
  double seconds = seconds_of(m, launch_work, &launched), rate = bytes / seconds;
  printf("%-44s %10.0f GB/s %6.2f of the copy%s\n", what, rate / 1e9, rate / m->copy_rate,
         target == 0                    ? ""
         : rate < target * m->copy_rate ? ", BELOW its target"
                                        : ", on target");
  CALL(Free, image);
}

static struct rsk_batch *batch_new(void) {
  struct rsk_batch *batch = rsk_batch_new();
  CHECK(batch, "no memory");
  return batch;
}

static void add(struct rsk_batch *batch, const void *dst, const void *src, const struct rsk_loop *loops, uint32_t count,
                uint64_t run, const struct rsk_conv conv[2]) {
  CHECK(rsk_batch_add(batch, (uintptr_t)dst, (uintptr_t)src, loops, count, run, conv) == RSK_OK, "add");
}

/* Every second column of `run` bytes: memory is read in sectors of 32 bytes, so that at 16 half of what is fetched at
 * the strided end is not counted. */
static void columns(struct measure *m, uint64_t run) {
  char what[64];
  double target = run >= 128 ? 0.9 : 0.7;
  struct rsk_loop pack = {m->payload / run, (int64_t)run, (int64_t)(2 * run)};
  struct rsk_loop unpack = {m->payload / run, (int64_t)(2 * run), (int64_t)run};
  struct rsk_batch *batch = batch_new();
  add(batch, m->b, m->a, &pack, 1, run, plain);
  snprintf(what, sizeof what, "pack, columns of %llu bytes", (unsigned long long)run);
  row(m, what, batch, 2.0 * (double)m->payload, target);
  batch = batch_new();
  add(batch, m->b, m->a, &unpack, 1, run, plain);
  snprintf(what, sizeof what, "unpack, columns of %llu bytes", (unsigned long long)run);
  row(m, what, batch, 2.0 * (double)m->payload, target);
}

static void shapes(struct measure *m) {
  struct rsk_batch *batch = batch_new();
  add(batch, m->b, m->a, NULL, 0, m->payload, plain);
  row(m, "rows: one run", batch, 2.0 * (double)m->payload, 0.9);
  batch = batch_new();
  for (uint64_t at = 0; at < m->payload; at += 65536) add(batch, m->b + at, m->a + at, NULL, 0, 65536, plain);
  row(m, "pieces of 64 KiB", batch, 2.0 * (double)m->payload, 0);
  batch = batch_new();
  for (uint64_t at = 0; at < m->payload / 4; at += 4096) add(batch, m->b + at, m->a + 2 * at, NULL, 0, 4096, plain);
  row(m, "pieces of 4 KiB", batch, 2.0 * (double)m->payload / 4, 0);
  batch = batch_new();
  add(batch, m->b + 2, m->a + 2, NULL, 0, m->payload, plain);
  row(m, "one run, both ends off by 2 bytes", batch, 2.0 * (double)m->payload, 0);
  batch = batch_new();
  add(batch, m->b, m->a + 2, NULL, 0, m->payload, plain);
  row(m, "one run, one end off by 2 bytes", batch, 2.0 * (double)m->payload, 0);
  struct rsk_loop turned[2] = {{1024, (int64_t)(m->payload / 1024), 2}, {m->payload / 2048, 2, 2048}};
  batch = batch_new();
  add(batch, m->b, m->a, turned, 2, 2, plain);
  row(m, "transposed, 2-byte elements", batch, 2.0 * (double)m->payload, 0);
  batch = batch_new();
  CHECK(rsk_batch_add_hash(batch, (uintptr_t)m->b, (uintptr_t)m->a, NULL, 0, m->payload, 4096) == RSK_OK, "hash");
  row(m, "hashes, pieces of 4 KiB", batch, (double)m->payload, 0);
}

static void conversions(struct measure *m) {
  struct rsk_conv conv[2] = {plain[0], plain[0]};
  struct rsk_batch *batch = batch_new();
  CHECK(rsk_conversion(&conv[1], RSP_F32, RSP_BF16, RSK_OP_COPY, 0) == 0, "f32 to bf16");
  add(batch, m->b, m->a, NULL, 0, m->payload / 4, conv);
  row(m, "f32 to bf16", batch, 1.5 * (double)m->payload, 0);
  batch = batch_new();
  CHECK(rsk_conversion(&conv[1], RSP_BF16, RSP_F32, RSK_OP_COPY, 0) == 0, "bf16 to f32");
  add(batch, m->b, m->a, NULL, 0, m->payload / 4, conv);
  row(m, "bf16 to f32", batch, 1.5 * (double)m->payload, 0);
  batch = batch_new();
  CHECK(rsk_conversion(&conv[1], RSP_BF16, RSP_BF16, RSK_OP_ADD, 1) == 0, "bf16 + 1");
  add(batch, m->b, m->a, NULL, 0, m->payload / 16, conv);
  row(m, "bf16 + 1, element by element", batch, 2.0 * (double)m->payload / 8, 0);
}

void device_bandwidth(struct device *device) {
  static const uint64_t runs[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  struct measure m;
  measure_open(&m, device, 2 * device->payload + 4096);
  m.copy_rate = 2.0 * (double)m.payload / seconds_of(&m, copy_work, NULL);
  printf("%-44s %10.0f GB/s   read plus written\n", "cudaMemcpyAsync on the device", m.copy_rate / 1e9);
  for (uint32_t i = 0; i < sizeof runs / sizeof *runs; i++) columns(&m, runs[i]);
  shapes(&m);
  conversions(&m);
  measure_close(&m);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

struct replayed {
  void *exec;
};

static void replay_work(struct measure *m, const void *user) {
  struct device *device = m->device;
  CALL(GraphLaunch, ((const struct replayed *)user)->exec, device->stream);
}

/* One launch of many small pieces, captured once: the replays must do the work, with one kernel. */
void device_graphs(struct device *device) {
  const uint64_t pieces = 20000, run = 48;
  struct measure m;
  measure_open(&m, device, pieces * 4096);
  struct rsk_batch *batch = batch_new();
  for (uint64_t i = 0; i < pieces; i++) add(batch, m.b + i * run, m.a + i * 4096, NULL, 0, run, plain);
  struct launched launched;
  CHECK(rsk_batch_close_launch(batch, &launched.launch) == RSK_OK, "close");
  void *image = device_load(device, batch), *graph = NULL;
  struct replayed replayed = {NULL};
  launched.image = image;
  double direct = seconds_of(&m, launch_work, &launched);
  device_fill(device, m.b, 2, m.arena);
  CALL(StreamBeginCapture, device->stream, RSR_CUDA_CAPTURE_THREAD_LOCAL);
  launch_work(&m, &launched);
  CALL(StreamEndCapture, device->stream, &graph);
  CALL(GraphInstantiate, &replayed.exec, graph, 0);
  double captured = seconds_of(&m, replay_work, &replayed);
  static unsigned char got[64];
  for (uint64_t i = 0; i < pieces; i += 1 + pieces / 100) {
    device_copy(device, got, m.b + i * run, run);
    device_wait(device);
    for (uint64_t k = 0; k < run; k++) CHECK(got[k] == 1, "piece %llu was not copied", (unsigned long long)i);
  }
  printf("%-44s %10.1f us launched, %.1f us replayed from a graph\n", "20000 pieces of 48 bytes, one kernel",
         direct * 1e6, captured * 1e6);
  CALL(GraphExecDestroy, replayed.exec);
  CALL(GraphDestroy, graph);
  CALL(Free, image);
  measure_close(&m);
}
