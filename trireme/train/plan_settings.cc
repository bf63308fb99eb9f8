// Plan over default, and never silently over what a person has set.
#include "trireme/train/plan_settings.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/passes/pins.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

constexpr std::string_view kOrigin = "plan";

template <typename T>
void take(std::string_view name, const T& wanted, T& setting, ResolvedConfig& config) {
  if (setting != wanted && !config.is_default(name) && config.origins.find(name)->second != kOrigin) {
    throw_error("{} is {} ({}), but the plan says {}; take one of them away", name, setting,
                config.origins.find(name)->second, wanted);
  }
  setting = wanted;
  config.origins[std::string(name)] = kOrigin;
}

}  // namespace

void apply_plan(const Plan& plan, ResolvedConfig& config) {
  if (plan.accumulate) take("train.accumulate", *plan.accumulate, config.config.train.accumulate, config);
  if (plan.precision) take("train.precision", *plan.precision, config.config.train.precision, config);
  if (plan.batch_norm == Plan::BatchNorm::kLocal) {
    take("model.batch_norm_groups", batch_parts(plan), config.config.model.batch_norm_groups, config);
  }
  use_batch_per_rank(config.config, batch_parts(plan));
  validate(config.config);
}

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
  if (schedule_of(train, plan).sums == Schedule::Sums::kInPairs)
    throw_error(
        "train.shards adds up in pairs, and NCCL in an order of its own; leave --transport nccl or "
        "train.shards out");
  for (const auto& [axis, text] : plan.algorithms) {
    if (text != comm::name(comm::Algorithm::automatic))
      throw_error(
          "the plan's algorithm for the axis {} is {}, and NCCL has its own; leave --transport nccl or the "
          "algorithm out",
          axis, text);
  }
}

std::string plan_warning(const Plan& plan, int64_t microbatches) {
  const Preset* data = plan.preset_over("data");
  const int axis = plan.mesh.find("data");
  const bool gathers =
      data && data->states && data->states->parameter.at_rest != data->states->parameter.in_use;
  if (plan.pipeline_stages() == 1 || !gathers || axis < 0 || plan.mesh.axes()[axis].size == 1) return "";
  return fmt::format(
      "warning: {} has each stage gather its weights for every microbatch, forward and backward: {} times a "
      "step. "
      "With zero2 they stay, for the memory of one stage's weights",
      data->name, 2 * microbatches);
}

}  // namespace trireme
