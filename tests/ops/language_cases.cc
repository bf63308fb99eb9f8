// Cases of the language ops.
#include "tests/ops/op_case.h"

namespace trireme::testing {

std::vector<OpCase> language_cases() { return {}; }

}  // namespace trireme::testing
