// The ops that may write over their inputs, and how.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/ops/case_runner.h"

namespace trireme::testing {

// For each such op, the ways in which outputs may lie over inputs, all at once in each way.
using Ways = std::vector<std::vector<InPlace>>;
const std::map<std::string, Ways>& ways_in_place();

// Not where the second operand of a binary op repeats, nor where a gradient is in 16 bits and the result is
// not.
bool is_possible(const std::vector<InPlace>& way, const RefTensors& inputs,
                 const std::vector<TensorType>& outputs);

}  // namespace trireme::testing
