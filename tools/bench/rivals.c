// SPDX-License-Identifier: Apache-2.0
//
// rivals: in: a matrix's parts. Out: the inference parts, by MPI's and ScaLAPACK's own means.

#include "tools/bench/rivals.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

// ---- MPI_Alltoallw -------------------------------------------------------------------------------------------------

struct alltoallw {
  int size;
  int *send_counts, *receive_counts, *offsets; // offsets are zero: the types say where
  MPI_Datatype *sends, *receives;
};

static MPI_Datatype element_of(const struct bench_matrix *m) {
  return m->shape.unit == 2 ? MPI_UINT16_T : MPI_DOUBLE;
}

// Half-open rows [0..1] and columns [2..3] of a side's rank.
static void box_of(const struct bench_matrix *m, enum bench_cut cut, uint32_t ranks, uint32_t rank, int box[4]) {
  int rows = (int)m->shape.rows, columns = (int)m->shape.columns, r = (int)rank, n = (int)ranks;
  bool by_rows = bench_by_rows(cut);
  box[0] = by_rows ? rows / n * r : 0;
  box[1] = by_rows ? rows / n * (r + 1) : rows;
  box[2] = by_rows ? 0 : columns / n * r;
  box[3] = by_rows ? columns : columns / n * (r + 1);
}

// The common part of two boxes, inside the first one; 0: they have none.
static int common_type(const struct bench_matrix *m, const int mine[4], const int other[4], MPI_Datatype *type) {
  int sizes[2], parts[2], starts[2];
  *type = MPI_BYTE;
  for (int d = 0; d < 2; d++) {
    int lo = mine[2 * d] > other[2 * d] ? mine[2 * d] : other[2 * d];
    int hi = mine[2 * d + 1] < other[2 * d + 1] ? mine[2 * d + 1] : other[2 * d + 1];
    if (lo >= hi) return 0;
    sizes[d] = mine[2 * d + 1] - mine[2 * d];
    parts[d] = hi - lo;
    starts[d] = lo - mine[2 * d];
  }
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, element_of(m), type);
  MPI_Type_commit(type);
  return 1;
}

static void *open_alltoallw(struct bench_matrix *m) {
  struct alltoallw *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  MPI_Comm_size(MPI_COMM_WORLD, &a->size);
  size_t n = (size_t)a->size;
  a->send_counts = calloc(3 * n, sizeof(int));
  a->sends = calloc(2 * n, sizeof(MPI_Datatype));
  if (!a->send_counts || !a->sends) abort();
  a->receive_counts = a->send_counts + n;
  a->offsets = a->send_counts + 2 * n;
  a->receives = a->sends + n;
  int train[4], infer[4], other[4];
  box_of(m, m->shape.train, m->train_ranks, m->train_rank, train);
  box_of(m, m->shape.infer, m->infer_ranks, m->infer_rank, infer);
  for (uint32_t p = 0; p < n; p++) {
    box_of(m, m->shape.infer, m->infer_ranks, bench_infer_rank(m, p), other);
    a->send_counts[p] = common_type(m, train, other, &a->sends[p]);
    box_of(m, m->shape.train, m->train_ranks, p, other);
    a->receive_counts[p] = common_type(m, infer, other, &a->receives[p]);
  }
  return a;
}

