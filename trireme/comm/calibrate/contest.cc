// The last part of a calibration: where several ways to run a call are predicted to take about as long, the
// clock decides. A few percent are beyond any prediction, but not beyond timing them in turns.
#include <algorithm>
#include <functional>
#include <limits>
#include <ranges>

#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::comm {
namespace {

constexpr size_t kFewestRounds = 7;
constexpr double kHopeless = 1.5;       // times the best, after the fewest rounds
constexpr double kLongestWay = 100e-3;  // beyond which the prediction has to do: a slow link
constexpr Stopwatch::Effort kEffort = {.seconds = 2e-3, .fewest = 2};

struct Extent {
  double worth_trying;                 // times the least prediction
  double least_seconds, most_seconds;  // of all contests together
};
constexpr Extent kUsual = {.worth_trying = 1.3, .least_seconds = 3, .most_seconds = 20};
// Ranks that take turns on a core do so in one of several ways, for seconds: none of those should decide, nor
// a prediction that was made in one of them.
constexpr Extent kCrowded = {.worth_trying = 2, .least_seconds = 24, .most_seconds = 45};

struct Way {
  Choice choice;
  std::vector<double> ratios = {};  // of its time to the best, in each round
};

// Once in a while a round is disturbed; the median does not mind.
double middle_ratio(const Way& way) {
  std::vector<double> ratios = way.ratios;
  const auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

struct Contest {
  Call call;
  std::vector<Way> ways;
  double seconds = 0;  // that it took so far

  bool open() const { return ways.size() > 1; }
  size_t rounds() const { return ways[0].ratios.size(); }
};

// Leaves the same on all ranks, as the times are.
void play(Contest& contest, const std::function<double(const Choice&)>& seconds_of) {
  const size_t count = contest.ways.size();
  std::vector<double> seconds(count);
  for (size_t i = 0; i < count; ++i) {
    // Who is the first finds what others have left in the caches: not always the same.
    const size_t way = (i + contest.rounds()) % count;
    seconds[way] = seconds_of(contest.ways[way].choice);
  }
  const double best = std::max(std::ranges::min(seconds), std::numeric_limits<double>::min());
  for (size_t i = 0; i < count; ++i) contest.ways[i].ratios.push_back(seconds[i] / best);
}

void drop_hopeless(Contest& contest) {
  if (contest.rounds() < kFewestRounds) return;
  const double least = std::ranges::min(contest.ways | std::views::transform(middle_ratio));
  std::erase_if(contest.ways, [&](const Way& way) { return middle_ratio(way) > kHopeless * least; });
}

// Which is to have a round: all get the same time, and short operations the more rounds. None: it is enough.
Contest* next_of(std::vector<Contest>& contests, double seconds, const Extent& extent) {
  if (seconds >= extent.most_seconds) return nullptr;
  Contest* next = nullptr;
  for (Contest& each : contests) {
    const bool wanted = each.open() && (seconds < extent.least_seconds || each.rounds() < kFewestRounds);
    if (wanted && (next == nullptr || each.seconds < next->seconds)) next = &each;
  }
  return next;
}

const Choice& winner(const Contest& contest) {
  if (contest.rounds() == 0) return contest.ways[0].choice;  // the best by prediction
  return std::ranges::min_element(contest.ways, {}, middle_ratio)->choice;
}

}  // namespace

void Measurement::hold_contests(LinkModel& model) {
  const Extent& extent = crowded_ ? kCrowded : kUsual;
  std::vector<Contest> contests;
  for (const Collective collective : sizes_.collectives) {
    if (collective == Collective::barrier || collective == Collective::all_to_all) continue;
    for (const size_t bytes : sizes_.operations) {
      Call call{.collective = collective,
                .algorithm = Algorithm::native,
                .dtype = DType::f32,
                .count = static_cast<int64_t>(bytes / sizeof(float))};
      const bool offered = engine_.offers_native(call);
      call.algorithm = Algorithm::automatic;
      Contest& contest = contests.emplace_back(Contest{.call = call, .ways = {}});
      for (const Choice& choice :
           contenders(call, context_.ranks(), context_.hosts(), model, offered, extent.worth_trying))
        contest.ways.push_back({.choice = choice});
      if (contest.ways[0].choice.predicted_seconds > kLongestWay) contest.ways.resize(1);
    }
  }
  Stopwatch watch(engine_, barrier_, kEffort);
  const auto begin = Clock::now();
  double now = 0;
  while (Contest* contest = next_of(contests, now, extent)) {
    play(*contest, [&](const Choice& way) {
      Call call = contest->call;
      call.algorithm = way.algorithm;
      return watch.operation_seconds([&]() -> Operation& {
        return engine_.collective(call, buffer_->bytes().data(), {.segment_bytes = way.segment_bytes});
      });
    });
    drop_hopeless(*contest);
    const double after = seconds_since(begin);
    contest->seconds += after - now;
    now = after;
  }
  for (const Contest& contest : contests) {
    const Choice& best = winner(contest);
    model.preferred[contest.call.collective].push_back(
        {static_cast<size_t>(contest.call.count) * sizeof(float), best.algorithm, best.segment_bytes});
  }
}

}  // namespace trireme::comm
