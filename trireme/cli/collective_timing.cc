// See collective_timing.h. The algorithms of one size take turns, so that what disturbs the machine for a
// while disturbs them alike.
#include "trireme/cli/collective_timing.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"
#include "trireme/cli/collective_case.h"
#include "trireme/cli/statistics.h"

namespace trireme::cli {
namespace {

constexpr int kTurns = 5;
constexpr int64_t kFewestPerTurn = 2;
constexpr int64_t kMostPerTurn = 400;
// Ranks that have just started are still being moved between cores.
constexpr int64_t kWarmupBarriers = 20'000;

// One algorithm of one size.
struct Timed {
  CollectiveTime time;
  int64_t per_turn = kFewestPerTurn;
  std::vector<double> seconds;
};

class Timing {
 public:
  Timing(comm::Group& group, CollectiveCase& test) : group_(group), test_(test) {}

  void check(comm::Algorithm algorithm);
  // Fills in what ran, and how often it fits into a turn.
  void prepare(Timed& timed, double turn_seconds);
  void take_turn(Timed& timed);

 private:
  double once(comm::Algorithm algorithm);

  comm::Group& group_;
  CollectiveCase& test_;
};

void Timing::check(comm::Algorithm algorithm) {
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

double Timing::once(comm::Algorithm algorithm) {
  using Clock = std::chrono::steady_clock;
  group_.barrier().wait();
  const Clock::time_point begin = Clock::now();
  test_.start(algorithm).wait();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Timing::prepare(Timed& timed, double turn_seconds) {
  comm::Handle handle = test_.start(timed.time.asked);
  handle.wait();
  const comm::OperationReport report = handle.report();
  timed.time.bytes = test_.bytes();
  timed.time.ran = report.call.algorithm;
  timed.time.segment_bytes = timed.time.ran == comm::Algorithm::native ? 0 : report.segment_bytes;
  timed.time.predicted_seconds = report.predicted_seconds;
  const double seconds = std::max(once(timed.time.asked), 1e-9);
  timed.per_turn = std::clamp(static_cast<int64_t>(turn_seconds / seconds), kFewestPerTurn, kMostPerTurn);
  group_.broadcast(&timed.per_turn, 1, DType::i64, 0).wait();
}

void Timing::take_turn(Timed& timed) {
  std::vector<double> seconds;
  once(timed.time.asked);  // after another algorithm: its code, and its lines of the buffers
  for (int64_t i = 0; i < timed.per_turn; ++i) seconds.push_back(once(timed.time.asked));
  group_
      .all_reduce(seconds.data(), timed.per_turn, DType::f64, comm::ReduceOp::max,
                  {.algorithm = comm::Algorithm::naive})
      .wait();
  timed.seconds.insert(timed.seconds.end(), seconds.begin(), seconds.end());
}

}  // namespace

std::vector<CollectiveTime> time_collective(comm::Context& context, comm::Group& group,
                                            const CollectiveQuestion& question,
                                            const std::function<void(const CollectiveTime&)>& each) {
  std::vector<CollectiveTime> times;
  for (int64_t i = 0; i < kWarmupBarriers && question.seconds > 0; ++i) group.barrier().wait();
  for (const size_t bytes : question.sizes) {
    CollectiveCase test(context, group, question.collective, question.dtype, bytes, question.memory,
                        question.segment_bytes);
    Timing timing(group, test);
    std::vector<Timed> all;
    for (const comm::Algorithm algorithm : question.algorithms) {
      timing.check(algorithm);
      all.push_back({.time = {.asked = algorithm}});
    }
    test.clear();
    for (Timed& timed : all) timing.prepare(timed, question.seconds / kTurns);
    for (int turn = 0; turn < kTurns; ++turn) {
      for (Timed& timed : all) timing.take_turn(timed);
    }
    for (Timed& timed : all) {
      CollectiveTime& time = timed.time;
      time.repetitions = static_cast<int>(timed.seconds.size());
      time.median_seconds = median_of(timed.seconds);
      time.p90_seconds = quantile_of(timed.seconds, 0.9);
      time.min_seconds = std::ranges::min(timed.seconds);
      time.bus_bytes_per_second = static_cast<double>(time.bytes) * test.bus_factor() / time.median_seconds;
      each(time);
      times.push_back(time);
    }
  }
  return times;
}

}  // namespace trireme::cli
