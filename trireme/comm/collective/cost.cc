// Runs the Steps against the clock, or two shorter vectors where this one would take too many segments: with
// segments of one size, each further one costs the same once all ranks are busy.
#include "trireme/comm/collective/cost.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/comm/collective/timed_run.h"

namespace trireme::comm {
namespace {

// Segments in all that are simulated, and of the longest message; what keeps a prediction within a few
// milliseconds.
constexpr int kMostSegments = 6000;
constexpr int kFewestOfMessage = 8;
constexpr int kMostOfMessage = 64;

size_t bytes_of(const Steps& steps, const Step& step, std::span<const size_t> chunk_bytes) {
  size_t bytes = 0;
  for (int i = 0; i < step.count; ++i) bytes += chunk_bytes[steps.sized_as(step.chunk + i)];
  return bytes;
}

int messages_of(const Steps& steps) {
  int messages = 0;
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    for (const Step& step : steps.of(rank)) messages += step.kind == Step::Kind::send;
  }
  return messages;
}

double seconds_of_part(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                       const Costs& costs, double part) {
  std::vector<size_t> bytes;
  for (const size_t whole : chunk_bytes) bytes.push_back(std::llround(part * static_cast<double>(whole)));
  return TimedRun(steps, bytes, segment_bytes, costs).run();
}

}  // namespace

Costs uniform_costs(const Link& link, Ports ports) {
  const auto transfer = [link](int, int, size_t bytes) -> Transfer {
    const double seconds = link.alpha_seconds + static_cast<double>(bytes) * link.beta_seconds_per_byte;
    return {.send_seconds = seconds, .receive_seconds = seconds};
  };
  const auto reduce = [link](size_t bytes) {
    return static_cast<double>(bytes) * link.gamma_seconds_per_byte;
  };
  return {.transfer = transfer, .reduce_seconds = reduce, .ports = ports};
}

size_t longest_message_bytes(const Steps& steps, std::span<const size_t> chunk_bytes) {
  size_t longest = 0;
  for (int rank = 0; rank < steps.ranks(); ++rank) {
    for (const Step& step : steps.of(rank)) {
      if (step.kind != Step::Kind::local) longest = std::max(longest, bytes_of(steps, step, chunk_bytes));
    }
  }
  return longest;
}

double predict_seconds(const Steps& steps, std::span<const size_t> chunk_bytes, size_t segment_bytes,
                       const Costs& costs) {
  TRIREME_CHECK(segment_bytes != size_t{0});
  const double segments =
      std::ceil(static_cast<double>(longest_message_bytes(steps, chunk_bytes)) / segment_bytes);
  const int most =
      std::clamp(kMostSegments / std::max(messages_of(steps), 1), kFewestOfMessage, kMostOfMessage);
  if (segments <= most) return TimedRun(steps, chunk_bytes, segment_bytes, costs).run();
  const double longer = most / segments;
  const double shorter = (most - most / 2) / segments;
  const double longer_seconds = seconds_of_part(steps, chunk_bytes, segment_bytes, costs, longer);
  const double shorter_seconds = seconds_of_part(steps, chunk_bytes, segment_bytes, costs, shorter);
  return longer_seconds + (1 - longer) * (longer_seconds - shorter_seconds) / (longer - shorter);
}

}  // namespace trireme::comm
