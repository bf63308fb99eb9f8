// The last part of a calibration: where several ways to run a call are predicted to take about as long, the
// clock decides.
#include "trireme/comm/calibrate/contest.h"
#include "trireme/comm/calibrate/measurement.h"
#include "trireme/comm/collective/choose.h"

namespace trireme::comm {
namespace {

constexpr double kLongestWay = 100e-3;  // beyond which the prediction has to do: a slow link
constexpr Stopwatch::Effort kEffort = {.seconds = 2e-3, .fewest = 4};

// Of all contests together. Ranks that take turns on a core do so in one of several ways, for seconds; no one
// of them should decide.
constexpr double kLeastSeconds = 3, kLeastSecondsCrowded = 24;
constexpr double kMostSeconds = 90;

// Times the least prediction. Short operations are quick to try, and among crowded ranks the prediction was
// itself made in one of the ways to take turns.
double worth_trying(size_t bytes) {
  return bytes < (size_t{1} << 20) ? 2 : 1.3;
}

struct SizeContest {
  size_t bytes;
  Call call;
  Contest contest;
  double seconds = 0;  // that it took so far
};

// Which is to have a round: all get the same time, and short operations the more rounds. None: it is enough.
SizeContest* next_of(std::vector<SizeContest>& contests, double seconds, bool crowded) {
  if (seconds >= kMostSeconds) return nullptr;
  const bool all = seconds < (crowded ? kLeastSecondsCrowded : kLeastSeconds);
  SizeContest* next = nullptr;
  for (SizeContest& each : contests) {
    if (each.contest.decided() || (!all && each.contest.rounds() >= Contest::kEnoughRounds)) continue;
    if (next == nullptr || each.seconds < next->seconds) next = &each;
  }
  return next;
}

}  // namespace

void Measurement::hold_contests(LinkModel& model) {
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
          contenders(call, context_.ranks(), context_.hosts(), model, offered, worth_trying(bytes));
      if (ways[0].predicted_seconds > kLongestWay) ways.resize(1);
      contests.push_back({.bytes = bytes, .call = call, .contest = Contest(ways)});
    }
  }
  Stopwatch watch(engine_, barrier_, kEffort);
  const auto begin = Clock::now();
  double now = 0;
  while (SizeContest* const next = next_of(contests, now, crowded_)) {
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
