// Jobs on threads, and an end to waiting for them: when a search is over, those that are still at work are
// left to themselves.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trireme::planner {

class Jobs {
 public:
  // `is_over` is asked by the thread that waits, a few times a second.
  Jobs(int threads, std::function<bool()> is_over) : threads_(threads), is_over_(std::move(is_over)) {}
  // Waits for jobs that were left.
  ~Jobs() = default;
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // job(0), …, job(count − 1), several at a time. Those that were not done when it was over have no result.
  // What the job refers to must outlive this object, since it may be left at work. It must not throw.
  template <typename T>
  std::vector<std::optional<T>> run(size_t count, const std::function<T(size_t)>& job) {
    struct Shared {
      std::mutex mutex;
      std::condition_variable changed;
      size_t next = 0, done = 0;
      bool left = false;
      std::vector<std::optional<T>> results;
    };
    const auto shared = std::make_shared<Shared>();
    shared->results.resize(count);
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < std::min(count, static_cast<size_t>(threads_)); ++t) {
      threads.emplace_back([shared, job, count] {
        while (true) {
          size_t mine = 0;
          {
            const std::lock_guard lock(shared->mutex);
            if (shared->left || shared->next == count) return;
            mine = shared->next++;
          }
          T result = job(mine);
          const std::lock_guard lock(shared->mutex);
          if (!shared->left) shared->results[mine] = std::move(result);
          ++shared->done;
          shared->changed.notify_all();
        }
      });
    }
    std::unique_lock lock(shared->mutex);
    while (shared->done < count && !is_over_()) shared->changed.wait_for(lock, std::chrono::milliseconds(50));
    shared->left = shared->done < count;
    std::vector<std::optional<T>> results = std::move(shared->results);
    shared->results.resize(count);
    const bool left = shared->left;
    lock.unlock();
    if (left)
      for (std::jthread& thread : threads) left_.push_back(std::move(thread));
    return results;
  }

  bool is_over() const { return is_over_(); }
  bool has_left_any() const { return !left_.empty(); }

 private:
  int threads_;
  std::function<bool()> is_over_;
  std::vector<std::jthread> left_;
};

}  // namespace trireme::planner
