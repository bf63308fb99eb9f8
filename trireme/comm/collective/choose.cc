// Predicts the candidates and takes the best. That costs milliseconds for many ranks; the engine asks once
// for each call that it has not seen.
#include "trireme/comm/collective/choose.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
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

// Of an empty vector; a barrier is messages all the same.
bool sends_nothing(const Call& call) {
  return call.count == 0 && call.collective != Collective::barrier;
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

// The best first; of those that take the same time in the same segments, the first.
std::vector<Choice> within_of_best(std::vector<Choice> choices, double within) {
  std::ranges::stable_sort(choices, {}, &Choice::predicted_seconds);
  const double most = within * choices.front().predicted_seconds;
  std::erase_if(choices, [&](const Choice& choice) { return choice.predicted_seconds > most; });
  const auto same = [](const Choice& a, const Choice& b) {
    return a.predicted_seconds == b.predicted_seconds && a.segment_bytes == b.segment_bytes;
  };
  choices.erase(std::unique(choices.begin(), choices.end(), same), choices.end());
  return choices;
}

// One way to run a call, and the least time it could take.
struct Candidate {
  Algorithm algorithm;
  const Steps* steps;
  size_t segment_bytes;
  double least_seconds;
};

// By the cost model, as contenders() says.
std::vector<Choice> by_steps(const Call& call, const std::vector<Algorithm>& algorithms, int ranks,
                             std::span<const int> hosts, const LinkModel& model, double within) {
  const Costs costs = costs_of(model, hosts, bytes_of(call));
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
  std::vector<Choice> choices;
  double best = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    if (model.operation_seconds + candidate.least_seconds >= within * best) break;
    double seconds = model.operation_seconds;
    if (!sends_nothing(call)) {
      seconds += predict_seconds(*candidate.steps, chunk_bytes(call, *candidate.steps),
                                 candidate.segment_bytes, costs);
    }
    choices.push_back({candidate.algorithm, candidate.segment_bytes, seconds});
    best = std::min(best, seconds);
  }
  return within_of_best(std::move(choices), within);
}

// By whole operations that were timed with as many ranks, as contenders() says; nothing where one of them was
// not, or where nothing is sent at all.
std::vector<Choice> by_operations(const Call& call, const std::vector<Algorithm>& algorithms, int ranks,
                                  const LinkModel& model, double within) {
  if (ranks != model.ranks || sends_nothing(call)) return {};
  std::vector<Choice> choices;
  for (const Algorithm algorithm : algorithms) {
    const Curve* const curve = timed_curve(model, call.collective, algorithm);
    if (curve == nullptr) return {};
    choices.push_back({algorithm, kDefaultSegmentBytes, curve->seconds(bytes_of(call))});
  }
  return within_of_best(std::move(choices), within);
}

// What was found to be the fastest, where that can be run here.
std::optional<Choice> preferred(const Call& call, int ranks, std::span<const int> hosts,
                                const LinkModel& model, bool native_offered) {
  const Preference* const way = preference_for(model, call.collective, bytes_of(call));
  if (way == nullptr || ranks != model.ranks) return std::nullopt;
  const std::vector<Algorithm> possible = algorithms_for(call.collective, hosts);
  const bool native = way->algorithm == Algorithm::native;
  if (native ? !native_offered : std::ranges::find(possible, way->algorithm) == possible.end()) {
    return std::nullopt;
  }
  Call named = call;
  named.algorithm = way->algorithm;
  return Choice{way->algorithm, way->segment_bytes,
                predict_call(named, way->segment_bytes, ranks, hosts, model)};
}

}  // namespace

std::vector<Choice> contenders(const Call& call, int ranks, std::span<const int> hosts,
                               const LinkModel& model, bool native_offered, double within) {
  const std::vector<Algorithm> algorithms = algorithms_for(call.collective, hosts);
  std::vector<Choice> choices = by_operations(call, algorithms, ranks, model, within);
  if (choices.empty()) choices = by_steps(call, algorithms, ranks, hosts, model, within);
  const Curve* const native = timed_curve(model, call.collective, Algorithm::native);
  if (native_offered && native != nullptr) {
    choices.push_back({Algorithm::native, 0, native->seconds(bytes_of(call))});
  }
  return within_of_best(std::move(choices), within);
}

Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkModel& model,
              bool native_offered) {
  const bool any = call.algorithm == Algorithm::automatic;
  if (any && call.count > 0) {
    if (const auto way = preferred(call, ranks, hosts, model, native_offered)) return *way;
  }
  Choice native{.algorithm = Algorithm::native, .segment_bytes = 0, .predicted_seconds = 0};
  const bool may_be_native = call.algorithm == Algorithm::native || (any && native_offered);
  const Curve* const measured = timed_curve(model, call.collective, Algorithm::native);
  if (may_be_native && measured != nullptr) native.predicted_seconds = measured->seconds(bytes_of(call));
  if (call.algorithm == Algorithm::native || (may_be_native && native.predicted_seconds == 0)) return native;

  std::vector<Algorithm> algorithms{call.algorithm};
  if (any) algorithms = algorithms_for(call.collective, hosts);
  const std::vector<Choice> timed = by_operations(call, algorithms, ranks, model, 1);
  if (!timed.empty()) {
    return may_be_native && native.predicted_seconds <= timed[0].predicted_seconds ? native : timed[0];
  }
  const Choice best = by_steps(call, algorithms, ranks, hosts, model, 1).front();
  return may_be_native && native.predicted_seconds <= kNativeBonus * best.predicted_seconds ? native : best;
}

double predict_call(const Call& call, size_t segment_bytes, int ranks, std::span<const int> hosts,
                    const LinkModel& model) {
  if (call.algorithm == Algorithm::native || call.count == 0) {
    return choose(call, ranks, hosts, model, true).predicted_seconds;
  }
  if (segment_bytes == kDefaultSegmentBytes) {
    const std::vector<Choice> timed = by_operations(call, {call.algorithm}, ranks, model, 1);
    if (!timed.empty()) return timed[0].predicted_seconds;
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
