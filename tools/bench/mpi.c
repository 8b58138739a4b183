// SPDX-License-Identifier: Apache-2.0
//
// reshard-bench-mpi: the mpi backend beside what one would write by hand, in one run, on the same buffers:
// MPI_Alltoallw with subarray types and ScaLAPACK's pdgemr2d on two ranks, gather and broadcast on eight or more. In:
// sizes. Out: a table of rank 0. Every method's result is checked.

#include <getopt.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/matrix.h"
#include "tools/bench/rivals.h"
#include "tools/cli/cli.h"
#include "tools/run_report.h"

#define PROGRAM "reshard-bench-mpi"

static const char help[] =
    "reshard-bench-mpi - the mpi backend beside other ways over MPI\n\n"
    "Usage: mpiexec -n 2 reshard-bench-mpi [OPTIONS]      MPI_Alltoallw, and pdgemr2d where it is built in\n"
    "       mpiexec -n 8 reshard-bench-mpi [OPTIONS]      gather and broadcast; any even number from 8 on\n\n"
    "  --chunk BYTES   that a rank moves in a round, as for reshardc\n"
    "  --only WORD     rows whose name holds the word\n"
    "  --repeat N      runs of each method, in turn (default 9); medians are printed\n"
    "  --size BYTES    of a matrix (default 128MiB)\n"
    "  --help\n\n"
    "GB/s are of the bytes that the inference side wants; times are those of the slowest rank. Exit status: 0 "
    "measured,\n"
    "1 a byte came out wrong, 2 trouble. A target that is missed is printed, not an error.\n";

struct args {
  const char *only;
  uint32_t repeat;
  uint64_t size, chunk;
};

struct bench_row {
  const char *name;
  struct bench_shape shape;
  const struct bench_rival *rival;
  double target;
};

static double median_of(double *all, uint32_t count) {
  MPI_Allreduce(MPI_IN_PLACE, all, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return run_median(all, count);
}

static double time_of(bool (*run)(struct bench_matrix *matrix, void *own), struct bench_matrix *matrix, void *own,
                      bool *good) {
  MPI_Barrier(MPI_COMM_WORLD);
  double since = MPI_Wtime();
  if (!run(matrix, own)) *good = false;
  return MPI_Wtime() - since;
}

static bool run_reshard(struct bench_matrix *matrix, void *own) {
  (void)own;
  return bench_matrix_refit(matrix);
}

// Both once before, and poison before what is checked.
static int take_turns(const struct bench_row *row, struct bench_matrix *matrix, void *own, uint32_t repeat,
                      double seconds[2]) {
  double *times = calloc(2 * (size_t)repeat, sizeof *times);
  bool good = times != NULL;
  for (uint32_t i = 0; i <= repeat && good; i++) {
    double ours = time_of(run_reshard, matrix, NULL, &good);
    if (i == 0 && good) good = bench_matrix_check(matrix, "reshard");
    double theirs = good ? time_of(row->rival->run, matrix, own, &good) : 0;
    if (i == 0 && good) good = bench_matrix_check(matrix, row->rival->name);
    if (i > 0) times[i - 1] = ours;
    if (i > 0) times[repeat + i - 1] = theirs;
  }
  int all = good;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all) seconds[0] = median_of(times, repeat);
  if (all) seconds[1] = median_of(times + repeat, repeat);
  free(times);
  return all ? CLI_YES : CLI_NO;
}

static void print_head(const struct bench_rival *rival) {
  printf("%-44s %9s | %9s %15s | %6s %7s\n", "", "bytes", "reshard", rival->name, "ratio", "target");
}

static void print_row(const struct bench_row *row, const struct bench_matrix *matrix, const double seconds[2]) {
  char bytes[32];
  double ratio = seconds[1] / seconds[0];
  printf("%-44s %9s | %9.2f %15.2f | %6.2f %4.1f %s", row->name, cli_bytes((double)matrix->bytes, bytes),
         (double)matrix->bytes / seconds[0] / 1e9, (double)matrix->bytes / seconds[1] / 1e9, ratio, row->target,
         ratio >= row->target ? "ok" : "--");
  if (row->rival->moved)
    printf(" | moved %.2f and %.2f times", (double)matrix->moved / (double)matrix->bytes,
           (double)row->rival->moved(matrix) / (double)matrix->bytes);
  putchar('\n');
  fflush(stdout);
}

static int measure(const struct bench_row *row, const struct args *args, int rank) {
  struct bench_matrix matrix;
  struct bench_shape shape = row->shape;
  double seconds[2];
  shape.chunk = args->chunk;
  int status = bench_matrix_open(&matrix, &shape);
  if (status) return status;
  void *own = row->rival->open(&matrix);
  if (!own) return cli_trouble(PROGRAM, "%s: cannot begin", row->rival->name);
  status = take_turns(row, &matrix, own, args->repeat, seconds);
  if (!status && rank == 0) print_row(row, &matrix, seconds);
  row->rival->close(own);
  bench_matrix_close(&matrix);
  return status;
}

