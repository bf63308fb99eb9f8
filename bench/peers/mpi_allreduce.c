/* Peer: MPI_Allreduce of floats, timed as `trireme bench collectives` times: a barrier before each repetition, of
 * each the time of the slowest rank, of all the median and the 90th percentile. Prints one line of JSON a size.
 *   mpicc -O3 -o mpi_allreduce mpi_allreduce.c && mpirun -n 2 ./mpi_allreduce 8 4096 1048576 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return a < b ? -1 : a > b;
}

static int repetitions_of(long bytes) { return bytes < 65536 ? 2000 : bytes < (1 << 22) ? 200 : 20; }

static void time_size(long bytes, int rank, int ranks) {
  const int count = (int)(bytes / sizeof(float)), repetitions = repetitions_of(bytes);
  float* in = malloc(bytes);
  float* out = malloc(bytes);
  double* seconds = malloc(sizeof(double) * repetitions);
  for (int i = 0; i < count; ++i) {
    in[i] = rank + 1.0f;
    out[i] = 0;
  }
  for (int i = -5; i < repetitions; ++i) { /* the first ones warm up */
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (i >= 0) seconds[i] = MPI_Wtime() - begin;
  }
  for (int i = 0; i < count; ++i) {
    if (out[i] == ranks * (ranks + 1) / 2.0f) continue;
    fprintf(stderr, "wrong sum of %ld bytes at element %d\n", bytes, i);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Allreduce(MPI_IN_PLACE, seconds, repetitions, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(seconds, repetitions, sizeof(double), compare);
  if (rank == 0) {
    printf("{\"bytes\": %ld, \"median_seconds\": %.9f, \"p90_seconds\": %.9f}\n", bytes, seconds[repetitions / 2],
           seconds[repetitions * 9 / 10]);
    fflush(stdout);
  }
  free(in);
  free(out);
  free(seconds);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; ++i) time_size(atol(argv[i]), rank, ranks);
  MPI_Finalize();
  return 0;
}
