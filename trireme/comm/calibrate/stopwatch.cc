// See stopwatch.h.
#include "trireme/comm/calibrate/stopwatch.h"

#include <algorithm>
#include <chrono>

#include "trireme/comm/calibrate/middle.h"
#include "trireme/comm/calibrate/settling.h"

namespace trireme::comm {
namespace {

constexpr int64_t kMost = 400;
constexpr int64_t kMany = 8;

}  // namespace

void Stopwatch::run(const Call& call, void* data) {
  Operation& operation = engine_.collective(call, data, {});
  engine_.wait(operation);
  engine_.release(operation);
}

int64_t Stopwatch::from_rank_0(int64_t number) {
  run({.collective = Collective::broadcast, .algorithm = Algorithm::tree, .dtype = DType::i64, .count = 1},
      &number);
  return number;
}

double Stopwatch::barrier_and_time(const std::function<Operation&()>& start) {
  run({.collective = Collective::barrier, .algorithm = barrier_}, nullptr);
  const auto begin = Clock::now();
  Operation& operation = start();
  engine_.wait(operation);
  engine_.release(operation);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Stopwatch::operation_seconds(size_t vector_bytes, const std::function<Operation&()>& start) {
  const double first = barrier_and_time(start);
  const int64_t in_vain = from_rank_0(passes_in_vain(vector_bytes, first));
  for (int64_t i = 1; i < in_vain; ++i) barrier_and_time(start);
  times_ = {barrier_and_time(start)};
  const int64_t count = from_rank_0(
      std::clamp(static_cast<int64_t>(effort_.seconds / std::max(times_[0], 1e-9)), effort_.fewest, kMost));
  while (static_cast<int64_t>(times_.size()) < count) times_.push_back(barrier_and_time(start));
  run({.collective = Collective::all_reduce,
       .algorithm = Algorithm::naive,
       .dtype = DType::f64,
       .op = ReduceOp::max,
       .count = count},
      times_.data());
  // The first of many are left out: ranks take a moment to fall into step.
  return middle_of(std::span(times_).subspan(static_cast<size_t>(count >= kMany ? count / 4 : 0)));
}

}  // namespace trireme::comm
