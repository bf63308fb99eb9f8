// See axis_algorithms.h.
#include "trireme/train/axis_algorithms.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/train/features.h"
#include "trireme/train/step.h"

namespace trireme {

AxisAlgorithms axis_algorithms(const Plan& plan, const TrainOptions& train) {
  // Adds in pairs on every transport.
  const comm::Algorithm wanted = schedule_of(train, plan).sums == Schedule::Sums::kInPairs
                                     ? comm::Algorithm::butterfly
                                     : comm::Algorithm::automatic;
  AxisAlgorithms result;
  for (const Axis& axis : plan.mesh.axes()) result[axis.name] = wanted;
  for (const auto& [axis, text] : plan.algorithms) {
    std::vector<std::string> known = {"automatic", "native"};
    for (const comm::Algorithm one : comm::algorithms_of(comm::Collective::all_reduce))
      known.emplace_back(comm::name(one));
    if (std::ranges::find(known, text) == known.end()) {
      const std::string near = nearest(text, known);
      throw_error("the plan's algorithm for the axis {} is '{}'; {}", axis, text,
                  near.empty() ? fmt::format("known are {}", join(known, ", "))
                               : fmt::format("did you mean '{}'?", near));
    }
    const comm::Algorithm algorithm = *comm::parse_algorithm(text);
    if (wanted != comm::Algorithm::automatic && algorithm != wanted) {
      throw_error(
          "the plan's algorithm for the axis {} is {}, but train.shards adds up by {}; take one of them away",
          axis, text, comm::name(wanted));
    }
    result[axis] = algorithm;
  }
  return result;
}

void check_links(const Plan& plan, const TrainOptions& train, comm::DeviceLinks links) {
  if (links != comm::DeviceLinks::nccl) return;
  Features features = features_of(plan, train);
  features.insert(Feature::kNccl);
  check_combinations(features);
}

}  // namespace trireme
