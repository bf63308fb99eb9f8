// Ops that have the same results as others, for devices that have no kernel for these (passes/substitute.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/builder.h"

namespace trireme {

// Adds the other ops and returns their results, one for each of the op's; `name` is for the first.
using Substitute = std::vector<ValueId> (*)(Builder& builder, const std::vector<ValueId>& inputs,
                                            const Attrs& attrs, const std::string& name);
// Null where there is none.
Substitute substitute_of(std::string_view op);

}  // namespace trireme
