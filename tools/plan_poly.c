// SPDX-License-Identifier: Apache-2.0
//
// In: loops and names. Out: fingerprints: arithmetic modulo the prime 2^61 - 1.
#include "tools/plan_poly.h"

#define P ((UINT64_C(1) << 61) - 1)

// Fixed points, so that fingerprints are the same in every run.
static const uint64_t points_x[PLAN_LANES] = {0x0f1e2d3c4b5a6978u % P, 0x1234abcd5678ef01u % P};
static const uint64_t points_y[PLAN_LANES] = {0x13579bdf02468aceu % P, 0x0badcafe1337d00du % P};

static uint64_t mul(uint64_t a, uint64_t b) {
  unsigned __int128 wide = (unsigned __int128)a * b;
  uint64_t sum = (uint64_t)(wide & P) + (uint64_t)(wide >> 61);
  return sum >= P ? sum - P : sum;
}

static uint64_t add(uint64_t a, uint64_t b) {
  uint64_t sum = a + b;
  return sum >= P ? sum - P : sum;
}

static uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = mul(result, base);
    base = mul(base, base);
  }
  return result;
}

// Exponents count modulo P - 1, so a step backwards is a power too.
static uint64_t exponent_of(int64_t n) {
  const int64_t m = (int64_t)(P - 1);
  int64_t r = n % m;
  return (uint64_t)(r < 0 ? r + m : r);
}

struct plan_print plan_print_at(int64_t place, int64_t index) {
  struct plan_print r;
  for (unsigned i = 0; i < PLAN_LANES; i++)
    r.lane[i] = mul(power(points_x[i], exponent_of(place)), power(points_y[i], exponent_of(index)));
  return r;
}

struct plan_print plan_print_sum(struct plan_print r, uint64_t count) {
  struct plan_print out;
  for (unsigned i = 0; i < PLAN_LANES; i++) {
    uint64_t q = r.lane[i], less_one = add(q, P - 1);
    // (q^n - 1) / (q - 1), or n terms of 1.
    if (less_one == 0)
      out.lane[i] = count % P;
    else
      out.lane[i] = mul(add(power(q, exponent_of((int64_t)count)), P - 1), power(less_one, P - 2));
  }
  return out;
}

struct plan_print plan_print_mul(struct plan_print a, struct plan_print b) {
  for (unsigned i = 0; i < PLAN_LANES; i++) a.lane[i] = mul(a.lane[i], b.lane[i]);
  return a;
}

struct plan_print plan_print_add(struct plan_print a, struct plan_print b) {
  for (unsigned i = 0; i < PLAN_LANES; i++) a.lane[i] = add(a.lane[i], b.lane[i]);
  return a;
}

struct plan_print plan_print_sub(struct plan_print a, struct plan_print b) {
  for (unsigned i = 0; i < PLAN_LANES; i++) a.lane[i] = add(a.lane[i], b.lane[i] ? P - b.lane[i] : 0);
  return a;
}

bool plan_print_same(struct plan_print a, struct plan_print b) {
  for (unsigned i = 0; i < PLAN_LANES; i++)
    if (a.lane[i] != b.lane[i]) return false;
  return true;
}

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct plan_print plan_print_hash(const void *bytes, size_t size, uint64_t number) {
  const unsigned char *at = bytes;
  struct plan_print out;
  for (unsigned i = 0; i < PLAN_LANES; i++) {
    uint64_t h = mix(number + 0x9e3779b97f4a7c15u * (i + 1));
    for (size_t k = 0; k < size; k++) h = mix(h ^ at[k]) + k;
    h = mix(h + size) % P;
    out.lane[i] = h ? h : 1;
  }
  return out;
}
