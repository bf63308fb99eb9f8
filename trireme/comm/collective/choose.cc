// Predicts the candidates and takes the best. That costs milliseconds for many ranks; the engine asks once
// for each call that it has not seen.
#include "trireme/comm/collective/choose.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/choice.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme::comm {
namespace {

// Not more: a rank that waits for a longer one gives up spinning and sleeps, which no cost model foresees.
// Not less: shorter ones were never faster, only predicted to be.
constexpr std::array<size_t, 2> kSegmentBytes = {64 << 10, 256 << 10};

// The transport's own way was itself measured, while the others are put together from their messages. Where
// they are as good as equal, what was measured is the safer choice.
constexpr double kNativeBonus = 1.1;

size_t bytes_of(const Call& call) {
  return static_cast<size_t>(call.count) * size_of(call.dtype);
}

// The vector cut as evenly as elements allow. An all_to_all's count is what one rank gives.
std::vector<size_t> chunk_bytes(const Call& call, const Steps& steps) {
  const int cuts = call.collective == Collective::all_to_all ? steps.ranks() : steps.chunks();
  std::vector<size_t> bytes;
  for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
    const int64_t elements = call.count / cuts + (chunk % cuts < call.count % cuts ? 1 : 0);
    bytes.push_back(static_cast<size_t>(elements) * size_of(call.dtype));
  }
  return bytes;
}

// One way to run a call, and the least time it could take.
struct Candidate {
  Algorithm algorithm;
  const Steps* steps;
  size_t segment_bytes;
  double least_seconds;
};

Choice best_of(const Call& call, const std::vector<Algorithm>& algorithms, int ranks,
               std::span<const int> hosts, const Costs& costs) {
  std::vector<Steps> all_steps;
  for (const Algorithm algorithm : algorithms) {
    all_steps.push_back(make_steps(call.collective, algorithm, ranks, call.root, hosts));
  }
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    const std::vector<size_t> bytes = chunk_bytes(call, all_steps[i]);
    const size_t longest = longest_message_bytes(all_steps[i], bytes);
    for (const size_t segment : kSegmentBytes) {
      candidates.push_back(
          {algorithms[i], &all_steps[i], segment, busiest_seconds(all_steps[i], bytes, segment, costs)});
      if (segment >= longest) break;  // longer ones cut nothing either
    }
  }
  // The most promising first, so that most of the others need not be timed.
  std::ranges::stable_sort(candidates, {}, &Candidate::least_seconds);
  Choice best{.predicted_seconds = std::numeric_limits<double>::infinity()};
  for (const Candidate& candidate : candidates) {
    if (candidate.least_seconds >= best.predicted_seconds) break;
    const double seconds = predict_seconds(*candidate.steps, chunk_bytes(call, *candidate.steps),
                                           candidate.segment_bytes, costs);
    if (seconds < best.predicted_seconds) best = {candidate.algorithm, candidate.segment_bytes, seconds};
  }
  return best;
}

// Of whole operations that were timed with as many ranks; nothing where one of them was not, or where nothing
// is sent at all.
std::optional<Choice> best_timed(const Call& call, const std::vector<Algorithm>& algorithms, int ranks,
                                 const LinkModel& model) {
  const bool empty = call.count == 0 && call.collective != Collective::barrier;
  if (ranks != model.ranks || empty) return std::nullopt;
  Choice best{.segment_bytes = kDefaultSegmentBytes,
              .predicted_seconds = std::numeric_limits<double>::infinity()};
  for (const Algorithm algorithm : algorithms) {
    const Curve* const curve = timed_curve(model, call.collective, algorithm);
    if (curve == nullptr) return std::nullopt;
    const double seconds = curve->seconds(bytes_of(call));
    if (seconds >= best.predicted_seconds) continue;
    best.algorithm = algorithm;
    best.predicted_seconds = seconds;
  }
  return best;
}

}  // namespace

Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkModel& model,
              bool native_offered) {
  const bool any = call.algorithm == Algorithm::automatic;
  Choice native{.algorithm = Algorithm::native, .segment_bytes = 0, .predicted_seconds = 0};
  const bool may_be_native = call.algorithm == Algorithm::native || (any && native_offered);
  const Curve* const measured = timed_curve(model, call.collective, Algorithm::native);
  if (may_be_native && measured != nullptr) native.predicted_seconds = measured->seconds(bytes_of(call));
  if (call.algorithm == Algorithm::native || (may_be_native && native.predicted_seconds == 0)) return native;

  std::vector<Algorithm> algorithms{call.algorithm};
  if (any) algorithms = algorithms_for(call.collective, hosts);
  if (const std::optional<Choice> timed = best_timed(call, algorithms, ranks, model)) {
    return may_be_native && native.predicted_seconds <= timed->predicted_seconds ? native : *timed;
  }
  Choice best = best_of(call, algorithms, ranks, hosts, costs_of(model, hosts, bytes_of(call)));
  // Of an empty vector nothing is sent at all.
  if (call.count == 0 && call.collective != Collective::barrier) best.predicted_seconds = 0;
  best.predicted_seconds += model.operation_seconds;
  return may_be_native && native.predicted_seconds <= kNativeBonus * best.predicted_seconds ? native : best;
}

double predict_call(const Call& call, size_t segment_bytes, int ranks, std::span<const int> hosts,
                    const LinkModel& model) {
  if (call.algorithm == Algorithm::native || call.count == 0) {
    return choose(call, ranks, hosts, model, true).predicted_seconds;
  }
  if (segment_bytes == kDefaultSegmentBytes) {
    if (const auto timed = best_timed(call, {call.algorithm}, ranks, model)) return timed->predicted_seconds;
  }
  const Steps steps = make_steps(call.collective, call.algorithm, ranks, call.root, hosts);
  const Costs costs = costs_of(model, hosts, bytes_of(call));
  return model.operation_seconds + predict_seconds(steps, chunk_bytes(call, steps), segment_bytes, costs);
}

Chooser make_chooser(LinkModel model, std::vector<int> hosts) {
  return
      [model = std::move(model), hosts = std::move(hosts)](const Call& call, int ranks, bool native_offered) {
        return choose(call, ranks, hosts, model, native_offered);
      };
}

}  // namespace trireme::comm
