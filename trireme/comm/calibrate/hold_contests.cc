// The last part of a calibration: where several ways to run a call are predicted to take about as long, the
// clock decides.
#include "trireme/comm/calibrate/contest.h"
#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::comm {
namespace {

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

struct SizeContest {
  size_t bytes;
  Call call;
  Contest contest;
  double seconds = 0;  // that it took so far
};

// Which is to have a round: all get the same time, and short operations the more rounds. None: it is enough.
SizeContest* next_of(std::vector<SizeContest>& contests, double seconds, const Extent& extent) {
  if (seconds >= extent.most_seconds) return nullptr;
  SizeContest* next = nullptr;
  for (SizeContest& each : contests) {
    const bool enough = seconds >= extent.least_seconds && each.contest.rounds() >= Contest::kFewestRounds;
    if (each.contest.decided() || enough) continue;
    if (next == nullptr || each.seconds < next->seconds) next = &each;
  }
  return next;
}

}  // namespace

void Measurement::hold_contests(LinkModel& model) {
  const Extent& extent = crowded_ ? kCrowded : kUsual;
  std::vector<SizeContest> contests;
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
          contenders(call, context_.ranks(), context_.hosts(), model, offered, extent.worth_trying);
      if (ways[0].predicted_seconds > kLongestWay) ways.resize(1);
      contests.push_back({.bytes = bytes, .call = call, .contest = Contest(ways)});
    }
  }
  Stopwatch watch(engine_, barrier_, kEffort);
  const auto begin = Clock::now();
  double now = 0;
  while (SizeContest* const next = next_of(contests, now, extent)) {
    next->contest.play([&](const Choice& way) {
      Call call = next->call;
      call.algorithm = way.algorithm;
      return watch.operation_seconds(next->bytes, [&]() -> Operation& {
        return engine_.collective(call, buffer_->bytes().data(), {.segment_bytes = way.segment_bytes});
      });
    });
    const double after = seconds_since(begin);
    next->seconds += after - now;
    now = after;
  }
  for (const SizeContest& each : contests) {
    const Choice& best = each.contest.winner();
    model.preferred[each.call.collective].push_back({each.bytes, best.algorithm, best.segment_bytes});
  }
}

}  // namespace trireme::comm
