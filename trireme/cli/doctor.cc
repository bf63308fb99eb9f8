// `trireme doctor`.
#include "trireme/base/error.h"
#include "trireme/cli/command.h"

namespace trireme::cli {

int doctor(std::span<const std::string>) {
  throw_error("doctor is being written");
}

}  // namespace trireme::cli
