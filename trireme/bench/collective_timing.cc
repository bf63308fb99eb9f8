// See collective_timing.h.
#include "trireme/bench/collective_timing.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"
#include "trireme/bench/statistics.h"
#include "trireme/comm/calibrate/settling.h"

namespace trireme::bench {
namespace {

constexpr int kTurns = 5;
// As calibration: of fewer, the median is another figure where times fall into two groups.
constexpr int64_t kFewestPerTurn = 5;
constexpr int64_t kMostPerTurn = 400;
constexpr int64_t kWarmupBarriers = 20'000;

}  // namespace

struct SizeTiming::Timed {
  CollectiveTime time;
  int64_t in_vain = 1, per_turn = kFewestPerTurn;  // in each turn
  std::vector<double> seconds = {};
};

SizeTiming::SizeTiming(comm::Context& context, comm::Group& group, const CollectiveQuestion& question,
                       size_t bytes, double turn_seconds)
    : group_(&group),
      test_(std::make_unique<CollectiveCase>(context, group, question.collective, question.dtype, bytes,
                                             question.memory, question.segment_bytes)) {
  for (const comm::Algorithm algorithm : question.algorithms) {
    check(algorithm);
    all_.push_back({.time = {.asked = algorithm}});
  }
  test_->clear();
  for (Timed& timed : all_) prepare(timed, turn_seconds);
}

SizeTiming::~SizeTiming() = default;
SizeTiming::SizeTiming(SizeTiming&&) noexcept = default;

void SizeTiming::check(comm::Algorithm algorithm) {
  test_->fill();
  test_->start(algorithm).wait();
  const std::string problem = test_->problem();
  // All ranks learn of it and end together. The first that has a problem says what.
  int32_t wrong = problem.empty() ? group_->size() : group_->rank();
  group_->all_reduce(&wrong, 1, DType::i32, comm::ReduceOp::min, {.algorithm = comm::Algorithm::naive})
      .wait();
  if (wrong == group_->size()) return;
  throw_error("{} of {} bytes gave a wrong result on rank {}{}{}; nothing was timed", name(algorithm),
              test_->bytes(), wrong, problem.empty() ? "" : ": ", problem);
}

double SizeTiming::once(comm::Algorithm algorithm) {
  using Clock = std::chrono::steady_clock;
  group_->barrier().wait();
  const Clock::time_point begin = Clock::now();
  test_->start(algorithm).wait();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Fills in what runs, and how often it fits into a turn.
void SizeTiming::prepare(Timed& timed, double turn_seconds) {
  comm::Handle handle = test_->start(timed.time.asked);
  handle.wait();
  const comm::OperationReport report = handle.report();
  timed.time.bytes = test_->bytes();
  timed.time.ran = report.call.algorithm;
  timed.time.segment_bytes = timed.time.ran == comm::Algorithm::native ? 0 : report.segment_bytes;
  timed.time.predicted_seconds = report.predicted_seconds;
  const double seconds = std::max(once(timed.time.asked), 1e-9);
  timed.per_turn = std::clamp(static_cast<int64_t>(turn_seconds / seconds), kFewestPerTurn, kMostPerTurn);
  timed.in_vain = comm::passes_in_vain(test_->bytes(), seconds);
  group_->broadcast(&timed.per_turn, 1, DType::i64, 0).wait();
  group_->broadcast(&timed.in_vain, 1, DType::i64, 0).wait();
}

void SizeTiming::take_turns() {
  for (size_t i = 0; i < all_.size(); ++i) {
    // Who is the first finds what others have left in the caches: not always the same.
    Timed& timed = all_[(i + rounds_) % all_.size()];
    std::vector<double> seconds;
    // After another algorithm: its code, and its lines of the buffers.
    for (int64_t n = 0; n < timed.in_vain; ++n) once(timed.time.asked);
    for (int64_t n = 0; n < timed.per_turn; ++n) seconds.push_back(once(timed.time.asked));
    group_
        ->all_reduce(seconds.data(), timed.per_turn, DType::f64, comm::ReduceOp::max,
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
    time.bus_bytes_per_second = static_cast<double>(time.bytes) * test_->bus_factor() / time.median_seconds;
  }
  return times;
}

void warm_up(comm::Group& group) {
  for (int64_t i = 0; i < kWarmupBarriers; ++i) group.barrier().wait();
}

std::vector<CollectiveTime> time_collective(comm::Context& context, comm::Group& group,
                                            const CollectiveQuestion& question,
                                            const std::function<void(const CollectiveTime&)>& each) {
  std::vector<CollectiveTime> all;
  if (question.seconds > 0) warm_up(group);
  for (const size_t bytes : question.sizes) {
    SizeTiming timing(context, group, question, bytes, question.seconds / kTurns);
    for (int turn = 0; turn < kTurns; ++turn) timing.take_turns();
    for (const CollectiveTime& time : timing.times()) {
      each(time);
      all.push_back(time);
    }
  }
  return all;
}

}  // namespace trireme::bench
