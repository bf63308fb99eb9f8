// Whether a job that has lost a rank is started again, and after which wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace trireme::comm {

class Restarts {
 public:
  using Seconds = std::chrono::duration<double>;
  // Up to `most` in a row. A job that then runs for kForgotten has settled, and the count begins again.
  explicit Restarts(int most) : most_(most) {}
  static constexpr Seconds kForgotten{600};

  // After a job that ran for so long: how long to wait before the next; nothing where there is none. The wait
  // doubles from one second to a minute, because what ends a job at once (a full memory, a disk that is gone)
  // may take a while to pass.
  std::optional<Seconds> next(Seconds ran) {
    if (ran >= kForgotten) count_ = 0;
    if (count_ == most_) return std::nullopt;
    const int doublings = std::min(count_++, 6);
    return std::min(Seconds(1 << doublings), Seconds(60));
  }
  int count() const { return count_; }  // in a row
  int most() const { return most_; }

 private:
  int most_, count_ = 0;
};

}  // namespace trireme::comm
