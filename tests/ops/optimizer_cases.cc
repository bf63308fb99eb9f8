// Cases of the optimizer ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> optimizer_cases() { return {}; }

}  // namespace trireme::testing
