// SPDX-License-Identifier: Apache-2.0
//
// matrix: in: a shape. Out: a plan that the compiler made, this rank's buffers, a context over MPI_COMM_WORLD.

#include "tools/bench/matrix.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/pipeline.h"
#include "plans/plan.h"
#include "tools/cli/cli.h"

#define PROGRAM "reshard-bench-mpi"
#define POISON 0xa5

// ---- the plan ------------------------------------------------------------------------------------------------------

static char *layout_text(const struct bench_shape *shape, enum bench_cut cut, uint32_t ranks) {
  static const char *const cuts[] = {"[_ @tp, _]", "[_, _ @tp]", "[_ @tp:cyclic(64), _]", "[_, _ @tp:cyclic(64)]"};
  char *text = NULL;
  if (asprintf(&text, "tensor \"w\" %s [%" PRIu64 ", %" PRIu64 "];\nmesh g [tp: %u];\non g { buffer \"w\"%s; }\n",
               shape->unit == 2 ? "bf16" : "f64", shape->rows, shape->columns, ranks, cuts[cut]) < 0)
    return NULL;
  return text;
}

// Two hosts, or one GPU per process of both sides.
static char *cluster_text(const struct bench_matrix *m) {
  static const char links[] = "reshard-cluster: 1\nlinks:\n  nvlink: {bandwidth: 450e9, latency: 2e-6}\n"
                              "  network: {bandwidth: 50e9, latency: 5e-6}\n  memory: {bandwidth: 3.3e12}\nhosts:\n";
  char *text = NULL;
  int done;
  if (m->shape.colocated)
    done = asprintf(&text, "%s  - {names: \"h[0-1]\", gpus: 1, nics: 1}\ntrain: \"h0,h1\"\ninfer: \"%s\"\n", links,
                    m->shape.swapped ? "h1,h0" : "h0,h1");
  else
    done = asprintf(&text, "%s  - {names: \"t,i\", gpus: %u, nics: %u}\ntrain: t\ninfer: i\n", links, m->train_ranks,
                    m->train_ranks);
  return done < 0 ? NULL : text;
}

static bool load(void *user, const char *path, char **text, size_t *len) {
  const struct bench_matrix *m = user;
  if (!strcmp(path, "train.layout"))
    *text = layout_text(&m->shape, m->shape.train, m->train_ranks);
  else if (!strcmp(path, "infer.layout"))
    *text = layout_text(&m->shape, m->shape.infer, m->infer_ranks);
  else
    *text = cluster_text(m);
  *len = *text ? strlen(*text) : 0;
  return *text != NULL;
}

static void say(void *user, enum rsc_severity severity, enum rsc_code code, const char *rendered) {
  (void)user, (void)severity, (void)code;
  fputs(rendered, stderr);
}

static int make_plan(struct bench_matrix *m) {
  struct rsc_options options = {.train_path = "train.layout",
                                .infer_path = "infer.layout",
                                .cluster_path = "cluster.yaml",
                                .staging = UINT64_C(256) << 20,
                                .chunk = m->shape.chunk,
                                .max_ops = 1024,
                                .load = load,
                                .load_user = m};
  struct rsc_result result = {0};
  struct reshard_fault fault;
  struct rsp_plan plan;
  struct rsp_error error;
  if (rsc_compile(&options, say, NULL, NULL, NULL, &result) != RSC_COMPILED) return CLI_TROUBLE;
  m->plan_bytes = result.plan;
  if (rsp_open_memory(result.plan, result.plan_bytes, &plan, &error) != RSP_OK)
    return cli_trouble(PROGRAM, "%s", error.text);
  m->bytes = plan.summary->wanted_bytes;
  m->moved = plan.summary->network_bytes + plan.summary->nvlink_bytes;
  rsp_close(&plan);
  if (reshard_open_memory(result.plan, result.plan_bytes, &m->plan, &fault) == RESHARD_OK) return CLI_YES;
  return cli_trouble(PROGRAM, "%s", fault.what);
}

// ---- buffers -------------------------------------------------------------------------------------------------------

// The element's row or column in the matrix, of a side's rank's local one.
static uint64_t place_of(enum bench_cut cut, uint64_t local, uint64_t extent, uint32_t ranks, uint32_t rank) {
  if (cut == BENCH_ROWS || cut == BENCH_COLUMNS) return local + extent / ranks * rank;
  return (local / BENCH_BLOCK * ranks + rank) * BENCH_BLOCK + local % BENCH_BLOCK;
}

