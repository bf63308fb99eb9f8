// Cases of the reduce ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> reduce_cases() { return {}; }

}  // namespace trireme::testing
