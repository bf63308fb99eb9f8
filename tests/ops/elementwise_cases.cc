// Cases of the elementwise ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> elementwise_cases() { return {}; }

}  // namespace trireme::testing
