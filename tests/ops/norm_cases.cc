// Cases of the norm ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> norm_cases() { return {}; }

}  // namespace trireme::testing
