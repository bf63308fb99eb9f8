// How a training step scales over ranks, measured and simulated side by side. Strong: the same batch shared
// by more ranks; weak: a batch that grows with them. Efficiency is what a rank does in a second, over what it
// does on the fewest ranks: 1 where nothing is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"

namespace trireme::bench {

enum class Scaling { kStrong, kWeak };
std::string_view name(Scaling scaling);

struct ScalingPoint {
  Scaling scaling = Scaling::kStrong;
  int ranks = 1;
  int64_t batch = 1;
  double measured_seconds = 0, simulated_seconds = 0;  // of a step; 0: not known

  // Rows a second and rank; 0 where the time is not known.
  double measured_rate() const;
  double simulated_rate() const;
};

// `batch` is that of strong scaling, and of the fewest ranks for weak scaling. Ranks ascend. Throws Error
// where a batch can not be dealt evenly.
std::vector<ScalingPoint> scaling_points(std::vector<int> ranks, int64_t batch);

// The step's seconds at a point: timed, or on the clock.
using StepSeconds = std::function<double(const ScalingPoint&)>;
// Every point `repeats` times in turns, so that what else the machine does falls on all alike; the least of a
// point's times stands. `simulate` may be empty.
std::vector<ScalingPoint> measure_scaling(std::vector<ScalingPoint> points, int repeats,
                                          const StepSeconds& measure, const StepSeconds& simulate);

// Against the point of the same scaling with the fewest ranks; 0 where a time is not known.
struct Efficiency {
  double measured = 0, simulated = 0;
};
std::vector<Efficiency> efficiencies(const std::vector<ScalingPoint>& points);

// On a cluster that has at least as many devices as the plan has ranks.
double simulated_step_seconds(const StepSetup& setup, const Plan& plan, const Cluster& cluster);

}  // namespace trireme::bench
