// Printing of broken invariants; see error.h for the two kinds of failure.
#include "trireme/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::internal {

void check_failed(const char* file, int line, const char* expression, const std::string& operands) {
  std::fprintf(stderr, "trireme: broken invariant at %s:%d: %s (%s)\n", file, line, expression,
               operands.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::internal
