// See step_shares.h.
#include "trireme/bench/step_shares.h"

#include <algorithm>

#include "trireme/bench/statistics.h"
#include "trireme/sim/op_time.h"
#include "trireme/train/trainer.h"

namespace trireme::bench {
namespace {

constexpr int kWarmup = 2, kSteps = 5;
constexpr int64_t kFewer = 8;

struct OpSums {
  double roofline = 0, measured = 0, launches = 0;  // of all steps

  OpTime of_launch(const LaunchTime& launch) const {
    return {roofline / launches, launch.without(measured / launches)};
  }
};
using StepSums = std::map<std::string, OpSums, std::less<>>;

StepSums sums_of_steps(StepSetup setup, int64_t rows, Device& device, const DeviceClass& local) {
  setup.shape.rows = rows;
  setup.config.train.batch = rows * setup.config.train.accumulate;
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

  StepSums sums;
  for (const auto& [place, all] : seconds) {
    const Graph& graph = trainer.program().segments[place.first].graph;
    const Node& node = graph.nodes[place.second];
    if (node.op->collective) continue;
    const sim::NodeTime time = sim::node_time(graph, node, local);
    const double runs = static_cast<double>(all.size());
    OpSums& sum = sums[std::string(node.op->name)];
    sum.roofline += runs * std::max(time.computing_seconds, time.moving_seconds);
    sum.measured += runs * median_of(all);
    sum.launches += time.launches ? runs : 0;
  }
  std::erase_if(sums, [](const auto& one) { return one.second.roofline <= 0 || one.second.launches <= 0; });
  return sums;
}

// None where the model does not take so few, or there are not that many.
StepSums sums_of_fewer(const StepSetup& setup, int64_t rows, Device& device, const DeviceClass& local) {
  if (device.name() == "cpu" || rows < kFewer) return {};
  try {
    return sums_of_steps(setup, rows / kFewer, device, local);
  } catch (const DeviceError&) {
    throw;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

OpFigures figures_of(const OpTime& many, const std::optional<OpTime>& few) {
  const double most = many.seconds / many.roofline_seconds;  // all of the time goes with the work
  // Rows do not matter to all ops, and differences of what is alike are noise.
  if (!few || many.roofline_seconds < 1.1 * few->roofline_seconds) return {.share = 1 / most};
  constexpr double kLeast = 0.05;  // of the time: a share is finite
  const double slope = (many.seconds - few->seconds) / (many.roofline_seconds - few->roofline_seconds);
  const double of_roofline = std::clamp(slope, kLeast * most, most);
  return {.share = 1 / of_roofline, .least_seconds = many.seconds - of_roofline * many.roofline_seconds};
}

StepShares measure_step_shares(StepSetup setup, int ranks, Device& device, DeviceClass local,
                               const LaunchTime& launch) {
  local.ops.clear();
  local.op_seconds.clear();
  local.bandwidth = {local.bandwidth.back()};  // that shares are of
  const int64_t rows = std::max<int64_t>(1, setup.shape.rows / ranks);
  const StepSums many = sums_of_steps(setup, rows, device, local),
                 few = sums_of_fewer(setup, rows, device, local);
  StepShares shares;
  for (const auto& [op, sum] : many) {
    const auto fewer = few.find(op);
    shares.seconds += sum.measured / kSteps;
    shares.of_ops[op] =
        figures_of(sum.of_launch(launch),
                   fewer == few.end() ? std::nullopt : std::optional(fewer->second.of_launch(launch)));
  }
  return shares;
}

}  // namespace trireme::bench
