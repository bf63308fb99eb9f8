// See scaling.h.
#include "trireme/bench/scaling.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/runtime/device.h"
#include "trireme/runtime/executor.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/step_programs.h"

namespace trireme::bench {
namespace {

double rate(const ScalingPoint& point, double seconds) {
  return seconds > 0 ? static_cast<double>(point.batch) / (seconds * point.ranks) : 0;
}

double share(double value, double of) {
  return of > 0 ? value / of : 0;
}

}  // namespace

std::string_view name(Scaling scaling) {
  return scaling == Scaling::kStrong ? "strong" : "weak";
}

double ScalingPoint::measured_rate() const {
  return rate(*this, measured_seconds);
}
double ScalingPoint::simulated_rate() const {
  return rate(*this, simulated_seconds);
}

std::vector<ScalingPoint> scaling_points(std::vector<int> ranks, int64_t batch) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty() || ranks.front() < 1)
    throw_error("ranks to scale over are counts of 1 or more, like 1,2,4");
  std::vector<ScalingPoint> points;
  for (const int count : ranks) {
    if (batch % count != 0)
      throw_error("a batch of {} can not be shared evenly by {} ranks; try train.batch={}", batch, count,
                  (batch + count - 1) / count * count);
    points.push_back({Scaling::kStrong, count, batch});
  }
  for (const int count : ranks) points.push_back({Scaling::kWeak, count, batch / ranks.front() * count});
  return points;
}

std::vector<ScalingPoint> measure_scaling(std::vector<ScalingPoint> points, int repeats,
                                          const StepSeconds& measure, const StepSeconds& simulate) {
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (ScalingPoint& point : points) {
      const double seconds = measure(point);
      point.measured_seconds = repeat == 0 ? seconds : std::min(seconds, point.measured_seconds);
    }
  }
  if (!simulate) return points;
  for (ScalingPoint& point : points) point.simulated_seconds = simulate(point);
  return points;
}

std::vector<Efficiency> efficiencies(const std::vector<ScalingPoint>& points) {
  std::vector<Efficiency> result;
  for (const ScalingPoint& point : points) {
    const auto same = [&](const ScalingPoint& other) { return other.scaling == point.scaling; };
    const ScalingPoint* fewest = &point;
    for (const ScalingPoint& other : points) {
      if (same(other) && other.ranks < fewest->ranks) fewest = &other;
    }
    result.push_back({share(point.measured_rate(), fewest->measured_rate()),
                      share(point.simulated_rate(), fewest->simulated_rate())});
  }
  return result;
}

double simulated_step_seconds(const StepSetup& setup, const Plan& plan, const Cluster& cluster) {
  const Config& config = setup.config;
  const DeviceMap device_map(plan.mesh, cluster);
  const StepPrograms programs(Model(config.model), config.train, config.optim, setup.shape, plan);
  const auto program = [&](int rank) { return programs.rank(rank, nullptr); };
  return sim::simulate(device_map, program, {.algorithms = axis_algorithms(plan, config.train), .plan = plan})
      .step_seconds;
}

}  // namespace trireme::bench
