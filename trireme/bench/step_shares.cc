// See step_shares.h.
#include "trireme/bench/step_shares.h"

#include <algorithm>

#include "trireme/bench/statistics.h"
#include "trireme/sim/op_time.h"
#include "trireme/train/trainer.h"

namespace trireme::bench {
namespace {

constexpr int kWarmup = 2, kSteps = 5;
// What is left of a node's time without its launch is at least this much of it: launches differ.
constexpr double kLeastPart = 0.1;

struct OpSeconds {
  double roofline = 0, measured = 0;  // both without launches
};

}  // namespace

std::map<std::string, double, std::less<>> measure_step_shares(StepSetup setup, int ranks, Device& device,
                                                               DeviceClass local) {
  local.ops.clear();
  local.bandwidth = {local.bandwidth.back()};  // that shares are of
  setup.shape.rows = std::max<int64_t>(1, setup.shape.rows / ranks);
  setup.config.train.batch = setup.shape.rows * setup.config.train.accumulate;
  Trainer trainer(setup.config.model, setup.config.train, setup.config.optim, setup.shape, device, {});
  trainer.initialise(static_cast<uint64_t>(setup.config.train.seed));
  Batch batch = random_batch(setup, setup.config.train.seed);
  std::map<std::pair<int, int>, std::vector<double>> seconds;  // by segment and node
  for (int step = 0; step < kWarmup + kSteps; ++step) {
    if (step == kWarmup)
      trainer.executor().time([&](int segment, int node, double spent) {
        seconds[{segment, node}].push_back(spent);
      });
    trainer.step(batch, step, setup.config.optim.lr);
  }
  trainer.executor().time(nullptr);

  std::map<std::string, OpSeconds, std::less<>> sums;
  for (const auto& [place, all] : seconds) {
    const Graph& graph = trainer.program().segments[place.first].graph;
    const Node& node = graph.nodes[place.second];
    if (node.op->collective) continue;
    const double roofline = sim::node_time(graph, node, local).seconds - local.launch_seconds;
    if (roofline <= 0) continue;
    const double measured = median_of(all), runs = static_cast<double>(all.size());
    OpSeconds& sum = sums[std::string(node.op->name)];
    sum.roofline += runs * roofline;
    sum.measured += runs * std::max(measured - local.launch_seconds, kLeastPart * measured);
  }
  std::map<std::string, double, std::less<>> shares;
  for (const auto& [op, sum] : sums) shares[op] = sum.roofline / sum.measured;
  return shares;
}

}  // namespace trireme::bench
