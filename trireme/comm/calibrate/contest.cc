// The last part of a calibration: where several ways to run a call are predicted to take about as long, the
// clock decides. A few percent are beyond any prediction, but not beyond timing them in turns.
#include <algorithm>
#include <functional>
#include <limits>

#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::comm {
namespace {

constexpr double kWorthTrying = 1.3;  // times the least prediction
constexpr size_t kFewestRounds = 7;
// Ranks that take turns on a core do so in one of several ways, for seconds; no one of them should decide.
constexpr double kLeastSeconds = 3, kLeastSecondsCrowded = 12;
constexpr double kMostSeconds = 20;     // of all contests, but for the round under way
constexpr double kLongestWay = 100e-3;  // beyond which the prediction has to do: a slow link
constexpr Stopwatch::Effort kEffort = {.seconds = 2e-3, .fewest = 2};

struct Contest {
  Call call;
  std::vector<Choice> ways;
  std::vector<std::vector<double>> ratios;  // of each way: its time over the best, in each round
};

void play(Contest& contest, size_t round, const std::function<double(const Choice&)>& seconds_of) {
  const size_t count = contest.ways.size();
  std::vector<double> seconds(count);
  for (size_t i = 0; i < count; ++i) {
    // Who is the first finds what others have left in the caches: not always the same.
    const size_t way = (i + round) % count;
    seconds[way] = seconds_of(contest.ways[way]);
  }
  const double best = std::max(std::ranges::min(seconds), std::numeric_limits<double>::min());
  for (size_t i = 0; i < count; ++i) contest.ratios[i].push_back(seconds[i] / best);
}

// Once in a while a round is disturbed; the median does not mind.
const Choice& winner(Contest& contest) {
  const auto middle_ratio = [](std::vector<double>& ratios) {
    const auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
    std::ranges::nth_element(ratios, middle);
    return *middle;
  };
  const auto best = std::ranges::min_element(contest.ratios, {}, middle_ratio);
  return contest.ways[static_cast<size_t>(best - contest.ratios.begin())];
}

}  // namespace

// All sizes in a round, and then again.
void Measurement::hold_contests(LinkModel& model) {
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
      std::vector<Choice> ways =
          contenders(call, context_.ranks(), context_.hosts(), model, offered, kWorthTrying);
      if (ways[0].predicted_seconds > kLongestWay) ways.resize(1);
      std::vector<std::vector<double>> ratios(ways.size());
      contests.push_back({call, std::move(ways), std::move(ratios)});
    }
  }
  const auto open = std::ranges::count_if(contests, [](const Contest& each) { return each.ways.size() > 1; });
  Stopwatch watch(engine_, barrier_, kEffort);
  const auto begin = Clock::now();
  const auto goes_on = [&](size_t round) {
    const double seconds = seconds_since(begin);
    const bool enough =
        round >= kFewestRounds && seconds >= (crowded_ ? kLeastSecondsCrowded : kLeastSeconds);
    return open > 0 && (round == 0 || (!enough && seconds < kMostSeconds));
  };
  for (size_t round = 0; goes_on(round); ++round) {
    for (Contest& contest : contests) {
      if (contest.ways.size() == 1) continue;
      play(contest, round, [&](const Choice& way) {
        Call call = contest.call;
        call.algorithm = way.algorithm;
        return watch.operation_seconds([&]() -> Operation& {
          return engine_.collective(call, buffer_->bytes().data(), {.segment_bytes = way.segment_bytes});
        });
      });
    }
  }
  for (Contest& contest : contests) {
    const Choice& best = contest.ways.size() == 1 ? contest.ways[0] : winner(contest);
    model.preferred[contest.call.collective].push_back(
        {static_cast<size_t>(contest.call.count) * sizeof(float), best.algorithm, best.segment_bytes});
  }
}

}  // namespace trireme::comm
