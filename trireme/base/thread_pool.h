// A fixed set of workers that split one loop at a time. Each rank owns its own pool, so ranks in one
// process never fight over threads. Work is split by index alone, never by timing, so a kernel that
// computes each index independently gives the same bits for any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

class ThreadPool {
 public:
  // `threads` includes the caller: a pool of one starts no thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) over disjoint ranges that cover [0, count), each at most `grain` long, and
  // returns when all are done. Ranges are handed out as threads become free, so uneven work balances.
  // Allocates nothing. Not re-entrant: body must not call the same pool. body must not throw.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    run(
        count, grain,
        [](const void* f, int64_t begin, int64_t end) { (*static_cast<const Body*>(f))(begin, end); }, &body);
  }

  // Calls body(thread) once on each thread of the pool, 0 being the caller.
  template <typename Body>
  void on_each(const Body& body) {
    parallel_for(threads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(static_cast<int>(i));
    });
  }

 private:
  using Range = void (*)(const void* body, int64_t begin, int64_t end);
  void run(int64_t count, int64_t grain, Range range, const void* body);
  void work();
  void worker_main();

  std::vector<std::thread> workers_;
  // One loop at a time. `generation_` is bumped to start it; workers count themselves out in `busy_`.
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  int64_t grain_ = 1;
  Range range_ = nullptr;
  const void* body_ = nullptr;
};

}  // namespace trireme
