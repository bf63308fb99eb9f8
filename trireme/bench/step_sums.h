// The nodes of a step as the executor's timer told them, brought to what a step takes that nobody times.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/bench/device_ceilings.h"
#include "trireme/ir/graph.h"
#include "trireme/mesh/cluster.h"

namespace trireme::bench {

// One launch of an op: what it takes by the roofline and the peak alone, and took beside what every launch
// takes.
struct OpTime {
  double roofline_seconds = 0, seconds = 0;
};
using OpTimes = std::map<std::string, std::vector<OpTime>, std::less<>>;

struct StepTimes {
  OpTimes launches;
  // Of ops of which the device does several at once: all of a step, as if they were one launch.
  OpTimes together;
  double seconds = 0;  // of a step
};

class StepSums {
 public:
  explicit StepSums(const LaunchTime& launch) : launch_(launch) {}

  // A node that is run `runs` times in a step, `told` seconds each as the timer has it.
  void add(const Graph& graph, const Node& node, const DeviceClass& local, double told, double runs);

  // The timer takes time itself, and of ranks that share processors half of the nodes or more are not
  // interrupted: the timer's sum is scaled to what a step takes that is not timed.
  StepTimes take(double step_seconds);

 private:
  struct Together {
    double roofline_seconds = 0, told_seconds = 0, launches = 0;
  };
  LaunchTime launch_;
  StepTimes times_;
  std::map<std::string, Together> together_;
  double work_seconds_ = 0, launches_ = 0;
};

}  // namespace trireme::bench
