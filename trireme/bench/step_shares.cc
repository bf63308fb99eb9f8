// See step_shares.h.
#include "trireme/bench/step_shares.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "trireme/base/clock.h"
#include "trireme/base/statistics.h"
#include "trireme/train/trainer.h"

namespace trireme::bench {
namespace {

constexpr int kWarmup = 2, kLeastSteps = 3, kMostSteps = 50;
constexpr int kMostSizes = 8;
constexpr double kLeastSeconds = 0.3;  // that all steps take: some turns of ranks that share processors

// Of as many steps as are enough, each.
std::vector<double> times_of(const std::function<void()>& step) {
  std::vector<double> all;
  double sum = 0;
  while (std::ssize(all) < kLeastSteps || (std::ssize(all) < kMostSteps && sum < kLeastSeconds)) {
    const Clock::time_point begin = Clock::now();
    step();
    all.push_back(seconds_since(begin));
    sum += all.back();
  }
  return all;
}

StepTimes times_of_steps(StepSetup setup, int64_t rows, Device& device, const DeviceClass& local,
                         const LaunchTime& launch) {
  setup.shape.rows = rows;
  setup.config.train.batch = rows * setup.config.train.accumulate;
  Trainer trainer(setup.config.model, setup.config.train, setup.config.optim, setup.shape, device, {});
  trainer.initialise(static_cast<uint64_t>(setup.config.train.seed));
  Batch batch = random_batch(setup, setup.config.train.seed);
  const std::vector<Batch*> ahead(static_cast<size_t>(std::max<int64_t>(1, trainer.steps_ahead())), &batch);
  int64_t number = 0;
  const auto step = [&] { trainer.step(batch, number++, setup.config.optim.lr, ahead); };
  for (int i = 0; i < kWarmup; ++i) step();
  const double step_seconds = median_of(times_of(step));
  std::map<std::pair<int, int>, std::vector<double>> told;  // by segment and node
  trainer.executor().time([&](int segment, int node, double spent) {
    told[{segment, node}].push_back(spent);
  });
  const double timed_steps = static_cast<double>(times_of(step).size());
  trainer.executor().time(nullptr);
  StepSums sums(launch);
  for (const auto& [place, all] : told) {
    const Graph& graph = trainer.program().segments[place.first].graph;
    sums.add(graph, graph.nodes[place.second], local, median_of(all),
             static_cast<double>(all.size()) / timed_steps);
  }
  return sums.take(step_seconds);
}

}  // namespace

OpShare share_of(std::vector<OpTime> launches) {
  constexpr double kAlike = 1.25;
  std::ranges::sort(launches, {}, &OpTime::roofline_seconds);
  std::vector<SharePoint> points;
  for (auto first = launches.begin(); first != launches.end();) {
    OpTime sum;
    auto last = first;
    for (; last != launches.end() && last->roofline_seconds <= kAlike * first->roofline_seconds; ++last) {
      sum.roofline_seconds += last->roofline_seconds;
      sum.seconds += last->seconds;
    }
    points.push_back(
        {sum.roofline_seconds / static_cast<double>(last - first), sum.roofline_seconds / sum.seconds});
    first = last;
  }
  return OpShare(std::move(points));
}

StepShares measure_step_shares(StepSetup setup, int ranks, Device& device, DeviceClass local,
                               const LaunchTime& launch) {
  // That shares are of.
  local.ops.clear();
  local.products = {};
  local.bandwidth = {local.bandwidth.back()};
  int64_t rows = std::max<int64_t>(1, setup.shape.rows / ranks);
  StepTimes all = times_of_steps(setup, rows, device, local, launch);
  rows /= 2;
  for (int size = 1; size < kMostSizes && rows > 0; ++size, rows /= 2) {
    try {
      for (auto& [op, launches] : times_of_steps(setup, rows, device, local, launch).launches)
        std::ranges::move(launches, std::back_inserter(all.launches[op]));
    } catch (const DeviceError&) {
      throw;
    } catch (const Error&) {
      break;  // the model does not take so few
    }
  }
  StepShares shares{.of_ops = {}, .seconds = all.seconds};
  for (const OpTimes* times : {&all.launches, &all.together}) {
    for (const auto& [op, launches] : *times) shares.of_ops.insert_or_assign(op, share_of(launches));
  }
  return shares;
}

}  // namespace trireme::bench