static uint64_t value_of(uint64_t index) {
  index *= UINT64_C(0x9e3779b97f4a7c15);
  return (index ^ index >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

// Calls for each element; false ends it.
static bool each(const struct bench_matrix *m, const struct bench_part *part, enum bench_cut cut, uint32_t ranks,
                 uint32_t rank, bool (*visit)(unsigned char *at, uint64_t value, uint32_t unit)) {
  uint32_t unit = m->shape.unit;
  bool by_rows = bench_by_rows(cut);
  for (uint64_t i = 0; i < part->rows; i++) {
    uint64_t row = by_rows ? place_of(cut, i, m->shape.rows, ranks, rank) : i;
    for (uint64_t j = 0; j < part->columns; j++) {
      uint64_t column = by_rows ? j : place_of(cut, j, m->shape.columns, ranks, rank);
      if (!visit(part->data + (i * part->columns + j) * unit, value_of(row * m->shape.columns + column), unit))
        return false;
    }
  }
  return true;
}

static bool put(unsigned char *at, uint64_t value, uint32_t unit) {
  memcpy(at, &value, unit);
  return true;
}

static bool same(unsigned char *at, uint64_t value, uint32_t unit) {
  return memcmp(at, &value, unit) == 0;
}

static bool open_part(const struct bench_shape *shape, struct bench_part *part, enum bench_cut cut, uint32_t ranks) {
  part->rows = bench_by_rows(cut) ? shape->rows / ranks : shape->rows;
  part->columns = bench_by_rows(cut) ? shape->columns : shape->columns / ranks;
  void *data = NULL;
  uint64_t bytes = part->rows * part->columns * shape->unit;
  if (posix_memalign(&data, 4096, bytes) != 0) return false;
  memset(data, POISON, bytes);
  part->data = data;
  return true;
}

bool bench_matrix_check(struct bench_matrix *m, const char *method) {
  if (!m->infer.data) return true;
  bool good = each(m, &m->infer, m->shape.infer, m->infer_ranks, m->infer_rank, same);
  if (!good) fprintf(stderr, PROGRAM ": %s: inference rank %u has a wrong element\n", method, m->infer_rank);
  memset(m->infer.data, POISON, m->infer.rows * m->infer.columns * m->shape.unit);
  return good;
}

// ---- opening -------------------------------------------------------------------------------------------------------

uint32_t bench_infer_rank(const struct bench_matrix *m, uint32_t p) {
  if (m->shape.colocated) return m->shape.swapped ? 1 - p : p;
  return p < m->train_ranks ? UINT32_MAX : p - m->train_ranks;
}

static enum reshard_status bind(struct bench_matrix *m, enum reshard_side side, const struct bench_part *part) {
  if (!part->data) return RESHARD_OK;
  return reshard_bind(m->context, side, "w", part->data, part->rows * part->columns * m->shape.unit);
}

static int open_context(struct bench_matrix *m) {
  struct reshard_config config;
  struct reshard_fault fault;
  reshard_config_init(&config);
  config.backend = RESHARD_MPI;
  if (reshard_context_open(m->plan, m->rank, &config, &m->context, &fault) != RESHARD_OK)
    return cli_trouble(PROGRAM, "%s", fault.what);
  enum reshard_status status = bind(m, RESHARD_TRAIN, &m->train);
  if (status == RESHARD_OK) status = bind(m, RESHARD_INFER, &m->infer);
  if (status == RESHARD_OK) status = reshard_prepare(m->context);
  if (status == RESHARD_OK) return CLI_YES;
  reshard_last_fault(m->context, &fault);
  return cli_trouble(PROGRAM, "%s", fault.what);
}

int bench_matrix_open(struct bench_matrix *m, const struct bench_shape *shape) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  *m = (struct bench_matrix){.shape = *shape, .rank = (uint32_t)rank};
  m->train_ranks = m->infer_ranks = (uint32_t)(shape->colocated ? size : size / 2);
  m->train_rank = m->rank; // training ranks come first
  m->infer_rank = bench_infer_rank(m, m->rank);
  int status = make_plan(m);
  if (status) return status;
  bool good = true;
  if (m->train_rank < m->train_ranks) {
    good = open_part(shape, &m->train, shape->train, m->train_ranks);
    if (good) each(m, &m->train, shape->train, m->train_ranks, m->train_rank, put);
  }
  if (good && m->infer_rank < m->infer_ranks) good = open_part(shape, &m->infer, shape->infer, m->infer_ranks);
  if (!good) return cli_trouble(PROGRAM, "out of memory; see --size");
  return open_context(m);
}

void bench_matrix_close(struct bench_matrix *m) {
  reshard_context_close(m->context);
  reshard_close(m->plan);
  free(m->plan_bytes);
  free(m->train.data);
  free(m->infer.data);
}

bool bench_matrix_refit(struct bench_matrix *m) {
  struct reshard_fault fault;
  if (reshard_refit(m->context, NULL) == RESHARD_OK && reshard_wait(m->context) == RESHARD_OK) return true;
  reshard_last_fault(m->context, &fault);
  cli_trouble(PROGRAM, "%s", fault.what);
  return false;
}
