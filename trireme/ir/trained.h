// Which states training changes. A parameter whose attribute `frozen` is set belongs to the model and lies as
// the others do, but has no gradient, no optimizer state and no part in the update.
#pragma once

#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

inline constexpr std::string_view kFrozen = "frozen";
// Of a frozen parameter that is kept elsewhere, in the weights that the run started from: checkpoints leave
// it out.
inline constexpr std::string_view kBase = "base";

// Of a state that follows a parameter: the name of that, whose starting values it has.
inline constexpr std::string_view kStartsAs = "starts_as";

// Of a weight of several experts: the dim that tells them apart.
inline constexpr std::string_view kExpertDim = "expert_dim";
// Of a buffer that the update renews from the load of a layer's experts: the layer, and the size of a step.
inline constexpr std::string_view kBalances = "balances", kBalanceRate = "balance_rate";

inline bool is_frozen(Role role, const Attrs& attrs) {
  return role == Role::kParameter && attrs.has(kFrozen);
}
inline bool is_frozen(const Value& value) {
  return is_frozen(value.role, value.attrs);
}
inline bool is_trained(const Value& value) {
  return value.role == Role::kParameter && !is_frozen(value);
}

}  // namespace trireme
