// See core_share.h.
#include "trireme/comm/launch/core_share.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "trireme/base/part.h"

namespace trireme::comm {
namespace {

// 0 where the system does not say; the order is then that of the numbers.
int topology(int processor, const char* what) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", processor, what));
  int number = 0;
  file >> number;
  return file ? number : 0;
}

}  // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  using Processor = std::tuple<int, int, int>;  // package, core, processor
  std::vector<Processor> places;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set))
      places.emplace_back(topology(processor, "physical_package_id"), topology(processor, "core_id"),
                          processor);
  }
  std::ranges::sort(places);
  std::vector<int> processors;
  for (const Processor& place : places) processors.push_back(std::get<2>(place));
  return processors;
}

std::vector<int> share_of(const std::vector<int>& processors, int ranks, int rank) {
  const auto count = static_cast<int>(processors.size());
  if (ranks == 1 || count == 0 || (ranks > count && ranks % count != 0)) return {};
  if (ranks > count) return {processors[static_cast<size_t>(rank / (ranks / count))]};
  const Part part = part_of(count, ranks, rank);
  return {processors.begin() + part.begin, processors.begin() + part.end()};
}

bool bind_to(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace trireme::comm
