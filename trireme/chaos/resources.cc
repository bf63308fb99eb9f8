// See resources.h.
#include "trireme/chaos/resources.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "trireme/base/error.h"

namespace trireme::chaos {

Resources resources_of(pid_t process) {
  Resources found;
  std::error_code error;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process), error))
    ++found.descriptors;
  std::ifstream pages(fmt::format("/proc/{}/statm", process));
  size_t all = 0, resident = 0;
  if (pages >> all >> resident) found.resident_bytes = resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return found;
}

}  // namespace trireme::chaos
