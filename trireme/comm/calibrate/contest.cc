// See contest.h.
#include "trireme/comm/calibrate/contest.h"

#include <algorithm>
#include <limits>
#include <ranges>

namespace trireme::comm {
namespace {

constexpr double kHopeless = 1.5;  // times the best
constexpr double kAsGood = 1.05;

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

double Contest::ratio_at(const Way& way, double share) {
  std::vector<double> ratios = way.ratios;
  const auto place = ratios.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(ratios.size()));
  std::ranges::nth_element(ratios, place);
  return *place;
}

// Once in a while a round is disturbed; the median does not mind.
double Contest::middle(const Way& way) {
  return ratio_at(way, 0.5);
}

double Contest::least_middle() const {
  return std::ranges::min(ways_ | std::views::transform(middle));
}

void Contest::drop_hopeless() {
  const double most = kHopeless * least_middle();
  std::erase_if(ways_, [&](const Way& way) { return middle(way) > most; });
}

// Of ways that are as good by their medians the steadiest: one that takes twice as long in a round of four
// may tomorrow do so in three.
const Choice& Contest::winner() const {
  if (rounds() < kFewestRounds) return ways_[0].choice;
  const double least = least_middle();
  auto as_good = ways_ | std::views::filter([&](const Way& way) { return middle(way) <= kAsGood * least; });
  return std::ranges::min_element(as_good, {}, [](const Way& way) { return ratio_at(way, 0.75); })->choice;
}

}  // namespace trireme::comm
