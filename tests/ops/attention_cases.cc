// Cases of the attention ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> attention_cases() { return {}; }

}  // namespace trireme::testing
