// See groups.h.
#include "trireme/optim/groups.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/optim/parameter_patterns.h"
#include "trireme/plan/plan.h"

namespace trireme {

const ParameterGroup* group_of(const OptimOptions& optim, std::string_view parameter) {
  const auto found = std::ranges::find_if(
      optim.groups, [&](const ParameterGroup& group) { return fits_pattern(group.match, parameter); });
  return found == optim.groups.end() ? nullptr : &*found;
}

double decay_of(const OptimOptions& optim, std::string_view parameter, int dims) {
  const ParameterGroup* group = group_of(optim, parameter);
  if (group && group->weight_decay) return *group->weight_decay;
  return dims >= 2 ? optim.weight_decay : 0.0;
}

void check_groups(const OptimOptions& optim, std::span<const std::string> all,
                  std::span<const std::string> trained) {
  for (const ParameterGroup& group : optim.groups) {
    check_patterns("optim.groups", {&group.match, 1}, all);
    const auto fits = [&](const std::string& name) { return fits_pattern(group.match, name); };
    if (std::ranges::none_of(trained, fits))
      throw_error(
          "optim.groups has '{}', which fits frozen parameters alone (train.freeze, model.lora); they "
          "have no rate and no decay",
          group.match);
    const bool used = std::ranges::any_of(
        trained, [&](const std::string& name) { return group_of(optim, name) == &group; });
    if (!used)
      throw_error(
          "optim.groups has '{}', but all parameters that fit it belong to groups before it: the first "
          "that fits holds. Put it further up",
          group.match);
  }
}

}  // namespace trireme
