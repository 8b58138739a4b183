/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash of the end-to-end check, for the host and for CUDA: what a sender and a receiver say about a piece of bytes.
 * It is a sum over the words of 8 bytes, each mixed with its place, so the words may be taken in any order and by any
 * number of threads. Not for secrets: it finds bytes that went astray, not an attacker.
 */
#ifndef RSK_HASH_H
#define RSK_HASH_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RSK_HASH_BOTH __host__ __device__
#else
#define RSK_HASH_BOTH
#endif

/* The share of word `index` of a piece; the last word of a piece is filled up with zeros. Little-endian. */
RSK_HASH_BOTH static inline uint64_t rsk_hash_word(uint64_t word, uint64_t index) {
  uint64_t x = word + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
  x = (x ^ (x >> 29)) * UINT64_C(0xd6e8feb86659fd93);
  return x ^ (x >> 32);
}

/* A piece that lies in one place of the host's memory. */
static inline uint64_t rsk_hash(const void *piece, uint64_t bytes) {
  const unsigned char *at = (const unsigned char *)piece;
  uint64_t sum = 0, word, i;
  for (i = 0; i < bytes / 8; i++) {
    memcpy(&word, at + 8 * i, 8);
    sum += rsk_hash_word(word, i);
  }
  if (bytes % 8 != 0) {
    word = 0;
    memcpy(&word, at + 8 * i, (size_t)(bytes % 8));
    sum += rsk_hash_word(word, i);
  }
  return sum;
}

#endif