static bool run_alltoallw(struct bench_matrix *m, void *own) {
  struct alltoallw *a = own;
  return MPI_Alltoallw(m->train.data, a->send_counts, a->offsets, a->sends, m->infer.data, a->receive_counts,
                       a->offsets, a->receives, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static void close_alltoallw(void *own) {
  struct alltoallw *a = own;
  for (int p = 0; p < a->size; p++) {
    if (a->send_counts[p]) MPI_Type_free(&a->sends[p]);
    if (a->receive_counts[p]) MPI_Type_free(&a->receives[p]);
  }
  free(a->send_counts);
  free(a->sends);
  free(a);
}

const struct bench_rival bench_alltoallw = {"MPI_Alltoallw", open_alltoallw, run_alltoallw, close_alltoallw, NULL};

// ---- pdgemr2d ------------------------------------------------------------------------------------------------------

#ifdef RESHARD_SCALAPACK
// ScaLAPACK has no header for C. Its matrices are column-major: ours, seen from there, are transposed.
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridexit(int context);
void Cpdgemr2d(int m, int n, double *a, int ia, int ja, int *desc_a, double *b, int ib, int jb, int *desc_b,
               int context);

struct gemr2d {
  int train_grid, infer_grid, all, train[9], infer[9];
};

static void describe(const struct bench_matrix *m, enum bench_cut cut, uint32_t ranks, const struct bench_part *part,
                     int *grid, int desc[9]) {
  int columns = (int)m->shape.columns, rows = (int)m->shape.rows, n = (int)ranks;
  bool by_rows = bench_by_rows(cut), cyclic = cut == BENCH_CYCLIC_ROWS || cut == BENCH_CYCLIC_COLUMNS;
  Cblacs_get(-1, 0, grid);
  Cblacs_gridinit(grid, "R", by_rows ? 1 : n, by_rows ? n : 1);
  int across = by_rows ? columns : cyclic ? BENCH_BLOCK : columns / n;
  int along = by_rows ? (cyclic ? BENCH_BLOCK : rows / n) : rows;
  int made[9] = {1, *grid, columns, rows, across, along, 0, 0, (int)part->columns};
  memcpy(desc, made, sizeof made);
}

static void *open_gemr2d(struct bench_matrix *m) {
  struct gemr2d *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  describe(m, m->shape.train, m->train_ranks, &m->train, &g->train_grid, g->train);
  describe(m, m->shape.infer, m->infer_ranks, &m->infer, &g->infer_grid, g->infer);
  Cblacs_get(-1, 0, &g->all);
  Cblacs_gridinit(&g->all, "R", 1, (int)m->train_ranks);
  return g;
}

static bool run_gemr2d(struct bench_matrix *m, void *own) {
  struct gemr2d *g = own;
  Cpdgemr2d((int)m->shape.columns, (int)m->shape.rows, (double *)(void *)m->train.data, 1, 1, g->train,
            (double *)(void *)m->infer.data, 1, 1, g->infer, g->all);
  return true;
}

static void close_gemr2d(void *own) {
  struct gemr2d *g = own;
  Cblacs_gridexit(g->train_grid);
  Cblacs_gridexit(g->infer_grid);
  Cblacs_gridexit(g->all);
  free(g);
}

static const struct bench_rival gemr2d = {"pdgemr2d", open_gemr2d, run_gemr2d, close_gemr2d, NULL};
const struct bench_rival *const bench_pdgemr2d = &gemr2d;
#else
const struct bench_rival *const bench_pdgemr2d = NULL;
#endif

// ---- gather and broadcast ------------------------------------------------------------------------------------------

struct gather {
  unsigned char *whole;  // at the first training rank and at inference ranks
  MPI_Comm train, infer; // of the training ranks; of the first of them with the inference ranks
};

// Blocks of rows gather to the whole matrix as they are.
static void *open_gather(struct bench_matrix *m) {
  struct gather *g = calloc(1, sizeof *g);
  if (!g || m->shape.train != BENCH_ROWS) abort();
  bool trains = m->train_rank < m->train_ranks, has_whole = m->rank == 0 || !trains;
  MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : MPI_UNDEFINED, 0, &g->train);
  MPI_Comm_split(MPI_COMM_WORLD, has_whole ? 0 : MPI_UNDEFINED, 0, &g->infer);
  if (has_whole) g->whole = malloc(m->bytes);
  if (has_whole && !g->whole) abort();
  if (has_whole) memset(g->whole, 0, m->bytes);
  return g;
}

static void slice(const struct bench_matrix *m, const unsigned char *whole) {
  uint64_t wide = m->infer.columns * m->shape.unit, row = m->shape.columns * m->shape.unit;
  if (bench_by_rows(m->shape.infer)) {
    memcpy(m->infer.data, whole + m->infer_rank * m->infer.rows * row, m->infer.rows * row);
    return;
  }
  for (uint64_t i = 0; i < m->infer.rows; i++)
    memcpy(m->infer.data + i * wide, whole + i * row + m->infer_rank * wide, wide);
}

static bool run_gather(struct bench_matrix *m, void *own) {
  struct gather *g = own;
  int each = (int)(m->bytes / m->train_ranks);
  if (g->train != MPI_COMM_NULL) MPI_Gather(m->train.data, each, MPI_BYTE, g->whole, each, MPI_BYTE, 0, g->train);
  if (g->infer != MPI_COMM_NULL) MPI_Bcast(g->whole, (int)m->bytes, MPI_BYTE, 0, g->infer);
  if (m->infer.data) slice(m, g->whole);
  return true;
}

static void close_gather(void *own) {
  struct gather *g = own;
  if (g->train != MPI_COMM_NULL) MPI_Comm_free(&g->train);
  if (g->infer != MPI_COMM_NULL) MPI_Comm_free(&g->infer);
  free(g->whole);
  free(g);
}

static uint64_t gather_moved(const struct bench_matrix *m) {
  return m->bytes / m->train_ranks * (m->train_ranks - 1) + m->bytes * m->infer_ranks;
}

const struct bench_rival bench_gather = {"gather-broadcast", open_gather, run_gather, close_gather, gather_moved};
