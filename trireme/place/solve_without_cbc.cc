#include "trireme/base/error.h"
#include "trireme/place/integer_program.h"

namespace trireme::place {

IntegerProgram::Solution IntegerProgram::solve(double, double) const {
  throw_error(
      "this Trireme was built without Cbc, which places workflows; install coinor-libcbc-dev and build again");
}

}  // namespace trireme::place