static int measure_all(const struct bench_row *rows, size_t count, const struct args *args, int rank) {
  const struct bench_rival *last = NULL;
  int status = CLI_YES;
  for (size_t i = 0; i < count && !status; i++) {
    if (!rows[i].rival || (args->only && !strstr(rows[i].name, args->only))) continue;
    if (rank == 0 && rows[i].rival != last) print_head(rows[i].rival);
    last = rows[i].rival;
    status = measure(&rows[i], args, rank);
  }
  return status;
}

// `columns` elements wide, about `bytes` bytes in all.
static struct bench_shape shape_of(uint64_t bytes, uint32_t unit, uint64_t columns, enum bench_cut from,
                                   enum bench_cut to) {
  uint64_t rows = bytes / unit / columns / 256 * 256;
  return (struct bench_shape){.rows = rows ? rows : 256, .columns = columns, .unit = unit, .train = from, .infer = to};
}

static int run_pairs(const struct args *args, int rank) {
  struct bench_row rows[] = {
      {"contiguous: halves of rows change places", shape_of(args->size, 2, 4096, BENCH_ROWS, BENCH_ROWS),
       &bench_alltoallw, 1.0},
      {"strided: rows to columns, runs of 128 bytes", shape_of(args->size, 2, 128, BENCH_ROWS, BENCH_COLUMNS),
       &bench_alltoallw, 1.5},
      {"strided: columns to rows, runs of 128 bytes", shape_of(args->size, 2, 128, BENCH_COLUMNS, BENCH_ROWS),
       &bench_alltoallw, 1.5},
      {"strided: rows to columns, runs of 4096 bytes", shape_of(args->size, 2, 4096, BENCH_ROWS, BENCH_COLUMNS),
       &bench_alltoallw, 1.5},
      {"f64, blocks of rows to blocks of columns", shape_of(args->size, 8, 4096, BENCH_ROWS, BENCH_COLUMNS),
       bench_pdgemr2d, 2.0},
      {"f64, cyclic blocks of 64, rows to columns",
       shape_of(args->size, 8, 4096, BENCH_CYCLIC_ROWS, BENCH_CYCLIC_COLUMNS), bench_pdgemr2d, 2.0},
      {"f64, cyclic blocks of 64, columns to rows",
       shape_of(args->size, 8, 4096, BENCH_CYCLIC_COLUMNS, BENCH_CYCLIC_ROWS), bench_pdgemr2d, 2.0}};
  rows[0].shape.swapped = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) rows[i].shape.colocated = true;
  return measure_all(rows, sizeof rows / sizeof *rows, args, rank);
}

static int run_many(const struct args *args, int rank) {
  struct bench_row rows[] = {{"gathered rows, broadcast, sliced to columns",
                              shape_of(args->size, 2, 4096, BENCH_ROWS, BENCH_COLUMNS), &bench_gather, 3.0},
                             {"gathered rows, broadcast, sliced to rows",
                              shape_of(args->size, 2, 4096, BENCH_ROWS, BENCH_ROWS), &bench_gather, 3.0}};
  return measure_all(rows, 2, args, rank);
}

static int parse(struct args *args, int argc, char **argv) {
  static const struct option options[] = {
      {"chunk", required_argument, NULL, 'c'},  {"only", required_argument, NULL, 'o'},
      {"repeat", required_argument, NULL, 'r'}, {"size", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  int64_t number;
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case 'h':
      return -1;
    case 'c':
      if (!cli_parse_size(optarg, &args->chunk)) return cli_usage(PROGRAM, "--chunk takes bytes, such as 64MiB");
      break;
    case 'o':
      args->only = optarg;
      break;
    case 'r':
      if (!cli_parse_number(optarg, 1, 100000, &number)) return cli_usage(PROGRAM, "--repeat takes a number");
      args->repeat = (uint32_t)number;
      break;
    case 's':
      if (!cli_parse_size(optarg, &args->size)) return cli_usage(PROGRAM, "--size takes bytes, such as 128MiB");
      break;
    default:
      return cli_usage(PROGRAM, "that option is not known, or lacks its value");
    }
  }
  return optind == argc ? 0 : cli_usage(PROGRAM, "it takes no arguments");
}

int main(int argc, char **argv) {
  struct args args = {.repeat = 9, .size = UINT64_C(128) << 20};
  int rank, size, status = parse(&args, argc, argv);
  if (status) return status < 0 ? cli_help(help) : status;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    printf("%.*s; %d ranks; GB/s, medians of %" PRIu32 "\n\n", (int)strcspn(text, "\n"), text, size, args.repeat);
  }
  if (size == 2)
    status = run_pairs(&args, rank);
  else if (size >= 8 && size % 2 == 0)
    status = run_many(&args, rank);
  else
    status = rank ? CLI_TROUBLE : cli_usage(PROGRAM, "mpiexec -n 2, or an even number from 8 on");
  MPI_Finalize();
  return rank == 0 ? cli_finish(PROGRAM, status) : status;
}
