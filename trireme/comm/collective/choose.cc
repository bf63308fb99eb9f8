// Predicts every candidate and takes the best. That costs milliseconds for many ranks; the engine asks once
// for each call that it has not seen.
#include "trireme/comm/collective/choose.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme::comm {
namespace {

constexpr std::array<size_t, 5> kSegmentBytes = {16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};

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

// Two levels are of use where there are several hosts with several ranks each.
bool has_two_levels(std::span<const int> hosts) {
  const size_t count = std::set<int>(hosts.begin(), hosts.end()).size();
  return count > 1 && count < hosts.size();
}

void try_steps(const Call& call, Algorithm algorithm, const Steps& steps, const Costs& costs, Choice& best) {
  const std::vector<size_t> bytes = chunk_bytes(call, steps);
  const size_t longest = longest_message_bytes(steps, bytes);
  for (const size_t segment : kSegmentBytes) {
    const double seconds = predict_seconds(steps, bytes, segment, costs);
    if (seconds < best.predicted_seconds) best = {algorithm, segment, seconds};
    if (segment >= longest) break;  // longer ones cut nothing either
  }
}

}  // namespace

Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkModel& model,
              bool native_offered) {
  const bool any = call.algorithm == Algorithm::automatic;
  Choice native{.algorithm = Algorithm::native, .segment_bytes = 0, .predicted_seconds = 0};
  const bool may_be_native = call.algorithm == Algorithm::native || (any && native_offered);
  const auto measured = model.native.find(call.collective);
  if (may_be_native && measured != model.native.end()) {
    native.predicted_seconds =
        measured->second.seconds(static_cast<size_t>(call.count) * size_of(call.dtype));
  }
  if (call.algorithm == Algorithm::native || (may_be_native && native.predicted_seconds == 0)) return native;

  const Costs costs = costs_of(model, hosts);
  Choice best{.predicted_seconds = std::numeric_limits<double>::infinity()};
  for (const Algorithm algorithm : any ? algorithms_of(call.collective) : std::vector{call.algorithm}) {
    if (any && algorithm == Algorithm::hierarchical && !has_two_levels(hosts)) continue;
    try_steps(call, algorithm, make_steps(call.collective, algorithm, ranks, call.root, hosts), costs, best);
  }
  // Of an empty vector nothing is sent at all.
  if (call.count == 0 && call.collective != Collective::barrier) best.predicted_seconds = 0;
  best.predicted_seconds += model.operation_seconds;
  return may_be_native && native.predicted_seconds <= best.predicted_seconds ? native : best;
}

Chooser make_chooser(LinkModel model, std::vector<int> hosts) {
  return
      [model = std::move(model), hosts = std::move(hosts)](const Call& call, int ranks, bool native_offered) {
        return choose(call, ranks, hosts, model, native_offered);
      };
}

}  // namespace trireme::comm
