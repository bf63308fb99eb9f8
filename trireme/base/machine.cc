// Reads /proc and /sys; a file that is not there is an unknown, not an error.
#include "trireme/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <thread>

namespace trireme {
namespace {

// The text after "NAME<blanks>:<blanks>" in a file of such lines; "" when there is none.
std::string field_of(const char* path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_last_not_of(" \t", colon - 1) + 1 != name.size()) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "123 kB" -> bytes.
size_t kilobytes(const std::string& text) {
  size_t value = 0;
  std::istringstream(text) >> value;
  return value * 1024;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string cpu_model() {
  for (const char* name : {"model name", "Model", "Hardware", "cpu model"}) {
    std::string found = field_of("/proc/cpuinfo", name);
    if (!found.empty()) return found;
  }
  // Arm prints numbers instead of a name.
  const std::string implementer = field_of("/proc/cpuinfo", "CPU implementer"),
                    part = field_of("/proc/cpuinfo", "CPU part");
  return implementer.empty() ? "unknown" : "Arm implementer " + implementer + " part " + part;
}

int core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return host_core_count();
}

int host_core_count() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

size_t total_memory_bytes() {
  return kilobytes(field_of("/proc/meminfo", "MemTotal"));
}

size_t available_memory_bytes() {
  return kilobytes(field_of("/proc/meminfo", "MemAvailable"));
}

size_t last_level_cache_bytes() {
  for (int index = 4; index >= 0; --index) {
    const std::string size =
        first_line("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    if (size.empty()) continue;
    size_t value = 0;
    char unit = 'K';
    std::istringstream(size) >> value >> unit;
    return value * (unit == 'M' ? 1 << 20 : 1 << 10);
  }
  return 0;
}

size_t peak_resident_bytes() {
  return kilobytes(field_of("/proc/self/status", "VmHWM"));
}

std::string huge_page_setting() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : line.substr(begin + 1, end - begin - 1);
}

int thread_count(long requested) {
  return requested > 0 ? static_cast<int>(requested) : core_count();
}

}  // namespace trireme
