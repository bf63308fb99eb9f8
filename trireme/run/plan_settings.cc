// Plan over default, and never silently over what a person has set.
#include "trireme/run/plan_settings.h"

#include <fmt/format.h>

#include "trireme/base/error.h"
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

Plan with_ranks(const Plan& plan, int ranks) {
  const std::vector<Axis>& axes = plan.mesh.axes();
  if (plan.mesh.ranks() == ranks) return plan;
  if (axes.size() != 1 || axes[0].name != "data")
    throw_error("the plan's mesh '{}' is for {} ranks; only a mesh of the axis data alone can have {}",
                to_string(plan.mesh), plan.mesh.ranks(), ranks);
  Plan other = plan;
  other.mesh = Mesh({{"data", ranks}});
  return parse_plan(to_json(other), fmt::format("the plan for {} ranks", ranks));
}

std::string plan_warning(const Plan& plan, int64_t microbatches) {
  const Preset* data = plan.preset_over("data");
  const int axis = plan.mesh.find("data");
  const bool gathers =
      data && data->states && data->states->parameter.at_rest != data->states->parameter.in_use;
  if (plan.pipeline_stages() == 1 || !gathers || axis < 0 || plan.mesh.axes()[axis].size == 1) return "";
  return fmt::format(
      "warning: {} has each stage gather its weights for every microbatch, forward and backward: {} times a "
      "step. With zero2 they stay, for the memory of one stage's weights",
      data->name, 2 * microbatches);
}

}  // namespace trireme
