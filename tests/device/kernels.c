/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels against their host twins: random nests of every kind, the same ones once with addresses of the device and
 * once with addresses of the host, over the same bytes; destinations are poisoned and compared whole.
 */
#include <stdio.h>
#include <string.h>

#include "plans/dtype.h"
#include "tests/device/device.h"
#include "tests/kernels/nests.h"
#include "tests/runtime/check.h"

#define ROOM (UINT64_C(4) << 20)

struct side {
  unsigned char *src, *dst;
  struct rsk_batch *batch;
  struct rsk_launch launch;
};

static const struct rsk_conv plain[2] = {{.src_bytes = 1, .dst_bytes = 1, .is_copy = 1},
                                         {.src_bytes = 1, .dst_bytes = 1, .is_copy = 1}};

static int random_pair(uint64_t *seed, struct rsk_conv pair[2]) {
  static const uint32_t dtypes[] = {RSP_F16, RSP_BF16, RSP_F32, RSP_F64, RSP_F8E4M3, RSP_F8E5M2};
  for (;;) {
    uint32_t a = dtypes[random_in(seed, 0, 5)], b = dtypes[random_in(seed, 0, 5)], c = dtypes[random_in(seed, 0, 5)];
    if (rsk_conversion(&pair[0], a, b, random_in(seed, 0, 1) ? RSK_OP_COPY : RSK_OP_SUB, 0.3125f) == 0 &&
        rsk_conversion(&pair[1], b, c, (uint32_t)random_in(seed, 0, 3), -1.7f) == 0)
      return !pair[0].is_copy || !pair[1].is_copy;
  }
}

static enum rsk_status add(const struct side *side, const struct random_nest *nest, uint64_t used,
                           const struct rsk_conv conv[2], int kind) {
  uint64_t dst = (uint64_t)(uintptr_t)side->dst + used + nest->dst_off;
  uint64_t src = (uint64_t)(uintptr_t)side->src + nest->src_off;
  if (kind == 0) return rsk_batch_add_zero(side->batch, dst, nest->loops, nest->loop_count, nest->run);
  return rsk_batch_add(side->batch, dst, src, nest->loops, nest->loop_count, nest->run, conv);
}

/* The same nests on both sides. */
static uint64_t fill(uint64_t *seed, const struct side *a, const struct side *b) {
  uint64_t used = 0, count = random_in(seed, 1, 200);
  for (uint64_t i = 0; i < count; i++) {
    struct rsk_conv pair[2] = {plain[0], plain[1]};
    int kind = (int)random_in(seed, 0, 7), converts = kind > 4 && random_pair(seed, pair);
    struct random_nest nest =
        kind == 1 ? nest_turned(seed)
                  : nest_make(seed, UINT64_C(1) << random_in(seed, 2, 17), converts ? pair[1].dst_bytes : 1,
                              converts ? pair[0].src_bytes : 1, random_in(seed, 0, 7) != 0);
    if (used + nest.dst_bytes + 64 > ROOM || nest.src_bytes > ROOM) continue;
    const struct rsk_conv *conv = converts ? pair : plain;
    CHECK(add(a, &nest, used, conv, kind) == RSK_OK && add(b, &nest, used, conv, kind) == RSK_OK, "add");
    used += (nest.dst_bytes + random_in(seed, 0, 15) + 15) / 16 * 16;
  }
  return count;
}

static void hashes(uint64_t *seed, const struct side *a, const struct side *b) {
  uint64_t run = random_in(seed, 1, 60000), off = random_in(seed, 0, 1) ? 0 : random_in(seed, 0, 15);
  struct rsk_loop loop = {random_in(seed, 1, 50), 8 * 32, (int64_t)(run + off)};
  const struct side *sides[2] = {a, b};
  for (int s = 0; s < 2; s++)
    CHECK(rsk_batch_add_hash(sides[s]->batch, (uintptr_t)sides[s]->dst, (uintptr_t)sides[s]->src + off, &loop, 1, run,
                             4096) == RSK_OK,
          "hash");
}

