// See collective_timing.h.
#include "trireme/bench/collective_timing.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/statistics.h"

namespace trireme::bench {
namespace {

constexpr int kTurns = 5;
// Of fewer, the median is another figure where times fall into two groups.
constexpr int64_t kFewestPerTurn = 5;
constexpr int64_t kMostPerTurn = 400;
constexpr int64_t kWarmupBarriers = 20'000;

// Warm-up repetitions in each turn. One is enough for recipes and memory. A long vector takes more: the
// caches go on changing for a dozen passes, and each algorithm leaves them in a state of its own.
int64_t warm_up_repetitions(size_t vector_bytes, double seconds_of_one) {
  constexpr size_t kLongVector = 4 << 20;
  constexpr double kEnoughSeconds = 0.3;
  if (vector_bytes < kLongVector) return 1;
  return static_cast<int64_t>(std::clamp(kEnoughSeconds / seconds_of_one, 2.0, 32.0));
}

// All algorithms of one size. They take turns, so that what disturbs the machine for a while disturbs them
// alike. Everything here is collective.
class SizeTiming {
 public:
  // Throws Error, on all ranks, when a result is wrong.
  SizeTiming(comm::Context& context, comm::Group& group, const CollectiveQuestion& question, size_t bytes)
      : group_(group),
        test_(context, group, question.collective, question.dtype, bytes, question.memory,
              question.segment_bytes) {
    for (const comm::Algorithm algorithm : question.algorithms) {
      check(algorithm);
      all_.push_back({.time = {.asked = algorithm}});
    }
    test_.clear();
    for (Timed& timed : all_) prepare(timed, question.seconds / kTurns);
  }

  void take_turns();  // each algorithm one
  // Each time is that of the slowest rank; equal on all.
  std::vector<CollectiveTime> times() const;

 private:
  struct Timed {
    CollectiveTime time;
    int64_t warm_ups = 1, per_turn = kFewestPerTurn;  // in each turn
    std::vector<double> seconds = {};
  };
  void check(comm::Algorithm algorithm);
  void prepare(Timed& timed, double turn_seconds);
  double once(comm::Algorithm algorithm);

  comm::Group& group_;
  CollectiveCase test_;
  std::vector<Timed> all_;
  size_t rounds_ = 0;
};

void SizeTiming::check(comm::Algorithm algorithm) {
  test_.fill();
  test_.start(algorithm).wait();
  const std::string problem = test_.problem();
  // All ranks learn of it and end together. The first that has a problem says what.
  int32_t wrong = problem.empty() ? group_.size() : group_.rank();
  group_.all_reduce(&wrong, 1, DType::i32, comm::ReduceOp::min, {.algorithm = comm::Algorithm::naive}).wait();
  if (wrong == group_.size()) return;
  throw_error("{} of {} bytes gave a wrong result on rank {}{}{}; nothing was timed", name(algorithm),
              test_.bytes(), wrong, problem.empty() ? "" : ": ", problem);
}

double SizeTiming::once(comm::Algorithm algorithm) {
  group_.barrier().wait();
  const Clock::time_point begin = Clock::now();
  test_.start(algorithm).wait();
  return seconds_since(begin);
}

// Fills in what runs, and how often it fits into a turn.
void SizeTiming::prepare(Timed& timed, double turn_seconds) {
  comm::Handle handle = test_.start(timed.time.asked);
  handle.wait();
  const comm::OperationReport report = handle.report();
  timed.time.bytes = test_.bytes();
  timed.time.ran = report.call.algorithm;
  timed.time.segment_bytes = timed.time.ran == comm::Algorithm::native ? 0 : report.segment_bytes;
  timed.time.predicted_seconds = report.predicted_seconds;
  const double seconds = std::max(once(timed.time.asked), 1e-9);
  timed.per_turn = std::clamp(static_cast<int64_t>(turn_seconds / seconds), kFewestPerTurn, kMostPerTurn);
  timed.warm_ups = warm_up_repetitions(test_.bytes(), seconds);
  group_.broadcast(&timed.per_turn, 1, DType::i64, 0).wait();
  group_.broadcast(&timed.warm_ups, 1, DType::i64, 0).wait();
}

void SizeTiming::take_turns() {
  for (size_t i = 0; i < all_.size(); ++i) {
    // Who is the first finds what others have left in the caches: not always the same.
    Timed& timed = all_[(i + rounds_) % all_.size()];
    std::vector<double> seconds;
    // After another algorithm: its code, and its lines of the buffers.
    for (int64_t n = 0; n < timed.warm_ups; ++n) once(timed.time.asked);
    for (int64_t n = 0; n < timed.per_turn; ++n) seconds.push_back(once(timed.time.asked));
    group_
        .all_reduce(seconds.data(), timed.per_turn, DType::f64, comm::ReduceOp::max,
                    {.algorithm = comm::Algorithm::naive})
        .wait();
    timed.seconds.insert(timed.seconds.end(), seconds.begin(), seconds.end());
    timed.time.turns.push_back(median_of(std::move(seconds)));
  }
  ++rounds_;
}

std::vector<CollectiveTime> SizeTiming::times() const {
  std::vector<CollectiveTime> times;
  for (const Timed& timed : all_) {
    CollectiveTime& time = times.emplace_back(timed.time);
    time.repetitions = static_cast<int>(timed.seconds.size());
    time.median_seconds = median_of(timed.seconds);
    time.p90_seconds = quantile_of(timed.seconds, 0.9);
    time.min_seconds = std::ranges::min(timed.seconds);
    time.bus_bytes_per_second = static_cast<double>(time.bytes) * test_.bus_factor() / time.median_seconds;
  }
  return times;
}

}  // namespace

void warm_up(comm::Group& group) {
  for (int64_t i = 0; i < kWarmupBarriers; ++i) group.barrier().wait();
}

std::vector<CollectiveTime> time_collective(comm::Context& context, comm::Group& group,
                                            const CollectiveQuestion& question,
                                            const std::function<void(const CollectiveTime&)>& each) {
  std::vector<CollectiveTime> all;
  if (question.seconds > 0) warm_up(group);
  for (const size_t bytes : question.sizes) {
    SizeTiming timing(context, group, question, bytes);
    for (int turn = 0; turn < kTurns; ++turn) timing.take_turns();
    for (const CollectiveTime& time : timing.times()) {
      each(time);
      all.push_back(time);
    }
  }
  return all;
}

std::string choice_text(const std::vector<CollectiveTime>& times) {
  double worst = 0;
  std::string text;
  for (const CollectiveTime& time : times) {
    if (time.asked != comm::Algorithm::automatic) continue;
    for (const CollectiveTime& other : times) {
      if (other.bytes != time.bytes || other.asked == comm::Algorithm::automatic) continue;
      std::vector<double> ratios;
      for (size_t i = 0; i < time.turns.size(); ++i) ratios.push_back(time.turns[i] / other.turns[i]);
      const double ratio = median_of(std::move(ratios));
      if (other.ran == time.ran || ratio <= worst) continue;
      worst = ratio;
      text = fmt::format("{} bytes, where {} was chosen, against {}", time.bytes, name(time.ran),
                         name(other.asked));
    }
  }
  if (worst == 0) return "";
  return fmt::format("The automatic choice takes at most {:.2f} times as long as another algorithm ({}).\n",
                     worst, text);
}

}  // namespace trireme::bench
