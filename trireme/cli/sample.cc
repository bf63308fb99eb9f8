// `trireme sample`.
#include "trireme/base/error.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

int sample(std::span<const std::string>) {
  throw_error("sample is being written");
}

}  // namespace trireme::cli
