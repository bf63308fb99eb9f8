// `trireme train`.
#include "trireme/base/error.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

int train(std::span<const std::string>) {
  throw_error("train is being written");
}

}  // namespace trireme::cli
