// See verified_program.h.
#include "trireme/run/verified_program.h"

#include <vector>

#include "trireme/base/error.h"
#include "trireme/program/verify.h"

namespace trireme {

void verify_before_steps(const Program& own, const std::function<Program(int rank)>& others) {
  const int ranks = own.mesh.ranks();
  try {
    if (own.rank > 0 || ranks == 1 || ranks > kVerifiedTogether) return verify(own);
    std::vector<Program> all = {own};
    for (int rank = 1; rank < ranks; ++rank) all.push_back(others(rank));
    verify(all);
  } catch (const Error& error) {
    throw_error(
        "the run was not begun, because its program on the mesh '{}' would go wrong: {}. That is a defect of "
        "Trireme, not of the settings; please report it with the plan, and use another plan meanwhile",
        to_string(own.mesh), error.what());
  }
}

}  // namespace trireme
