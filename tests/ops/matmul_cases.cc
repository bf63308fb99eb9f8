// Cases of the matmul ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> matmul_cases() { return {}; }

}  // namespace trireme::testing
