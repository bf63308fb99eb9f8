// Cases of the batch_norm ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> batch_norm_cases() { return {}; }

}  // namespace trireme::testing