static void one_launch(struct device *device, uint64_t number, struct side *card, struct side *host,
                       unsigned char *got) {
  uint64_t seed = number;
  card->batch = rsk_batch_new();
  host->batch = rsk_batch_new();
  CHECK(card->batch && host->batch, "no memory");
  if (number % 8 == 0)
    hashes(&seed, card, host);
  else
    fill(&seed, card, host);
  CHECK(rsk_batch_close_launch(card->batch, &card->launch) == RSK_OK, "close");
  CHECK(rsk_batch_close_launch(host->batch, &host->launch) == RSK_OK, "close");
  device_fill(device, card->dst, 0xa5, ROOM);
  memset(host->dst, 0xa5, ROOM);
  void *image = device_load(device, card->batch);
  uint32_t most = number % 3 == 0 ? (uint32_t)random_in(&seed, 1, 9) : device_blocks(device);
  device_launch(device, image, &card->launch, most);
  device_copy(device, got, card->dst, ROOM);
  uint64_t bytes;
  rsk_batch_run(rsk_batch_image(host->batch, &bytes), &host->launch);
  device_wait(device);
  for (uint64_t i = 0; i < ROOM; i++)
    CHECK(got[i] == host->dst[i], "launch %llu byte %llu: %02x on the device, %02x on the host",
          (unsigned long long)number, (unsigned long long)i, got[i], host->dst[i]);
  rsk_batch_free(host->batch);
  CALL(Free, image);
}

/* Every float through -exp and back to its own dtype; on the host they equal the C library's. */
static void every_exp(struct device *device, struct side *card, struct side *host, unsigned char *got) {
  struct rsk_conv pair[2] = {plain[0], plain[1]};
  uint64_t step = 509, count = 0;
  for (uint64_t u = 0; u < UINT64_C(1) << 32 && 4 * count + 4 <= ROOM; u += step * 8, count++) {
    uint32_t bits = (uint32_t)u;
    memcpy(host->src + 4 * count, &bits, 4);
  }
  CHECK(rsk_conversion(&pair[1], RSP_F32, RSP_F32, RSK_OP_NEG_EXP, 0) == 0, "no -exp");
  struct side *sides[2] = {card, host};
  for (int s = 0; s < 2; s++) {
    sides[s]->batch = rsk_batch_new();
    CHECK(sides[s]->batch && rsk_batch_add(sides[s]->batch, (uintptr_t)sides[s]->dst, (uintptr_t)sides[s]->src, NULL, 0,
                                           count, pair) == RSK_OK,
          "add");
    CHECK(rsk_batch_close_launch(sides[s]->batch, &sides[s]->launch) == RSK_OK, "close");
  }
  device_copy(device, card->src, host->src, 4 * count);
  void *image = device_load(device, card->batch);
  device_launch(device, image, &card->launch, device_blocks(device));
  device_copy(device, got, card->dst, 4 * count);
  uint64_t bytes;
  rsk_batch_run(rsk_batch_image(host->batch, &bytes), &host->launch);
  device_wait(device);
  CHECK(memcmp(got, host->dst, 4 * count) == 0, "-exp differs from the host's");
  rsk_batch_free(host->batch);
  CALL(Free, image);
  printf("%-44s %10llu floats, every one equal\n", "-exp against the host", (unsigned long long)count);
}

void device_kernels(struct device *device) {
  uint64_t seed = 1;
  unsigned char *got = aligned_alloc(256, ROOM);
  struct side host = {.src = aligned_alloc(256, ROOM), .dst = aligned_alloc(256, ROOM)};
  struct side card = {.src = device_memory(device, ROOM), .dst = device_memory(device, ROOM)};
  CHECK(got && host.src && host.dst, "no memory");
  for (uint64_t i = 0; i < ROOM; i += 8) {
    uint64_t word = random_next(&seed);
    memcpy(host.src + i, &word, 8);
  }
  device_copy(device, card.src, host.src, ROOM);
  for (uint64_t i = 1; i <= device->rounds; i++) one_launch(device, i, &card, &host, got);
  printf("%-44s %10llu launches, every byte equal\n", "random nests against the host",
         (unsigned long long)device->rounds);
  every_exp(device, &card, &host, got);
  CALL(Free, card.src);
  CALL(Free, card.dst);
  free(host.src);
  free(host.dst);
  free(got);
}
