/* SPDX-License-Identifier: Apache-2.0
 *
 * Many nests as one launch: for a device, where a launch costs as much as a thousand small copies. In: nests as for
 * rsk_copy and rsk_convert_twice, with addresses of the device, which are never followed here. Out: an *image*, one
 * block of bytes without pointers into itself that is copied to the device once, and *launches*, small values that go
 * to a kernel beside the address of the image. rsk_batch_run is the host twin of every kernel: the same image, the same
 * launch, the same index arithmetic (index.h) and the same elements (element.h) over host memory.
 *
 *   batch = rsk_batch_new()
 *   { rsk_batch_add* ... -> rsk_batch_close_launch(batch, &launch) } for each round and direction
 *
 * or, where rounds take one sequence of nests piece by piece, with the nests only once:
 *
 *   { rsk_batch_open_table -> rsk_batch_add ... -> rsk_batch_close_table(batch, &table) } for each sequence
 *   rsk_batch_add_series(batch, table, &window, &series) for each that moves it
 *   { rsk_batch_take(batch, series, turn), rsk_batch_add* ... -> rsk_batch_close_launch(batch, &launch) } as above
 *
 *   rsk_batch_image(batch, &bytes) -> the caller copies it, 16-byte aligned, and frees the batch or keeps it
 *   kernel rsk_kernel_name(launch.kernel) <<<rsk_launch_blocks(&launch, most), RSK_BLOCK_THREADS>>> (image, launch)
 *
 * A kernel's arguments are the address of the image and struct rsk_launch by value, in this order; it uses no dynamic
 * shared memory. Any number of blocks from 1 on is right: blocks take what there is in turns. Work of one launch is
 * done in any order and at once, so no byte that one nest of a launch writes may be read or written by another.
 *
 * A batch belongs to one thread at a time. What is in an image stays as it is: other addresses need another batch.
 */
#ifndef RSK_BATCH_H
#define RSK_BATCH_H

#include "kernels/index.h"
#include "kernels/rsk.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RSK_BLOCK_THREADS 256u

enum rsk_status {
  RSK_OK,
  RSK_NO_MEMORY,     /* of the host */
  RSK_NO_CONVERSION, /* a form that no kernel has */
  RSK_TOO_LARGE,     /* more than 2^64 units of work, or more than RSK_LOOPS loops that turn */
  RSK_MIXED,         /* hashes do not share a launch with other work, nor tables with a launch that is open */
  RSK_MISALIGNED,    /* a place for hashes that is no multiple of 8, a window that is none of its table's grain */
  RSK_UNFIT          /* a nest that is not, or not as well, moved in pieces */
};

enum rsk_kernel {
  RSK_KERNEL_COPY,    /* copies of bits, zeros */
  RSK_KERNEL_CONVERT, /* these and conversions */
  RSK_KERNEL_HASH,
  RSK_KERNEL_COUNT
};

struct rsk_launch {
  uint64_t starts_off, parts_off; /* bytes from the start of the image */
  uint64_t part_count;
  uint64_t tile_count; /* 0: nothing to do, and nothing to launch */
  uint32_t kernel;     /* enum rsk_kernel */
  uint32_t reserved;
};

struct rsk_batch;

/* NULL: no memory. */
struct rsk_batch *rsk_batch_new(void);
void rsk_batch_free(struct rsk_batch *batch); /* NULL is fine */

/* What rsk_copy(dst, src, ...) does if both conversions are copies, `run` in bytes; otherwise what
 * rsk_convert_twice(&conv[0], &conv[1], ...) does, `run` in elements. The nest need not be simplified; the loops are
 * not kept. After a failure the launch holds what it held before. */
enum rsk_status rsk_batch_add(struct rsk_batch *batch, uint64_t dst, uint64_t src, const struct rsk_loop *loops,
                              uint32_t loop_count, uint64_t run, const struct rsk_conv conv[2]);
/* What rsk_zero does. */
enum rsk_status rsk_batch_add_zero(struct rsk_batch *batch, uint64_t dst, const struct rsk_loop *loops,
                                   uint32_t loop_count, uint64_t run_bytes);
/* Hashes (hash.h) of every run, cut into pieces of `piece_bytes`, more than 0, and a rest: the i-th one of a run goes
 * to the 8 bytes at dst + 8 * i; the loops' dst_step moves dst from run to run, 8-byte aligned as dst is. */
enum rsk_status rsk_batch_add_hash(struct rsk_batch *batch, uint64_t dst, uint64_t src, const struct rsk_loop *loops,
                                   uint32_t loop_count, uint64_t run_bytes, uint64_t piece_bytes);

/* A table holds nests that follow one another at one end, the *dense* one, from address `origin` on, in the order of
 * their loops; rsk_batch_add adds to it until it is closed. Windows of a table move pieces of these bytes: what they
 * cut, and where they put it, are multiples of `grain`, a power of two up to 16. UNFIT: the nest turns rows to columns,
 * goes through the dense end in another order, or has long rows that do not lie on words of 16 bytes; then drop the
 * table and add each piece as a nest of its own. */
enum rsk_status rsk_batch_open_table(struct rsk_batch *batch, uint32_t dense, uint64_t origin, uint32_t grain);
enum rsk_status rsk_batch_close_table(struct rsk_batch *batch, uint64_t *table);
void rsk_batch_drop_table(struct rsk_batch *batch);

/* Turn t moves bytes [t * quantum, t * quantum + quantum) of the table, as far as it goes; at the dense end they begin
 * at slot + t % slots * slot_step. */
struct rsk_window {
  uint64_t quantum;
  uint64_t slot, slot_step;
  uint32_t slots; /* at least 1 */
};
enum rsk_status rsk_batch_add_series(struct rsk_batch *batch, uint64_t table, const struct rsk_window *window,
                                     uint64_t *series);
/* The launch does this turn; nothing if there is none. Cheapest when turns ascend. */
enum rsk_status rsk_batch_take(struct rsk_batch *batch, uint64_t series, uint32_t turn);

/* All that was added or taken since the last launch. */
enum rsk_status rsk_batch_close_launch(struct rsk_batch *batch, struct rsk_launch *launch);
/* The image of the launches that are closed; valid until the batch is changed or freed. Never NULL. */
const void *rsk_batch_image(const struct rsk_batch *batch, uint64_t *bytes);

/* What the launch's kernel does, on the host: addresses in the image are of host memory. `image` is 8-byte aligned. */
void rsk_batch_run(const void *image, const struct rsk_launch *launch);

/* The kernel's name in the device image. */
const char *rsk_kernel_name(uint32_t kernel);
/* Blocks that have something to do, at least 1 and at most `most`. */
uint32_t rsk_launch_blocks(const struct rsk_launch *launch, uint32_t most);

/* The kernels for cudaLibraryLoadData: a fat binary; NULL and 0 bytes if built without nvcc. */
const void *rsk_device_image(size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
