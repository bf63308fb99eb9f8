// What a rule of a plan's exchange sets, held against what its method may be set to.
#pragma once

#include <vector>

#include "trireme/exchange/method.h"
#include "trireme/plan/plan.h"

namespace trireme {

// All settings with their values. Throws Error for those that the method does not have or that are out of
// range.
ExchangeSettings checked_settings(const ExchangeRule& rule, const std::vector<ExchangeSetting>& known);

}  // namespace trireme
