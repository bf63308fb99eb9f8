// See checkpoint_interval.h.
#include "trireme/run/checkpoint_interval.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/runtime/agree.h"

namespace trireme {

double young_daly_seconds(double checkpoint_seconds, double seconds_between_failures) {
  return std::sqrt(2 * checkpoint_seconds * seconds_between_failures);
}

void CheckpointInterval::stepped(int64_t step) {
  if (next_ > 0) return;
  next_ = step + kFirst;
  counted_from_ = step;
  counted_since_ = Clock::now();
}

std::string CheckpointInterval::wrote(int64_t step, Clock::time_point began) {
  const double steps = static_cast<double>(std::max<int64_t>(1, step - counted_from_));
  // Of all ranks, the longest times.
  std::array<float, 2> slowest = {
      static_cast<float>(seconds_since(began)),
      static_cast<float>(std::chrono::duration<double>(began - counted_since_).count() / steps)};
  agree(ranks_.communicator, ranks_.plan.mesh, std::span(slowest), Communicator::Reduction::kMax);
  const double cost = slowest[0], of_a_step = std::max(1e-9, static_cast<double>(slowest[1]));
  const double interval = young_daly_seconds(cost, failure_seconds_);
  const auto every = static_cast<int64_t>(std::clamp(std::round(interval / of_a_step), 1.0, 1e9));
  next_ = step + every;
  counted_from_ = step;
  counted_since_ = Clock::now();
  return fmt::format(
      "checkpoints every {} steps: one costs {:.3g} s, and with a failure every {:g} h {:.3g} s between them "
      "lose least (run.checkpoint_every=auto)",
      every, cost, failure_seconds_ / 3600, interval);
}

}  // namespace trireme
