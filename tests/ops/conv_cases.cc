// Cases of the conv ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> conv_cases() { return {}; }

}  // namespace trireme::testing
