// Reads the table, or the closed forms where it says nothing. The engine asks once for each call that it has
// not seen.
#include "trireme/comm/collective/choose.h"

#include <algorithm>
#include <utility>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {
namespace {

// All that may run the call. Those that were timed with so many ranks, if there are some: a closed form is no
// match for a time.
std::vector<Algorithm> candidates(const Call& call, int ranks, std::span<const int> hosts,
                                  const LinkTable& table, bool native_offered) {
  std::vector<Algorithm> all = algorithms_for(call.collective, hosts);
  if (ranks == table.ranks) {
    std::vector<Algorithm> timed;
    std::ranges::copy_if(all, std::back_inserter(timed), [&](Algorithm algorithm) {
      return timed_curve(table, call.collective, algorithm) != nullptr;
    });
    if (!timed.empty()) all = std::move(timed);
  }
  if (native_offered) all.push_back(Algorithm::native);
  return all;
}

}  // namespace

double predict_call(const Call& call, int ranks, std::span<const int> hosts, const LinkTable& table) {
  if (call.count == 0 && call.collective != Collective::barrier) return 0;  // nothing is sent
  const bool native = call.algorithm == Algorithm::native;
  const auto bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  const auto closed_seconds = [&](size_t of_bytes) {
    return formula_seconds(formula(call.collective, call.algorithm, ranks, hosts), of_bytes, table.link);
  };
  if (ranks == table.ranks || native) {
    if (const Curve* curve = timed_curve(table, call.collective, call.algorithm)) {
      if (native || bytes <= curve->back().bytes) return seconds_at(*curve, bytes);
      const double last = closed_seconds(curve->back().bytes);
      return last > 0 ? curve->back().seconds * closed_seconds(bytes) / last : seconds_at(*curve, bytes);
    }
  }
  return native ? 0 : closed_seconds(bytes);
}

Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkTable& table,
              bool native_offered) {
  const auto choice_of = [&](Algorithm algorithm) -> Choice {
    Call named = call;
    named.algorithm = algorithm;
    return {algorithm, algorithm == Algorithm::native ? 0 : kDefaultSegmentBytes,
            predict_call(named, ranks, hosts, table)};
  };
  if (call.algorithm != Algorithm::automatic) return choice_of(call.algorithm);
  std::vector<Choice> choices;
  for (const Algorithm algorithm : candidates(call, ranks, hosts, table, native_offered))
    choices.push_back(choice_of(algorithm));
  // An unknown time of the native way counts as 0, so it wins. Of equals the last in the table of
  // algorithms: closed forms do not see that messages to one server collide.
  return *std::ranges::min_element(choices.rbegin(), choices.rend(), {}, &Choice::predicted_seconds);
}

Chooser make_chooser(LinkTable table, std::vector<int> hosts) {
  return
      [table = std::move(table), hosts = std::move(hosts)](const Call& call, int ranks, bool native_offered) {
        return choose(call, ranks, hosts, table, native_offered);
      };
}

}  // namespace trireme::comm
