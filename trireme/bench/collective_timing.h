// Checks and times a collective over sizes and algorithms, on all ranks of a job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/bench/collective_case.h"
#include "trireme/comm/collective/link_table.h"
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
  double bus_bytes_per_second = 0;
};

// Ranks that have just started are still being moved between cores.
void warm_up(comm::Group& group);

// Size by size; `each` is called as times come. Throws Error, on all ranks, when a result is wrong: nothing
// of that size is then timed.
std::vector<CollectiveTime> time_collective(comm::Context& context, comm::Group& group,
                                            const CollectiveQuestion& question,
                                            const std::function<void(const CollectiveTime&)>& each);

// How much longer the automatic choice takes than the best fixed algorithm of its size, at most: the median
// over the turns, so that what slows the machine down for a while counts for both. "" where nothing can be
// compared.
std::string choice_text(const std::vector<CollectiveTime>& times);

}  // namespace trireme::bench
