/* The least that two ranks on this machine can do: give each other a few bytes, with nothing around it. By shared
 * memory, one cache line each way, and by TCP over loopback, one send and as many receives as it takes. Timed as
 * `trireme bench collectives` times: an exchange before each repetition as the barrier, of each the time of the slower
 * rank, of all the median. Prints one line of JSON for each.
 *   cc -O2 -o least_exchange least_exchange.c && ./least_exchange */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { kRepetitions = 2000, kRounds = 5, kBytes = 32 };

struct Line {
  _Alignas(64) _Atomic uint64_t stamp;
};
struct Shared {
  struct Line lines[4]; /* two places for each rank */
  double seconds[2][kRepetitions];
};

static struct Shared* shared;
static int rank, sock;
static uint64_t number;

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

/* Each writes the line that it has read last, which is then in its cache, and looks a little later: who looks too
 * early takes the line away from who is about to write it. */
static void by_memory(void) {
  const uint64_t now = ++number, swapped = now / 2 % 2, place = now % 2 * 2;
  atomic_store_explicit(&shared->lines[place + (rank ^ swapped)].stamp, now, memory_order_release);
  relax();
  relax();
  while (atomic_load_explicit(&shared->lines[place + (1 - (rank ^ swapped))].stamp, memory_order_acquire) < now) relax();
}

static void by_tcp(void) {
  char bytes[kBytes] = {0};
  if (send(sock, bytes, kBytes, MSG_NOSIGNAL) != kBytes) abort();
  for (int got = 0; got < kBytes;) {
    const ssize_t more = recv(sock, bytes, kBytes - got, MSG_DONTWAIT);
    if (more == 0) abort();
    if (more > 0) got += more;
  }
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

static void measure(const char* name, void (*exchange)(void)) {
  double medians[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kRepetitions; ++i) {
      exchange();
      const double begin = now_seconds();
      exchange();
      shared->seconds[rank][i] = now_seconds() - begin;
    }
    exchange(); /* both have written their times, */
    double slower[kRepetitions];
    for (int i = 0; i < kRepetitions; ++i)
      slower[i] = shared->seconds[shared->seconds[1][i] > shared->seconds[0][i]][i];
    qsort(slower, kRepetitions, sizeof(double), compare);
    medians[round] = slower[kRepetitions / 2];
    exchange(); /* and both have read them */
  }
  qsort(medians, kRounds, sizeof(double), compare);
  if (rank == 0) printf("{\"exchange\": \"%s\", \"median_seconds\": %.9f}\n", name, medians[kRounds / 2]);
}

int main(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  const int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (shared == MAP_FAILED || bind(listening, (struct sockaddr*)&address, bytes) != 0 || listen(listening, 1) != 0 ||
      getsockname(listening, (struct sockaddr*)&address, &bytes) != 0)
    return 1;
  rank = fork() == 0;
  if (rank == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  sched_setaffinity(0, sizeof processor, &processor);
  sock = rank == 0 ? accept(listening, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
  if (rank == 1 && connect(sock, (struct sockaddr*)&address, bytes) != 0) return 1;
  setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  measure("shm", by_memory);
  measure("tcp", by_tcp);
  if (rank == 0) wait(NULL);
  return 0;
}
