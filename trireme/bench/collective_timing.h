// Checks and times a collective over sizes and algorithms, on all ranks of a job.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/bench/collective_case.h"
#include "trireme/comm/collective/link_model.h"
#include "trireme/comm/context.h"

namespace trireme::bench {

struct CollectiveQuestion {
  comm::Collective collective = comm::Collective::all_reduce;
  DType dtype = DType::f32;
  comm::MemoryKind memory = comm::MemoryKind::transport;
  std::vector<size_t> sizes;
  std::vector<comm::Algorithm> algorithms;
  size_t segment_bytes = 0;  // of messages; 0: chosen
  double seconds = 0.1;      // of timing for each size and algorithm
};

struct CollectiveTime {
  size_t bytes = 0;
  comm::Algorithm asked{};
  comm::Algorithm ran{};
  size_t segment_bytes = 0;
  int repetitions = 0;
  double median_seconds = 0;
  double p90_seconds = 0;
  double min_seconds = 0;
  double predicted_seconds = 0;
  std::vector<double> turns;  // the median of each turn
  // Where links were measured in rounds, too: what was predicted before the first round and after each.
  std::vector<double> predictions;
  double bus_bytes_per_second = 0;
};

// All algorithms of one size. They take turns, so that what disturbs the machine for a while disturbs them
// alike. Everything here is collective.
class SizeTiming {
 public:
  // Throws Error, on all ranks, when a result is wrong.
  SizeTiming(comm::Context& context, comm::Group& group, const CollectiveQuestion& question, size_t bytes,
             double turn_seconds);
  ~SizeTiming();
  SizeTiming(SizeTiming&&) noexcept;

  void take_turns();  // each algorithm one
  // Each time is that of the slowest rank; equal on all.
  std::vector<CollectiveTime> times() const;

 private:
  struct Timed;
  void check(comm::Algorithm algorithm);
  void prepare(Timed& timed, double turn_seconds);
  double once(comm::Algorithm algorithm);

  comm::Group* group_;
  std::unique_ptr<CollectiveCase> test_;
  std::vector<Timed> all_;
  size_t rounds_ = 0;
};

// Ranks that have just started are still being moved between cores.
void warm_up(comm::Group& group);

// Size by size; `each` is called as times come. Throws Error, on all ranks, when a result is wrong: nothing
// of that size is then timed.
std::vector<CollectiveTime> time_collective(comm::Context& context, comm::Group& group,
                                            const CollectiveQuestion& question,
                                            const std::function<void(const CollectiveTime&)>& each);

}  // namespace trireme::bench
