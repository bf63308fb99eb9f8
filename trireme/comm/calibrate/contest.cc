// See contest.h.
#include "trireme/comm/calibrate/contest.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include "trireme/comm/calibrate/middle.h"

namespace trireme::comm {
namespace {

constexpr double kHopeless = 1.5;  // times the best

}  // namespace

Contest::Contest(const std::vector<Choice>& ways) {
  for (const Choice& way : ways) ways_.push_back({.choice = way});
}

void Contest::play(const std::function<double(const Choice&)>& seconds_of) {
  const size_t count = ways_.size();
  std::vector<double> seconds(count);
  for (size_t i = 0; i < count; ++i) {
    // Who is the first finds what others have left in the caches: not always the same.
    const size_t way = (i + rounds()) % count;
    seconds[way] = seconds_of(ways_[way].choice);
  }
  const double best = std::max(std::ranges::min(seconds), std::numeric_limits<double>::min());
  for (size_t i = 0; i < count; ++i) ways_[i].ratios.push_back(seconds[i] / best);
  if (rounds() >= kFewestRounds) drop_hopeless();
}

// Once in a while a round is disturbed; the median does not mind.
double Contest::middle_ratio(const Way& way) {
  std::vector<double> ratios = way.ratios;
  return middle_of(ratios);
}

void Contest::drop_hopeless() {
  const double least = std::ranges::min(ways_ | std::views::transform(middle_ratio));
  std::erase_if(ways_, [&](const Way& way) { return middle_ratio(way) > kHopeless * least; });
}

const Choice& Contest::winner() const {
  if (rounds() < kFewestRounds) return ways_[0].choice;
  return std::ranges::min_element(ways_, {}, middle_ratio)->choice;
}

}  // namespace trireme::comm
