// `trireme bench kernels`.
#include "trireme/base/error.h"
#include "trireme/cli/bench_commands.h"

namespace trireme::cli {
int bench_kernels(std::span<const std::string>) {
  throw_error("being written");
}
}  // namespace trireme::cli
