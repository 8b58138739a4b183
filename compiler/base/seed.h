/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs that tests seed into the compiler (reshardc --seed-bug N, not shown in --help) to prove that the verifier, `run`
 * and the oracle would catch the real thing. Zero is none. Those of route make slow plans, not wrong ones: tests/route
 * must notice.
 */
#ifndef RSC_BASE_SEED_H
#define RSC_BASE_SEED_H

enum rsc_seed {
  RSC_SEED_NONE = 0,
  RSC_SEED_INTERSECT_SHIFT = 1, /* intersect: one sender's offset off by one element */
  RSC_SEED_INTERSECT_DROP = 2,  /* intersect: one flow forgotten */
  RSC_SEED_LOWER_SWAP = 3,      /* lower: two parts of a stream in another order at the receiver */
  RSC_SEED_LOWER_STEP = 4,      /* lower: one loop's step wrong at the receiver */
  RSC_SEED_EMIT_SLOT = 5,       /* emit: staging slots of one stream reused a round too early */
  RSC_SEED_EMIT_COUNT = 6,      /* emit: one round quantum differs between the ends */
  RSC_SEED_EMIT_SWAP = 7,       /* emit: two elements mixed up: the sender's offsets of two descriptors swapped */
  RSC_SEED_ROUTE_LEADER = 8,    /* route: all that the same ranks want enters at one of them */
  RSC_SEED_ROUTE_HOLDER = 9,    /* route: the first of the holders sends everything */
  RSC_SEED_LAST = 9
};

#endif
