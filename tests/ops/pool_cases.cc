// Cases of the pool ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> pool_cases() { return {}; }

}  // namespace trireme::testing
