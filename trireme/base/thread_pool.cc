// Workers spin for a short while after a loop, because a training step is thousands of loops in close
// succession, and then sleep on the generation counter, because a rank that waits must not burn a core.
#include "trireme/base/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr std::chrono::microseconds kSpin{50};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `value` differs from `old`.
template <typename T>
void wait_for_change(std::atomic<T>& value, T old) {
  // The length of a pause differs a hundredfold between processors, so the clock ends the spin.
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  TRIREME_CHECK(threads >= 1);
  // All workers take part in every loop, so that threads without a core of their own only cost time;
  // thousands of them look like a hang.
  const int cores = static_cast<int>(std::thread::hardware_concurrency()), most = std::max(64, 4 * cores);
  if (threads > most) {
    throw_error(
        "{} threads were asked for, but this machine has {} cores; {} threads at most make sense here",
        threads, cores, most);
  }
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { worker_main(); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t count, int64_t grain, Range range, const void* body) {
  TRIREME_CHECK(grain >= 1);
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) range(body, begin, std::min(begin + grain, count));
    return;
  }
  count_ = count;
  grain_ = grain;
  range_ = range;
  body_ = body;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  work();
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    wait_for_change(busy_, busy);
  }
}

void ThreadPool::work() {
  for (;;) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    range_(body_, begin, std::min(begin + grain_, count_));
  }
}

void ThreadPool::worker_main() {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(generation_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    work();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace trireme
