// `trireme bench`.
#include "trireme/base/error.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

int bench(std::span<const std::string>) {
  throw_error("bench is being written");
}

}  // namespace trireme::cli
