/* An all-reduce of two ranks whose vectors lie in ordinary memory, with nothing around it: no calls, no checks, no
 * records, no failures. Up to 32 KiB each rank copies its vector to shared memory and adds the other's; above that,
 * chunk by chunk, each copies the half that the other adds up, adds its own half and leaves the sum where the
 * contribution lay, and fetches the other's. What `trireme` takes beyond this for large vectors is its own; for a few
 * bytes least_exchange.c is the measure, since nothing is done here about who looks at a line too early.
 *   cc -O3 -march=native -o bare_allreduce bare_allreduce.c && ./bare_allreduce 4096 1048576
 * prints one line of JSON for each size in bytes. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kWhole = 32 << 10, kChunk = 64 << 10, kStages = 4, kMostRepetitions = 2000 };

struct Counter {
  _Alignas(128) _Atomic uint64_t value;
};
struct Shared {
  struct Counter arrived[2], staged[2], reduced[2];
  double seconds[2][kMostRepetitions];
  _Alignas(128) char staging[2][kStages][kChunk];
};

static struct Shared* shared;
static int rank;
static char* vector;
static uint64_t arrivals, chunks_before;

static void publish(struct Counter* counters, uint64_t value) {
  atomic_store_explicit(&counters[rank].value, value, memory_order_release);
}

static int other_has(struct Counter* counters, uint64_t value) {
  return atomic_load_explicit(&counters[1 - rank].value, memory_order_acquire) >= value;
}

static void barrier(void) {
  publish(shared->arrived, ++arrivals);
  while (!other_has(shared->arrived, arrivals)) continue;
}

static void add(float* restrict sum, const float* restrict more, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += more[i];
}

/* The sum also replaces what was added. */
static void add_both(float* restrict sum, float* restrict more, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = more[i] = sum[i] + more[i];
}

static char* staging(int owner, uint64_t chunk) { return shared->staging[owner][(chunks_before + chunk) % kStages]; }

/* Places are used in turns, and nobody is more than one vector ahead. */
static void reduce_whole(size_t bytes) {
  memcpy(staging(rank, 0), vector, bytes);
  publish(shared->staged, chunks_before + 1);
  while (!other_has(shared->staged, chunks_before + 1)) continue;
  add((float*)vector, (const float*)staging(1 - rank, 0), bytes / sizeof(float));
  chunks_before += 1;
}

static void reduce_halves(size_t bytes) {
  const size_t half = bytes / 2;
  char *const mine = vector + rank * half, *const theirs = vector + (1 - rank) * half;
  const uint64_t chunks = (half + kChunk - 1) / kChunk;
  uint64_t staged = 0, reduced = 0, fetched = 0;
  while (fetched < chunks) {
    if (staged < chunks && staged < fetched + kStages && staged < reduced + 2) {
      const size_t begin = staged * kChunk, size = half - begin < kChunk ? half - begin : kChunk;
      memcpy(staging(rank, staged), theirs + begin, size);
      publish(shared->staged, chunks_before + ++staged);
    }
    if (reduced < staged && other_has(shared->staged, chunks_before + reduced + 1)) {
      const size_t begin = reduced * kChunk, size = half - begin < kChunk ? half - begin : kChunk;
      add_both((float*)(mine + begin), (float*)staging(1 - rank, reduced), size / sizeof(float));
      publish(shared->reduced, chunks_before + ++reduced);
    }
    if (fetched < reduced && other_has(shared->reduced, chunks_before + fetched + 1)) {
      const size_t begin = fetched * kChunk, size = half - begin < kChunk ? half - begin : kChunk;
      memcpy(theirs + begin, staging(rank, fetched++), size);
    }
  }
  chunks_before += chunks;
}

static double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return a < b ? -1 : a > b;
}

static void measure(size_t bytes) {
  void (*const reduce)(size_t) = bytes <= kWhole ? reduce_whole : reduce_halves;
  const int repetitions = bytes <= 1 << 20 ? kMostRepetitions : bytes <= 16 << 20 ? 50 : 15;
  for (int i = 0; i < repetitions + 3; ++i) {
    barrier();
    const double begin = now_seconds();
    reduce(bytes);
    if (i >= 3) shared->seconds[rank][i - 3] = now_seconds() - begin;
  }
  barrier();
  if (rank == 0) {
    double slower[kMostRepetitions];
    for (int i = 0; i < repetitions; ++i)
      slower[i] = shared->seconds[shared->seconds[1][i] > shared->seconds[0][i]][i];
    qsort(slower, repetitions, sizeof(double), compare);
    printf("{\"bytes\": %zu, \"median_seconds\": %.9f, \"p90_seconds\": %.9f}\n", bytes, slower[repetitions / 2],
           slower[repetitions * 9 / 10]);
  }
  barrier();
}

/* Rank 0 gives ones and rank 1 twos; all later sums follow from the first. */
static void check(size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) ((float*)vector)[i] = 1.0f + rank;
  barrier();
  (bytes <= kWhole ? reduce_whole : reduce_halves)(bytes);
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    if (((float*)vector)[i] != 3.0f) abort();
  memset(vector, 0, bytes);
  barrier();
}

int main(int count, char** arguments) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  memset(shared, 0, sizeof *shared);
  rank = fork() == 0;
  if (rank == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  sched_setaffinity(0, sizeof processor, &processor);
  for (int i = 1; i < count; ++i) {
    const size_t bytes = strtoull(arguments[i], NULL, 10) / 8 * 8;
    vector = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (vector == NULL) return 1;
    check(bytes);
    measure(bytes);
    free(vector);
  }
  if (rank == 1) return 0;
  int status = 0;
  return wait(&status) < 0 || status != 0;
}
