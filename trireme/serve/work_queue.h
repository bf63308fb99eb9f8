// What waits to be computed, in the order of arrival: many threads add, one takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "trireme/serve/request_error.h"

namespace trireme::serve {

template <typename Job>
class WorkQueue {
 public:
  explicit WorkQueue(int most) : most_(static_cast<size_t>(most)) {}

  // All of them or none. Throws RequestError if they do not fit (429), or the queue is closed (503).
  void add(std::vector<Job> jobs) {
    const std::scoped_lock lock(mutex_);
    if (closed_) throw RequestError(503, "shutting_down", "the server is shutting down");
    if (jobs_.size() + jobs.size() > most_)
      throw RequestError(
          429, "rate_limit_exceeded",
          fmt::format("{} requests wait already, of {} that may; try again later", jobs_.size(), most_));
    for (Job& job : jobs) jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  // Up to `most` that wait; with kWait at least one, unless the queue is closed and empty. Once there is one,
  // others are waited for up to `gather` seconds.
  enum class When { kNow, kWait };
  std::vector<Job> take(size_t most, When when, double gather = 0) {
    std::unique_lock lock(mutex_);
    if (when == When::kWait) changed_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
    if (gather > 0 && !jobs_.empty())
      changed_.wait_for(lock, std::chrono::duration<double>(gather),
                        [&] { return closed_ || jobs_.size() >= most; });
    std::vector<Job> taken;
    while (taken.size() < most && !jobs_.empty()) {
      taken.push_back(std::move(jobs_.front()));
      jobs_.pop_front();
    }
    return taken;
  }

  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  size_t size() const {
    const std::scoped_lock lock(mutex_);
    return jobs_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  size_t most_;
  bool closed_ = false;
};

}  // namespace trireme::serve
