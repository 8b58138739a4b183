/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_exp STEP: -exp as devices compute it against the C library's, for every STEP-th float.
 */
#include <math.h>

#include "kernels/element.h"
#include "tests/check.h"

static const double roots[] = RSK_ROOTS;

int main(int argc, char **argv) {
  uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = 0;
  CHECK(step > 0, "usage: test_kernels_exp STEP");
  for (uint64_t u = 0; u < UINT64_C(1) << 32; u += step, count++) {
    float x = rsk_float((uint32_t)u), want = (float)-exp((double)x), got = rsk_neg_exp(x, roots);
    CHECK(rsk_bits(got) == rsk_bits(want), "-exp(%a): %a, not %a", (double)x, (double)got, (double)want);
  }
  printf("%llu floats\n", (unsigned long long)count);
  return 0;
}
