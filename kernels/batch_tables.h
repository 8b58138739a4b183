/* SPDX-License-Identifier: Apache-2.0
 *
 * Private forms of the batch: batch.c makes tasks of nests, batch_tables.c puts them into tables, series and launches.
 */
#ifndef RSK_BATCH_TABLES_H
#define RSK_BATCH_TABLES_H

#include <stdbool.h>

#include "kernels/batch.h"

/* Bytes that grow. */
struct rsk_bytes {
  unsigned char *at;
  uint64_t count, room;
};

struct rsk_batch {
  struct rsk_bytes image;
  struct rsk_bytes starts, tasks, axes; /* of the open table, or of the open launch's own tasks */
  struct rsk_bytes part_starts, parts;  /* of the open launch */
  struct rsk_bytes tables, series;      /* that are closed: see batch_tables.c */
  struct rsk_bytes loops;               /* scratch */
  uint64_t task_count, task_tiles;      /* of tasks */
  uint64_t part_tiles;                  /* of parts */
  uint32_t kernel;                      /* what tasks and parts need */
  /* the open table */
  bool in_table;
  uint32_t dense, grain;
  uint64_t origin, table_bytes;
};

/* Room for `more` bytes behind those that are there. */
bool rsk_reserve(struct rsk_bytes *bytes, uint64_t more);
/* There is room. */
void rsk_put(struct rsk_bytes *bytes, const void *from, uint64_t count);

/* A task of the open table or launch: axes are its own; task->axes is filled in. */
enum rsk_status rsk_put_task(struct rsk_batch *batch, struct rsk_task *task, const struct rsk_axis *axes);

#endif
