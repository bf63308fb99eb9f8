// `trireme inspect`.
#include "trireme/base/error.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

int inspect(std::span<const std::string>) {
  throw_error("inspect is being written");
}

}  // namespace trireme::cli
