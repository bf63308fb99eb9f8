// Cases of the shape ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> shape_cases() { return {}; }

}  // namespace trireme::testing
