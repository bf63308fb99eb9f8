// See step_sums.h.
#include "trireme/bench/step_sums.h"

#include <algorithm>

#include "trireme/sim/op_time.h"

namespace trireme::bench {

void StepSums::add(const Graph& graph, const Node& node, const DeviceClass& local, double told, double runs) {
  const sim::NodeTime time = sim::node_time(graph, node, local);
  const double roofline = std::max(time.computing_seconds, time.moving_seconds);
  if (roofline <= 0) return;
  const std::string op(node.op->name);
  if (local.at_once.contains(op)) {
    Together& sum = together_[op];
    sum.roofline_seconds += runs * roofline;
    sum.told_seconds += runs * told;
    sum.launches += time.launches ? runs : 0;
    return;
  }
  times_.launches[op].push_back({roofline, launch_.without(told)});
  work_seconds_ += runs * launch_.without(told);
  launches_ += runs;
}

StepTimes StepSums::take(double step_seconds) {
  times_.seconds = step_seconds;
  for (const auto& [op, sum] : together_) {
    const double seconds = sum.launches * launch_.without(sum.told_seconds / sum.launches);
    times_.together[op].push_back({sum.roofline_seconds, seconds});
    work_seconds_ += seconds;
    launches_ += sum.launches;
  }
  constexpr double kLeast = 0.1;  // of the time is work
  const double work = std::max(step_seconds - launches_ * launch_.seconds, kLeast * step_seconds);
  for (OpTimes* all : {&times_.launches, &times_.together}) {
    for (auto& [op, launches] : *all) {
      for (OpTime& one : launches) one.seconds *= work / work_seconds_;
    }
  }
  return std::move(times_);
}

}  // namespace trireme::bench
